/* Writes CBOR, in the encoding that cbor.c reads. */
#include <string.h>

#include "cbor.h"

struct kr_writer kr_writer(uint8_t *at, size_t room)
{
    struct kr_writer out = {at, room, 0, false};
    return out;
}

void kr_write_raw(struct kr_writer *out, struct kr_bytes bytes)
{
    if (out->full || bytes.len > out->room - out->len) {
        out->full = true;
        return;
    }
    if (bytes.len > 0) {
        memcpy(out->at + out->len, bytes.at, bytes.len);
    }
    out->len += bytes.len;
}

/* The shortest head for this argument. */
void kr_write_head(struct kr_writer *out, enum kr_major major, uint64_t argument)
{
    uint8_t head[9];
    size_t more = argument < 24 ? 0 : argument <= 0xff ? 1 : argument <= 0xffff ? 2 : argument <= 0xffffffff ? 4 : 8;
    unsigned how = more == 0 ? (unsigned)argument : more == 1 ? 24 : more == 2 ? 25 : more == 4 ? 26 : 27;

    head[0] = (uint8_t)((unsigned)major << 5 | how);
    for (size_t i = 0; i < more; i++) {
        head[1 + i] = (uint8_t)(argument >> 8 * (more - 1 - i));
    }
    kr_write_raw(out, (struct kr_bytes){head, 1 + more});
}

void kr_write_int(struct kr_writer *out, int64_t value)
{
    if (value < 0) {
        kr_write_head(out, KR_NEGATIVE, (uint64_t)(-1 - value));
    } else {
        kr_write_head(out, KR_UINT, (uint64_t)value);
    }
}

void kr_write_uint(struct kr_writer *out, uint64_t value)
{
    kr_write_head(out, KR_UINT, value);
}

void kr_write_bytes(struct kr_writer *out, struct kr_bytes bytes)
{
    kr_write_head(out, KR_BYTES, bytes.len);
    kr_write_raw(out, bytes);
}

void kr_write_text(struct kr_writer *out, struct kr_bytes text)
{
    kr_write_head(out, KR_TEXT, text.len);
    kr_write_raw(out, text);
}
