/* What both sides of Bluetooth need, as in docs/key-bluetooth.md: fragments, and names that a box advertises. A box uses
 * them by keyrack_transports.h, a phone as they are. */
#ifndef KEYRACK_FRAGMENTS_H
#define KEYRACK_FRAGMENTS_H

#include "keyrack_box.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KR_FRAGMENT_LEAST 20 /* bytes of a fragment at the smallest ATT_MTU, 23 */
#define KR_FRAGMENT_MOST 512 /* the longest value of an attribute */

/* The UUIDs of the service and its characteristics, little-endian, as initializers. */
#define KR_BLE_UUID(number)                                                                                            \
    {0x56, 0xaf, 0x3c, 0xe4, 0x65, 0x1d, 0x9a, 0x82, 0xec, 0x4f, 0xb0, 0xec, (number) & 0xff, (number) >> 8, 0x5a, 0x6e}
#define KR_BLE_SERVICE KR_BLE_UUID(1)
#define KR_BLE_TO_BOX KR_BLE_UUID(2)
#define KR_BLE_FROM_BOX KR_BLE_UUID(3)
#define KR_BLE_SIZE KR_BLE_UUID(4)

enum { KR_COMMAND_KEEP_ALIVE = 0x82, KR_COMMAND_MESSAGE = 0x83, KR_COMMAND_ERROR = 0xbf };

/* A command whose fragments have all come; `command` is 0 where none has. */
struct kr_whole {
    uint8_t command;
    uint16_t len;
};

/* Why a receiver rejects a fragment. */
enum kr_fragment_error {
    KR_FRAGMENT_GOOD = 0, KR_FRAGMENT_COMMAND = 1, KR_FRAGMENT_LENGTH = 3, KR_FRAGMENT_SEQUENCE = 4,
    KR_FRAGMENT_TIMEOUT = 5, KR_FRAGMENT_BUSY = 6, KR_FRAGMENT_OTHER = 0x7f
};

/* One direction of a link; all zero while no message has begun. */
struct kr_reassembly {
    uint64_t began;        /* the time of the first fragment */
    uint64_t last;         /* that of the last one */
    uint16_t length;       /* of the message */
    uint16_t len;          /* of what has come */
    uint8_t command;
    uint8_t sequence;      /* of the next continuation */
};

/* Whether the rest of a message has not come in time. */
bool kr_is_late(const struct kr_reassembly *reassembly, uint64_t now);
/* Takes a fragment. Its data go to `data`, which has room for KR_WIRE_MOST bytes. `from_box`: whether a box sends, with
 * keep-alives and errors. After an error nothing of the message is kept. */
enum kr_fragment_error kr_accept_fragment(struct kr_reassembly *reassembly, bool from_box, struct kr_bytes fragment,
                                          uint64_t now, uint8_t *data, struct kr_whole *whole);
/* Writes the fragment with this number of a message, for fragments of `size` bytes. Its length, 0 after the last one. */
size_t kr_split(struct kr_bytes message, unsigned number, size_t size, uint8_t *fragment);

#define KR_ADVERTISED_NAME 8

/* The name in a slot, by the key of its day. */
void kr_slot_name(const struct kr_port *port, const uint8_t key[KR_ADVERTISING], uint64_t slot,
             uint8_t name[KR_ADVERTISED_NAME]);

#ifdef __cplusplus
}
#endif

#endif
