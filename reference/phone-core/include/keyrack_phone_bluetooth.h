/* The Bluetooth side of a phone: a message and its reply over one connection (docs/key-bluetooth.md, "What the phone
 * does").
 *
 * The app owns the radio. It connects, discovers the service, subscribes to `from-box` and reads `size`. It writes what
 * kr_phone_ble_next returns to `to-box`, and passes on what the radio reports. Nothing is allocated, and nothing is kept
 * outside of the struct that the app provides. `now` is in milliseconds of a counter of 64 bits that goes on, and never
 * back. One call at a time. */
#ifndef KEYRACK_PHONE_BLUETOOTH_H
#define KEYRACK_PHONE_BLUETOOTH_H

#include "keyrack_fragments.h" /* UUIDs, sizes, names, the reassembly of fragments */

#ifdef __cplusplus
extern "C" {
#endif

/* How much of a message the phone has sent. A fragment counts from the beginning of its write, because the box may have
 * it although no response came. */
enum kr_sent { KR_SENT_NONE, KR_SENT_PART, KR_SENT_ALL };

enum kr_exchange {
    KR_EXCHANGE_NONE,    /* there was no message on this connection yet */
    KR_EXCHANGE_RUNNING,
    KR_EXCHANGE_REPLY,   /* the reply is whole: `reply_len` bytes */
    KR_EXCHANGE_BUSY,    /* the box was busy for 10 s, and has ignored the message; the connection stays */
    KR_EXCHANGE_LOST     /* the app ends the connection; `sent` */
};

/* Members are private, except for those that are described as results. */
struct kr_phone_ble {
    struct kr_bytes message;
    uint8_t *reply;
    struct kr_reassembly reassembly;
    uint64_t busy_until;   /* the phone sends the message to a busy box until then */
    uint64_t silent_until; /* the end of the wait for a response or a fragment, or of the pause */
    uint64_t whole_until;  /* the end of the wait for the reply, since the first fragment */
    uint32_t random;
    uint16_t size;         /* the most bytes of a fragment; 0 without a connection */
    uint16_t fragments;    /* that were sent */
    uint16_t reply_len;    /* result */
    uint8_t exchange;      /* result: enum kr_exchange */
    uint8_t sent;          /* result: enum kr_sent; none if the box was busy */
    uint8_t step;
    bool is_writing;       /* a write has no response yet */
};

/* A connection begins. `size` is the value of that characteristic, and `random` any number, for the pauses before a
 * busy box. False if the value is invalid: the app ends the connection. */
bool kr_phone_ble_connect(struct kr_phone_ble *ble, struct kr_bytes size, uint32_t random);
/* Begins an exchange. The message stays where it is until the exchange is over. `reply` has room for KR_WIRE_MOST bytes,
 * and does not overlap the message. False for a message of 0 or more than KR_WIRE_MOST bytes, and within an exchange:
 * nothing has changed then. Without a connection, the exchange is lost at once. */
bool kr_phone_ble_send(struct kr_phone_ble *ble, struct kr_bytes message, uint8_t *reply, uint64_t now);
/* The next fragment to write, at most KR_FRAGMENT_MOST bytes. Its length, 0 if none is due. The app asks again after each
 * other call. */
size_t kr_phone_ble_next(struct kr_phone_ble *ble, uint64_t now, uint8_t *fragment);
/* The box has responded to the last write. Without responses: the system has room for another write. */
void kr_phone_ble_written(struct kr_phone_ble *ble, uint64_t now);
/* A notification of `from-box`. */
void kr_phone_ble_receive(struct kr_phone_ble *ble, struct kr_bytes fragment, uint64_t now);
/* The connection has ended, or a write has failed. */
void kr_phone_ble_lose(struct kr_phone_ble *ble);
/* How the exchange is going. The app calls it after each event of the radio, and each 100 ms. */
enum kr_exchange kr_phone_ble_tick(struct kr_phone_ble *ble, uint64_t now);

#ifdef __cplusplus
}
#endif

#endif
