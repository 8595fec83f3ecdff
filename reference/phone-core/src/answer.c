/* The calls of the server: the messages of GET /sdk/keys. */
#include <string.h>

#include "phone.h"

enum kr_code kr_read_held(const struct kr_port *port, struct kr_bytes message, enum kr_message kind,
                          struct kr_read *read, uint8_t *held, uint16_t *len)
{
    memset(&read->claims, 0, sizeof read->claims);
    enum kr_code code = kr_read(port, message, kind, &read->message, &read->claims);
    if (code == KR_GOOD) {
        *len = (uint16_t)message.len;
        memcpy(held, message.at, message.len);
    }
    return code;
}

static enum kr_code read_key_set(const struct kr_port *port, struct kr_bytes message, struct kr_held_key_set *set)
{
    struct kr_read read;

    memset(set, 0, sizeof *set);
    if (message.len == 0) {
        return KR_GOOD;
    }
    enum kr_code code = kr_read_held(port, message, KR_KEY_SET, &read, set->message, &set->len);
    if (code == KR_GOOD) {
        set->sequence = read.claims.sequence;
    }
    return code;
}

static enum kr_code read_root(const struct kr_port *port, struct kr_bytes message, struct kr_held_root *root)
{
    struct kr_read read;
    struct kr_public_key key;
    enum kr_code code = kr_read_held(port, message, KR_NEW_ROOT, &read, root->message, &root->len);

    if (code == KR_GOOD) {
        kr_public_key(port, read.claims.root, &key);
        root->sequence = read.claims.sequence;
        memcpy(root->signer, read.message.kid, KR_KID);
        memcpy(root->kid, key.thumbprint, KR_KID);
    }
    return code;
}

static enum kr_code read_key(const struct kr_phone_state *phone, const struct kr_answered_key *answered,
                             struct kr_held_key *key)
{
    struct kr_read read;
    struct kr_public_key cnf;
    enum kr_code code = kr_read_held(phone->port, answered->message, KR_KEY, &read, key->message, &key->len);

    if (code != KR_GOOD) {
        return code;
    }
    kr_public_key(phone->port, read.claims.cnf, &cnf);
    if (!kr_equal(cnf.point, phone->self.point, KR_POINT)) {
        return KR_CODE_OTHER_KEY;
    }
    kr_set_name(&key->box, read.claims.aud);
    key->assignment = answered->assignment;
    key->begins = read.claims.nbf;
    key->expires = read.claims.exp;
    key->renew_after = answered->renew_after;
    return KR_GOOD;
}

static enum kr_code read_box(const struct kr_port *port, const struct kr_answered_box *answered,
                             struct kr_held_box *box)
{
    struct kr_cursor in = kr_cursor(answered->key);
    const uint8_t *encoded;

    if (answered->name.len > KR_NAME_MOST) {
        return KR_CODE_CLAIMS;
    }
    memset(box, 0, sizeof *box);
    kr_set_name(&box->name, answered->name);
    box->has_key = answered->key.len > 0;
    if (!box->has_key) {
        return KR_GOOD;
    }
    if (!kr_read_public_key(port, &in, &encoded) || in.left > 0) {
        return KR_CODE_CLAIMS;
    }
    kr_public_key(port, encoded, &box->key);
    return KR_GOOD;
}

static enum kr_code read_list(const struct kr_port *port, struct kr_bytes message, struct kr_held_list *list)
{
    struct kr_read read;
    enum kr_code code = kr_read_held(port, message, KR_STATUS_LIST, &read, list->message, &list->len);

    if (code == KR_GOOD) {
        kr_set_name(&list->box, read.claims.aud);
        list->generation = read.claims.generation;
        list->iat = read.claims.iat;
    }
    return code;
}

/* Inserts a root by its sequence, after those with the same one. */
static void sort_root(struct kr_held_root *roots, size_t place)
{
    for (; place > 0 && roots[place - 1].sequence > roots[place].sequence; place--) {
        struct kr_held_root later = roots[place - 1];
        roots[place - 1] = roots[place];
        roots[place] = later;
    }
}

/* Key sets and new roots share one series of sequences. */
static uint64_t later_of(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* Reads all messages, and stores nothing. `newest` is the last sequence. */
static enum kr_code check(const struct kr_phone_state *phone, const struct kr_keys_answer *answer, uint64_t *newest)
{
    union {
        struct kr_held_key_set set;
        struct kr_held_root root;
        struct kr_held_key key;
        struct kr_held_box box;
        struct kr_held_list list;
        struct kr_held_receipt receipt;
    } held;
    size_t boxes = 0, lists = 0;

    enum kr_code code = read_key_set(phone->port, answer->key_set, &held.set);
    *newest = held.set.sequence;
    for (size_t i = 0; i < answer->root_count && code == KR_GOOD; i++) {
        code = read_root(phone->port, answer->roots[i], &held.root);
        *newest = later_of(*newest, held.root.sequence);
    }
    for (size_t i = 0; i < answer->key_count && code == KR_GOOD; i++) {
        code = read_key(phone, &answer->keys[i], &held.key);
    }
    for (size_t i = 0; i < answer->box_count && code == KR_GOOD; i++) {
        const struct kr_answered_box *box = &answer->boxes[i];
        boxes += box->list_count > 0;
        lists += box->list_count;
        if (box->list_count > 0) {
            code = read_box(phone->port, box, &held.box);
        }
        for (size_t j = 0; j < box->list_count && code == KR_GOOD; j++) {
            code = read_list(phone->port, box->lists[j], &held.list);
        }
        if (box->receipt.len > 0 && code == KR_GOOD) {
            code = kr_read_receipt(phone->port, box->receipt, &held.receipt);
        }
    }
    bool has_room = answer->root_count <= phone->memory.root_room && answer->key_count <= phone->memory.key_room &&
                    boxes <= phone->memory.box_room && lists <= phone->memory.list_room;
    return code == KR_GOOD && !has_room ? KR_CODE_TOO_LONG : code;
}

static void take_authority(struct kr_phone_state *phone, const struct kr_keys_answer *answer)
{
    (void)read_key_set(phone->port, answer->key_set, &phone->key_set);
    for (size_t i = 0; i < answer->root_count; i++) {
        (void)read_root(phone->port, answer->roots[i], &phone->memory.roots[i]);
        sort_root(phone->memory.roots, i);
    }
    phone->root_count = answer->root_count;
}

/* Only a box of which there is a list is known. */
static void take_box(struct kr_phone_state *phone, const struct kr_answered_box *box)
{
    struct kr_held_receipt receipt;

    if (box->list_count > 0) {
        (void)read_box(phone->port, box, &phone->memory.boxes[phone->box_count++]);
    }
    for (size_t i = 0; i < box->list_count; i++) {
        (void)read_list(phone->port, box->lists[i], &phone->memory.lists[phone->list_count++]);
    }
    if (box->receipt.len > 0 && kr_read_receipt(phone->port, box->receipt, &receipt) == KR_GOOD) {
        kr_take_receipt(phone, &receipt);
    }
}

/* Answers may come in the wrong order, so an older key set or root never replaces a newer one. */
enum kr_code kr_phone_take_keys(struct kr_phone_state *phone, const struct kr_keys_answer *answer, uint64_t now)
{
    uint64_t newest, known = phone->key_set.sequence;
    enum kr_code code = check(phone, answer, &newest);

    if (code != KR_GOOD) {
        return code;
    }
    for (size_t i = 0; i < phone->root_count; i++) {
        known = later_of(known, phone->memory.roots[i].sequence);
    }
    if (answer->key_set.len == 0 || newest >= known) {
        take_authority(phone, answer);
    }
    for (size_t i = 0; i < answer->key_count; i++) {
        (void)read_key(phone, &answer->keys[i], &phone->memory.keys[i]);
    }
    phone->key_count = answer->key_count;
    phone->box_count = 0;
    phone->list_count = 0;
    for (size_t i = 0; i < answer->box_count; i++) {
        take_box(phone, &answer->boxes[i]);
    }
    phone->met_server = now;
    return KR_GOOD;
}

void kr_phone_have_met(struct kr_phone_state *phone, uint64_t now)
{
    phone->met_server = later_of(phone->met_server, now);
}
