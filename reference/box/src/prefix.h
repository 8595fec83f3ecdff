/* Bits and prefix codes of a compressed stream (RFC 1951, sections 3.1.1 and 3.2.2). */
#ifndef KR_PREFIX_H
#define KR_PREFIX_H

#include "keyrack_box.h"

#define KR_WORD_MOST 15 /* bits of a code word */
#define KR_SYMBOLS 288  /* literals, end of block and lengths; 286 and 287 never occur */

/* A reader of bits, the lowest of each byte first. It never buffers whole bytes. */
struct kr_bits {
    struct kr_bytes in;
    size_t next;   /* the position of the next byte in `in` */
    unsigned held; /* buffered bits */
    unsigned count;
};

/* A canonical prefix code: the number of words of each length, and their symbols in the order of the words. */
struct kr_prefix {
    uint16_t count[KR_WORD_MOST + 1];
    uint16_t symbols[KR_SYMBOLS];
};

/* The used share of a code. */
enum kr_use { KR_ALL, KR_ONE_BIT, KR_NONE, KR_PART, KR_TOO_MUCH };

/* Reads the next bits, at most 16. */
bool kr_bits(struct kr_bits *s, unsigned count, unsigned *value);
/* Builds the code with these lengths, one for each of `count` symbols; 0 for an unused symbol. */
enum kr_use kr_prefix_build(struct kr_prefix *code, const uint8_t *lengths, size_t count);
bool kr_prefix_decode(struct kr_bits *s, const struct kr_prefix *code, unsigned *symbol);

#endif
