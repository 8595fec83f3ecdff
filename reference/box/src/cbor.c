/* The subset of CBOR in docs/key-protocol.md, "Encoding": each item has exactly one encoding. */
#include <string.h>

#include "cbor.h"

#define SIGNED_TAG 18u
#define NEGATIVE_MOST ((uint64_t)0x7fffffff) /* maximum of the argument: -1 - argument is at least -2^31 */

/* An open array, map or tag, with the number of its remaining members. */
struct level {
    uint64_t left;          /* remaining items */
    bool is_map;            /* then each second item is a key */
    struct kr_bytes before; /* the previous key, to compare with the next one; len 0 for none */
};

struct kr_cursor kr_cursor(struct kr_bytes item)
{
    struct kr_cursor in = {item.at, item.len};
    return in;
}

int kr_peek(const struct kr_cursor *in)
{
    return in->left == 0 ? -1 : in->at[0] >> 5;
}

/* Type and argument, in the shortest form. Major type 7 (floats, simple values) is never allowed. */
bool kr_read_head(struct kr_cursor *in, enum kr_major *major, uint64_t *argument)
{
    if (in->left == 0 || in->at[0] >> 5 > KR_TAG) {
        return false;
    }
    unsigned short_argument = in->at[0] & 31u;
    size_t more = 0;
    uint64_t value = short_argument;
    if (short_argument >= 24) {
        if (short_argument > 27) {
            return false; /* reserved, or of indefinite length */
        }
        more = (size_t)1 << (short_argument - 24);
        if (in->left - 1 < more) {
            return false;
        }
        value = 0;
        for (size_t i = 1; i <= more; i++) {
            value = value << 8 | in->at[i];
        }
        uint64_t least = more == 1 ? 24 : (uint64_t)1 << (4 * more); /* too large for the next shorter head */
        if (value < least) {
            return false;
        }
    }
    *major = (enum kr_major)(in->at[0] >> 5);
    *argument = value;
    in->at += 1 + more;
    in->left -= 1 + more;
    return true;
}

/* The content of a string whose head has been read. */
static bool take(struct kr_cursor *in, uint64_t len, struct kr_bytes *value)
{
    if (len > in->left) {
        return false;
    }
    value->at = in->at;
    value->len = (size_t)len;
    in->at += len;
    in->left -= (size_t)len;
    return true;
}

static bool is_allowed_text(struct kr_bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < 0x20 || text.at[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

/* Bytewise order. A key is never a prefix of another one, because heads determine the length of an item. */
static bool comes_before(struct kr_bytes a, struct kr_bytes b)
{
    int order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
    return order < 0 || (order == 0 && a.len < b.len);
}

/* One head with its string; sets `inside` to the number of items that follow in it. */
static bool check_one(struct kr_cursor *in, bool is_key, enum kr_major *major, uint64_t *inside)
{
    uint64_t argument;
    struct kr_bytes content;

    *inside = 0;
    if (!kr_read_head(in, major, &argument)) {
        return false;
    }
    switch (*major) {
    case KR_UINT:
        return argument <= KR_UINT_MAX;
    case KR_NEGATIVE:
        return argument <= NEGATIVE_MOST;
    case KR_BYTES:
        return !is_key && take(in, argument, &content);
    case KR_TEXT:
        return take(in, argument, &content) && is_allowed_text(content);
    case KR_ARRAY:
    case KR_MAP:
        if (is_key || argument > in->left) {
            return false; /* each member has at least a byte; this also prevents an overflow of the doubling below */
        }
        *inside = *major == KR_MAP ? 2 * argument : argument;
        return true;
    default:
        return false; /* a tag: kr_cbor_check has read the only allowed one */
    }
}

bool kr_cbor_check(struct kr_bytes item, enum kr_tagging tagging)
{
    struct kr_cursor in = kr_cursor(item);
    struct level levels[KR_CBOR_DEPTH + 1] = {{1, false, {NULL, 0}}}; /* level 0 holds the item itself */
    size_t depth = 0;

    if (tagging == KR_MAY_BE_TAGGED && in.left > 0 && in.at[0] == (KR_TAG << 5 | SIGNED_TAG)) {
        in.at++;
        in.left--;
        levels[++depth].left = 1;
        levels[0].left = 0;
    }
    for (;;) {
        while (levels[depth].left == 0) {
            if (depth == 0) {
                return in.left == 0;
            }
            depth--;
        }
        struct level *level = &levels[depth];
        bool is_key = level->is_map && level->left % 2 == 0;
        struct kr_bytes whole = {in.at, 0};
        enum kr_major major;
        uint64_t inside;

        if (!check_one(&in, is_key, &major, &inside)) {
            return false;
        }
        if (is_key) {
            whole.len = (size_t)(in.at - whole.at);
            if (level->before.len > 0 && !comes_before(level->before, whole)) {
                return false;
            }
            level->before = whole;
        }
        level->left--;
        if (major == KR_ARRAY || major == KR_MAP) {
            if (depth == KR_CBOR_DEPTH) {
                return false;
            }
            levels[++depth] = (struct level){inside, major == KR_MAP, {NULL, 0}};
        }
    }
}

bool kr_read_uint(struct kr_cursor *in, uint64_t least, uint64_t most, uint64_t *value)
{
    enum kr_major major;
    return kr_read_head(in, &major, value) && major == KR_UINT && *value >= least && *value <= most;
}

bool kr_read_exactly(struct kr_cursor *in, int64_t expected)
{
    enum kr_major major;
    uint64_t argument;
    if (!kr_read_head(in, &major, &argument)) {
        return false;
    }
    return expected < 0 ? major == KR_NEGATIVE && argument == (uint64_t)(-1 - expected)
                        : major == KR_UINT && argument == (uint64_t)expected;
}

static bool read_string(struct kr_cursor *in, enum kr_major expected, size_t least, size_t most, struct kr_bytes *value)
{
    enum kr_major major;
    uint64_t len;
    return kr_read_head(in, &major, &len) && major == expected && len >= least && len <= most && take(in, len, value);
}

bool kr_read_bytes(struct kr_cursor *in, size_t least, size_t most, struct kr_bytes *value)
{
    return read_string(in, KR_BYTES, least, most, value);
}

bool kr_read_text(struct kr_cursor *in, size_t least, size_t most, struct kr_bytes *value)
{
    return read_string(in, KR_TEXT, least, most, value);
}

bool kr_read_name(struct kr_cursor *in, const char *expected)
{
    struct kr_bytes text;
    size_t len = strlen(expected);
    return kr_read_text(in, len, len, &text) && memcmp(text.at, expected, len) == 0;
}

bool kr_read_array(struct kr_cursor *in, uint64_t least, uint64_t most, uint64_t *count)
{
    enum kr_major major;
    return kr_read_head(in, &major, count) && major == KR_ARRAY && *count >= least && *count <= most;
}

bool kr_read_map_head(struct kr_cursor *in, uint64_t *count)
{
    enum kr_major major;
    return kr_read_head(in, &major, count) && major == KR_MAP;
}

bool kr_read_map(struct kr_cursor *in, uint64_t count)
{
    uint64_t members;
    return kr_read_map_head(in, &members) && members == count;
}

bool kr_skip(struct kr_cursor *in)
{
    /* Counting items is enough. More items than bytes cannot follow, which also limits the sum. */
    for (uint64_t items = 1; items > 0; items--) {
        enum kr_major major;
        uint64_t argument;
        struct kr_bytes content;
        if (!kr_read_head(in, &major, &argument)) {
            return false;
        }
        if (major == KR_BYTES || major == KR_TEXT) {
            if (!take(in, argument, &content)) {
                return false;
            }
        } else if (major == KR_ARRAY || major == KR_MAP || major == KR_TAG) {
            if (argument > in->left) {
                return false;
            }
            items += major == KR_TAG ? 1 : major == KR_MAP ? 2 * argument : argument;
        }
    }
    return true;
}
