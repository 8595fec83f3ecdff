/* Signed messages: COSE_Sign1 in the only form that docs/key-protocol.md, "Signed messages", allows. */
#ifndef KR_COSE_H
#define KR_COSE_H

#include "cbor.h"

enum kr_message {
    KR_KEY, KR_ANSWER, KR_STATUS_LIST, KR_KEY_SET, KR_NEW_ROOT, KR_TIME, KR_RECEIPT, KR_PROVISIONING, KR_ENROLMENT,
    KR_ENTRY,
    KR_MESSAGES /* their number */
};

/* A parsed message; its parts point into the received bytes. */
struct kr_signed {
    struct kr_bytes whole;
    struct kr_bytes protected_header;
    struct kr_bytes payload;
    const uint8_t *kid;
    const uint8_t *signature;
    struct kr_bytes typ;
};

bool kr_equal(const uint8_t *a, const uint8_t *b, size_t len);
bool kr_same(struct kr_bytes a, struct kr_bytes b);
void kr_sha256(const struct kr_port *port, struct kr_bytes bytes, uint8_t digest[KR_DIGEST]);

/* The maximum bytes of such a message. */
size_t kr_most(enum kr_message message);
bool kr_is_typ(struct kr_bytes typ, enum kr_message message);

/* Steps 2 to 4 of "Reading a signed message", without which typ is expected. */
enum kr_code kr_read_signed(struct kr_bytes bytes, struct kr_signed *message);

/* kr_is_by: whether the message names this key as its signer. kr_verify: whether this key signed it. */
bool kr_is_by(const struct kr_signed *message, const struct kr_public_key *key);
bool kr_verify(const struct kr_port *port, const struct kr_signed *message, const struct kr_public_key *key);

/* Writes a message with this payload, signed by the box; entries have a low s. False if the port does not sign, or
 * the room is too small. */
bool kr_write_signed(const struct kr_port *port, const struct kr_public_key *self, enum kr_message kind,
                     struct kr_bytes payload, struct kr_writer *out);

/* Public keys, in their only encoding. `encoded` points to KR_PUBLIC_KEY bytes. */
#define KR_PUBLIC_KEY 75
/* False if it is another item, or not a point of the curve. */
bool kr_read_public_key(const struct kr_port *port, struct kr_cursor *in, const uint8_t **encoded);
void kr_public_key(const struct kr_port *port, const uint8_t *encoded, struct kr_public_key *key);
void kr_write_public_key(struct kr_writer *out, const uint8_t point[KR_POINT]);

#endif
