/* In charge of what a box has of its authority: issuing keys and status lists ("What phones carry to a box"). */
#include <string.h>

#include "box.h"

struct kr_bytes kr_text_bytes(const struct kr_text *text)
{
    return (struct kr_bytes){text->at, text->len};
}

/* A text that was read as iss or aud, so it fits. */
void kr_set_text(struct kr_text *text, struct kr_bytes bytes)
{
    text->len = (uint8_t)bytes.len;
    memcpy(text->at, bytes.at, bytes.len);
}

const struct kr_public_key *kr_issuing_key(const struct kr_kept *kept, const struct kr_signed *message)
{
    const struct kr_public_key *found = NULL;
    for (size_t i = kept->issuing_count; i-- > 0;) {
        found = kr_is_by(message, &kept->issuing[i]) ? &kept->issuing[i] : found;
    }
    return found;
}

const struct kr_list *kr_find_list(const struct kr_kept *kept, struct kr_bytes uri)
{
    const struct kr_list *found = NULL;
    for (size_t i = 2; i-- > 0;) { /* the newer one wins */
        const struct kr_list *list = &kept->lists[i];
        bool is_same = kr_same((struct kr_bytes){list->uri, list->uri_len}, uri);
        found = list->generation != 0 && is_same ? list : found;
    }
    return found;
}

/* Where a list belongs: over the one of its generation, where it is later, or before both. -1: it is older. */
static int place_of(const struct kr_kept *kept, const struct kr_claims *list)
{
    for (int i = 0; i < 2; i++) {
        if (kept->lists[i].generation == list->generation) {
            return list->iat > kept->lists[i].iat ? i : -1;
        }
    }
    return list->generation > kept->lists[0].generation ? 0 : -1;
}

bool kr_is_newer_list(const struct kr_kept *kept, const struct kr_claims *list)
{
    return place_of(kept, list) >= 0;
}

/* A list that is newer takes its place; nothing happens with another one. */
void kr_take_list(struct kr_box *box, const struct kr_claims *list, const uint8_t *bits)
{
    struct kr_kept *kept = &box->kept;
    int place = place_of(kept, list);
    if (place < 0) {
        return;
    }
    struct kr_list *taken = &kept->lists[place];
    if (taken->generation != list->generation) {
        kept->lists[1] = kept->lists[0]; /* the lower of the two goes */
    }
    taken->generation = list->generation;
    taken->iat = list->iat;
    taken->uri_len = (uint8_t)list->sub.len;
    memset(taken->uri, 0, sizeof taken->uri);
    memcpy(taken->uri, list->sub.at, list->sub.len);
    memcpy(taken->bits, bits, sizeof taken->bits);
    box->changed = true;
}

/* Which keys were good is over with the set before. */
void kr_take_key_set(struct kr_box *box, const struct kr_claims *set)
{
    struct kr_kept *kept = &box->kept;
    memset(kept->issuing, 0, sizeof kept->issuing);
    for (size_t i = 0; i < set->key_count; i++) {
        kr_public_key(box->port, set->keys[i], &kept->issuing[i]);
    }
    kept->issuing_count = (uint8_t)set->key_count;
    kept->sequence = set->sequence;
    box->good_count = 0;
    box->good_next = 0;
    box->changed = true;
}
