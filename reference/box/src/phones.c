/* Phones and keys that the box remembers: those that opened or closed last (docs/key-boxes.md, "What a box keeps"). */
#include <string.h>

#include "box.h"

size_t kr_phone_place(const struct kr_kept *kept, const uint8_t thumbprint[KR_DIGEST])
{
    size_t match = KR_PHONES;
    for (size_t place = 0; place < KR_PHONES; place++) {
        bool is_same = kr_equal(kept->phones[place].thumbprint, thumbprint, KR_DIGEST);
        match = is_same && place < kept->phone_count ? place : match;
    }
    return match;
}

/* Moves the phone to the end. A new phone replaces the oldest one if there is no room, and has full buckets. */
void kr_keep_counter(struct kr_box *box, const uint8_t thumbprint[KR_DIGEST], uint64_t counter)
{
    struct kr_kept *kept = &box->kept;
    size_t out = kr_phone_place(kept, thumbprint);
    struct kr_spent spent = {0, 0};

    if (out < KR_PHONES) {
        spent = box->spent[out];
    } else if (kept->phone_count == KR_PHONES) {
        out = 0;
    }
    if (out < KR_PHONES) {
        kept->phone_count--;
        memmove(&kept->phones[out], &kept->phones[out + 1], (kept->phone_count - out) * sizeof kept->phones[0]);
        memmove(&box->spent[out], &box->spent[out + 1], (kept->phone_count - out) * sizeof box->spent[0]);
    }
    box->spent[kept->phone_count] = spent;
    struct kr_phone *phone = &kept->phones[kept->phone_count++];
    memcpy(phone->thumbprint, thumbprint, KR_DIGEST);
    phone->counter = counter;
    box->changed = true;
}

/* Its place among the keys; KR_GOOD_KEYS if it is unknown. */
static size_t key_place(const struct kr_box *box, const uint8_t digest[KR_DIGEST])
{
    size_t match = KR_GOOD_KEYS;
    for (size_t place = 0; place < KR_GOOD_KEYS; place++) {
        bool is_same = kr_equal(box->good[place], digest, KR_DIGEST);
        match = is_same && place < box->good_count ? place : match;
    }
    return match;
}

bool kr_is_good_key(const struct kr_box *box, const uint8_t digest[KR_DIGEST])
{
    return key_place(box, digest) < KR_GOOD_KEYS;
}

void kr_keep_good_key(struct kr_box *box, const uint8_t digest[KR_DIGEST])
{
    size_t out = key_place(box, digest);

    if (out == KR_GOOD_KEYS && box->good_count == KR_GOOD_KEYS) {
        out = 0;
    }
    if (out < KR_GOOD_KEYS) {
        box->good_count--;
        memmove(box->good[out], box->good[out + 1], (size_t)(box->good_count - out) * KR_DIGEST);
    }
    memcpy(box->good[box->good_count++], digest, KR_DIGEST);
}
