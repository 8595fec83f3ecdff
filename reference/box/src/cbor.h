/* The subset of CBOR in docs/key-protocol.md, "Encoding": each item has exactly one encoding.
 *
 * First kr_cbor_check checks the whole item, then the caller reads it with a cursor. The readers check all bounds
 * again. So a caller that forgets the check never reads out of bounds, but may accept a forbidden encoding. */
#ifndef KR_CBOR_H
#define KR_CBOR_H

#include "keyrack_box.h"

#define KR_CBOR_DEPTH 6
#define KR_UINT_MAX ((uint64_t)0x1fffffffffffff) /* 2^53 - 1 */

enum kr_major { KR_UINT, KR_NEGATIVE, KR_BYTES, KR_TEXT, KR_ARRAY, KR_MAP, KR_TAG };

/* The remaining input. */
struct kr_cursor {
    const uint8_t *at;
    size_t left;
};

/* The output. If the room is too small, `full` is set and nothing more is written. */
struct kr_writer {
    uint8_t *at;
    size_t room;
    size_t len;
    bool full;
};

enum kr_tagging { KR_UNTAGGED, KR_MAY_BE_TAGGED };

/* Whether these bytes are exactly one valid item; only with `tagging` it may have tag 18. */
bool kr_cbor_check(struct kr_bytes item, enum kr_tagging tagging);

struct kr_cursor kr_cursor(struct kr_bytes item);
/* The type of the next item, or -1 at the end. */
int kr_peek(const struct kr_cursor *in);
bool kr_read_head(struct kr_cursor *in, enum kr_major *major, uint64_t *argument);
bool kr_read_uint(struct kr_cursor *in, uint64_t least, uint64_t most, uint64_t *value);
/* The next item is this integer. */
bool kr_read_exactly(struct kr_cursor *in, int64_t expected);
bool kr_read_bytes(struct kr_cursor *in, size_t least, size_t most, struct kr_bytes *value);
bool kr_read_text(struct kr_cursor *in, size_t least, size_t most, struct kr_bytes *value);
/* The next item is this text. */
bool kr_read_name(struct kr_cursor *in, const char *expected);
/* Reads the head of an array or a map with this number of members. */
bool kr_read_array(struct kr_cursor *in, uint64_t least, uint64_t most, uint64_t *count);
bool kr_read_map_head(struct kr_cursor *in, uint64_t *count);
bool kr_read_map(struct kr_cursor *in, uint64_t count);
/* Reads one item with its content. */
bool kr_skip(struct kr_cursor *in);

struct kr_writer kr_writer(uint8_t *at, size_t room);
void kr_write_raw(struct kr_writer *out, struct kr_bytes bytes);
void kr_write_head(struct kr_writer *out, enum kr_major major, uint64_t argument);
void kr_write_int(struct kr_writer *out, int64_t value);
void kr_write_uint(struct kr_writer *out, uint64_t value);
void kr_write_bytes(struct kr_writer *out, struct kr_bytes bytes);
void kr_write_text(struct kr_writer *out, struct kr_bytes text);

#endif
