/* Fake signatures: one is valid unless it starts with 255. Tests in Python have the same rule. */
#ifndef KR_FAKE_SIGNATURES_H
#define KR_FAKE_SIGNATURES_H

#include <string.h>

#include "keyrack_box.h"

static inline bool kr_fake_verify(void *user, const uint8_t point[KR_POINT], const uint8_t digest[KR_DIGEST],
                                  const uint8_t signature[KR_SIGNATURE])
{
    (void)user;
    (void)point;
    (void)digest;
    return signature[0] != 255;
}

static inline bool kr_fake_sign(void *user, const uint8_t digest[KR_DIGEST], uint8_t signature[KR_SIGNATURE])
{
    (void)user;
    memcpy(signature, digest, KR_DIGEST);
    memcpy(signature + KR_DIGEST, digest, KR_DIGEST);
    return true;
}

#endif
