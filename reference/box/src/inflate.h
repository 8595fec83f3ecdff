/* Decompression of a status list: a zlib stream (RFC 1950, RFC 1951) of known length. */
#ifndef KR_INFLATE_H
#define KR_INFLATE_H

#include "keyrack_box.h"

/* Decompresses to `out`. True if the stream is valid, ends with the input, and has exactly `size` bytes. */
bool kr_inflate(struct kr_bytes stream, uint8_t *out, size_t size);

#endif
