/* The rotating name that a box advertises, so that no stranger can follow a car (docs/key-bluetooth.md,
 * "Advertisement"). */
#include <string.h>

#include "box.h"
#include "hmac.h"
#include "keyrack_transports.h"
#include "names.h"

#define SLOT_SECONDS 900 /* how long a name lasts */
#define SLOTS_A_DAY 96

void kr_day_key(const struct kr_port *port, const uint8_t secret[KR_ADVERTISING], uint64_t day,
                uint8_t key[KR_ADVERTISING])
{
    uint8_t digest[KR_DIGEST];

    kr_derive(port, (struct kr_bytes){secret, KR_ADVERTISING}, "keyrack-day-1", day, 4, digest);
    memcpy(key, digest, KR_ADVERTISING);
    kr_wipe(digest, sizeof digest);
}

void kr_box_name(struct kr_box *box, uint64_t tick, uint8_t name[KR_ADVERTISED_NAME])
{
    uint8_t bytes[KR_DIGEST];
    uint64_t slot;

    kr_tick(box, tick);
    slot = box->time / SLOT_SECONDS;
    if (box->kept.provisioned) {
        kr_day_key(box->port, box->kept.advertising, slot / SLOTS_A_DAY, bytes);
        kr_slot_name(box->port, bytes, slot, name);
        kr_wipe(bytes, sizeof bytes);
    } else {
        kr_derive(box->port, (struct kr_bytes){box->kept.secret, KR_DIGEST}, "keyrack-name-0", box->kept.boot, 8, bytes);
        kr_spell_name(bytes, name);
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
