/* HMAC by the port's SHA-256, and what its callers need. */
#ifndef KR_HMAC_H
#define KR_HMAC_H

#include "keyrack_box.h"

/* HMAC-SHA-256 (RFC 2104) by a key of at most 64 bytes. */
void kr_hmac(const struct kr_port *port, struct kr_bytes key, struct kr_bytes bytes, uint8_t digest[KR_DIGEST]);
/* Removes a secret from the stack. */
void kr_wipe(uint8_t *bytes, size_t len);
/* Writes the lowest bytes of a number, big-endian. */
void kr_put_number(uint8_t *at, uint64_t value, unsigned bytes);

#endif
