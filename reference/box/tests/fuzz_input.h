/* Reading the bytes of a fuzzer's input. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdlib.h>
#include <string.h>

#include "keyrack_box.h"

/* The next byte of an input, 0 after its end. */
static unsigned byte(struct kr_bytes *in)
{
    if (in->len == 0) {
        return 0;
    }
    in->len--;
    return *in->at++;
}

static size_t length(struct kr_bytes *in, size_t most)
{
    size_t high = byte(in);
    return (high << 8 | byte(in)) % (most + 1);
}

/* Bytes of their own, of exactly this length, beginning with `head`. */
static uint8_t *piece(struct kr_bytes *in, const uint8_t *head, size_t head_len, size_t len)
{
    uint8_t *bytes = malloc(len > 0 ? len : 1);
    if (bytes == NULL) {
        abort();
    }
    memset(bytes, (int)byte(in), len);
    memcpy(bytes, head, head_len < len ? head_len : len);
    if (len > 0 && byte(in) < 32) {
        bytes[byte(in) % len] = (uint8_t)byte(in);
    }
    return bytes;
}

#endif
