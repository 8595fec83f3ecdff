/* The name in a slot, for boxes and for phones that look for them (docs/key-bluetooth.md, "Advertisement"). */
#include "names.h"

#include <string.h>

#include "hmac.h"

#define LABEL_MOST 16

void kr_derive(const struct kr_port *port, struct kr_bytes key, const char *label, uint64_t number, unsigned bytes,
               uint8_t digest[KR_DIGEST])
{
    uint8_t input[LABEL_MOST + 8];
    size_t len = strlen(label);

    memcpy(input, label, len);
    kr_put_number(input + len, number, bytes);
    kr_hmac(port, key, (struct kr_bytes){input, len + bytes}, digest);
}

void kr_spell_name(const uint8_t digest[KR_DIGEST], uint8_t name[KR_ADVERTISED_NAME])
{
    static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    uint32_t bits = (uint32_t)digest[0] << 24 | (uint32_t)digest[1] << 16 | (uint32_t)digest[2] << 8 | digest[3];

    name[0] = 'K';
    name[1] = '-';
    for (unsigned i = 2; i < KR_ADVERTISED_NAME; i++) {
        name[i] = (uint8_t)alphabet[bits >> 27];
        bits <<= 5;
    }
}

void kr_slot_name(const struct kr_port *port, const uint8_t key[KR_ADVERTISING], uint64_t slot,
             uint8_t name[KR_ADVERTISED_NAME])
{
    uint8_t digest[KR_DIGEST];

    kr_derive(port, (struct kr_bytes){key, KR_ADVERTISING}, "keyrack-name-1", slot, 4, digest);
    kr_spell_name(digest, name);
}
