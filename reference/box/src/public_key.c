/* Public keys: a COSE_Key of four members, in its only encoding, and its thumbprint (RFC 9679). */
#include <string.h>

#include "cose.h"

#define COORDINATE 32
#define X_AT 8  /* offset in the encoding */
#define Y_AT 43

/* {1: 2, -1: 1, -2: x, -3: y} */
static const uint8_t TO_X[X_AT] = {0xa4, 0x01, 0x02, 0x20, 0x01, 0x21, 0x58, COORDINATE};
static const uint8_t TO_Y[3] = {0x22, 0x58, COORDINATE};

static void copy_point(const uint8_t *encoded, uint8_t point[KR_POINT])
{
    memcpy(point, encoded + X_AT, COORDINATE);
    memcpy(point + COORDINATE, encoded + Y_AT, COORDINATE);
}

bool kr_read_public_key(const struct kr_port *port, struct kr_cursor *in, const uint8_t **encoded)
{
    uint8_t point[KR_POINT];

    if (in->left < KR_PUBLIC_KEY || memcmp(in->at, TO_X, sizeof TO_X) != 0 ||
        memcmp(in->at + Y_AT - sizeof TO_Y, TO_Y, sizeof TO_Y) != 0) {
        return false;
    }
    copy_point(in->at, point);
    if (!port->is_point(port->user, point)) {
        return false;
    }
    *encoded = in->at;
    in->at += KR_PUBLIC_KEY;
    in->left -= KR_PUBLIC_KEY;
    return true;
}

void kr_public_key(const struct kr_port *port, const uint8_t *encoded, struct kr_public_key *key)
{
    copy_point(encoded, key->point);
    kr_sha256(port, (struct kr_bytes){encoded, KR_PUBLIC_KEY}, key->thumbprint);
}

void kr_write_public_key(struct kr_writer *out, const uint8_t point[KR_POINT])
{
    kr_write_raw(out, (struct kr_bytes){TO_X, sizeof TO_X});
    kr_write_raw(out, (struct kr_bytes){point, COORDINATE});
    kr_write_raw(out, (struct kr_bytes){TO_Y, sizeof TO_Y});
    kr_write_raw(out, (struct kr_bytes){point + COORDINATE, COORDINATE});
}
