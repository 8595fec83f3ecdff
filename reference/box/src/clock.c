/* In charge of what goes by ticks: the box's clock (docs/keys.md, "Clock"), and the bucket, which bounds how many
 * signatures it verifies for whoever asks ("Reading", 5). */
#include "box.h"

uint64_t kr_add(uint64_t value, uint64_t more, uint64_t most)
{
    return value >= most || more > most - value ? most : value + more;
}

/* Brings clock and bucket up to this tick. */
void kr_tick(struct kr_box *box, uint64_t tick)
{
    if (tick > box->tick) {
        uint64_t seconds = tick - box->tick;
        box->time = kr_add(box->time, seconds, KR_UINT_MAX);
        box->tokens = kr_add(box->tokens, seconds, KR_BUCKET);
        box->tick = tick;
    }
}

bool kr_take_token(struct kr_box *box)
{
    if (box->tokens == 0) {
        return false;
    }
    box->tokens--;
    return true;
}

/* Whether this is further ahead than anything signed may move the clock. */
bool kr_is_ahead(const struct kr_box *box, uint64_t iat)
{
    return iat > box->time + KR_AHEAD;
}

/* It is at least this late: somebody with a key has signed. */
void kr_move_forward(struct kr_box *box, uint64_t iat)
{
    if (iat > box->time && !kr_is_ahead(box, iat)) {
        box->time = iat;
        kr_write_down(box);
    }
}

/* It is this late: that was signed in answer to a nonce. */
void kr_put_clock(struct kr_box *box, uint64_t time)
{
    box->time = time;
    box->kept.certain = true;
    kr_write_down(box);
}

/* The floor, at which the clock begins after a loss of power. */
void kr_write_down(struct kr_box *box)
{
    box->kept.floor = box->time;
    box->changed = true;
}
