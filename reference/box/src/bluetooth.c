/* The Bluetooth side of a box: three links over one buffer (docs/key-bluetooth.md, "What the box does"). */
#include <string.h>

#include "hmac.h"
#include "transports.h"

#define FIRST_MESSAGE_MS 5000 /* from the connection to the first whole message, or from an error `busy` to the next */
#define IDLE_MS 15000         /* between messages of a link that has proven no key */
#define PROVEN_IDLE_MS 30000  /* of a link that has */
#define UNPROVEN_MS 30000     /* from the connection to the proof of a key */
#define LONGEST_MS 300000     /* of a link: else drivers who stay would shut out the list that revokes their keys */
#define REPLY_MS 5000         /* to take a reply */
#define KEEP_ALIVE_MS 500
#define ATT_HEAD 3            /* bytes of an ATT packet before the value */

void kr_ble_init(struct kr_ble *ble, struct kr_buffer *buffer)
{
    memset(ble, 0, sizeof *ble);
    ble->buffer = buffer;
}

/* The connection with this number, NULL where there is none. */
static struct kr_ble_link *connection(struct kr_ble *ble, unsigned link)
{
    return link < KR_LINKS && ble->links[link].connected ? &ble->links[link] : NULL;
}

void kr_ble_connect(struct kr_ble *ble, unsigned link, uint64_t now)
{
    kr_ble_disconnect(ble, link);
    if (link < KR_LINKS) {
        ble->links[link].connected = true;
        ble->links[link].connected_at = now;
        ble->links[link].drop_at = now + FIRST_MESSAGE_MS;
    }
}

void kr_ble_disconnect(struct kr_ble *ble, unsigned link)
{
    if (link < KR_LINKS) {
        memset(&ble->links[link], 0, sizeof ble->links[link]);
    }
    kr_buffer_leave(ble->buffer, link);
}

/* Reports an error next. The message or the reply of this link is over. */
static void fail(struct kr_ble *ble, unsigned link, enum kr_fragment_error error)
{
    ble->links[link].failure = (uint8_t)error;
    memset(&ble->links[link].reassembly, 0, sizeof ble->links[link].reassembly);
    kr_buffer_abandon(ble->buffer, link);
}

static void expire(struct kr_ble *ble, uint64_t now)
{
    for (unsigned link = 0; link < KR_LINKS; link++) {
        if (kr_is_late(&ble->links[link].reassembly, now)) {
            fail(ble, link, KR_FRAGMENT_TIMEOUT);
        }
    }
}

/* Whether the next fragment of this link may go into the buffer. */
static enum kr_fragment_error check_buffer(struct kr_ble *ble, unsigned link, uint64_t now)
{
    struct kr_ble_link *state = &ble->links[link];

    if (kr_is_open(&state->reassembly)) { /* else another link has taken the buffer */
        return kr_buffer_is_of(ble->buffer, link, KR_PHASE_RECEIVING) ? KR_FRAGMENT_GOOD : KR_FRAGMENT_TIMEOUT;
    }
    if (kr_buffer_claim(ble->buffer, link, now)) {
        return KR_FRAGMENT_GOOD;
    }
    if (state->drop_at < now + FIRST_MESSAGE_MS) {
        state->drop_at = now + FIRST_MESSAGE_MS;
    }
    return KR_FRAGMENT_BUSY;
}

bool kr_ble_write(struct kr_ble *ble, unsigned link, struct kr_bytes fragment, uint64_t now)
{
    struct kr_ble_link *state = connection(ble, link);
    struct kr_whole whole = {0, 0};
    enum kr_fragment_error error;
    bool is_first;

    if (state == NULL) {
        return false;
    }
    expire(ble, now);
    if (state->failure == KR_FRAGMENT_TIMEOUT) {
        return false; /* the fragment belongs to the message that was late */
    }
    is_first = !kr_is_open(&state->reassembly);
    error = check_buffer(ble, link, now);
    if (error == KR_FRAGMENT_GOOD) {
        error = kr_accept_fragment(&state->reassembly, false, fragment, now, ble->buffer->message, &whole);
    }
    if (error != KR_FRAGMENT_GOOD) {
        fail(ble, link, error);
        return false;
    }
    if (is_first) { /* only a valid fragment takes the buffer */
        kr_buffer_begin(ble->buffer, link, now);
    }
    if (whole.command == 0) {
        return false;
    }
    kr_buffer_complete(ble->buffer, whole.len);
    ble->busy_since = now;
    return true;
}

void kr_ble_reply(struct kr_ble *ble, unsigned link, size_t reply_len, bool proven, uint64_t now)
{
    struct kr_ble_link *state = connection(ble, link);

    if (!kr_buffer_reply(ble->buffer, state == NULL ? KR_NO_LINK : link, reply_len) || state == NULL) {
        return;
    }
    state->has_proven |= proven; /* a hello ends the proof, but not the place of the link */
    state->drop_at = now + (state->has_proven ? PROVEN_IDLE_MS : IDLE_MS);
    ble->reply_until = now + REPLY_MS;
    ble->sent = 0;
}

static size_t next_of_reply(struct kr_ble *ble, size_t size, uint8_t *fragment)
{
    size_t head = kr_fragment_head(ble->sent++, kr_buffer_rest(ble->buffer), fragment);

    return head + kr_buffer_take(ble->buffer, size - head, fragment + head);
}

size_t kr_ble_next(struct kr_ble *ble, unsigned link, size_t size, uint64_t now, uint8_t *fragment)
{
    struct kr_ble_link *state = connection(ble, link);
    uint8_t failure;

    if (state == NULL || size < KR_FRAGMENT_LEAST) {
        return 0;
    }
    if (state->failure != KR_FRAGMENT_GOOD) {
        failure = state->failure;
        state->failure = KR_FRAGMENT_GOOD;
        return kr_short_fragment(KR_COMMAND_ERROR, failure, fragment);
    }
    if (kr_buffer_is_of(ble->buffer, link, KR_PHASE_SENDING)) {
        return next_of_reply(ble, size, fragment);
    }
    if (kr_buffer_is_of(ble->buffer, link, KR_PHASE_PROCESSING) && now - ble->busy_since >= KEEP_ALIVE_MS) {
        ble->busy_since = now;
        return kr_short_fragment(KR_COMMAND_KEEP_ALIVE, 1, fragment);
    }
    return 0;
}

/* Whether this link has to end, so that others find a place. */
static bool is_due(const struct kr_ble *ble, unsigned link, uint64_t now)
{
    const struct kr_ble_link *state = &ble->links[link];
    bool is_stuck = kr_buffer_is_of(ble->buffer, link, KR_PHASE_SENDING) && now >= ble->reply_until;
    uint64_t most = state->has_proven ? LONGEST_MS : UNPROVEN_MS;

    return state->connected && !kr_buffer_is_of(ble->buffer, link, KR_PHASE_PROCESSING) &&
           (is_stuck || now >= state->connected_at + most || now >= state->drop_at);
}

unsigned kr_ble_tick(struct kr_ble *ble, uint64_t now)
{
    unsigned due = 0;

    expire(ble, now);
    for (unsigned link = 0; link < KR_LINKS; link++) {
        if (is_due(ble, link, now)) {
            due |= 1u << link;
        }
    }
    return due;
}

bool kr_ble_has_room(const struct kr_ble *ble)
{
    return !ble->links[0].connected || !ble->links[1].connected || !ble->links[2].connected;
}

void kr_ble_size_value(unsigned att_mtu, uint8_t value[3])
{
    unsigned most = att_mtu < KR_FRAGMENT_LEAST + ATT_HEAD ? KR_FRAGMENT_LEAST : att_mtu - ATT_HEAD;

    value[0] = 1;
    kr_put_number(value + 1, most > KR_FRAGMENT_MOST ? KR_FRAGMENT_MOST : most, 2);
}
