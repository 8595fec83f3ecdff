/* Signatures of the key stores of phones. */
#include <string.h>

#include "phone.h"

#define SEQUENCE 0x30
#define INTEGER 0x02
#define SCALAR 32

/* A positive integer of at most 32 bytes, without needless zeros. */
static bool read_scalar(struct kr_cursor *in, uint8_t scalar[SCALAR])
{
    if (in->left < 2 || in->at[0] != INTEGER || in->at[1] == 0 || in->at[1] > in->left - 2) {
        return false;
    }
    const uint8_t *at = in->at + 2;
    size_t len = in->at[1];
    in->at += 2 + len;
    in->left -= 2 + len;
    if (at[0] > 0x7f || (len > 1 && at[0] == 0 && at[1] <= 0x7f)) {
        return false;
    }
    if (at[0] == 0) {
        at++;
        len--;
    }
    if (len > SCALAR) {
        return false;
    }
    memset(scalar, 0, SCALAR - len);
    memcpy(scalar + SCALAR - len, at, len);
    return true;
}

bool kr_signature_from_der(struct kr_bytes der, uint8_t signature[KR_SIGNATURE])
{
    if (der.len < 2 || der.at[0] != SEQUENCE || der.at[1] != der.len - 2) {
        return false;
    }
    struct kr_cursor in = {der.at + 2, der.len - 2};
    return read_scalar(&in, signature) && read_scalar(&in, signature + SCALAR) && in.left == 0;
}
