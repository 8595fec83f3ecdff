/* Fuzzing the transports alone, with sanitizers: `make fuzz-transports`. An input is a row of calls by a host, phones
 * and a tool. What they send is well formed, damaged, or just bytes. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_input.h"
#include "keyrack_transports.h"
#include "transports.h"

#define PIECE_MOST 512
#define FRAME_MOST 2062

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A box; and a tool, whose frames are made as the box makes those of its replies. */
struct world {
    struct kr_buffer buffer;
    struct kr_ble ble;
    struct kr_nfc nfc;
    struct kr_wire wire;
    struct kr_buffer tool_buffer;
    struct kr_wire tool;
    uint64_t now;
    bool has_all; /* transports a link of its own; else Bluetooth has all links */
    uint8_t reply[KR_WIRE_MOST]; /* a copy of the one that the host wrote last */
};

/* Three links, one if other transports have the rest, and one that does not exist. */
static unsigned ble_link(const struct world *w, struct kr_bytes *in)
{
    unsigned link = byte(in) % (KR_LINKS + 1);
    return w->has_all && link < KR_LINKS ? 0 : link;
}

static unsigned own_link(const struct world *w, struct kr_bytes *in, unsigned link)
{
    return w->has_all && byte(in) < 230 ? link : KR_NO_LINK;
}

static void expect(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* What must hold whatever came. */
static void check(const struct world *w)
{
    const struct kr_buffer *b = &w->buffer;

    expect(memcmp(b->reply, w->reply, sizeof w->reply) == 0);
    expect(b->phase <= KR_PHASE_SENDING && b->owner < KR_LINKS && b->message_len <= KR_WIRE_MOST);
    expect(b->reply_len <= KR_WIRE_MOST && b->taken <= b->reply_len);
    expect(b->waiting_count <= KR_LINKS);
    expect(w->nfc.len <= KR_WIRE_MOST && w->wire.len <= KR_WIRE_MOST + KR_WIRE_CHECKSUM);
    for (unsigned link = 0; link < KR_LINKS; link++) {
        const struct kr_reassembly *r = &w->ble.links[link].reassembly;
        expect(r->length <= KR_WIRE_MOST && (r->command == 0 ? r->len == 0 : r->len < r->length));
    }
}

static void write_fragment(struct world *w, struct kr_bytes *in)
{
    unsigned link = ble_link(w, in);
    const struct kr_reassembly *r = &w->ble.links[link % KR_LINKS].reassembly;
    size_t message = length(in, KR_WIRE_MOST + 1), len = length(in, PIECE_MOST);
    uint8_t head[] = {KR_COMMAND_MESSAGE, (uint8_t)(message >> 8), (uint8_t)message};
    size_t head_len = sizeof head;

    if (r->command != 0 && byte(in) < 240) {
        head[0] = r->sequence;
        head_len = 1;
        if (byte(in) < 200 && len > (size_t)(r->length - r->len) + 1) {
            len = (size_t)(r->length - r->len) + 1;
        }
    } else if (byte(in) < 200 && len > message + sizeof head) {
        len = message + sizeof head;
    }
    uint8_t *fragment = piece(in, head, head_len, len);
    if (kr_ble_write(&w->ble, link, (struct kr_bytes){fragment, len}, w->now)) {
        expect(w->buffer.phase == KR_PHASE_PROCESSING && w->buffer.message_len > 0);
    }
    free(fragment);
}

static void next_fragment(struct world *w, struct kr_bytes *in)
{
    size_t size = length(in, PIECE_MOST);
    uint8_t *fragment = malloc(size > 0 ? size : 1);

    expect(fragment != NULL);
    expect(kr_ble_next(&w->ble, ble_link(w, in), size, w->now, fragment) <= size);
    free(fragment);
}

static void reply(struct world *w, struct kr_bytes *in)
{
    uint8_t response[KR_NFC_RESPONSE_MOST];

    if (w->buffer.phase != KR_PHASE_PROCESSING) {
        return;
    }
    size_t len = length(in, KR_WIRE_MOST - 1) + 1;
    memset(w->buffer.reply, (int)byte(in), len);
    w->buffer.reply[byte(in) % len] = 0;
    memcpy(w->reply, w->buffer.reply, sizeof w->reply);
    switch (byte(in) % 3) {
    case 0:
        expect(kr_nfc_reply(&w->nfc, len, response) >= 2);
        break;
    case 1:
        kr_wire_reply(&w->wire, len);
        break;
    default:
        kr_ble_reply(&w->ble, w->buffer.owner, len, byte(in) % 2 == 0, w->now);
    }
}

static void send_apdu(struct world *w, struct kr_bytes *in)
{
    static const uint8_t heads[][14] = {
        {0x00, 0xa4, 0x04, 0x00, 9, 0xf0, 0x4b, 0x45, 0x59, 0x52, 0x41, 0x43, 0x4b, 0x01},
        {0x00, 0xa4, 0x04, 0x00, 7, 0xd2, 0x76, 0x00, 0x00, 0x85, 0x01, 0x01},
        {0x00, 0xa4, 0x00, 0x0c, 2, 0xe1, 0x03}, {0x00, 0xa4, 0x00, 0x0c, 2, 0xe1, 0x04}, {0x00, 0xb0, 0x00, 0x02},
        {0x00, 0xc0, 0x00, 0x00}, {0x90, 0x10, 0x00, 0x00}, {0x80, 0x10, 0x00, 0x00}, {0x00},
    };
    static const uint8_t lens[] = {14, 12, 7, 7, 5, 5, 0, 0, 0};
    unsigned kind = byte(in) % sizeof lens;
    size_t data = length(in, 256), len = lens[kind] > 0 && byte(in) < 240 ? lens[kind] : 5 + data;
    uint8_t head[14], response[KR_NFC_RESPONSE_MOST];

    memcpy(head, heads[kind], sizeof head);
    if (lens[kind] == 0 && byte(in) < 240) {
        head[4] = (uint8_t)data;
    }
    uint8_t *apdu = piece(in, head, lens[kind] > 0 ? lens[kind] : 5, len);
    size_t response_len = kr_nfc_receive(&w->nfc, (struct kr_bytes){apdu, len}, w->now, response);
    expect(response_len == 0 ? w->buffer.phase == KR_PHASE_PROCESSING : response_len >= 2);
    if (w->nfc.restarted) {
        kr_nfc_begin(&w->nfc, own_link(w, in, 1));
    }
    free(apdu);
}

static void feed(struct world *w, struct kr_bytes *in, struct kr_bytes bytes)
{
    while (bytes.len > 0) {
        size_t len = length(in, 4000) + 1;
        struct kr_bytes part = {bytes.at, len < bytes.len ? len : bytes.len};
        bytes = (struct kr_bytes){part.at + part.len, bytes.len - part.len};
        while (part.len > 0) {
            enum kr_wire_event event = kr_wire_receive(&w->wire, &part, w->now);
            expect(event != KR_WIRE_MESSAGE || w->buffer.phase == KR_PHASE_PROCESSING);
            if (event == KR_WIRE_NEW_LINK) {
                kr_wire_begin(&w->wire, own_link(w, in, 2));
            }
        }
    }
}

/* Whether no other link waits for the buffer. */
static bool is_next(const struct kr_buffer *buffer, unsigned link, uint64_t now)
{
    for (unsigned i = 0; i < buffer->waiting_count; i++) {
        if (now <= buffer->waiting[i].until) {
            return buffer->waiting[i].link == link;
        }
    }
    return true;
}

/* A frame of the tool, as it is or damaged. */
static void send_frame(struct world *w, struct kr_bytes *in)
{
    uint8_t frame[FRAME_MOST], part[256];
    size_t len = length(in, KR_WIRE_MOST - 1) + 1, frame_len = 0, more;

    memset(w->tool_buffer.reply, (int)byte(in), len);
    w->tool_buffer.reply[byte(in) % len] = (uint8_t)byte(in);
    expect(kr_buffer_claim(&w->tool_buffer, 0, 0));
    kr_buffer_begin(&w->tool_buffer, 0, 0);
    kr_buffer_complete(&w->tool_buffer, 1);
    kr_wire_reply(&w->tool, len);
    while ((more = kr_wire_next(&w->tool, byte(in) + 1, part)) > 0) {
        expect(more <= FRAME_MOST - frame_len);
        memcpy(frame + frame_len, part, more);
        frame_len += more;
    }
    expect(frame_len > len + KR_WIRE_CHECKSUM && frame[frame_len - 1] == 0);
    bool is_damaged = byte(in) < 64;
    if (is_damaged) {
        frame[length(in, frame_len - 1)] ^= (uint8_t)byte(in);
    }
    bool has_room = w->wire.state == 0 && w->wire.link < KR_LINKS && w->buffer.phase == KR_PHASE_FREE &&
                    is_next(&w->buffer, w->wire.link, w->now);
    feed(w, in, (struct kr_bytes){frame, frame_len});
    if (has_room && !is_damaged) {
        expect(w->buffer.phase == KR_PHASE_PROCESSING && w->buffer.message_len == len);
        expect(memcmp(w->buffer.message, w->tool_buffer.reply, len) == 0);
    }
}

static void send_noise(struct world *w, struct kr_bytes *in)
{
    size_t len = length(in, 300);
    uint8_t *bytes = piece(in, in->at, in->len, len);

    feed(w, in, (struct kr_bytes){bytes, len});
    free(bytes);
}

static void take_frame(struct world *w, struct kr_bytes *in)
{
    uint8_t bytes[PIECE_MOST];
    expect(kr_wire_next(&w->wire, length(in, sizeof bytes), bytes) <= sizeof bytes);
}

static void advance(struct world *w, struct kr_bytes *in)
{
    static const uint64_t pauses[] = {0, 1, 500, 999, 1001, 3001, 10001, 30001};
    w->now += pauses[byte(in) % 8];
}

static void enter(struct world *w, struct kr_bytes *in)
{
    static const uint8_t url[KR_NFC_URL_MOST + 1] = "https://keyrack.example.com/drive/#box=K-HW844A";
    kr_nfc_leave(&w->nfc);
    kr_nfc_init(&w->nfc, &w->buffer, own_link(w, in, 1), (struct kr_bytes){url, byte(in) % (sizeof url + 1)});
}

static void end(struct world *w, struct kr_bytes *in)
{
    switch (byte(in) % 4) {
    case 0:
        kr_nfc_leave(&w->nfc);
        break;
    case 1:
        kr_wire_leave(&w->wire);
        break;
    default:
        kr_ble_disconnect(&w->ble, ble_link(w, in));
    }
}

static void connect(struct world *w, struct kr_bytes *in)
{
    kr_ble_connect(&w->ble, ble_link(w, in), w->now);
}

static void tick(struct world *w, struct kr_bytes *in)
{
    (void)in;
    expect(kr_ble_tick(&w->ble, w->now) < 1u << KR_LINKS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const calls[])(struct world *, struct kr_bytes *) = {
        write_fragment, write_fragment, write_fragment, next_fragment, next_fragment, reply, reply, reply, send_apdu,
        send_apdu, send_apdu, send_frame, send_noise, take_frame, advance, enter, end, connect, tick,
    };
    static struct world w;
    struct kr_bytes in = {data, size};

    memset(&w, 0, sizeof w);
    kr_buffer_init(&w.buffer);
    kr_buffer_init(&w.tool_buffer);
    kr_ble_init(&w.ble, &w.buffer);
    kr_wire_init(&w.wire, &w.buffer);
    w.has_all = byte(&in) < 200;
    kr_nfc_init(&w.nfc, &w.buffer, own_link(&w, &in, 1), (struct kr_bytes){NULL, 0});
    kr_wire_begin(&w.wire, own_link(&w, &in, 2));
    kr_wire_init(&w.tool, &w.tool_buffer);
    kr_wire_begin(&w.tool, 0);
    kr_ble_connect(&w.ble, 0, 0);
    while (in.len > 0) {
        calls[byte(&in) % (sizeof calls / sizeof calls[0])](&w, &in);
        check(&w);
    }
    return 0;
}
