/* The box's clock, and what goes on with each tick (docs/key-boxes.md, "Clock"). */
#include "box.h"

uint64_t kr_add(uint64_t value, uint64_t more, uint64_t most)
{
    return value >= most || more > most - value ? most : value + more;
}

void kr_tick(struct kr_box *box, uint64_t tick)
{
    if (tick > box->tick) {
        uint64_t seconds = tick - box->tick;
        box->time = kr_add(box->time, seconds, KR_UINT_MAX);
        box->tick = tick;
        kr_fill_buckets(box, seconds);
    }
}

/* Whether this is later than what is not bound to a nonce may move the clock to. */
bool kr_is_future(const struct kr_box *box, uint64_t iat)
{
    return iat + box->kept.ahead > box->time + KR_AHEAD;
}

/* It is at least this late: somebody with a key has signed. */
void kr_move_forward(struct kr_box *box, uint64_t iat)
{
    if (iat > box->time && !kr_is_future(box, iat)) {
        box->kept.ahead += iat - box->time;
        box->time = iat;
        kr_write_down(box);
    }
}

void kr_set_clock(struct kr_box *box, uint64_t time)
{
    box->time = time;
    box->changed = box->changed || !box->kept.certain || box->kept.ahead != 0;
    box->kept.certain = true;
    box->kept.ahead = 0;
}

/* The floor, at which the clock begins after a loss of power. */
void kr_write_down(struct kr_box *box)
{
    box->changed = box->changed || box->kept.floor != box->time;
    box->kept.floor = box->time;
}
