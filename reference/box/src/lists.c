/* The status lists of a box (docs/key-link.md, "Lists"). */
#include <string.h>

#include "box.h"

static bool counts(const struct kr_box *box, const struct kr_list *list)
{
    return list->generation != 0 && list->iat <= box->time + KR_AHEAD;
}

static struct kr_bytes uri_of(const struct kr_list *list)
{
    return (struct kr_bytes){list->uri, list->uri_len};
}

const struct kr_list *kr_newest_list(const struct kr_box *box)
{
    for (size_t i = 0; i < KR_LISTS; i++) {
        if (counts(box, &box->kept.lists[i])) {
            return &box->kept.lists[i];
        }
    }
    return NULL;
}

const struct kr_list *kr_find_list(const struct kr_box *box, struct kr_bytes uri)
{
    const struct kr_list *match = NULL;
    for (size_t i = 0; i < KR_LISTS; i++) {
        const struct kr_list *list = &box->kept.lists[i];
        bool is_same = kr_same(uri_of(list), uri);
        match = is_same && counts(box, list) ? list : match;
    }
    return match;
}

enum kr_code kr_check_list(const struct kr_box *box, const struct kr_claims *list)
{
    enum kr_code code = KR_GOOD;
    uint64_t lowest = UINT64_MAX; /* generation of the list to drop */
    size_t others = 0;

    for (size_t i = 0; i < KR_LISTS; i++) {
        const struct kr_list *held = &box->kept.lists[i];
        if (!counts(box, held)) {
            continue;
        }
        bool is_same = held->generation == list->generation;
        if (is_same != kr_same(uri_of(held), list->sub)) {
            return KR_CODE_GENERATION;
        }
        if (is_same) {
            code = list->iat > held->iat ? KR_GOOD : KR_CODE_OLDER;
        } else {
            others++;
            lowest = held->generation < lowest ? held->generation : lowest;
        }
    }
    return others == KR_LISTS && list->generation < lowest ? KR_CODE_OLDER : code;
}

/* Removes a list; the next one moves up. */
static void drop(struct kr_box *box, size_t place)
{
    struct kr_list *lists = box->kept.lists;
    if (place == 0) {
        lists[0] = lists[1];
    }
    memset(&lists[1], 0, sizeof lists[1]);
    box->changed = true;
}

void kr_drop_uncounted_lists(struct kr_box *box)
{
    for (size_t i = KR_LISTS; i-- > 0;) {
        if (box->kept.lists[i].generation != 0 && !counts(box, &box->kept.lists[i])) {
            drop(box, i);
        }
    }
}

static bool is_by_issuing_key(const struct kr_kept *kept, const struct kr_list *list)
{
    for (size_t i = 0; i < kept->issuing_count; i++) {
        if (kr_equal(list->signer, kept->issuing[i].thumbprint, KR_KID)) {
            return true;
        }
    }
    return false;
}

void kr_drop_unsigned_lists(struct kr_box *box)
{
    for (size_t i = KR_LISTS; i-- > 0;) {
        if (box->kept.lists[i].generation != 0 && !is_by_issuing_key(&box->kept, &box->kept.lists[i])) {
            drop(box, i);
        }
    }
}

void kr_drop_replaced_lists(struct kr_box *box, const struct kr_claims *list)
{
    for (size_t i = KR_LISTS; i-- > 0;) {
        const struct kr_list *held = &box->kept.lists[i];
        if (held->generation >= list->generation || kr_same(uri_of(held), list->sub)) {
            drop(box, i);
        }
    }
}

/* The place of this list: that of its generation, before lower ones, or after a higher one. */
static struct kr_list *make_place(struct kr_kept *kept, uint64_t generation)
{
    for (size_t i = 0; i < KR_LISTS; i++) {
        if (kept->lists[i].generation == generation) {
            return &kept->lists[i];
        }
    }
    if (generation < kept->lists[0].generation) {
        return &kept->lists[1];
    }
    kept->lists[1] = kept->lists[0]; /* drops the lower one */
    return &kept->lists[0];
}

void kr_take_list(struct kr_box *box, const struct kr_signed *message, const struct kr_claims *list,
                  const uint8_t *bits)
{
    struct kr_list *taken = make_place(&box->kept, list->generation);

    memset(taken, 0, sizeof *taken);
    taken->generation = list->generation;
    taken->iat = list->iat;
    memcpy(taken->signer, message->kid, KR_KID);
    taken->uri_len = (uint8_t)list->sub.len;
    memcpy(taken->uri, list->sub.at, list->sub.len);
    memcpy(taken->bits, bits, sizeof taken->bits);
    box->changed = true;
}
