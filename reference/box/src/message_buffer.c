/* The one message and the one reply that a box has room for, shared by all its links and transports. */
#include <string.h>

#include "transports.h"

#define SHARED_MS 3000      /* from its first byte on, a message and its reply have the buffer, even if others wait */
#define REPLY_SHARED_MS 500 /* the same for the reply, from the first refusal of another link on */
#define WAIT_MS 700         /* for which a refused link waits; a phone asks again after 500 ms at most */

void kr_buffer_init(struct kr_buffer *buffer)
{
    memset(buffer, 0, sizeof *buffer);
}

uint8_t kr_link(unsigned link)
{
    return (uint8_t)(link < KR_LINKS ? link : KR_NO_LINK);
}

/* Removes the links that wait no more, and this one. */
static void drop_waiting(struct kr_buffer *buffer, unsigned link, uint64_t now)
{
    uint8_t count = 0;

    for (unsigned i = 0; i < buffer->waiting_count; i++) {
        if (now <= buffer->waiting[i].until && buffer->waiting[i].link != link) {
            buffer->waiting[count++] = buffer->waiting[i];
        }
    }
    buffer->waiting_count = count;
}

/* The link waits from now on, behind others, or for longer in its place. */
static void put_waiting(struct kr_buffer *buffer, unsigned link, uint64_t now)
{
    unsigned place = 0;

    while (place < buffer->waiting_count && buffer->waiting[place].link != link) {
        place++;
    }
    buffer->waiting[place] = (struct kr_waiting){now + WAIT_MS, (uint8_t)link};
    buffer->waiting_count = (uint8_t)(place < buffer->waiting_count ? buffer->waiting_count : place + 1);
    if (buffer->phase == KR_PHASE_SENDING && buffer->owner != link && !buffer->contested) {
        buffer->contested = true;
        buffer->contested_at = now;
    }
}

/* Whether the owner has had the buffer for long enough. */
static bool is_slow(const struct kr_buffer *buffer, uint64_t now)
{
    if (buffer->phase == KR_PHASE_SENDING && !(buffer->contested && now - buffer->contested_at > REPLY_SHARED_MS)) {
        return false;
    }
    return buffer->phase != KR_PHASE_PROCESSING && now - buffer->began > SHARED_MS;
}

bool kr_buffer_claim(struct kr_buffer *buffer, unsigned link, uint64_t now)
{
    bool is_next, is_open;

    if (link >= KR_LINKS) {
        return false;
    }
    drop_waiting(buffer, KR_NO_LINK, now);
    is_next = buffer->waiting_count == 0 || buffer->waiting[0].link == link;
    is_open = buffer->phase == KR_PHASE_FREE || (buffer->owner != link && is_slow(buffer, now));
    if (is_next && is_open) {
        drop_waiting(buffer, link, now);
        return true;
    }
    put_waiting(buffer, link, now);
    return false;
}

void kr_buffer_begin(struct kr_buffer *buffer, unsigned link, uint64_t now)
{
    buffer->owner = (uint8_t)link;
    buffer->phase = KR_PHASE_RECEIVING;
    buffer->began = now;
    buffer->abandoned = false;
}

bool kr_buffer_is_of(const struct kr_buffer *buffer, unsigned link, enum kr_phase phase)
{
    return buffer->phase == phase && buffer->owner == link && !buffer->abandoned;
}

void kr_buffer_complete(struct kr_buffer *buffer, size_t len)
{
    buffer->phase = KR_PHASE_PROCESSING;
    buffer->message_len = (uint16_t)len;
}

bool kr_buffer_reply(struct kr_buffer *buffer, unsigned link, size_t len)
{
    bool is_wanted = kr_buffer_is_of(buffer, link, KR_PHASE_PROCESSING);

    if (buffer->phase == KR_PHASE_PROCESSING) {
        buffer->phase = is_wanted ? KR_PHASE_SENDING : KR_PHASE_FREE;
        buffer->reply_len = (uint16_t)(len < KR_WIRE_MOST ? len : KR_WIRE_MOST);
        buffer->taken = 0;
        buffer->contested = false;
    }
    return is_wanted;
}

size_t kr_buffer_rest(const struct kr_buffer *buffer)
{
    return (size_t)(buffer->reply_len - buffer->taken);
}

size_t kr_buffer_take(struct kr_buffer *buffer, size_t most, uint8_t *bytes)
{
    size_t rest = kr_buffer_rest(buffer), len = rest < most ? rest : most;

    memcpy(bytes, buffer->reply + buffer->taken, len);
    buffer->taken = (uint16_t)(buffer->taken + len);
    if (len == rest) {
        buffer->phase = KR_PHASE_FREE;
    }
    return len;
}

void kr_buffer_abandon(struct kr_buffer *buffer, unsigned link)
{
    if (buffer->phase == KR_PHASE_FREE || buffer->owner != link) {
        return;
    }
    if (buffer->phase == KR_PHASE_PROCESSING) {
        buffer->abandoned = true;
    } else {
        buffer->phase = KR_PHASE_FREE;
    }
}

void kr_buffer_leave(struct kr_buffer *buffer, unsigned link)
{
    drop_waiting(buffer, link, 0);
    kr_buffer_abandon(buffer, link);
}
