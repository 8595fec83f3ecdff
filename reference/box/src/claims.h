/* Payloads: the closed map of each message (docs/key-protocol.md, "Members"). */
#ifndef KR_CLAIMS_H
#define KR_CLAIMS_H

#include "cose.h"

/* One or two encoded public keys. */
struct kr_keys {
    const uint8_t *encoded[2];
    uint8_t count;
};

/* The claims of all messages that a box reads. Members that a message does not have are not set. */
struct kr_claims {
    struct kr_bytes iss;
    struct kr_bytes sub;
    struct kr_bytes aud;
    uint64_t exp;
    uint64_t nbf;
    uint64_t iat;
    const uint8_t *cti;           /* KR_CTI bytes */
    const uint8_t *cnf;           /* an encoded public key, as `root` and `keys` */
    const uint8_t *nonce;         /* KR_NONCE bytes */
    struct kr_bytes lst;
    uint64_t index;               /* of status */
    struct kr_bytes uri;          /* of status */
    unsigned rights;              /* bit 1 for open, bit 2 for close, bit 3 for an uncertain clock */
    uint64_t limit;
    uint64_t command;
    uint64_t counter;
    const uint8_t *key;           /* KR_DIGEST bytes, as all SHA-256 here */
    const uint8_t *challenge;
    uint64_t sequence;
    struct kr_keys keys;
    struct kr_keys service_keys;
    uint64_t generation;
    uint64_t upto;
    const uint8_t *upto_digest;
    const uint8_t *root;
    const uint8_t *box;           /* a thumbprint */
    const uint8_t *advertising;   /* KR_ADVERTISING bytes */
    const uint8_t *list;
    const uint8_t *keyset;
};

/* The keys of members. Registered ones are of CWT; 65533 to 65535 are requested by draft-ietf-oauth-status-list-21. */
enum {
    KR_M_ISS = 1, KR_M_SUB = 2, KR_M_AUD = 3, KR_M_EXP = 4, KR_M_NBF = 5, KR_M_IAT = 6, KR_M_CTI = 7, KR_M_CNF = 8,
    KR_M_NONCE = 10, KR_M_STATUS_LIST = 65533, KR_M_TTL = 65534, KR_M_STATUS = 65535, KR_M_ASSIGNMENT = -65537,
    KR_M_RIGHTS = -65538, KR_M_LIMIT = -65539, KR_M_COMMAND = -65540, KR_M_COUNTER = -65541, KR_M_KEY = -65542,
    KR_M_CHALLENGE = -65543, KR_M_SEQUENCE = -65544, KR_M_KEYS = -65545, KR_M_GENERATION = -65546, KR_M_UPTO = -65547,
    KR_M_ROOT = -65548, KR_M_BOX = -65549, KR_M_NUMBER = -65550, KR_M_PREVIOUS = -65551, KR_M_FIRST = -65552,
    KR_M_EVENT = -65553, KR_M_CODE = -65554, KR_M_CERTAIN = -65555, KR_M_DEVICE = -65556, KR_M_HELD = -65557,
    KR_M_REFUSED = -65558, KR_M_ADVERTISING = -65559, KR_M_LIST = -65560, KR_M_KEYSET = -65561,
    KR_M_SERVICE_KEYS = -65562, KR_M_SKIPPED = -65563, KR_M_ROOT_KID = -65564
};

/* Ignored members, which every payload may have: labels from -66048 to -66303, here as the arguments of their heads.
 * Their encodings come last. */
#define KR_SKIPPED_LEAST 66047u
#define KR_SKIPPED_MOST 66302u

/* Commands, and the rights to them. */
enum { KR_OPEN = 1, KR_CLOSE = 2, KR_WHILE_UNCERTAIN = 3 };

#define KR_CTI 16

/* Step 5 of "Reading a signed message". */
enum kr_code kr_read_claims(const struct kr_port *port, struct kr_bytes payload, enum kr_message kind,
                            struct kr_claims *claims);

/* All of "Reading a signed message". */
enum kr_code kr_read(const struct kr_port *port, struct kr_bytes bytes, enum kr_message kind,
                     struct kr_signed *message, struct kr_claims *claims);

#endif
