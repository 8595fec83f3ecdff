/* A phone: the part of an app that opens key boxes by offline keys. Protocol and terms: docs/key-protocol.md.
 *
 * The library allocates no memory, and has no clock, input or output. All state is in structs and arrays of the
 * caller. Times are milliseconds since 1970 unless stated otherwise. The functions are not reentrant: make one call at
 * a time. */
#ifndef KEYRACK_PHONE_H
#define KEYRACK_PHONE_H

#include "keyrack_box.h" /* limits, codes, the port */

#ifdef __cplusplus
extern "C" {
#endif

/* Maximum bytes of each message that a phone keeps. */
#define KR_KEY_MOST 640
#define KR_KEY_SET_MOST 640
#define KR_ROOT_MOST 400
#define KR_LIST_MOST 768
#define KR_RECEIPT_MOST 300
#define KR_REGISTRATION_MOST 500
#define KR_ENTRIES_OF_BOX 1100 /* maximum kept entries of one box, whose log has 1,024 */

/* What a phone keeps. The messages are as received, except for entries, whose s is low. */
struct kr_held_key_set {
    uint64_t sequence; /* 0 for none */
    uint16_t len;
    uint8_t message[KR_KEY_SET_MOST];
};

struct kr_held_root {
    uint64_t sequence;
    uint8_t signer[KR_KID]; /* of the previous root */
    uint8_t kid[KR_KID];
    uint16_t len;
    uint8_t message[KR_ROOT_MOST];
};

struct kr_held_key {
    struct kr_text box;
    uint32_t assignment;
    uint64_t begins;      /* seconds, as `expires` */
    uint64_t expires;
    uint64_t renew_after;
    uint16_t len;
    uint8_t message[KR_KEY_MOST];
};

struct kr_held_box {
    struct kr_text name;
    bool has_key;         /* false if the server is older and did not send it */
    struct kr_public_key key;
};

struct kr_held_list {
    struct kr_text box;
    uint64_t generation;
    uint64_t iat; /* seconds */
    uint16_t len;
    uint8_t message[KR_LIST_MOST];
};

struct kr_held_receipt {
    struct kr_text box;
    uint64_t number; /* the last one of the log that the server has */
    uint64_t iat;    /* seconds */
    uint16_t len;
    uint8_t message[KR_RECEIPT_MOST];
};

struct kr_held_entry {
    struct kr_text box;
    uint64_t number;
    uint16_t len;
    uint8_t message[KR_ENTRY_MOST];
};

/* Arrays of the caller, and the number of their places. */
struct kr_phone_memory {
    struct kr_held_root *roots;
    size_t root_room;
    struct kr_held_key *keys;
    size_t key_room;
    struct kr_held_box *boxes;
    size_t box_room;
    struct kr_held_list *lists;
    size_t list_room;
    struct kr_held_receipt *receipts;
    size_t receipt_room;
    struct kr_held_entry *entries;
    size_t entry_room;
};

struct kr_phone_state {
    const struct kr_port *port; /* `sign` uses the phone's private key; `random` is not called */
    struct kr_public_key self;
    struct kr_phone_memory memory;
    struct kr_held_key_set key_set;
    size_t root_count; /* in the order of their sequences */
    size_t key_count;
    size_t box_count;
    size_t list_count;
    size_t receipt_count;
    size_t entry_count;
    uint64_t counter;    /* the last one used */
    uint64_t met_server; /* time of the last contact, 0 for never */
};

/* The messages of GET /sdk/keys. `len` is 0 for a member that is null. */
struct kr_answered_key {
    struct kr_bytes message;
    uint32_t assignment;
    uint64_t renew_after;
};

struct kr_answered_box {
    struct kr_bytes name;
    struct kr_bytes key; /* `boxKey` */
    const struct kr_bytes *lists;
    size_t list_count;
    struct kr_bytes receipt;
};

struct kr_keys_answer {
    struct kr_bytes key_set;
    const struct kr_bytes *roots;
    size_t root_count;
    const struct kr_answered_key *keys;
    size_t key_count;
    const struct kr_answered_box *boxes;
    size_t box_count;
};

/* A challenge of a box. It is not signed, and proves nothing. */
struct kr_challenge {
    struct kr_text name;
    uint8_t nonce[KR_NONCE];
    uint64_t time; /* seconds */
    bool is_certain;
    uint64_t sequence;
    uint64_t generation;
    uint64_t list_iat;
    uint64_t first;
    uint64_t next;
    bool has_root;
    uint8_t root[KR_KID];
    uint8_t digest[KR_DIGEST]; /* SHA-256 of the message */
};

/* The remedy that the app shows. */
enum kr_action { KR_NO_ACTION, KR_AGAIN, KR_WAIT, KR_ONLINE, KR_ASK, KR_LOOK, KR_UPDATE };

/* The remedy for a code that a box sent, also for a number that is unknown. */
enum kr_action kr_action(uint64_t code);

/* state.c: the state and its queries. */

/* An empty state of a phone with this public key. To continue after a start of the app, pass the stored answer to
 * kr_phone_take_keys, the stored receipts and entries to kr_phone_bring_home and kr_phone_keep_entry, and set `counter`
 * and `met_server`. */
void kr_phone_begin(struct kr_phone_state *phone, const struct kr_port *port, const uint8_t point[KR_POINT],
                    const struct kr_phone_memory *memory);
/* The key in this place for a box, or NULL. The best key has place 0: valid ones, then those that expire last. */
const struct kr_held_key *kr_phone_key(const struct kr_phone_state *phone, struct kr_bytes box, size_t place,
                                       uint64_t now);
/* The box, if the phone has a list of it, or NULL. */
const struct kr_held_box *kr_phone_box(const struct kr_phone_state *phone, struct kr_bytes name);
/* Whether the app must warn its user: the server has a newer key, but the phone has not asked for it. */
bool kr_phone_is_overdue(const struct kr_phone_state *phone, const struct kr_held_key *key, uint64_t now);
/* A counter higher than all earlier ones. Save it before the message is sent. */
uint64_t kr_phone_next_counter(struct kr_phone_state *phone, uint64_t now);

/* answer.c */

/* Takes an answer of GET /sdk/keys. KR_GOOD, or the code of its first fault; then the state is unchanged.
 * KR_CODE_OTHER_KEY is the key of another phone. KR_CODE_TOO_LONG also means that the memory is too small. */
enum kr_code kr_phone_take_keys(struct kr_phone_state *phone, const struct kr_keys_answer *answer, uint64_t now);
/* A contact with the server, which had nothing newer. */
void kr_phone_have_met(struct kr_phone_state *phone, uint64_t now);

/* uploads.c */

/* Removes the entries that were uploaded by PUT /sdk/boxlog, and takes the receipts. `entries` may point
 * into the memory of the phone. KR_GOOD, or the code of an invalid receipt; then the state is unchanged. */
enum kr_code kr_phone_bring_home(struct kr_phone_state *phone, const struct kr_bytes *entries, size_t entry_count,
                                 const struct kr_bytes *receipts, size_t receipt_count);
/* The message of PUT /sdk/devices, in KR_REGISTRATION_MOST bytes. 0 if `subject` is invalid, or the port does not
 * sign. */
size_t kr_phone_registration(const struct kr_phone_state *phone, struct kr_bytes subject, const uint8_t nonce[KR_NONCE],
                             uint8_t *message);

/* bring.c: what a box lacks, one artefact for each place, in the order to send. False after the last one. */
bool kr_phone_authority(const struct kr_phone_state *phone, const struct kr_challenge *challenge, size_t place,
                        struct kr_bytes *artefact);
bool kr_phone_artefact(const struct kr_phone_state *phone, const struct kr_challenge *challenge, size_t place,
                       struct kr_bytes *artefact);
/* Whether the box's clock needs no signed time. */
bool kr_is_clock_right(const struct kr_challenge *challenge, uint64_t now);

/* entries.c: entries of boxes, which the phone uploads. */

/* Keeps an entry that the app has stored before. KR_GOOD, also if the phone has it already or has no room. */
enum kr_code kr_phone_keep_entry(struct kr_phone_state *phone, struct kr_bytes entry);
/* The lowest number from `first` on that neither the phone nor, as far as it knows, the server has. */
uint64_t kr_phone_first_missing(const struct kr_phone_state *phone, struct kr_bytes box, uint64_t first);

/* conversation.c: a visit to a box. */

enum kr_what { KR_SEND, KR_ASK_TIME, KR_END };
enum kr_end {
    KR_END_DONE,     /* the box has opened or closed, or its log is fetched */
    KR_END_NO_KEY,   /* the phone has no key for this box */
    KR_END_REFUSED,  /* the box has rejected the command; `code` */
    KR_END_UNKNOWN,  /* the box may have opened, or not */
    KR_END_LOST,     /* the connection was lost before the command */
    KR_END_VERSION,  /* the app or the box is too old */
    KR_END_INVALID,  /* the box sent an invalid message; `code` */
    KR_END_UNSIGNED, /* the port did not sign; nothing was sent */
    KR_END_OTHER_BOX /* this is the box of another car */
};

/* What the app does next. */
struct kr_next {
    enum kr_what what;
    struct kr_bytes message; /* KR_SEND: to send, in the conversation */
    bool save;               /* counter or entries have changed: save them before sending */
    enum kr_end end;         /* KR_END */
    uint64_t code;
    enum kr_action action;
};

/* A conversation over one link; its members are private, except for those that are described as results. */
struct kr_conversation {
    struct kr_phone_state *phone;
    uint64_t command;
    bool has_network;
    bool is_greeted;         /* `challenge` is of this visit */
    uint8_t stage;
    uint8_t waits;
    uint8_t attempt;         /* keys tried */
    size_t place;            /* artefacts brought in this stage */
    uint64_t refusal;        /* of the first key; 0 for none */
    uint64_t chosen_at;
    uint64_t from;           /* of the last fetch */
    uint16_t fetches;
    struct kr_text box;      /* result: the box of the command */
    uint64_t counter;        /* result: of the last command */
    uint32_t assignment;     /* result: of the key that was used last */
    uint32_t product;        /* of the wanted box, 0 for any */
    struct kr_challenge challenge; /* result: the last one, for POST /sdk/time after KR_ASK_TIME */
    uint8_t out[KR_WIRE_MOST];
};

#define KR_OPEN_BOX 1
#define KR_CLOSE_BOX 2

/* Begins a visit: brings what the box lacks, then opens or closes it. */
struct kr_next kr_conversation_begin(struct kr_conversation *conversation, struct kr_phone_state *phone,
                                     uint64_t command, bool has_network);
/* The box that the user wants, by its product id, directly after kr_conversation_begin. Without it, a key opens whatever
 * box a device says it is. */
void kr_conversation_want(struct kr_conversation *conversation, uint32_t product);
/* The reply to the message that was sent last. */
struct kr_next kr_conversation_receive(struct kr_conversation *conversation, struct kr_bytes reply, uint64_t now);
/* After KR_ASK_TIME: the message of POST /sdk/time, or no bytes if there is none. */
struct kr_next kr_conversation_time(struct kr_conversation *conversation, struct kr_bytes time, uint64_t now);
/* The connection is lost. `whole`: the whole message was sent, or it is unknown how much. */
struct kr_next kr_conversation_lost(struct kr_conversation *conversation, bool whole);
/* Fetches the log after a command that proved a key, on the same link. */
struct kr_next kr_conversation_fetch(struct kr_conversation *conversation);
/* After KR_END_UNKNOWN: whether the command had no effect, by a later challenge of the box. */
bool kr_conversation_has_done_nothing(const struct kr_conversation *conversation, const struct kr_challenge *later);

/* link.c */

/* A hello with the versions of this program; returns its length, at most 16. */
size_t kr_write_hello(uint8_t *message);
/* Reads a challenge: KR_GOOD, KR_CODE_TOO_LONG, KR_CODE_ENCODING or KR_CODE_STRUCTURE. */
enum kr_code kr_read_challenge(const struct kr_port *port, struct kr_bytes message, struct kr_challenge *challenge);

/* signature.c */

/* r and s, from the DER form of the Keystore and the Secure Enclave. False for other bytes. */
bool kr_signature_from_der(struct kr_bytes der, uint8_t signature[KR_SIGNATURE]);

#ifdef __cplusplus
}
#endif

#endif
