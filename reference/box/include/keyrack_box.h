/* A key box: the part of the firmware that opens by offline keys. Protocol and terms: docs/key-protocol.md.
 *
 * The library allocates no memory, and keeps all state in structs of the caller. Times are seconds since 1970. Ticks
 * are seconds of a counter that never goes back while there is power. The functions are not reentrant: make one call
 * at a time. */
#ifndef KEYRACK_BOX_H
#define KEYRACK_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of docs/key-protocol.md and docs/key-boxes.md. */
#define KR_WIRE_MOST 2048   /* maximum bytes of a message on a link, in both directions */
#define KR_ENTRY_MOST 500   /* maximum bytes of an entry of the log */
#define KR_LINKS 3
#define KR_NAME_MOST 40     /* maximum characters of iss and aud */
#define KR_URI_MOST 128
#define KR_LIST_BITS 2048
#define KR_LISTS 2
#define KR_PHONES 64        /* phones whose counters the box remembers */
#define KR_GOOD_KEYS 16     /* the keys that opened last, which need no new verification */
#define KR_LOG_PLACES 1024
#define KR_LOG_FOR_OPENINGS 256 /* places of the log that only openings and closings use */
#define KR_STORE_PLACES (KR_LOG_PLACES + 1) /* of a store; the additional place is for the next entry */

#define KR_DIGEST 32
#define KR_POINT 64         /* x and y of a public key */
#define KR_SIGNATURE 64     /* r and s */
#define KR_NONCE 16
#define KR_KID 8            /* the first bytes of a thumbprint */
#define KR_ADVERTISING 16

struct kr_bytes {
    const uint8_t *at;
    size_t len;
};

/* The functions of a crypto library that the core needs: P-256 and SHA-256. `user` is passed to each of them
 * unchanged. */
struct kr_port {
    void *user;
    /* SHA-256 of the concatenated parts. */
    void (*sha256)(void *user, const struct kr_bytes *pieces, size_t count, uint8_t digest[KR_DIGEST]);
    /* Whether this is a point of the curve: both coordinates are less than p, and satisfy its equation. */
    bool (*is_point)(void *user, const uint8_t point[KR_POINT]);
    /* Whether this ECDSA signature is valid: r and s are from 1 to n - 1. */
    bool (*verify)(void *user, const uint8_t point[KR_POINT], const uint8_t digest[KR_DIGEST],
                   const uint8_t signature[KR_SIGNATURE]);
    /* Signs with the box's private key, which only the port knows, preferably with a deterministic nonce (RFC 6979).
     * s may be high or low: the core makes it low for entries. */
    bool (*sign)(void *user, const uint8_t digest[KR_DIGEST], uint8_t signature[KR_SIGNATURE]);
    bool (*random)(void *user, uint8_t *bytes, size_t len);
};

/* The storage of log entries: KR_STORE_PLACES places of KR_ENTRY_MOST bytes; number % KR_STORE_PLACES is a suitable
 * place. An entry must survive a power loss once `put` returns true. If power is lost before `kept` is saved, a full
 * log still has its oldest entry, so the next entry must not overwrite its place. */
struct kr_store {
    void *user;
    bool (*put)(void *user, uint64_t number, struct kr_bytes entry);
    /* Copies the entry to `entry`, which has room for KR_ENTRY_MOST bytes. */
    bool (*get)(void *user, uint64_t number, uint8_t *entry, size_t *len);
};

/* Reasons of rejections, with the numbers of docs/key-protocol.md ("Codes"). */
enum kr_code {
    KR_GOOD, KR_CODE_REFUSED, KR_CODE_TOO_LONG, KR_CODE_ENCODING, KR_CODE_STRUCTURE, KR_CODE_HEADER, KR_CODE_ALGORITHM,
    KR_CODE_TYP, KR_CODE_CLAIMS, KR_CODE_ISSUING_KEY, KR_CODE_ISSUER, KR_CODE_AUDIENCE, KR_CODE_FUTURE, KR_CODE_NOT_YET,
    KR_CODE_EXPIRED, KR_CODE_UNCERTAIN, KR_CODE_LIST, KR_CODE_INDEX, KR_CODE_REVOKED, KR_CODE_STALE, KR_CODE_RIGHT,
    KR_CODE_NONCE, KR_CODE_OTHER_KEY, KR_CODE_CHALLENGE, KR_CODE_COUNTER, KR_CODE_KEY_SIGNATURE,
    KR_CODE_ANSWER_SIGNATURE, KR_CODE_BUSY, KR_CODE_OLDER, KR_CODE_INFLATE, KR_CODE_RECEIPT, KR_CODE_SIGNATURE,
    KR_CODE_NOT_NOW, KR_CODE_BOX, KR_CODE_UNKNOWN, KR_CODE_GENERATION, KR_CODE_OTHER_PART
};

enum kr_effect { KR_STAYS, KR_OPENS, KR_CLOSES };

struct kr_text {
    uint8_t len;
    uint8_t at[KR_NAME_MOST];
};

struct kr_public_key {
    uint8_t point[KR_POINT];
    uint8_t thumbprint[KR_DIGEST]; /* its first KR_KID bytes are the `kid` */
};

/* A status list; generation 0 if there is none. */
struct kr_list {
    uint64_t generation;
    uint64_t iat;
    uint8_t signer[KR_KID];    /* `kid` of the issuing key */
    uint8_t uri_len;
    uint8_t uri[KR_URI_MOST];
    uint8_t bits[KR_LIST_BITS / 8];
};

/* A phone whose counter the box remembers. */
struct kr_phone {
    uint8_t thumbprint[KR_DIGEST];
    uint64_t counter;
};

/* The persistent state. If an outcome has `persist`, the host saves it before it moves the lock and sends the reply.
 * After a power loss, the host passes it to kr_box_start. */
struct kr_kept {
    struct kr_public_key self;
    uint8_t secret[KR_DIGEST]; /* for nonces */
    uint64_t boot;             /* number of starts */

    bool provisioned;
    struct kr_text authority;  /* iss */
    struct kr_text name;       /* aud */
    struct kr_public_key root;
    struct kr_public_key issuing[2];
    uint8_t issuing_count;
    struct kr_public_key service[2];
    uint8_t service_count;
    uint64_t sequence;         /* of the last accepted key set or new root */
    uint8_t advertising[KR_ADVERTISING]; /* secret of the names that the box advertises */
    struct kr_list lists[KR_LISTS]; /* the higher generation first */

    uint64_t floor;            /* the last saved time of the clock */
    bool certain;              /* whether that time is certain */
    uint64_t ahead;            /* seconds by which artefacts moved the clock forward since it was set */
    struct kr_phone phones[KR_PHONES]; /* ordered by last use, the newest at the end */
    uint8_t phone_count;

    uint64_t first;            /* the lowest number in the log; `next` if the log is empty */
    uint64_t next;             /* the number of the next entry */
    uint8_t newest[KR_DIGEST]; /* SHA-256 of the newest entry; zeros before the first one */
};

/* A link; all zero while it is free. */
struct kr_link {
    uint64_t connection;       /* its number since the start, 0 while the link is free */
    uint8_t tokens;            /* in its bucket */
    uint64_t since;            /* the tick at which the bucket was filled last */
    bool proven;               /* whether the phone proved a valid key of this box since the last hello */
    uint64_t proven_at;        /* the tick of that proof, 0 without one */
    bool has_nonce;
    uint64_t made;             /* the tick of the nonce */
    uint8_t nonce[KR_NONCE];
    uint8_t challenge[KR_DIGEST];
};

/* Spent tokens of the two buckets of a remembered phone: for an `open` with a remembered key, and with another key. */
struct kr_spent {
    uint8_t remembered_key;
    uint8_t other_key;
};

struct kr_box {
    const struct kr_port *port;
    const struct kr_store *store;
    struct kr_kept kept;
    bool damaged;              /* whether `kept` is damaged: the box rejects each message until a reset */
    bool changed;              /* whether this message changed `kept` */

    /* The volatile state, which is empty after each start. */
    uint64_t tick;             /* the last one */
    uint64_t time;             /* of the clock at that tick */
    uint8_t tokens;            /* in the common bucket at that tick */
    struct kr_spent spent[KR_PHONES]; /* by the place of the phone, at that tick */
    uint64_t challenges;       /* number of challenges made */
    uint64_t connections;      /* number of connections begun */
    struct kr_link links[KR_LINKS];
    uint8_t good[KR_GOOD_KEYS][KR_DIGEST]; /* SHA-256 of keys, ordered by last use, the newest at the end */
    uint8_t good_count;
    uint64_t refused_count;    /* rejections since the newest entry that were not logged */
    uint8_t refused_code;      /* of the last one */
    uint64_t skipped_count;    /* other events since the newest entry that were not logged */
};

struct kr_outcome {
    enum kr_code code;     /* the exact code, which the reply does not always have */
    enum kr_effect effect; /* the required action of the lock */
    size_t reply_len;
    bool persist;          /* `kept` has changed: save it before moving the lock and sending the reply */
};

/* Resets the box, by a person at the open box: it loses its authority, and gets the key pair with the public key
 * `point`. The port has the private key. False if the random source fails; the box then rejects each message. */
bool kr_box_reset(struct kr_box *box, const struct kr_port *port, const struct kr_store *store,
                  const uint8_t point[KR_POINT], uint64_t tick);

/* Starts the box after a power loss. `kept` is the saved state, in memory outside of the box. `elapsed` are the seconds
 * since the floor by a clock that kept running, or KR_CLOCK_STOOD. Save the new `kept` at once. False if `kept` is
 * noticeably damaged; the result is then that of kr_box_start_damaged. */
#define KR_CLOCK_STOOD UINT64_MAX
bool kr_box_start(struct kr_box *box, const struct kr_port *port, const struct kr_store *store,
                  const struct kr_kept *kept, uint64_t elapsed, uint64_t tick);

/* Starts the box after a power loss, if the saved state cannot be read. The box rejects each message until a reset.
 * Save nothing meanwhile. */
void kr_box_start_damaged(struct kr_box *box, const struct kr_port *port, const struct kr_store *store, uint64_t tick);

/* Begins a connection, and returns its link, 0 to 2. If the link has another connection, the host ends that one
 * first. */
unsigned kr_box_connect(struct kr_box *box, uint64_t tick);

/* Handles a whole message of a link. `reply` has room for KR_WIRE_MOST bytes, and does not overlap the message. */
struct kr_outcome kr_box_receive(struct kr_box *box, unsigned link, struct kr_bytes message, uint64_t tick,
                                 uint8_t *reply);

/* Whether possession of a key is proven on this link, as of the last message. Transports keep such a link longer. */
bool kr_box_is_proven(const struct kr_box *box, unsigned link);

/* Ends a link, with its nonce and its proof. */
void kr_box_disconnect(struct kr_box *box, unsigned link);

/* Sets the floor of the clock to now. Call it at least every 15 minutes, and save `kept` afterwards. False if `kept` is
 * damaged, and must not be saved. */
bool kr_box_write_down(struct kr_box *box, uint64_t tick);

#ifdef __cplusplus
}
#endif

#endif
