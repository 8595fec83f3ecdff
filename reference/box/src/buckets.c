/* Token buckets, which limit the signatures that the box verifies and creates (docs/key-boxes.md, "Buckets"). */
#include "box.h"

#define LINK_PERIOD 4 /* seconds for each token of a link */

static uint8_t less(uint8_t value, uint64_t by)
{
    return by >= value ? 0 : (uint8_t)(value - by);
}

static void fill_link(const struct kr_box *box, struct kr_link *link)
{
    uint64_t periods = (box->tick - link->since) / LINK_PERIOD;
    link->tokens = (uint8_t)kr_add(link->tokens, periods, KR_LINK_BUCKET);
    link->since += periods * LINK_PERIOD;
}

void kr_fill_buckets(struct kr_box *box, uint64_t seconds)
{
    box->tokens = (uint8_t)kr_add(box->tokens, seconds, KR_BUCKET);
    for (size_t place = 0; place < KR_PHONES; place++) {
        box->spent[place].remembered_key = less(box->spent[place].remembered_key, seconds);
        box->spent[place].other_key = less(box->spent[place].other_key, seconds);
    }
    for (size_t i = 0; i < KR_LINKS; i++) {
        if (box->links[i].connection != 0) {
            fill_link(box, &box->links[i]);
        }
    }
}

bool kr_take_phone_token(struct kr_box *box, size_t place, bool is_remembered_key)
{
    uint8_t *spent = is_remembered_key ? &box->spent[place].remembered_key : &box->spent[place].other_key;
    if (*spent >= KR_PHONE_BUCKET) {
        return false;
    }
    (*spent)++;
    return true;
}

bool kr_take_token(struct kr_box *box, struct kr_link *link)
{
    bool is_proven = kr_is_proven(box, link);
    if (link->tokens == 0 || (!is_proven && box->tokens == 0)) {
        return false;
    }
    link->tokens--;
    if (!is_proven) {
        box->tokens--;
    }
    return true;
}
