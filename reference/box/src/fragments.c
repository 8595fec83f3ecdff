/* Fragments of a message on a Bluetooth link (docs/key-bluetooth.md, "Fragments"). */
#include <string.h>

#include "hmac.h"
#include "transports.h"

#define GAP_MS 1000    /* the longest time between two fragments */
#define WHOLE_MS 10000 /* the longest time from the first fragment to the last */
#define HEAD 3         /* bytes before the data of an initial fragment */
#define INITIAL 0x80   /* the bit that continuations do not have */
#define SEQUENCES 128

bool kr_is_open(const struct kr_reassembly *reassembly)
{
    return reassembly->command != 0;
}

bool kr_is_late(const struct kr_reassembly *reassembly, uint64_t now)
{
    return kr_is_open(reassembly) && (now - reassembly->last > GAP_MS || now - reassembly->began > WHOLE_MS);
}

/* The longest data of a command, 0 for one that this side does not send. */
static size_t longest(uint8_t command, bool from_box)
{
    switch (command) {
    case KR_COMMAND_MESSAGE:
        return KR_WIRE_MOST;
    case KR_COMMAND_KEEP_ALIVE:
    case KR_COMMAND_ERROR:
        return from_box ? 1 : 0;
    default:
        return 0;
    }
}

static enum kr_fragment_error initial(struct kr_reassembly *reassembly, bool from_box, struct kr_bytes *fragment,
                                      uint64_t now)
{
    size_t most = longest(fragment->at[0], from_box), length;

    if (kr_is_open(reassembly)) {
        return KR_FRAGMENT_SEQUENCE;
    }
    if (most == 0) {
        return KR_FRAGMENT_COMMAND;
    }
    if (fragment->len < HEAD) {
        return KR_FRAGMENT_LENGTH;
    }
    length = (size_t)fragment->at[1] << 8 | fragment->at[2];
    if (length == 0 || length > most) {
        return KR_FRAGMENT_LENGTH;
    }
    reassembly->command = fragment->at[0];
    reassembly->length = (uint16_t)length;
    reassembly->began = now;
    *fragment = (struct kr_bytes){fragment->at + HEAD, fragment->len - HEAD};
    return KR_FRAGMENT_GOOD;
}

static enum kr_fragment_error continuation(struct kr_reassembly *reassembly, struct kr_bytes *fragment)
{
    if (!kr_is_open(reassembly) || fragment->at[0] != reassembly->sequence) {
        return KR_FRAGMENT_SEQUENCE;
    }
    if (fragment->len == 1) {
        return KR_FRAGMENT_LENGTH;
    }
    reassembly->sequence = (uint8_t)((reassembly->sequence + 1) % SEQUENCES);
    *fragment = (struct kr_bytes){fragment->at + 1, fragment->len - 1};
    return KR_FRAGMENT_GOOD;
}

/* Takes the head of a fragment away, which is its data then. */
static enum kr_fragment_error read_head(struct kr_reassembly *reassembly, bool from_box, struct kr_bytes *fragment,
                                        uint64_t now)
{
    if (kr_is_late(reassembly, now)) {
        return KR_FRAGMENT_TIMEOUT;
    }
    if (fragment->len == 0) {
        return KR_FRAGMENT_LENGTH;
    }
    return fragment->at[0] & INITIAL ? initial(reassembly, from_box, fragment, now)
                                     : continuation(reassembly, fragment);
}

enum kr_fragment_error kr_accept_fragment(struct kr_reassembly *reassembly, bool from_box, struct kr_bytes fragment,
                                          uint64_t now, uint8_t *data, struct kr_whole *whole)
{
    enum kr_fragment_error error = read_head(reassembly, from_box, &fragment, now);

    *whole = (struct kr_whole){0, 0};
    if (error == KR_FRAGMENT_GOOD && fragment.len > (size_t)(reassembly->length - reassembly->len)) {
        error = KR_FRAGMENT_LENGTH;
    }
    if (error != KR_FRAGMENT_GOOD) {
        memset(reassembly, 0, sizeof *reassembly);
        return error;
    }
    memcpy(data + reassembly->len, fragment.at, fragment.len);
    reassembly->len = (uint16_t)(reassembly->len + fragment.len);
    reassembly->last = now;
    if (reassembly->len == reassembly->length) {
        *whole = (struct kr_whole){reassembly->command, reassembly->len};
        memset(reassembly, 0, sizeof *reassembly);
    }
    return KR_FRAGMENT_GOOD;
}

size_t kr_short_fragment(uint8_t command, uint8_t data, uint8_t *fragment)
{
    fragment[0] = command;
    kr_put_number(fragment + 1, 1, HEAD - 1);
    fragment[HEAD] = data;
    return HEAD + 1;
}

/* Writes what is before the data of the fragment with this number. Its length. */
static size_t put_head(unsigned number, size_t message_len, uint8_t *fragment)
{
    if (number > 0) {
        fragment[0] = (uint8_t)((number - 1) % SEQUENCES);
        return 1;
    }
    fragment[0] = KR_COMMAND_MESSAGE;
    kr_put_number(fragment + 1, message_len, HEAD - 1);
    return HEAD;
}

size_t kr_next_fragment(struct kr_buffer *buffer, unsigned number, size_t size, uint8_t *fragment)
{
    size_t head = put_head(number, kr_buffer_rest(buffer), fragment);
    return head + kr_buffer_take(buffer, size - head, fragment + head);
}

size_t kr_split(struct kr_bytes message, unsigned number, size_t size, uint8_t *fragment)
{
    size_t place = number == 0 ? 0 : size - HEAD + (number - 1) * (size - 1), head, len;

    if (size < KR_FRAGMENT_LEAST || place >= message.len) {
        return 0;
    }
    head = put_head(number, message.len, fragment);
    len = message.len - place < size - head ? message.len - place : size - head;
    memcpy(fragment + head, message.at + place, len);
    return head + len;
}
