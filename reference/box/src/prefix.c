/* Bits and prefix codes of a compressed stream (RFC 1951, sections 3.1.1 and 3.2.2). */
#include <string.h>

#include "prefix.h"

bool kr_bits(struct kr_bits *s, unsigned count, unsigned *value)
{
    while (s->count < count) {
        if (s->next == s->in.len) {
            return false;
        }
        s->held |= (unsigned)s->in.at[s->next++] << s->count;
        s->count += 8;
    }
    *value = s->held & ((1u << count) - 1);
    s->held >>= count;
    s->count -= count;
    return true;
}

/* The used share of a code, as a number of longest words. */
static enum kr_use use_of(const struct kr_prefix *code)
{
    unsigned left = 1u << KR_WORD_MOST;
    for (unsigned length = 1; length <= KR_WORD_MOST; length++) {
        unsigned taken = (unsigned)code->count[length] << (KR_WORD_MOST - length);
        if (taken > left) {
            return KR_TOO_MUCH;
        }
        left -= taken;
    }
    if (left == 0) {
        return KR_ALL;
    }
    if (left == 1u << KR_WORD_MOST) {
        return KR_NONE;
    }
    return left == 1u << (KR_WORD_MOST - 1) && code->count[1] == 1 ? KR_ONE_BIT : KR_PART;
}

enum kr_use kr_prefix_build(struct kr_prefix *code, const uint8_t *lengths, size_t count)
{
    size_t at[KR_WORD_MOST + 1] = {0}; /* where the symbols of each length begin */

    memset(code->count, 0, sizeof code->count);
    for (size_t symbol = 0; symbol < count; symbol++) {
        code->count[lengths[symbol]]++;
    }
    code->count[0] = 0; /* those do not occur */
    for (unsigned length = 1; length <= KR_WORD_MOST; length++) {
        at[length] = at[length - 1] + code->count[length - 1];
    }
    for (size_t symbol = 0; symbol < count; symbol++) {
        if (lengths[symbol] != 0) {
            code->symbols[at[lengths[symbol]]++] = (uint16_t)symbol;
        }
    }
    return use_of(code);
}

/* Reads bit by bit. The words of a length are consecutive numbers. The first one is the successor of the last
 * shorter word, with a zero appended. */
bool kr_prefix_decode(struct kr_bits *s, const struct kr_prefix *code, unsigned *symbol)
{
    unsigned word = 0;
    unsigned first = 0; /* word of this length */
    unsigned index = 0; /* of its symbol */

    for (unsigned length = 1; length <= KR_WORD_MOST; length++) {
        unsigned bit;
        if (!kr_bits(s, 1, &bit)) {
            return false;
        }
        word = word << 1 | bit;
        first <<= 1;
        if (word - first < code->count[length]) {
            *symbol = code->symbols[index + word - first];
            return true;
        }
        index += code->count[length];
        first += code->count[length];
    }
    return false; /* an unused word */
}
