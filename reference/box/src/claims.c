/* Payloads: the closed map of each message (docs/key-protocol.md, "Members"). */
#include "claims.h"

#define INT31 ((uint64_t)0x7fffffff)
#define MEMBERS_MOST 12

/* The members of the messages that a box reads, in the order of their encodings; 0 ends a row. */
static const int32_t MEMBERS[][MEMBERS_MOST + 1] = {
    [KR_KEY] = {KR_M_ISS, KR_M_SUB, KR_M_AUD, KR_M_EXP, KR_M_NBF, KR_M_IAT, KR_M_CTI, KR_M_CNF, KR_M_STATUS,
                KR_M_ASSIGNMENT, KR_M_RIGHTS, KR_M_LIMIT},
    [KR_ANSWER] = {KR_M_AUD, KR_M_NONCE, KR_M_COMMAND, KR_M_COUNTER, KR_M_KEY, KR_M_CHALLENGE},
    [KR_STATUS_LIST] = {KR_M_ISS, KR_M_SUB, KR_M_AUD, KR_M_EXP, KR_M_IAT, KR_M_STATUS_LIST, KR_M_TTL, KR_M_GENERATION},
    [KR_KEY_SET] = {KR_M_ISS, KR_M_IAT, KR_M_SEQUENCE, KR_M_KEYS, KR_M_SERVICE_KEYS},
    [KR_NEW_ROOT] = {KR_M_ISS, KR_M_IAT, KR_M_SEQUENCE, KR_M_ROOT},
    [KR_TIME] = {KR_M_ISS, KR_M_AUD, KR_M_IAT, KR_M_NONCE},
    [KR_RECEIPT] = {KR_M_ISS, KR_M_AUD, KR_M_IAT, KR_M_UPTO},
    [KR_PROVISIONING] = {KR_M_ISS, KR_M_AUD, KR_M_IAT, KR_M_NONCE, KR_M_ROOT, KR_M_BOX, KR_M_ADVERTISING, KR_M_LIST,
                         KR_M_KEYSET},
};

static bool read_time(struct kr_cursor *in, uint64_t *value)
{
    return kr_read_uint(in, 1, KR_UINT_MAX, value);
}

/* A byte string of this length. */
static bool read_octets(struct kr_cursor *in, size_t len, const uint8_t **value)
{
    struct kr_bytes bytes;
    bool holds = kr_read_bytes(in, len, len, &bytes);
    if (holds) {
        *value = bytes.at;
    }
    return holds;
}

/* {1: public-key} */
static bool read_cnf(const struct kr_port *port, struct kr_cursor *in, struct kr_claims *claims)
{
    return kr_read_map(in, 1) && kr_read_exactly(in, 1) && kr_read_public_key(port, in, &claims->cnf);
}

/* {"lst": bytes, "bits": 1} */
static bool read_status_list(struct kr_cursor *in, struct kr_claims *claims)
{
    return kr_read_map(in, 2) && kr_read_name(in, "lst") && kr_read_bytes(in, 0, KR_WIRE_MOST, &claims->lst) &&
           kr_read_name(in, "bits") && kr_read_exactly(in, 1);
}

/* {"status_list": {"idx": number, "uri": text}} */
static bool read_status(struct kr_cursor *in, struct kr_claims *claims)
{
    return kr_read_map(in, 1) && kr_read_name(in, "status_list") && kr_read_map(in, 2) && kr_read_name(in, "idx") &&
           kr_read_uint(in, 0, KR_UINT_MAX, &claims->index) && kr_read_name(in, "uri") &&
           kr_read_text(in, 1, KR_URI_MOST, &claims->uri);
}

/* one or more of 1, 2 and 3, ascending */
static bool read_rights(struct kr_cursor *in, struct kr_claims *claims)
{
    uint64_t count, right, least = 1;
    claims->rights = 0;
    if (!kr_read_array(in, 1, 3, &count)) {
        return false;
    }
    for (; count > 0; count--) {
        if (!kr_read_uint(in, least, 3, &right)) {
            return false;
        }
        claims->rights |= 1u << right;
        least = right + 1;
    }
    return true;
}

static bool read_keys(const struct kr_port *port, struct kr_cursor *in, struct kr_keys *keys)
{
    uint64_t count;
    if (!kr_read_array(in, 1, 2, &count)) {
        return false;
    }
    keys->count = (uint8_t)count;
    for (size_t i = 0; i < keys->count; i++) {
        if (!kr_read_public_key(port, in, &keys->encoded[i])) {
            return false;
        }
    }
    return true;
}

/* [number, digest] */
static bool read_upto(struct kr_cursor *in, struct kr_claims *claims)
{
    uint64_t count;
    return kr_read_array(in, 2, 2, &count) && kr_read_uint(in, 1, KR_UINT_MAX, &claims->upto) &&
           read_octets(in, KR_DIGEST, &claims->upto_digest);
}

/* A value that is only looked at. */
static bool read_unused(struct kr_cursor *in, uint64_t most)
{
    uint64_t value;
    return kr_read_uint(in, 1, most, &value);
}

static bool read_member(const struct kr_port *port, struct kr_cursor *in, int32_t member, struct kr_claims *claims)
{
    switch (member) {
    case KR_M_ISS:
        return kr_read_text(in, 1, KR_NAME_MOST, &claims->iss);
    case KR_M_SUB:
        return kr_read_text(in, 1, KR_URI_MOST, &claims->sub);
    case KR_M_AUD:
        return kr_read_text(in, 1, KR_NAME_MOST, &claims->aud);
    case KR_M_EXP:
        return read_time(in, &claims->exp);
    case KR_M_NBF:
        return read_time(in, &claims->nbf);
    case KR_M_IAT:
        return read_time(in, &claims->iat);
    case KR_M_CTI:
        return read_octets(in, KR_CTI, &claims->cti);
    case KR_M_CNF:
        return read_cnf(port, in, claims);
    case KR_M_NONCE:
        return read_octets(in, KR_NONCE, &claims->nonce);
    case KR_M_STATUS_LIST:
        return read_status_list(in, claims);
    case KR_M_TTL:
        return read_unused(in, KR_UINT_MAX);
    case KR_M_STATUS:
        return read_status(in, claims);
    case KR_M_ASSIGNMENT:
        return read_unused(in, INT31);
    case KR_M_RIGHTS:
        return read_rights(in, claims);
    case KR_M_LIMIT:
        return kr_read_uint(in, 1, INT31, &claims->limit);
    case KR_M_COMMAND:
        return kr_read_uint(in, KR_OPEN, KR_CLOSE, &claims->command);
    case KR_M_COUNTER:
        return kr_read_uint(in, 0, KR_UINT_MAX, &claims->counter);
    case KR_M_KEY:
        return read_octets(in, KR_DIGEST, &claims->key);
    case KR_M_CHALLENGE:
        return read_octets(in, KR_DIGEST, &claims->challenge);
    case KR_M_SEQUENCE:
        return kr_read_uint(in, 1, KR_UINT_MAX, &claims->sequence);
    case KR_M_KEYS:
        return read_keys(port, in, &claims->keys);
    case KR_M_GENERATION:
        return kr_read_uint(in, 1, KR_UINT_MAX, &claims->generation);
    case KR_M_UPTO:
        return read_upto(in, claims);
    case KR_M_ROOT:
        return kr_read_public_key(port, in, &claims->root);
    case KR_M_BOX:
        return read_octets(in, KR_DIGEST, &claims->box);
    case KR_M_ADVERTISING:
        return read_octets(in, KR_ADVERTISING, &claims->advertising);
    case KR_M_LIST:
        return read_octets(in, KR_DIGEST, &claims->list);
    case KR_M_KEYSET:
        return read_octets(in, KR_DIGEST, &claims->keyset);
    case KR_M_SERVICE_KEYS:
        return read_keys(port, in, &claims->service_keys);
    default:
        return false;
    }
}

/* An ignored member, with its value. */
static bool skip_member(struct kr_cursor *in)
{
    enum kr_major major;
    uint64_t argument;
    return kr_read_head(in, &major, &argument) && major == KR_NEGATIVE && argument >= KR_SKIPPED_LEAST &&
           argument <= KR_SKIPPED_MOST && kr_skip(in);
}

enum kr_code kr_read_claims(const struct kr_port *port, struct kr_bytes payload, enum kr_message kind,
                            struct kr_claims *claims)
{
    struct kr_cursor in = kr_cursor(payload);
    uint64_t left;

    if (!kr_cbor_check(payload, KR_UNTAGGED)) {
        return KR_CODE_ENCODING;
    }
    if (!kr_read_map_head(&in, &left)) {
        return KR_CODE_CLAIMS;
    }
    for (const int32_t *member = MEMBERS[kind]; *member != 0; member++, left--) {
        if (left == 0 || !kr_read_exactly(&in, *member) || !read_member(port, &in, *member, claims)) {
            return KR_CODE_CLAIMS;
        }
    }
    for (; left > 0; left--) {
        if (!skip_member(&in)) {
            return KR_CODE_CLAIMS;
        }
    }
    return KR_GOOD;
}

enum kr_code kr_read(const struct kr_port *port, struct kr_bytes bytes, enum kr_message kind,
                     struct kr_signed *message, struct kr_claims *claims)
{
    enum kr_code code = KR_CODE_TOO_LONG;
    if (bytes.len <= kr_most(kind)) {
        code = kr_read_signed(bytes, message);
    }
    if (code == KR_GOOD && !kr_is_typ(message->typ, kind)) {
        code = KR_CODE_TYP;
    }
    return code == KR_GOOD ? kr_read_claims(port, message->payload, kind, claims) : code;
}
