/* Signed messages: COSE_Sign1 in the only form that docs/key-protocol.md, "Signed messages", allows. */
#include <string.h>

#include "cose.h"

#define SIGN1 0xd2 /* tag 18 */
#define ALG 1
#define KID 4
#define TYP 16
#define ES256 (-7)

/* The maximum length and the typ of each message: the last table of "Members". */
static const struct {
    char typ[44];
    uint16_t most;
} MESSAGES[KR_MESSAGES] = {
    [KR_KEY] = {"application/vnd.keyrack.key-2+cwt", 640},
    [KR_ANSWER] = {"application/vnd.keyrack.answer-2+cwt", 400},
    [KR_STATUS_LIST] = {"application/statuslist+cwt", 768},
    [KR_KEY_SET] = {"application/vnd.keyrack.keyset-2+cwt", 640},
    [KR_NEW_ROOT] = {"application/vnd.keyrack.root-2+cwt", 400},
    [KR_TIME] = {"application/vnd.keyrack.time-2+cwt", 300},
    [KR_RECEIPT] = {"application/vnd.keyrack.receipt-2+cwt", 300},
    [KR_PROVISIONING] = {"application/vnd.keyrack.provisioning-2+cwt", 600},
    [KR_ENROLMENT] = {"application/vnd.keyrack.enrolment-2+cwt", 400},
    [KR_ENTRY] = {"application/vnd.keyrack.entry-2+cwt", KR_ENTRY_MOST},
};

static struct kr_bytes typ_of(enum kr_message message)
{
    const char *typ = MESSAGES[message].typ;
    return (struct kr_bytes){(const uint8_t *)typ, strlen(typ)};
}

size_t kr_most(enum kr_message message)
{
    return MESSAGES[message].most;
}

bool kr_is_typ(struct kr_bytes typ, enum kr_message message)
{
    return kr_same(typ, typ_of(message));
}

/* Takes constant time. */
bool kr_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
    unsigned differs = 0;
    for (size_t i = 0; i < len; i++) {
        differs |= a[i] ^ (unsigned)b[i];
    }
    return differs == 0;
}

bool kr_same(struct kr_bytes a, struct kr_bytes b)
{
    return a.len == b.len && kr_equal(a.at, b.at, a.len);
}

void kr_sha256(const struct kr_port *port, struct kr_bytes bytes, uint8_t digest[KR_DIGEST])
{
    port->sha256(port->user, &bytes, 1, digest);
}

/* Step 4: the set of labels is checked before their values. */
static enum kr_code read_header(struct kr_signed *message)
{
    static const int64_t labels[3] = {ALG, KID, TYP};
    struct kr_cursor in = kr_cursor(message->protected_header);
    struct kr_cursor values[3];
    struct kr_bytes kid;

    if (!kr_cbor_check(message->protected_header, KR_UNTAGGED)) {
        return KR_CODE_ENCODING;
    }
    if (!kr_read_map(&in, 3)) {
        return KR_CODE_HEADER;
    }
    for (size_t i = 0; i < 3; i++) {
        if (!kr_read_exactly(&in, labels[i])) {
            return KR_CODE_HEADER;
        }
        values[i] = in;
        if (!kr_skip(&in)) {
            return KR_CODE_HEADER;
        }
    }
    if (!kr_read_exactly(&values[0], ES256)) {
        return KR_CODE_ALGORITHM;
    }
    if (!kr_read_bytes(&values[1], KR_KID, KR_KID, &kid) || !kr_read_text(&values[2], 0, KR_WIRE_MOST, &message->typ)) {
        return KR_CODE_HEADER;
    }
    message->kid = kid.at;
    return KR_GOOD;
}

enum kr_code kr_read_signed(struct kr_bytes bytes, struct kr_signed *message)
{
    struct kr_bytes signature;
    uint64_t members;

    if (!kr_cbor_check(bytes, KR_MAY_BE_TAGGED)) {
        return KR_CODE_ENCODING;
    }
    if (bytes.at[0] != SIGN1) {
        return KR_CODE_STRUCTURE;
    }
    struct kr_cursor in = {bytes.at + 1, bytes.len - 1};
    if (!kr_read_array(&in, 4, 4, &members) || !kr_read_bytes(&in, 0, bytes.len, &message->protected_header) ||
        !kr_read_map(&in, 0) || !kr_read_bytes(&in, 0, bytes.len, &message->payload) ||
        !kr_read_bytes(&in, KR_SIGNATURE, KR_SIGNATURE, &signature)) {
        return KR_CODE_STRUCTURE;
    }
    message->whole = bytes;
    message->signature = signature.at;
    return read_header(message);
}

/* SHA-256 of the Sig_structure (RFC 9052, section 4.4), without a copy of it. */
static void signed_digest(const struct kr_port *port, struct kr_bytes protected_header, struct kr_bytes payload,
                          uint8_t digest[KR_DIGEST])
{
    static const uint8_t context[] = {0x84, 0x6a, 'S', 'i', 'g', 'n', 'a', 't', 'u', 'r', 'e', '1'};
    static const uint8_t no_more = 0x40; /* h'': external data */
    uint8_t header_head[9], payload_head[9];
    struct kr_writer first = kr_writer(header_head, sizeof header_head);
    struct kr_writer second = kr_writer(payload_head, sizeof payload_head);

    kr_write_head(&first, KR_BYTES, protected_header.len);
    kr_write_head(&second, KR_BYTES, payload.len);
    const struct kr_bytes pieces[] = {
        {context, sizeof context},   {header_head, first.len}, protected_header, {&no_more, 1},
        {payload_head, second.len}, payload,
    };
    port->sha256(port->user, pieces, sizeof pieces / sizeof pieces[0], digest);
}

bool kr_is_by(const struct kr_signed *message, const struct kr_public_key *key)
{
    return kr_equal(message->kid, key->thumbprint, KR_KID);
}

bool kr_verify(const struct kr_port *port, const struct kr_signed *message, const struct kr_public_key *key)
{
    uint8_t digest[KR_DIGEST];
    signed_digest(port, message->protected_header, message->payload, digest);
    return port->verify(port->user, key->point, digest, message->signature);
}

/* Replaces s with the lower one of s and n - s. Both are valid, but an entry has only one form. An s that is no
 * scalar is unchanged. */
static void make_s_low(uint8_t s[KR_SIGNATURE / 2])
{
    static const uint8_t n[KR_SIGNATURE / 2] = {
        0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    };
    uint8_t other[sizeof n];
    unsigned borrow = 0;

    if (memcmp(s, n, sizeof n) >= 0) {
        return;
    }

    for (size_t i = sizeof n; i-- > 0;) {
        unsigned difference = (unsigned)n[i] - s[i] - borrow;
        other[i] = (uint8_t)difference;
        borrow = difference >> 8 & 1;
    }
    if (memcmp(other, s, sizeof n) < 0) {
        memcpy(s, other, sizeof n);
    }
}

bool kr_write_signed(const struct kr_port *port, const struct kr_public_key *self, enum kr_message kind,
                     struct kr_bytes payload, struct kr_writer *out)
{
    static const uint8_t sign1[] = {SIGN1, 0x84};
    uint8_t header[64], digest[KR_DIGEST], signature[KR_SIGNATURE];
    struct kr_writer protected_header = kr_writer(header, sizeof header);

    kr_write_head(&protected_header, KR_MAP, 3);
    kr_write_int(&protected_header, ALG);
    kr_write_int(&protected_header, ES256);
    kr_write_int(&protected_header, KID);
    kr_write_bytes(&protected_header, (struct kr_bytes){self->thumbprint, KR_KID});
    kr_write_int(&protected_header, TYP);
    kr_write_text(&protected_header, typ_of(kind));
    struct kr_bytes written = {header, protected_header.len};

    signed_digest(port, written, payload, digest);
    if (protected_header.full || !port->sign(port->user, digest, signature)) {
        return false;
    }
    if (kind == KR_ENTRY) {
        make_s_low(signature + sizeof signature / 2);
    }
    kr_write_raw(out, (struct kr_bytes){sign1, sizeof sign1});
    kr_write_bytes(out, written);
    kr_write_head(out, KR_MAP, 0);
    kr_write_bytes(out, payload);
    kr_write_bytes(out, (struct kr_bytes){signature, sizeof signature});
    return !out->full;
}
