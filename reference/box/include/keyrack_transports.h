/* How messages travel between a box and phones or tools: Bluetooth, NFC and a wire, as in docs/key-bluetooth.md,
 * docs/key-nfc.md and docs/key-wire.md.
 *
 * The host owns radio, NFC controller and UART. It passes on what comes, and sends what these functions return. Nothing
 * is allocated, and nothing is kept outside of the structs that the caller provides. Links are those of kr_box_connect.
 * `now` is in milliseconds of a counter of 64 bits that goes on, and never back, while there is power. A counter of 32
 * bits begins again after 49.7 days: the host extends it.
 *
 * One call at a time. But kr_box_receive may work on the buffer's message in another task, until one of kr_ble_reply,
 * kr_nfc_reply and kr_wire_reply. */
#ifndef KEYRACK_TRANSPORTS_H
#define KEYRACK_TRANSPORTS_H

#include "keyrack_box.h"
#include "keyrack_fragments.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KR_NO_LINK KR_LINKS /* of a card or a wire that has none */

/* The one message and the one reply of all links and transports. */

enum kr_phase { KR_PHASE_FREE, KR_PHASE_RECEIVING, KR_PHASE_PROCESSING, KR_PHASE_SENDING };

/* A link that was refused, and waits for its turn. */
struct kr_waiting {
    uint64_t until;        /* the time */
    uint8_t link;
};

struct kr_buffer {
    uint8_t message[KR_WIRE_MOST];
    uint8_t reply[KR_WIRE_MOST]; /* the host writes it, between the message and the reply of a transport */
    uint64_t began;        /* the time of the message's first byte */
    uint64_t contested_at; /* the time of the first refusal of another link since the reply began */
    struct kr_waiting waiting[KR_LINKS]; /* in the order of their turns */
    uint16_t message_len;  /* of a message that is whole */
    uint16_t reply_len;
    uint16_t taken;        /* bytes of the reply that were sent */
    uint8_t waiting_count;
    uint8_t phase;         /* enum kr_phase */
    uint8_t owner;         /* the link, unless the buffer is free */
    bool abandoned;        /* the link gave up its message while the firmware processes it */
    bool contested;        /* whether there was such a refusal */
};

void kr_buffer_init(struct kr_buffer *buffer);

/* Bluetooth. */

/* One link over Bluetooth; all zero while it is free. */
struct kr_ble_link {
    uint64_t connected_at;
    uint64_t drop_at;      /* unless a message comes before */
    struct kr_reassembly reassembly;
    bool connected;
    bool has_proven;       /* possession of a key, since the connection */
    uint8_t failure;       /* enum kr_fragment_error, to be reported next */
};

struct kr_ble {
    struct kr_buffer *buffer;
    struct kr_ble_link links[KR_LINKS];
    uint64_t busy_since;   /* the time of the message, or of the last keep-alive */
    uint64_t reply_until;
    uint16_t sent;         /* fragments of the reply */
};

void kr_ble_init(struct kr_ble *ble, struct kr_buffer *buffer);

/* A connection begins on this link. */
void kr_ble_connect(struct kr_ble *ble, unsigned link, uint64_t now);
/* The connection of this link has ended. */
void kr_ble_disconnect(struct kr_ble *ble, unsigned link);
/* A fragment was written to `to-box`. Whether a message is whole now: `message` of the buffer. The host then writes a
 * reply to the buffer, and calls kr_ble_reply. */
bool kr_ble_write(struct kr_ble *ble, unsigned link, struct kr_bytes fragment, uint64_t now);
/* The message of this link is answered. `proven` is kr_box_is_proven of the link. */
void kr_ble_reply(struct kr_ble *ble, unsigned link, size_t reply_len, bool proven, uint64_t now);
/* The next notification of `from-box`, at most `size` bytes, which is at least KR_FRAGMENT_LEAST. Its length, 0 if none
 * is due. */
size_t kr_ble_next(struct kr_ble *ble, unsigned link, size_t size, uint64_t now, uint8_t *fragment);
/* Drops messages that are late. Returns a bit for each link that the host has to end: bit 0 for link 0. */
unsigned kr_ble_tick(struct kr_ble *ble, uint64_t now);
/* Whether another phone may connect, so that the box advertises. */
bool kr_ble_has_room(const struct kr_ble *ble);
/* The value of `size`: a version, and the most bytes of a fragment on this connection. */
void kr_ble_size_value(unsigned att_mtu, uint8_t value[3]);

/* The name that a box advertises. It changes every 15 minutes, and so does the address. */

#define KR_ADVERTISEMENT 31

/* The name of this box at this tick, without a zero byte at its end. */
void kr_box_name(struct kr_box *box, uint64_t tick, uint8_t name[KR_ADVERTISED_NAME]);
/* Flags, the service, the complete local name. */
void kr_advertisement(const uint8_t name[KR_ADVERTISED_NAME], uint8_t bytes[KR_ADVERTISEMENT]);
/* The key of a day, from the advertising secret. */
void kr_day_key(const struct kr_port *port, const uint8_t secret[KR_ADVERTISING], uint64_t day,
                uint8_t key[KR_ADVERTISING]);
/* NFC: the box is the card. */

#define KR_NFC_RESPONSE_MOST 258 /* bytes of a response */
#define KR_NFC_URL_MOST 200

struct kr_nfc {
    struct kr_buffer *buffer;
    struct kr_bytes url;
    uint16_t len;          /* of what has come of a message */
    uint16_t expected;     /* the most bytes of the next response */
    uint8_t link;
    uint8_t selected;
    bool restarted;        /* by the last command, a SELECT: the host ends the link, and begins another one */
};

/* A phone came into the field. `url` is the page of the box at this time, for phones without the app. It begins with
 * "https://", has at most KR_NFC_URL_MOST bytes, and stays where it is. Without bytes there is no page. */
void kr_nfc_init(struct kr_nfc *nfc, struct kr_buffer *buffer, unsigned link, struct kr_bytes url);
/* The link after a SELECT. */
void kr_nfc_begin(struct kr_nfc *nfc, unsigned link);
/* A command has come. The length of the response, 0 if a message is whole now: `message` of the buffer. The host then
 * writes a reply to the buffer, and calls kr_nfc_reply. */
size_t kr_nfc_receive(struct kr_nfc *nfc, struct kr_bytes apdu, uint64_t now, uint8_t response[KR_NFC_RESPONSE_MOST]);
/* The response with the beginning of the reply. */
size_t kr_nfc_reply(struct kr_nfc *nfc, size_t reply_len, uint8_t response[KR_NFC_RESPONSE_MOST]);
/* The phone left the field, was silent for 10 s, or lost its link to another phone. */
void kr_nfc_leave(struct kr_nfc *nfc);

/* A wire. */

enum kr_wire_event { KR_WIRE_NOTHING, KR_WIRE_NEW_LINK, KR_WIRE_MESSAGE };

#define KR_WIRE_CHECKSUM 4

struct kr_wire {
    struct kr_buffer *buffer;
    uint32_t crc;          /* of what has come of a message, without `tail` */
    uint32_t reply_crc;
    uint16_t len;          /* of what has come of a message, with its checksum */
    uint16_t sent;         /* bytes of the reply and its checksum */
    uint8_t tail[KR_WIRE_CHECKSUM]; /* the last bytes that came: the checksum, if the frame ends */
    uint8_t link;
    uint8_t state;
    uint8_t block;         /* the first byte of the block that comes, 0 before the first one */
    uint8_t left;          /* bytes of that block that have not come */
    uint8_t sent_block;    /* the same of the reply */
    uint8_t sent_left;
};

/* The wire has no link yet. */
void kr_wire_init(struct kr_wire *wire, struct kr_buffer *buffer);
/* The link after KR_WIRE_NEW_LINK. */
void kr_wire_begin(struct kr_wire *wire, unsigned link);
/* Takes bytes that have come, up to the next event. `received` is then what follows: the host calls again until nothing
 * happens. KR_WIRE_NEW_LINK: the host ends the link of the wire, and begins another one. KR_WIRE_MESSAGE: `message` of
 * the buffer is whole. The host then writes a reply to the buffer, and calls kr_wire_reply. */
enum kr_wire_event kr_wire_receive(struct kr_wire *wire, struct kr_bytes *received, uint64_t now);
void kr_wire_reply(struct kr_wire *wire, size_t reply_len);
/* The next bytes of the reply's frame, at most `size`. How many they are, 0 if there are none. */
size_t kr_wire_next(struct kr_wire *wire, size_t size, uint8_t *bytes);
/* The wire was unplugged, does not take its reply, or lost its link to another phone. */
void kr_wire_leave(struct kr_wire *wire);

#ifdef __cplusplus
}
#endif

#endif
