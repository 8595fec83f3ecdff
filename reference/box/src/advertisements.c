/* The rotating name that a box advertises, so that no stranger can follow a car (docs/key-bluetooth.md,
 * "Advertisement"). */
#include <string.h>

#include "box.h"
#include "hmac.h"
#include "keyrack_transports.h"

#define SLOT_SECONDS 900 /* how long a name lasts */
#define SLOTS_A_DAY 96
#define LABEL_MOST 16

/* HMAC of a label and a number. */
static void derive(const struct kr_port *port, struct kr_bytes key, const char *label, uint64_t number, unsigned bytes,
                   uint8_t digest[KR_DIGEST])
{
    uint8_t input[LABEL_MOST + 8];
    size_t len = strlen(label);

    memcpy(input, label, len);
    kr_put_number(input + len, number, bytes);
    kr_hmac(port, key, (struct kr_bytes){input, len + bytes}, digest);
}

/* `K-` and the first 30 bits, five for each character. */
static void spell(const uint8_t digest[KR_DIGEST], uint8_t name[KR_ADVERTISED_NAME])
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

void kr_day_key(const struct kr_port *port, const uint8_t secret[KR_ADVERTISING], uint64_t day,
                uint8_t key[KR_ADVERTISING])
{
    uint8_t digest[KR_DIGEST];

    derive(port, (struct kr_bytes){secret, KR_ADVERTISING}, "keyrack-day-1", day, 4, digest);
    memcpy(key, digest, KR_ADVERTISING);
    kr_wipe(digest, sizeof digest);
}

void kr_name(const struct kr_port *port, const uint8_t key[KR_ADVERTISING], uint64_t slot,
             uint8_t name[KR_ADVERTISED_NAME])
{
    uint8_t digest[KR_DIGEST];

    derive(port, (struct kr_bytes){key, KR_ADVERTISING}, "keyrack-name-1", slot, 4, digest);
    spell(digest, name);
}

void kr_box_name(struct kr_box *box, uint64_t tick, uint8_t name[KR_ADVERTISED_NAME])
{
    uint8_t bytes[KR_DIGEST];
    uint64_t slot;

    kr_tick(box, tick);
    slot = box->time / SLOT_SECONDS;
    if (box->kept.provisioned) {
        kr_day_key(box->port, box->kept.advertising, slot / SLOTS_A_DAY, bytes);
        kr_name(box->port, bytes, slot, name);
        kr_wipe(bytes, sizeof bytes);
    } else {
        derive(box->port, (struct kr_bytes){box->kept.secret, KR_DIGEST}, "keyrack-name-0", box->kept.boot, 8, bytes);
        spell(bytes, name);
    }
}

void kr_advertisement(const uint8_t name[KR_ADVERTISED_NAME], uint8_t bytes[KR_ADVERTISEMENT])
{
    static const uint8_t flags[] = {2, 0x01, 0x06}; /* general discoverable, no BR/EDR */
    static const uint8_t service[] = KR_BLE_SERVICE;

    memcpy(bytes, flags, sizeof flags);
    bytes[3] = sizeof service + 1;
    bytes[4] = 0x07; /* complete list of 128-bit service UUIDs */
    memcpy(bytes + 5, service, sizeof service);
    bytes[21] = KR_ADVERTISED_NAME + 1;
    bytes[22] = 0x09; /* complete local name */
    memcpy(bytes + 23, name, KR_ADVERTISED_NAME);
}
