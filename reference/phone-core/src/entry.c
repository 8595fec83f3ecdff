/* Entries of the logs of boxes. */
#include <string.h>

#include "phone.h"

#define EVENT_MOST 6

static bool member(struct kr_cursor *in, int64_t label, uint64_t least, uint64_t most, uint64_t *value)
{
    return kr_read_exactly(in, label) && kr_read_uint(in, least, most, value);
}

/* A byte string of this length; 0 means any that the range allows. */
static bool octets(struct kr_cursor *in, int64_t label, size_t least, size_t most, struct kr_bytes *value)
{
    return kr_read_exactly(in, label) && kr_read_bytes(in, least, most, value) &&
           (value->len == least || value->len == most);
}

/* An array of integers, each from `least` to the most of its place. */
static bool numbers(struct kr_cursor *in, int64_t label, uint64_t count, uint64_t least, const uint64_t *most)
{
    uint64_t members, value;
    if (!kr_read_exactly(in, label) || !kr_read_array(in, count, count, &members)) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!kr_read_uint(in, i == 0 ? least : 0, most[i], &value)) {
            return false;
        }
    }
    return true;
}

/* The members of an entry, in the order of their encodings. */
static bool read_members(struct kr_cursor *in, struct kr_entry *entry, uint64_t *first)
{
    static const uint64_t held[3] = {KR_UINT_MAX, KR_UINT_MAX, KR_UINT_MAX};
    static const uint64_t refused[2] = {KR_UINT_MAX, KR_CODE_OTHER_PART};
    uint64_t unused;
    struct kr_bytes bytes;

    return kr_read_exactly(in, KR_M_AUD) && kr_read_text(in, 1, KR_NAME_MOST, &entry->aud) &&
           member(in, KR_M_IAT, 1, KR_UINT_MAX, &unused) && octets(in, KR_M_CTI, 0, KR_CTI, &bytes) &&
           member(in, KR_M_COMMAND, 0, KR_CLOSE, &unused) &&
           member(in, KR_M_COUNTER, 0, KR_UINT_MAX, &entry->counter) &&
           member(in, KR_M_NUMBER, 1, KR_UINT_MAX, &entry->number) &&
           octets(in, KR_M_PREVIOUS, KR_DIGEST, KR_DIGEST, &bytes) &&
           member(in, KR_M_FIRST, 1, KR_UINT_MAX, first) && member(in, KR_M_EVENT, 1, EVENT_MOST, &entry->event) &&
           member(in, KR_M_CODE, 0, KR_CODE_OTHER_PART, &unused) && member(in, KR_M_CERTAIN, 0, 1, &unused) &&
           octets(in, KR_M_DEVICE, 0, KR_DIGEST, &entry->device) && numbers(in, KR_M_HELD, 3, 1, held) &&
           numbers(in, KR_M_REFUSED, 2, 0, refused) && member(in, KR_M_SKIPPED, 0, KR_UINT_MAX, &unused) &&
           octets(in, KR_M_ROOT_KID, KR_KID, KR_KID, &bytes);
}

/* A member that newer boxes may add; their encodings come last. */
static bool skip_member(struct kr_cursor *in)
{
    enum kr_major major;
    uint64_t argument;
    return kr_read_head(in, &major, &argument) && major == KR_NEGATIVE && argument >= KR_SKIPPED_LEAST &&
           argument <= KR_SKIPPED_MOST && kr_skip(in);
}

static bool read_payload(struct kr_entry *entry)
{
    enum { OWN = 16 };
    struct kr_cursor in = kr_cursor(entry->message.payload);
    uint64_t count, first;

    if (!kr_read_map_head(&in, &count) || count < OWN || !read_members(&in, entry, &first)) {
        return false;
    }
    for (; count > OWN; count--) {
        if (!skip_member(&in)) {
            return false;
        }
    }
    return first <= entry->number; /* else the entry gives up entries that the box has yet to write */
}

enum kr_code kr_read_entry(struct kr_bytes bytes, struct kr_entry *entry)
{
    if (bytes.len > KR_ENTRY_MOST) {
        return KR_CODE_TOO_LONG;
    }
    if (bytes.len > 0) {
        memcpy(entry->bytes, bytes.at, bytes.len);
    }
    entry->len = bytes.len;
    enum kr_code code = kr_read_signed((struct kr_bytes){entry->bytes, entry->len}, &entry->message);
    if (code != KR_GOOD) {
        return code;
    }
    if (!kr_is_typ(entry->message.typ, KR_ENTRY)) {
        return KR_CODE_TYP;
    }
    if (!kr_cbor_check(entry->message.payload, KR_UNTAGGED)) {
        return KR_CODE_ENCODING;
    }
    if (!read_payload(entry)) {
        return KR_CODE_CLAIMS;
    }
    kr_make_s_low(entry->bytes + entry->len - KR_SIGNATURE / 2); /* the signature is the last member */
    return KR_GOOD;
}

enum kr_code kr_read_entry_of(const struct kr_phone_state *phone, const struct kr_held_box *box, struct kr_bytes bytes,
                              struct kr_entry *entry)
{
    enum kr_code code = kr_read_entry(bytes, entry);
    if (code != KR_GOOD) {
        return code;
    }
    if (!kr_same(entry->aud, kr_name(&box->name))) {
        return KR_CODE_AUDIENCE;
    }
    if (box->has_key &&
        !(kr_is_by(&entry->message, &box->key) && kr_verify(phone->port, &entry->message, &box->key))) {
        return KR_CODE_SIGNATURE;
    }
    return KR_GOOD;
}
