/* The box's clock, and the update at each tick (docs/key-boxes.md, "Clock"). */
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

/* Whether this time is too late: a message without a nonce must not move the clock to it. */
bool kr_is_future(const struct kr_box *box, uint64_t iat)
{
    return iat + box->kept.ahead > box->time + KR_AHEAD;
}

/* The current time is at least this one, because a holder of a key signed it. */
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

/* The floor, at which the clock starts after a power loss. */
void kr_write_down(struct kr_box *box)
{
    box->changed = box->changed || box->kept.floor != box->time;
    box->kept.floor = box->time;
}
