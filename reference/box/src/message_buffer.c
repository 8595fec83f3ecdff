/* The one message and the one reply that a box has room for, shared by all its links and transports. */
#include <string.h>

#include "transports.h"

#define SHARED_MS 3000 /* after which another link may take the buffer from one that receives a message */

void kr_buffer_init(struct kr_buffer *buffer)
{
    memset(buffer, 0, sizeof *buffer);
}

bool kr_buffer_has_room(const struct kr_buffer *buffer, unsigned link, uint64_t now)
{
    bool is_slow = buffer->phase == KR_PHASE_RECEIVING && buffer->owner != link && now - buffer->began > SHARED_MS;

    return link < KR_LINKS && (is_slow || buffer->phase == KR_PHASE_FREE);
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
