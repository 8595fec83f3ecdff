/* Decompression of a status list: a zlib stream (RFC 1950, RFC 1951) of known length.
 *
 * It accepts exactly the streams that zlib accepts, so a list that the server tested also decompresses here. The
 * output is the window, so it allocates no memory. Speed does not matter for 256 bytes. */
#include <string.h>

#include "inflate.h"
#include "prefix.h"

#define DISTANCES 32 /* 30 and 31 never occur */
#define END_OF_BLOCK 256

struct stream {
    struct kr_bits bits;
    uint8_t *out;
    size_t size;
    size_t len; /* written */
};

static bool write_byte(struct stream *s, unsigned value)
{
    if (s->len == s->size) {
        return false;
    }
    s->out[s->len++] = (uint8_t)value;
    return true;
}

/* RFC 1951, section 3.2.4. */
static bool stored_block(struct stream *s)
{
    unsigned length, complement, value;

    s->bits.held = 0;
    s->bits.count = 0; /* discard the rest of the byte */
    if (!kr_bits(&s->bits, 16, &length) || !kr_bits(&s->bits, 16, &complement) || complement != (length ^ 0xffffu)) {
        return false;
    }
    for (; length > 0; length--) {
        if (!kr_bits(&s->bits, 8, &value) || !write_byte(s, value)) {
            return false;
        }
    }
    return true;
}

/* The rules of the tables in RFC 1951, section 3.2.5; 285 is the only exception. */
static bool length_of(struct stream *s, unsigned symbol, unsigned *length)
{
    unsigned n = symbol - END_OF_BLOCK - 1;
    unsigned extra = n < 8 ? 0 : n / 4 - 1;
    unsigned more;

    if (n == 28) {
        *length = 258;
        return true;
    }
    if (n > 28 || !kr_bits(&s->bits, extra, &more)) {
        return false;
    }
    *length = (n < 8 ? n : (4 + n % 4) << extra) + 3 + more;
    return true;
}

static bool distance_of(struct stream *s, unsigned symbol, unsigned *distance)
{
    unsigned extra = symbol < 4 ? 0 : symbol / 2 - 1;
    unsigned more;

    if (symbol >= 30 || !kr_bits(&s->bits, extra, &more)) {
        return false;
    }
    *distance = (symbol < 4 ? symbol : (2 + symbol % 2) << extra) + 1 + more;
    return true;
}

static bool copy(struct stream *s, unsigned length, unsigned distance)
{
    if (distance > s->len || length > s->size - s->len) {
        return false;
    }
    for (; length > 0; length--) { /* byte by byte, because source and output may overlap */
        s->out[s->len] = s->out[s->len - distance];
        s->len++;
    }
    return true;
}

static bool coded_block(struct stream *s, const struct kr_prefix *literals, const struct kr_prefix *distances)
{
    for (;;) {
        unsigned symbol, length, distance;
        if (!kr_prefix_decode(&s->bits, literals, &symbol)) {
            return false;
        }
        if (symbol == END_OF_BLOCK) {
            return true;
        }
        if (symbol < END_OF_BLOCK) {
            if (!write_byte(s, symbol)) {
                return false;
            }
        } else if (!length_of(s, symbol, &length) || !kr_prefix_decode(&s->bits, distances, &symbol) ||
                   !distance_of(s, symbol, &distance) || !copy(s, length, distance)) {
            return false;
        }
    }
}

/* RFC 1951, section 3.2.6. */
static bool fixed_block(struct stream *s, struct kr_prefix *literals, struct kr_prefix *distances)
{
    uint8_t lengths[KR_SYMBOLS];

    memset(lengths, 8, KR_SYMBOLS);
    memset(lengths + 144, 9, 256 - 144);
    memset(lengths + 256, 7, 280 - 256);
    (void)kr_prefix_build(literals, lengths, KR_SYMBOLS);
    memset(lengths, 5, DISTANCES);
    (void)kr_prefix_build(distances, lengths, DISTANCES);
    return coded_block(s, literals, distances);
}

/* A code may be incomplete only if it has a single word of one bit; a code of distances may also be empty. */
static bool build_code(struct kr_prefix *code, const uint8_t *lengths, size_t count)
{
    enum kr_use use = kr_prefix_build(code, lengths, count);
    return use == KR_ALL || use == KR_ONE_BIT || use == KR_NONE;
}

/* The lengths of both codes, which are encoded, too (RFC 1951, section 3.2.7). */
static bool read_lengths(struct stream *s, const struct kr_prefix *code, uint8_t *lengths, size_t count)
{
    size_t have = 0;
    while (have < count) {
        unsigned symbol, repeat, value = 0;
        if (!kr_prefix_decode(&s->bits, code, &symbol)) {
            return false;
        }
        if (symbol < 16) {
            lengths[have++] = (uint8_t)symbol;
            continue;
        }
        if (symbol == 16 && have == 0) {
            return false; /* nothing to repeat */
        }
        if (symbol == 16) {
            value = lengths[have - 1];
        }
        if (!kr_bits(&s->bits, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &repeat)) {
            return false;
        }
        repeat += symbol == 18 ? 11 : 3;
        if (repeat > count - have) {
            return false;
        }
        memset(lengths + have, (int)value, repeat);
        have += repeat;
    }
    return true;
}

static bool dynamic_block(struct stream *s, struct kr_prefix *literals, struct kr_prefix *distances)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[KR_SYMBOLS + DISTANCES] = {0};
    unsigned literal_count, distance_count, order_count, length;

    if (!kr_bits(&s->bits, 5, &literal_count) || !kr_bits(&s->bits, 5, &distance_count) ||
        !kr_bits(&s->bits, 4, &order_count)) {
        return false;
    }
    literal_count += 257;
    distance_count += 1;
    if (literal_count > 286 || distance_count > 30) {
        return false;
    }
    for (unsigned i = 0; i < order_count + 4; i++) {
        if (!kr_bits(&s->bits, 3, &length)) {
            return false;
        }
        lengths[order[i]] = (uint8_t)length;
    }
    if (kr_prefix_build(literals, lengths, sizeof order) != KR_ALL) {
        return false;
    }
    memset(lengths, 0, sizeof order);
    return read_lengths(s, literals, lengths, literal_count + distance_count) && lengths[END_OF_BLOCK] != 0 &&
           build_code(literals, lengths, literal_count) &&
           build_code(distances, lengths + literal_count, distance_count) && coded_block(s, literals, distances);
}

static bool blocks(struct stream *s)
{
    struct kr_prefix literals, distances;
    unsigned last, type;
    bool good;

    do {
        if (!kr_bits(&s->bits, 1, &last) || !kr_bits(&s->bits, 2, &type)) {
            return false;
        }
        switch (type) {
        case 0:
            good = stored_block(s);
            break;
        case 1:
            good = fixed_block(s, &literals, &distances);
            break;
        case 2:
            good = dynamic_block(s, &literals, &distances);
            break;
        default:
            good = false;
        }
    } while (good && !last);
    return good;
}

/* RFC 1950, section 8. */
static uint32_t adler32(const uint8_t *bytes, size_t len)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < len; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

bool kr_inflate(struct kr_bytes stream, uint8_t *out, size_t size)
{
    struct stream s = {{stream, 2, 0, 0}, out, size, 0};

    /* Method 8 with a window of 32 kB, no preset dictionary, and a valid check value. */
    if (stream.len < 2 || stream.at[0] != 0x78 || (stream.at[1] & 0x20) || (0x7800u | stream.at[1]) % 31 != 0) {
        return false;
    }
    if (!blocks(&s) || s.len != size || stream.len - s.bits.next != 4) {
        return false;
    }
    const uint8_t *sum = stream.at + s.bits.next;
    return adler32(out, size) == ((uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3]);
}
