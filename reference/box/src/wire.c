/* Frames on a wire between a tool and a box (docs/key-wire.md): COBS of message and CRC-32, and a zero byte. A frame is
 * unstuffed as it comes, straight into the buffer, and stuffed as it goes. */
#include <string.h>

#include "hmac.h"
#include "transports.h"

#define FULL 0xff /* the first byte of a block of 254 bytes, after which no zero was removed */

enum { BETWEEN_FRAMES, IN_FRAME, SKIPPING };

uint32_t kr_crc32(uint32_t crc, const uint8_t *bytes, size_t len)
{
    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
        }
    }
    return ~crc;
}

void kr_wire_init(struct kr_wire *wire, struct kr_buffer *buffer)
{
    memset(wire, 0, sizeof *wire);
    wire->buffer = buffer;
    wire->link = KR_NO_LINK;
}

void kr_wire_begin(struct kr_wire *wire, unsigned link)
{
    wire->link = kr_link(link);
}

/* Drops the rest of a frame. */
static void skip(struct kr_wire *wire)
{
    wire->state = SKIPPING;
    kr_buffer_abandon(wire->buffer, wire->link);
}

/* A frame takes the buffer with its first byte. */
static void begin_frame(struct kr_wire *wire, uint64_t now)
{
    wire->state = SKIPPING;
    if (kr_buffer_claim(wire->buffer, wire->link, now)) {
        kr_buffer_begin(wire->buffer, wire->link, now);
        wire->state = IN_FRAME;
    }
    wire->crc = 0;
    wire->len = 0;
    wire->block = 0;
    wire->left = 0;
}

/* A byte of message and checksum: the byte of four bytes before is one of the message. */
static void append(struct kr_wire *wire, uint8_t byte)
{
    uint8_t *last = &wire->tail[wire->len % KR_WIRE_CHECKSUM];

    if (wire->len == KR_WIRE_MOST + KR_WIRE_CHECKSUM) {
        skip(wire);
        return;
    }
    if (wire->len >= KR_WIRE_CHECKSUM) {
        wire->buffer->message[wire->len - KR_WIRE_CHECKSUM] = *last;
        wire->crc = kr_crc32(wire->crc, last, 1);
    }
    *last = byte;
    wire->len++;
}

/* A byte of a frame, not 0. */
static void unstuff(struct kr_wire *wire, uint8_t byte)
{
    if (wire->left > 0) {
        wire->left--;
        append(wire, byte);
        return;
    }
    if (wire->block != 0 && wire->block != FULL) {
        append(wire, 0);
    }
    wire->block = byte;
    wire->left = (uint8_t)(byte - 1);
}

static bool is_message(const struct kr_wire *wire)
{
    uint32_t checksum = 0;

    for (unsigned i = 0; i < KR_WIRE_CHECKSUM; i++) {
        checksum = checksum << 8 | wire->tail[(wire->len + i) % KR_WIRE_CHECKSUM];
    }
    return wire->left == 0 && wire->len > KR_WIRE_CHECKSUM && checksum == wire->crc;
}

static enum kr_wire_event end_frame(struct kr_wire *wire)
{
    uint8_t state = wire->state;

    wire->state = BETWEEN_FRAMES;
    if (state == IN_FRAME && is_message(wire)) {
        kr_buffer_complete(wire->buffer, (size_t)(wire->len - KR_WIRE_CHECKSUM));
        return KR_WIRE_MESSAGE;
    }
    if (state != SKIPPING) { /* damaged, or an empty frame */
        kr_buffer_abandon(wire->buffer, wire->link);
    }
    return state == BETWEEN_FRAMES ? KR_WIRE_NEW_LINK : KR_WIRE_NOTHING;
}

enum kr_wire_event kr_wire_receive(struct kr_wire *wire, struct kr_bytes *received, uint64_t now)
{
    enum kr_wire_event event = KR_WIRE_NOTHING;

    if (wire->state == IN_FRAME && !kr_buffer_is_of(wire->buffer, wire->link, KR_PHASE_RECEIVING)) {
        wire->state = SKIPPING; /* another link has taken the buffer */
    }
    while (event == KR_WIRE_NOTHING && received->len > 0) {
        uint8_t byte = *received->at++;
        received->len--;
        if (byte == 0) {
            event = end_frame(wire);
            continue;
        }
        if (wire->state == BETWEEN_FRAMES) {
            begin_frame(wire, now);
        }
        if (wire->state == IN_FRAME) {
            unstuff(wire, byte);
        }
    }
    return event;
}

void kr_wire_reply(struct kr_wire *wire, size_t reply_len)
{
    if (kr_buffer_reply(wire->buffer, wire->link, reply_len)) {
        wire->reply_crc = kr_crc32(0, wire->buffer->reply, wire->buffer->reply_len);
        wire->sent = 0;
        wire->sent_block = 0;
        wire->sent_left = 0;
    }
}

/* The byte in this place of reply and checksum. */
static uint8_t byte_at(const struct kr_wire *wire, size_t place)
{
    size_t end = (size_t)wire->buffer->reply_len + KR_WIRE_CHECKSUM;
    if (place < wire->buffer->reply_len) {
        return wire->buffer->reply[place];
    }
    return (uint8_t)(wire->reply_crc >> 8 * (end - 1 - place));
}

/* The first byte of the next block: how far the next zero is, or the end. */
static uint8_t block_at(const struct kr_wire *wire, size_t place, size_t end)
{
    uint8_t block = 1;

    while (block < FULL && place < end && byte_at(wire, place) != 0) {
        block++;
        place++;
    }
    return block;
}

static uint8_t stuff(struct kr_wire *wire)
{
    size_t end = (size_t)wire->buffer->reply_len + KR_WIRE_CHECKSUM;

    if (wire->sent_left > 0) {
        wire->sent_left--;
        return byte_at(wire, wire->sent++);
    }
    if (wire->sent_block != 0 && wire->sent == end) {
        kr_buffer_abandon(wire->buffer, wire->link);
        return 0;
    }
    if (wire->sent_block != 0 && wire->sent_block != FULL) {
        wire->sent++; /* the zero that is removed */
    }
    wire->sent_block = block_at(wire, wire->sent, end);
    wire->sent_left = (uint8_t)(wire->sent_block - 1);
    return wire->sent_block;
}

size_t kr_wire_next(struct kr_wire *wire, size_t size, uint8_t *bytes)
{
    size_t len = 0;

    while (len < size && kr_buffer_is_of(wire->buffer, wire->link, KR_PHASE_SENDING)) {
        bytes[len++] = stuff(wire);
    }
    return len;
}

void kr_wire_leave(struct kr_wire *wire)
{
    kr_buffer_leave(wire->buffer, wire->link);
    wire->link = KR_NO_LINK;
}
