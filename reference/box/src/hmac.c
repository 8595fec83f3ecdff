/* HMAC (RFC 2104) by the port's SHA-256. */
#include "hmac.h"

#define BLOCK 64 /* of SHA-256 */

/* A compiler may leave out what it takes for useless, but nothing that is volatile. */
void kr_wipe(uint8_t *bytes, size_t len)
{
    volatile uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++) {
        at[i] = 0;
    }
}

void kr_put_number(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
    }
}

void kr_hmac(const struct kr_port *port, struct kr_bytes key, struct kr_bytes bytes, uint8_t digest[KR_DIGEST])
{
    uint8_t inner[BLOCK], outer[BLOCK], within[KR_DIGEST];
    for (unsigned i = 0; i < BLOCK; i++) {
        unsigned of_key = i < key.len ? key.at[i] : 0;
        inner[i] = (uint8_t)(of_key ^ 0x36);
        outer[i] = (uint8_t)(of_key ^ 0x5c);
    }
    const struct kr_bytes first[] = {{inner, BLOCK}, bytes};
    const struct kr_bytes second[] = {{outer, BLOCK}, {within, KR_DIGEST}};
    port->sha256(port->user, first, 2, within);
    port->sha256(port->user, second, 2, digest);
    kr_wipe(inner, sizeof inner);
    kr_wipe(outer, sizeof outer);
    kr_wipe(within, sizeof within);
}
