/* Messages of the link (docs/key-link.md). */
#include <string.h>

#include "phone.h"

#define VERSION 2 /* of the protocol; the phone speaks no other one */
#define SKIPPED 128
#define VERSIONS_MOST 8

size_t kr_write_hello(uint8_t *message)
{
    static const uint8_t hello[] = {0x82, KR_HELLO, 0x81, VERSION};
    memcpy(message, hello, sizeof hello);
    return sizeof hello;
}

size_t kr_write_carry(struct kr_bytes artefact, uint8_t *message, size_t room)
{
    struct kr_writer out = kr_writer(message, room);
    kr_write_head(&out, KR_ARRAY, 2);
    kr_write_uint(&out, KR_CARRY);
    kr_write_bytes(&out, artefact);
    return out.full ? 0 : out.len;
}

size_t kr_write_fetch(uint64_t from, uint8_t *message, size_t room)
{
    struct kr_writer out = kr_writer(message, room);
    kr_write_head(&out, KR_ARRAY, 2);
    kr_write_uint(&out, KR_FETCH);
    kr_write_uint(&out, from);
    return out.full ? 0 : out.len;
}

static void write_digest(struct kr_writer *out, int64_t label, const uint8_t digest[KR_DIGEST])
{
    kr_write_int(out, label);
    kr_write_bytes(out, (struct kr_bytes){digest, KR_DIGEST});
}

size_t kr_write_open(const struct kr_phone_state *phone, const struct kr_challenge *challenge, uint64_t command,
                     uint64_t counter, struct kr_bytes key, uint8_t *message, size_t room)
{
    enum { MOST = 400 }; /* of an answer */
    uint8_t bytes[MOST], signed_bytes[MOST], digest[KR_DIGEST];
    struct kr_writer payload = kr_writer(bytes, sizeof bytes);
    struct kr_writer answer = kr_writer(signed_bytes, sizeof signed_bytes);
    struct kr_writer out = kr_writer(message, room);

    kr_sha256(phone->port, key, digest);
    kr_write_head(&payload, KR_MAP, 6);
    kr_write_int(&payload, KR_M_AUD);
    kr_write_text(&payload, kr_name(&challenge->name));
    kr_write_int(&payload, KR_M_NONCE);
    kr_write_bytes(&payload, (struct kr_bytes){challenge->nonce, KR_NONCE});
    kr_write_int(&payload, KR_M_COMMAND);
    kr_write_uint(&payload, command);
    kr_write_int(&payload, KR_M_COUNTER);
    kr_write_uint(&payload, counter);
    write_digest(&payload, KR_M_KEY, digest);
    write_digest(&payload, KR_M_CHALLENGE, challenge->digest);
    if (payload.full || !kr_write_signed(phone->port, &phone->self, KR_ANSWER,
                                         (struct kr_bytes){bytes, payload.len}, &answer)) {
        return 0;
    }
    kr_write_head(&out, KR_ARRAY, 3);
    kr_write_uint(&out, KR_SAY_OPEN);
    kr_write_bytes(&out, key);
    kr_write_bytes(&out, (struct kr_bytes){signed_bytes, answer.len});
    return out.full ? 0 : out.len;
}

enum kr_code kr_read_reply(struct kr_bytes message, struct kr_reply *reply)
{
    if (message.len > KR_WIRE_MOST) {
        return KR_CODE_TOO_LONG;
    }
    if (!kr_cbor_check(message, KR_UNTAGGED)) {
        return KR_CODE_ENCODING;
    }
    reply->in = kr_cursor(message);
    if (!kr_read_array(&reply->in, 1, KR_WIRE_MOST, &reply->count) ||
        !kr_read_uint(&reply->in, 0, KR_UINT_MAX, &reply->says)) {
        return KR_CODE_STRUCTURE;
    }
    reply->count--;
    return KR_GOOD;
}

bool kr_read_result(struct kr_reply *reply, uint64_t *code, struct kr_bytes *entry)
{
    return reply->says == KR_RESULT && reply->count == 2 && kr_read_uint(&reply->in, 0, KR_UINT_MAX, code) &&
           kr_read_bytes(&reply->in, 0, KR_WIRE_MOST, entry);
}

bool kr_read_versions(struct kr_reply *reply, bool *is_box_newer)
{
    uint64_t count, version, least = 0;

    if (reply->says != KR_VERSIONS || reply->count != 1 || !kr_read_array(&reply->in, 1, VERSIONS_MOST, &count)) {
        return false;
    }
    *is_box_newer = false;
    for (; count > 0; count--) {
        if (!kr_read_uint(&reply->in, least, KR_UINT_MAX, &version) || version == VERSION) {
            return false; /* not ascending, or one that was offered */
        }
        *is_box_newer = *is_box_newer || version > VERSION;
        least = version + 1;
    }
    return true;
}

static bool number(struct kr_cursor *in, int64_t label, uint64_t most, uint64_t *value)
{
    return kr_read_exactly(in, label) && kr_read_uint(in, 0, most, value);
}

static bool octets(struct kr_cursor *in, int64_t label, size_t least, size_t most, struct kr_bytes *value)
{
    return kr_read_exactly(in, label) && kr_read_bytes(in, least, most, value) &&
           (value->len == least || value->len == most);
}

/* The members 1 to 12, then those that phones skip: their keys come last. */
static bool read_members(struct kr_cursor *in, uint64_t count, struct kr_challenge *challenge)
{
    enum { OWN = 12 };
    struct kr_bytes name, nonce, newest, root;
    uint64_t certain, label;

    if (count < OWN || !kr_read_exactly(in, 1) || !kr_read_exactly(in, VERSION) || !kr_read_exactly(in, 2) ||
        !kr_read_text(in, 0, KR_NAME_MOST, &name) || !octets(in, 3, KR_NONCE, KR_NONCE, &nonce) ||
        !number(in, 4, KR_UINT_MAX, &challenge->time) || !number(in, 5, 1, &certain) ||
        !number(in, 6, KR_UINT_MAX, &challenge->sequence) || !number(in, 7, KR_UINT_MAX, &challenge->generation) ||
        !number(in, 8, KR_UINT_MAX, &challenge->list_iat) || !number(in, 9, KR_UINT_MAX, &challenge->first) ||
        !number(in, 10, KR_UINT_MAX, &challenge->next) || !octets(in, 11, KR_DIGEST, KR_DIGEST, &newest) ||
        !octets(in, 12, 0, KR_KID, &root)) {
        return false;
    }
    for (; count > OWN; count--) {
        if (!kr_read_uint(in, SKIPPED, KR_UINT_MAX, &label) || !kr_skip(in)) {
            return false;
        }
    }
    kr_set_name(&challenge->name, name);
    memcpy(challenge->nonce, nonce.at, KR_NONCE);
    challenge->is_certain = certain == 1;
    challenge->has_root = root.len > 0;
    memcpy(challenge->root, root.at, root.len);
    return true;
}

enum kr_code kr_read_challenge(const struct kr_port *port, struct kr_bytes message, struct kr_challenge *challenge)
{
    struct kr_reply reply;
    uint64_t count;
    enum kr_code code = kr_read_reply(message, &reply);

    memset(challenge, 0, sizeof *challenge);
    if (code != KR_GOOD) {
        return code;
    }
    if (reply.says != KR_CHALLENGE || reply.count != 1 || !kr_read_map_head(&reply.in, &count) ||
        !read_members(&reply.in, count, challenge)) {
        memset(challenge, 0, sizeof *challenge);
        return KR_CODE_STRUCTURE;
    }
    kr_sha256(port, message, challenge->digest);
    return KR_GOOD;
}
