/* The port on BearSSL: constant time, no allocation, deterministic signatures (RFC 6979). */
#include <string.h>

#include <bearssl.h>

#include "keyrack_bearssl.h"

#define UNCOMPRESSED 4 /* the first byte of a point with both coordinates (SEC 1, 2.3.3) */
#define TRIES 16       /* a scalar is out of range about once in 2^32 */

static void wipe(void *bytes, size_t len)
{
    volatile uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++) {
        at[i] = 0;
    }
}

static void sha256(void *user, const struct kr_bytes *pieces, size_t count, uint8_t digest[KR_DIGEST])
{
    br_sha256_context context;
    (void)user;
    br_sha256_init(&context);
    for (size_t i = 0; i < count; i++) {
        br_sha256_update(&context, pieces[i].at, pieces[i].len);
    }
    br_sha256_out(&context, digest);
    wipe(&context, sizeof context); /* it may contain a part of the box's secret */
}

/* Whether the scalar is from 1 to n - 1, in constant time. */
static bool is_scalar(const uint8_t scalar[32])
{
    size_t len;
    const uint8_t *n = br_ec_get_default()->order(BR_EC_secp256r1, &len);
    unsigned borrow = 0;
    unsigned any = 0;
    for (size_t i = 32; i-- > 0;) {
        borrow = ((unsigned)scalar[i] - n[i] - borrow) >> 8 & 1;
        any |= scalar[i];
    }
    return len == 32 && borrow == 1 && any != 0;
}

static void encode_point(const uint8_t point[KR_POINT], uint8_t encoded[1 + KR_POINT])
{
    encoded[0] = UNCOMPRESSED;
    memcpy(encoded + 1, point, KR_POINT);
}

/* BearSSL has no function for this check, but its multiplication rejects coordinates that are no point. The factor 1 is
 * cheap. */
static bool is_point(void *user, const uint8_t point[KR_POINT])
{
    static const uint8_t one = 1;
    uint8_t encoded[1 + KR_POINT];
    (void)user;
    encode_point(point, encoded);
    return br_ec_get_default()->mul(encoded, sizeof encoded, &one, 1, BR_EC_secp256r1) == 1;
}

/* BearSSL accepts r = 0 if the digest is 0 modulo n. The ranges of the standard exclude that. */
static bool verify(void *user, const uint8_t point[KR_POINT], const uint8_t digest[KR_DIGEST],
                   const uint8_t signature[KR_SIGNATURE])
{
    uint8_t encoded[1 + KR_POINT];
    const br_ec_public_key key = {BR_EC_secp256r1, encoded, sizeof encoded};
    (void)user;
    encode_point(point, encoded);
    return is_scalar(signature) && is_scalar(signature + 32) &&
           br_ecdsa_i31_vrfy_raw(br_ec_get_default(), digest, KR_DIGEST, &key, signature, KR_SIGNATURE) == 1;
}

static bool sign(void *user, const uint8_t digest[KR_DIGEST], uint8_t signature[KR_SIGNATURE])
{
    struct kr_bearssl *keys = user;
    const br_ec_private_key key = {BR_EC_secp256r1, keys->private_key, sizeof keys->private_key};
    return br_ecdsa_i31_sign_raw(br_ec_get_default(), &br_sha256_vtable, digest, &key, signature) == KR_SIGNATURE;
}

static bool random_bytes(void *user, uint8_t *bytes, size_t len)
{
    struct kr_bearssl *keys = user;
    return keys->random(keys->user, bytes, len);
}

struct kr_port kr_bearssl_port(struct kr_bearssl *keys)
{
    struct kr_port port = {keys, sha256, is_point, verify, sign, random_bytes};
    return port;
}

bool kr_bearssl_make_key(struct kr_bearssl *keys, uint8_t point[KR_POINT])
{
    const br_ec_private_key key = {BR_EC_secp256r1, keys->private_key, sizeof keys->private_key};
    uint8_t encoded[BR_EC_KBUF_PUB_MAX_SIZE];

    for (unsigned i = 0; i < TRIES; i++) {
        if (!keys->random(keys->user, keys->private_key, sizeof keys->private_key)) {
            return false;
        }
        if (is_scalar(keys->private_key)) {
            if (br_ec_compute_pub(br_ec_get_default(), NULL, encoded, &key) != 1 + KR_POINT) {
                return false;
            }
            memcpy(point, encoded + 1, KR_POINT);
            return true;
        }
    }
    return false;
}
