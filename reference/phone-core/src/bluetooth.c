/* The Bluetooth side of a phone: a message and its reply (docs/key-bluetooth.md, "What the phone does"). */
#include <string.h>

#include "keyrack_phone_bluetooth.h"

#define FORM 1             /* of the fragments: the first byte of `size` */
#define SIZE_LEN 3
#define SILENCE_MS 5000    /* the wait for the response to a write, or for the next fragment of the box */
#define EXCHANGE_MS 20000  /* from the first fragment of a message to its reply */
#define BUSY_MS 10000      /* for which a phone sends a message to a busy box again */
#define PAUSE_LEAST_MS 200 /* before it does */
#define PAUSE_MOST_MS 500

/* An exchange is over, waits for the response to a write before it, is sent and replied, or waits for a busy box. */
enum { OVER, BEFORE, SENDING, PAUSE };

bool kr_phone_ble_connect(struct kr_phone_ble *ble, struct kr_bytes size, uint32_t random)
{
    size_t most;

    memset(ble, 0, sizeof *ble);
    ble->random = random;
    if (size.len != SIZE_LEN || size.at[0] != FORM) {
        return false;
    }
    most = (size_t)size.at[1] << 8 | size.at[2];
    if (most < KR_FRAGMENT_LEAST || most > KR_FRAGMENT_MOST) {
        return false;
    }
    ble->size = (uint16_t)most;
    return true;
}

static void end(struct kr_phone_ble *ble, enum kr_exchange how)
{
    ble->exchange = (uint8_t)how;
    ble->step = OVER;
}

void kr_phone_ble_lose(struct kr_phone_ble *ble)
{
    ble->size = 0;
    if (ble->step != OVER) {
        end(ble, KR_EXCHANGE_LOST);
    }
}

/* Sends the message from its first fragment on, once the write before it has its response. */
static void begin_attempt(struct kr_phone_ble *ble, uint64_t now)
{
    ble->step = ble->is_writing ? BEFORE : SENDING;
    ble->silent_until = now + SILENCE_MS;
    ble->sent = KR_SENT_NONE;
    ble->fragments = 0;
}

/* Ends what is late, and the pause. */
static void expire(struct kr_phone_ble *ble, uint64_t now)
{
    bool is_silent = now >= ble->silent_until;

    if (ble->step == PAUSE && is_silent) {
        begin_attempt(ble, now);
    } else if (ble->step != OVER && (is_silent || (ble->sent != KR_SENT_NONE && now >= ble->whole_until))) {
        kr_phone_ble_lose(ble);
    }
}

bool kr_phone_ble_send(struct kr_phone_ble *ble, struct kr_bytes message, uint8_t *reply, uint64_t now)
{
    if (ble->step != OVER || message.len == 0 || message.len > KR_WIRE_MOST) {
        return false;
    }
    ble->message = message;
    ble->reply = reply;
    ble->reply_len = 0;
    ble->busy_until = now + BUSY_MS;
    ble->exchange = KR_EXCHANGE_RUNNING;
    begin_attempt(ble, now);
    if (ble->size == 0) {
        kr_phone_ble_lose(ble);
    }
    return true;
}

/* Each fragment has a byte before its data, and the first one has two more. */
static bool is_sent(const struct kr_phone_ble *ble)
{
    return ble->fragments * (ble->size - 1u) >= ble->message.len + 2;
}

size_t kr_phone_ble_next(struct kr_phone_ble *ble, uint64_t now, uint8_t *fragment)
{
    expire(ble, now);
    if (ble->step != SENDING || ble->is_writing || ble->sent == KR_SENT_ALL) {
        return 0;
    }
    if (ble->sent == KR_SENT_NONE) {
        ble->whole_until = now + EXCHANGE_MS;
    }
    size_t len = kr_split(ble->message, ble->fragments++, ble->size, fragment);
    ble->sent = is_sent(ble) ? KR_SENT_ALL : KR_SENT_PART;
    ble->silent_until = now + SILENCE_MS;
    ble->is_writing = true;
    return len;
}

void kr_phone_ble_written(struct kr_phone_ble *ble, uint64_t now)
{
    expire(ble, now);
    ble->is_writing = false;
    if (ble->step == BEFORE) {
        begin_attempt(ble, now);
    } else if (ble->step == SENDING) {
        ble->silent_until = now + SILENCE_MS;
    }
}

/* The box has dropped the message. */
static void wait_for_box(struct kr_phone_ble *ble, uint64_t now)
{
    ble->random = ble->random * 1664525u + 1013904223u; /* of Numerical Recipes; its high bits are the better ones */
    ble->silent_until = now + PAUSE_LEAST_MS + (ble->random >> 16) % (PAUSE_MOST_MS - PAUSE_LEAST_MS + 1);
    ble->sent = KR_SENT_NONE;
    ble->step = PAUSE;
    if (ble->silent_until > ble->busy_until) {
        end(ble, KR_EXCHANGE_BUSY);
    }
}

void kr_phone_ble_receive(struct kr_phone_ble *ble, struct kr_bytes fragment, uint64_t now)
{
    struct kr_whole whole;
    bool is_valid;

    expire(ble, now);
    if (ble->step != SENDING) {
        return; /* no reply is due */
    }
    ble->silent_until = now + SILENCE_MS;
    is_valid = kr_accept_fragment(&ble->reassembly, true, fragment, now, ble->reply, &whole) == KR_FRAGMENT_GOOD;
    if (is_valid && (whole.command == 0 || whole.command == KR_COMMAND_KEEP_ALIVE)) {
        return;
    }
    if (is_valid && whole.command == KR_COMMAND_MESSAGE && ble->sent == KR_SENT_ALL) {
        ble->reply_len = whole.len;
        end(ble, KR_EXCHANGE_REPLY);
    } else if (is_valid && whole.command == KR_COMMAND_ERROR && ble->reply[0] == KR_FRAGMENT_BUSY) {
        wait_for_box(ble, now);
    } else {
        kr_phone_ble_lose(ble);
    }
}

enum kr_exchange kr_phone_ble_tick(struct kr_phone_ble *ble, uint64_t now)
{
    expire(ble, now);
    return (enum kr_exchange)ble->exchange;
}
