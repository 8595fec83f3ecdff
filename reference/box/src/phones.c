/* In charge of the counters of phones (docs/keys.md, "On the link"): 64 of them, the oldest goes. */
#include <string.h>

#include "box.h"

/* Where this phone is; KR_PHONES where it is not. */
static size_t place_of(const struct kr_kept *kept, const uint8_t thumbprint[KR_DIGEST])
{
    size_t found = KR_PHONES;
    for (size_t place = 0; place < KR_PHONES; place++) {
        bool is_same = kr_equal(kept->phones[place].thumbprint, thumbprint, KR_DIGEST);
        found = is_same && place < kept->phone_count ? place : found;
    }
    return found;
}

const struct kr_phone *kr_find_phone(const struct kr_kept *kept, const uint8_t thumbprint[KR_DIGEST])
{
    size_t place = place_of(kept, thumbprint);
    return place < KR_PHONES ? &kept->phones[place] : NULL;
}

/* Takes the phone out where it is, or the oldest one where there is no room, and puts it at the end. */
void kr_keep_counter(struct kr_box *box, const uint8_t thumbprint[KR_DIGEST], uint64_t counter)
{
    struct kr_kept *kept = &box->kept;
    size_t out = place_of(kept, thumbprint);

    if (out == KR_PHONES && kept->phone_count == KR_PHONES) {
        out = 0;
    }
    if (out < KR_PHONES) {
        kept->phone_count--;
        memmove(&kept->phones[out], &kept->phones[out + 1], (kept->phone_count - out) * sizeof kept->phones[0]);
    }
    struct kr_phone *phone = &kept->phones[kept->phone_count++];
    memcpy(phone->thumbprint, thumbprint, KR_DIGEST);
    phone->counter = counter;
    box->changed = true;
}
