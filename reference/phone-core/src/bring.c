/* What a box lacks, in the order in which it accepts it. */
#include <string.h>

#include "phone.h"

#define CLOCK_TOLERANCE_MS 300000 /* the tolerance of boxes */

/* The new roots that follow the box's root, then the key set. */
bool kr_phone_authority(const struct kr_phone_state *phone, const struct kr_challenge *challenge, size_t place,
                        struct kr_bytes *artefact)
{
    const uint8_t *kid = challenge->has_root ? challenge->root : NULL;

    if (kr_phone_box(phone, kr_name(&challenge->name)) == NULL) {
        return false; /* the box may be of another customer */
    }
    for (size_t i = 0; i < phone->root_count && kid != NULL; i++) {
        const struct kr_held_root *root = &phone->memory.roots[i];
        if (root->sequence <= challenge->sequence || memcmp(root->signer, kid, KR_KID) != 0) {
            continue;
        }
        if (place-- == 0) {
            *artefact = (struct kr_bytes){root->message, root->len};
            return true;
        }
        kid = root->kid;
    }
    *artefact = (struct kr_bytes){phone->key_set.message, phone->key_set.len};
    return place == 0 && phone->key_set.sequence > challenge->sequence;
}

/* A challenge shows only the newest list. The one of the generation before is sent if it is later. */
static bool is_wanted_list(const struct kr_held_list *list, const struct kr_challenge *challenge)
{
    return kr_same(kr_name(&list->box), kr_name(&challenge->name)) &&
           (list->generation > challenge->generation ||
            (list->generation + 1 >= challenge->generation && list->iat > challenge->list_iat));
}

static bool is_wanted_receipt(const struct kr_held_receipt *receipt, const struct kr_challenge *challenge)
{
    return kr_same(kr_name(&receipt->box), kr_name(&challenge->name)) && receipt->number >= challenge->first &&
           receipt->number < challenge->next;
}

/* The lists, the lower generation first, then the receipt. */
bool kr_phone_artefact(const struct kr_phone_state *phone, const struct kr_challenge *challenge, size_t place,
                       struct kr_bytes *artefact)
{
    const struct kr_held_list *lists = phone->memory.lists;
    size_t wanted = 0;

    for (size_t i = 0; i < phone->list_count; i++) {
        size_t before = 0; /* wanted lists that are sent before this one */
        if (!is_wanted_list(&lists[i], challenge)) {
            continue;
        }
        wanted++;
        for (size_t j = 0; j < phone->list_count; j++) {
            if (is_wanted_list(&lists[j], challenge) &&
                (lists[j].generation < lists[i].generation || (lists[j].generation == lists[i].generation && j < i))) {
                before++;
            }
        }
        if (before == place) {
            *artefact = (struct kr_bytes){lists[i].message, lists[i].len};
            return true;
        }
    }
    for (size_t i = 0; i < phone->receipt_count; i++) {
        const struct kr_held_receipt *receipt = &phone->memory.receipts[i];
        if (is_wanted_receipt(receipt, challenge) && wanted++ == place) {
            *artefact = (struct kr_bytes){receipt->message, receipt->len};
            return true;
        }
    }
    return false;
}

bool kr_is_clock_right(const struct kr_challenge *challenge, uint64_t now)
{
    uint64_t time = challenge->time * 1000;
    return challenge->is_certain && (time > now ? time - now : now - time) <= CLOCK_TOLERANCE_MS;
}
