/* In charge of payloads: the closed map of each message (docs/keys.md, "Members"). */
#ifndef KR_CLAIMS_H
#define KR_CLAIMS_H

#include "cose.h"

/* What a box reads, of all messages together; the members of the others are not set. */
struct kr_claims {
    struct kr_bytes iss;
    struct kr_bytes sub;
    struct kr_bytes aud;
    uint64_t exp;
    uint64_t nbf;
    uint64_t iat;
    struct kr_bytes cti;
    struct kr_bytes cnf;          /* an encoded public key, as `root` and `keys` */
    struct kr_bytes nonce;
    struct kr_bytes lst;
    uint64_t index;               /* of status */
    struct kr_bytes uri;          /* of status */
    unsigned rights;              /* bit 1 for open, bit 2 for close, bit 3 for an uncertain clock */
    uint64_t limit;
    uint64_t command;
    uint64_t counter;
    struct kr_bytes key;
    struct kr_bytes challenge;
    uint64_t sequence;
    struct kr_bytes keys[2];
    size_t key_count;
    uint64_t generation;
    uint64_t upto;
    struct kr_bytes upto_digest;
    struct kr_bytes root;
    struct kr_bytes box;
};

/* The keys of members. Registered ones are of CWT; 65533 to 65535 are requested by draft-ietf-oauth-status-list-21. */
enum {
    KR_M_ISS = 1, KR_M_SUB = 2, KR_M_AUD = 3, KR_M_EXP = 4, KR_M_NBF = 5, KR_M_IAT = 6, KR_M_CTI = 7, KR_M_CNF = 8,
    KR_M_NONCE = 10, KR_M_STATUS_LIST = 65533, KR_M_TTL = 65534, KR_M_STATUS = 65535, KR_M_ASSIGNMENT = -65537,
    KR_M_RIGHTS = -65538, KR_M_LIMIT = -65539, KR_M_COMMAND = -65540, KR_M_COUNTER = -65541, KR_M_KEY = -65542,
    KR_M_CHALLENGE = -65543, KR_M_SEQUENCE = -65544, KR_M_KEYS = -65545, KR_M_GENERATION = -65546, KR_M_UPTO = -65547,
    KR_M_ROOT = -65548, KR_M_BOX = -65549, KR_M_NUMBER = -65550, KR_M_PREVIOUS = -65551, KR_M_FIRST = -65552,
    KR_M_EVENT = -65553, KR_M_CODE = -65554, KR_M_CERTAIN = -65555, KR_M_DEVICE = -65556, KR_M_HELD = -65557,
    KR_M_REFUSED = -65558
};

/* Commands, and the rights to them. */
enum { KR_OPEN = 1, KR_CLOSE = 2, KR_WHILE_UNCERTAIN = 3 };

#define KR_CTI 16

/* Step 5 of "Reading a signed message". */
enum kr_code kr_read_claims(struct kr_bytes payload, enum kr_message kind, struct kr_claims *claims);

/* All of "Reading a signed message". */
enum kr_code kr_read(struct kr_bytes bytes, enum kr_message kind, struct kr_signed *message, struct kr_claims *claims);

#endif
