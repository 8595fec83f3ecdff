/* The port on BearSSL: constant time, no allocation, deterministic signatures (RFC 6979). */
#ifndef KEYRACK_BEARSSL_H
#define KEYRACK_BEARSSL_H

#include "keyrack_box.h"

/* The box's private key, and the source of random bytes. Keep the key secret. */
struct kr_bearssl {
    uint8_t private_key[32];
    bool (*random)(void *user, uint8_t *bytes, size_t len); /* random bytes of the hardware */
    void *user;
};

/* A port that uses this key; `keys` must stay at its address. */
struct kr_port kr_bearssl_port(struct kr_bearssl *keys);

/* Creates a new key pair, for kr_box_reset. False if the random source fails. */
bool kr_bearssl_make_key(struct kr_bearssl *keys, uint8_t point[KR_POINT]);

#endif
