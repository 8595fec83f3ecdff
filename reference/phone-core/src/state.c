/* The state of the phone, and its queries. */
#include <string.h>

#include "phone.h"

struct kr_bytes kr_name(const struct kr_text *text)
{
    return (struct kr_bytes){text->at, text->len};
}

void kr_set_name(struct kr_text *text, struct kr_bytes name)
{
    memset(text, 0, sizeof *text);
    text->len = (uint8_t)name.len;
    if (name.len > 0) {
        memcpy(text->at, name.at, name.len);
    }
}

void kr_phone_begin(struct kr_phone_state *phone, const struct kr_port *port, const uint8_t point[KR_POINT],
                    const struct kr_phone_memory *memory)
{
    uint8_t encoded[KR_PUBLIC_KEY];
    struct kr_writer out = kr_writer(encoded, sizeof encoded);

    memset(phone, 0, sizeof *phone);
    phone->port = port;
    phone->memory = *memory;
    kr_write_public_key(&out, point);
    kr_public_key(port, encoded, &phone->self);
}

static bool is_valid(const struct kr_held_key *key, uint64_t now)
{
    return key->begins * 1000 <= now && now < key->expires * 1000;
}

static bool is_better(const struct kr_held_key *key, const struct kr_held_key *other, uint64_t now)
{
    bool valid = is_valid(key, now), other_valid = is_valid(other, now);
    return valid != other_valid ? valid : key->expires > other->expires;
}

const struct kr_held_key *kr_phone_key(const struct kr_phone_state *phone, struct kr_bytes box, size_t place,
                                       uint64_t now)
{
    const struct kr_held_key *keys = phone->memory.keys;

    for (size_t i = 0; i < phone->key_count; i++) {
        size_t before = 0; /* better keys, and equally good ones that come first */
        if (!kr_same(kr_name(&keys[i].box), box)) {
            continue;
        }
        for (size_t j = 0; j < phone->key_count; j++) {
            if (kr_same(kr_name(&keys[j].box), box) &&
                (is_better(&keys[j], &keys[i], now) || (j < i && !is_better(&keys[i], &keys[j], now)))) {
                before++;
            }
        }
        if (before == place) {
            return &keys[i];
        }
    }
    return NULL;
}

const struct kr_held_box *kr_phone_box(const struct kr_phone_state *phone, struct kr_bytes name)
{
    for (size_t i = 0; i < phone->box_count; i++) {
        if (kr_same(kr_name(&phone->memory.boxes[i].name), name)) {
            return &phone->memory.boxes[i];
        }
    }
    return NULL;
}

bool kr_is_box_of(struct kr_bytes name, uint32_t product)
{
    static const uint8_t prefix[] = {'b', 'o', 'x', ':'};
    uint32_t divisor = 1;
    size_t place = sizeof prefix;

    if (product == 0 || name.len == 0) {
        return true;
    }
    if (name.len <= place || memcmp(name.at, prefix, sizeof prefix) != 0) {
        return false;
    }
    while (product / divisor >= 10) {
        divisor *= 10;
    }
    for (; divisor > 0; divisor /= 10) {
        if (place >= name.len || name.at[place++] != '0' + product / divisor % 10) {
            return false;
        }
    }
    return place < name.len && name.at[place] == ':';
}

bool kr_phone_is_overdue(const struct kr_phone_state *phone, const struct kr_held_key *key, uint64_t now)
{
    return key->renew_after <= now && phone->met_server < key->renew_after;
}

uint64_t kr_phone_next_counter(struct kr_phone_state *phone, uint64_t now)
{
    phone->counter = phone->counter + 1 > now ? phone->counter + 1 : now;
    return phone->counter;
}
