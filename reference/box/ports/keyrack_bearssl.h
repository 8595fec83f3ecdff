/* The port on BearSSL: constant time, no allocation, deterministic signatures (RFC 6979). */
#ifndef KEYRACK_BEARSSL_H
#define KEYRACK_BEARSSL_H

#include "keyrack_box.h"

/* The box's private key, and where random bytes come from. To be kept where nobody reads it. */
struct kr_bearssl {
    uint8_t private_key[32];
    bool (*random)(void *user, uint8_t *bytes, size_t len); /* of the hardware */
    void *user;
};

/* A port that uses this key; `keys` has to stay where it is. */
struct kr_port kr_bearssl_port(struct kr_bearssl *keys);

/* Makes a key pair anew, for kr_box_reset. False where there are no random bytes. */
bool kr_bearssl_make_key(struct kr_bearssl *keys, uint8_t point[KR_POINT]);

#endif
