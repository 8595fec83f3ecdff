/* A key box: what firmware needs to open by keys without a network. Protocol and terms: docs/key-protocol.md.
 *
 * Nothing is allocated, and nothing is kept outside of the structs that the caller provides. Times are seconds since
 * 1970; ticks are seconds of a counter that goes on, and never back, while there is power. One task calls, one call
 * at a time. */
#ifndef KEYRACK_BOX_H
#define KEYRACK_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bounds of docs/key-protocol.md and docs/key-boxes.md. */
#define KR_WIRE_MOST 2048   /* bytes of a message on a link, in both directions */
#define KR_ENTRY_MOST 500   /* bytes of an entry of the log */
#define KR_LINKS 3
#define KR_NAME_MOST 40     /* of iss and aud */
#define KR_URI_MOST 128
#define KR_LIST_BITS 2048
#define KR_LISTS 2
#define KR_PHONES 64        /* whose counters are remembered */
#define KR_GOOD_KEYS 16     /* that opened last, and need not be verified again */
#define KR_LOG_PLACES 1024
#define KR_LOG_FOR_OPENINGS 256 /* of them, which only openings and closings take */
#define KR_STORE_PLACES (KR_LOG_PLACES + 1) /* of a store; the one too many is that of the next entry */

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

/* What the core needs of a crypto library: P-256 and SHA-256. `user` is handed back as it is. */
struct kr_port {
    void *user;
    /* SHA-256 of the pieces, one after the other. */
    void (*sha256)(void *user, const struct kr_bytes *pieces, size_t count, uint8_t digest[KR_DIGEST]);
    /* Whether this is a point of the curve: both coordinates are less than p, and fit its equation. */
    bool (*is_point)(void *user, const uint8_t point[KR_POINT]);
    /* Whether this ECDSA signature is valid: r and s are from 1 to n - 1. */
    bool (*verify)(void *user, const uint8_t point[KR_POINT], const uint8_t digest[KR_DIGEST],
                   const uint8_t signature[KR_SIGNATURE]);
    /* Signs with the box's private key, which only the port knows; best with a deterministic nonce (RFC 6979). s may be
     * high or low: the core makes that of entries low. */
    bool (*sign)(void *user, const uint8_t digest[KR_DIGEST], uint8_t signature[KR_SIGNATURE]);
    bool (*random)(void *user, uint8_t *bytes, size_t len);
};

/* Where the entries of the log lie: KR_STORE_PLACES of at most KR_ENTRY_MOST bytes; number % KR_STORE_PLACES is a good
 * place. An entry that `put` took must be there after a loss of power. A full log still has its oldest entry then where
 * `kept` was not written down: so the next entry must not lie in that one's place. */
struct kr_store {
    void *user;
    bool (*put)(void *user, uint64_t number, struct kr_bytes entry);
    /* Copies the entry to `entry`, which has room for KR_ENTRY_MOST bytes. */
    bool (*get)(void *user, uint64_t number, uint8_t *entry, size_t *len);
};

/* Why a box refuses; numbered as docs/key-protocol.md does ("Codes"). */
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

/* A status list; generation 0 where there is none. */
struct kr_list {
    uint64_t generation;
    uint64_t iat;
    uint8_t signer[KR_KID];    /* `kid` of the issuing key */
    uint8_t uri_len;
    uint8_t uri[KR_URI_MOST];
    uint8_t bits[KR_LIST_BITS / 8];
};

/* A phone whose counter is remembered. */
struct kr_phone {
    uint8_t thumbprint[KR_DIGEST];
    uint64_t counter;
};

/* What outlives a loss of power. The host writes it down where an outcome says so, before it moves the lock and sends
 * the reply, and hands it back to kr_box_start. */
struct kr_kept {
    struct kr_public_key self;
    uint8_t secret[KR_DIGEST]; /* of nonces */
    uint64_t boot;             /* how often it has started */

    bool provisioned;
    struct kr_text authority;  /* iss */
    struct kr_text name;       /* aud */
    struct kr_public_key root;
    struct kr_public_key issuing[2];
    uint8_t issuing_count;
    struct kr_public_key service[2];
    uint8_t service_count;
    uint64_t sequence;         /* of the key set or new root that came last */
    uint8_t advertising[KR_ADVERTISING]; /* secret of rotating names */
    struct kr_list lists[KR_LISTS]; /* the higher generation first */

    uint64_t floor;            /* the box's own time as it was written down last */
    bool certain;              /* that time */
    uint64_t ahead;            /* seconds that artefacts have moved the clock forward by since it was set */
    struct kr_phone phones[KR_PHONES]; /* the one that opened or closed last at the end */
    uint8_t phone_count;

    uint64_t first;            /* the lowest number of the log that is held; `next` where none is */
    uint64_t next;             /* the number of the next entry */
    uint8_t newest[KR_DIGEST]; /* SHA-256 of the entry before that; zeros before the first */
};

/* One link; all zero while it is free. */
struct kr_link {
    uint64_t connection;       /* how many-th since the start, 0 while the link is free */
    uint8_t tokens;            /* in its bucket */
    uint64_t since;            /* the tick up to which the bucket was filled */
    bool proven;               /* possession of a good key of this box, since the last hello */
    uint64_t proven_at;        /* the tick of that, 0 where it is not proven */
    bool has_nonce;
    uint64_t made;             /* the tick of the nonce */
    uint8_t nonce[KR_NONCE];
    uint8_t challenge[KR_DIGEST];
};

/* Tokens that the two buckets of a remembered phone have not got back yet: for an `open` with a remembered key, and for
 * one with another key. */
struct kr_spent {
    uint8_t remembered_key;
    uint8_t other_key;
};

struct kr_box {
    const struct kr_port *port;
    const struct kr_store *store;
    struct kr_kept kept;
    bool damaged;              /* `kept`: each message is refused until a reset */
    bool changed;              /* `kept`, since the message came */

    /* What is new with each start. */
    uint64_t tick;             /* the latest */
    uint64_t time;             /* of the clock at that tick */
    uint8_t tokens;            /* in the common bucket at that tick */
    struct kr_spent spent[KR_PHONES]; /* of the phone in this place, at that tick */
    uint64_t challenges;       /* so many were made */
    uint64_t connections;      /* so many have begun */
    struct kr_link links[KR_LINKS];
    uint8_t good[KR_GOOD_KEYS][KR_DIGEST]; /* SHA-256 of keys, the one that opened or closed last at the end */
    uint8_t good_count;
    uint64_t refused_count;    /* refused and not written, since the newest entry */
    uint8_t refused_code;      /* of the last one */
    uint64_t skipped_count;    /* other events that were not written, since the newest entry */
};

struct kr_outcome {
    enum kr_code code;     /* the exact one, which the wire does not always say */
    enum kr_effect effect; /* what the lock is to do */
    size_t reply_len;
    bool persist;          /* `kept` has changed, and has to be written down before the lock moves and the reply goes */
};

/* A reset by somebody at the open box: it has no authority from now on, and the key pair whose public key is `point`.
 * The port has the private one. False where the random source fails; the box then refuses each message. */
bool kr_box_reset(struct kr_box *box, const struct kr_port *port, const struct kr_store *store,
                  const uint8_t point[KR_POINT], uint64_t tick);

/* Power has come back. `kept`, which is not the box's own, is what was written down. `elapsed`: seconds since the floor
 * by a clock that went on, or KR_CLOCK_STOOD. The new `kept` has to be written down at once. False where `kept` is
 * damaged, as far as that can be seen; then it is as after kr_box_start_damaged. */
#define KR_CLOCK_STOOD UINT64_MAX
bool kr_box_start(struct kr_box *box, const struct kr_port *port, const struct kr_store *store,
                  const struct kr_kept *kept, uint64_t elapsed, uint64_t tick);

/* Power has come back, and what was written down cannot be read. The box refuses each message until a reset, and has
 * nothing to be written down. */
void kr_box_start_damaged(struct kr_box *box, const struct kr_port *port, const struct kr_store *store, uint64_t tick);

/* A connection begins. Its link, 0 to 2, which the host ends first where it has another connection there. */
unsigned kr_box_connect(struct kr_box *box, uint64_t tick);

/* A whole message has come on a link. `reply` has room for KR_WIRE_MOST bytes, elsewhere than the message. */
struct kr_outcome kr_box_receive(struct kr_box *box, unsigned link, struct kr_bytes message, uint64_t tick,
                                 uint8_t *reply);

/* Whether possession of a key is proven on this link, as of the last message. Transports keep such a link longer. */
bool kr_box_is_proven(const struct kr_box *box, unsigned link);

/* A link has gone: what was on it dies. */
void kr_box_disconnect(struct kr_box *box, unsigned link);

/* The floor of the clock is now. To be called at least every 15 minutes; then `kept` has to be written down. False where
 * `kept` is damaged, and must not be written. */
bool kr_box_write_down(struct kr_box *box, uint64_t tick);

#ifdef __cplusplus
}
#endif

#endif
