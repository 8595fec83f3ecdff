/* In charge of unpacking a status list: a zlib stream (RFC 1950, RFC 1951) of a length that is known. */
#ifndef KR_INFLATE_H
#define KR_INFLATE_H

#include "keyrack_box.h"

/* Unpacks into `out`. True where the stream is sound, ends with the input, and has given exactly `size` bytes. */
bool kr_inflate(struct kr_bytes stream, uint8_t *out, size_t size);

#endif
