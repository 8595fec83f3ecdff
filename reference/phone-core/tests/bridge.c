/* Additions for tests: states and answers as CBOR, arrays of exact sizes, and fake signatures. Not for apps. */
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "fake_signatures.h"
#include "keyrack_bearssl.h"
#include "keyrack_phone_bluetooth.h"
#include "phone.h"

#define MOST 64 /* members of an array in an answer */

struct kr_phone_test {
    struct kr_phone_state phone;
    struct kr_conversation conversation;
    struct kr_port port;
    struct kr_bearssl keys;
};

EXPORT struct kr_phone_test *kr_phone_test_begin(const uint8_t private_key[32], const uint8_t point[KR_POINT],
                                                 int stubbed, const uint64_t rooms[6]);
EXPORT void kr_phone_test_end(struct kr_phone_test *t);
EXPORT void kr_phone_test_sizes(uint64_t sizes[9]);
EXPORT int kr_phone_test_take(struct kr_phone_test *t, const uint8_t *answer, size_t len, uint64_t now);
EXPORT int kr_phone_test_home(struct kr_phone_test *t, const uint8_t *lists, size_t len);
EXPORT int kr_phone_test_home_own(struct kr_phone_test *t, size_t begin, size_t count);
EXPORT int kr_phone_test_keep(struct kr_phone_test *t, const uint8_t *entry, size_t len);
EXPORT void kr_phone_test_set(struct kr_phone_test *t, uint64_t counter, uint64_t met_server);
EXPORT void kr_phone_test_met(struct kr_phone_test *t, uint64_t now);
EXPORT uint64_t kr_phone_test_counter(struct kr_phone_test *t, uint64_t now);
EXPORT size_t kr_phone_test_dump(const struct kr_phone_test *t, uint8_t *out, size_t room);
EXPORT int kr_phone_test_brings(const struct kr_phone_test *t, const uint8_t *message, size_t len, uint64_t now,
                                uint8_t *out, size_t room, size_t *written);
EXPORT size_t kr_phone_test_keys(const struct kr_phone_test *t, const uint8_t *name, size_t len, uint64_t now,
                                 uint8_t *out, size_t room);
EXPORT uint64_t kr_phone_test_missing(const struct kr_phone_test *t, const uint8_t *name, size_t len, uint64_t first);
EXPORT size_t kr_phone_test_registration(const struct kr_phone_test *t, const uint8_t *subject, size_t len,
                                         const uint8_t *nonce, uint8_t *out);
EXPORT void kr_phone_test_call(struct kr_phone_test *t, int call, const uint8_t *message, size_t len, uint64_t now,
                               uint64_t next[6], uint8_t *out);
EXPORT void kr_phone_test_want(struct kr_phone_test *t, uint32_t product);
EXPORT int kr_phone_test_nothing(const struct kr_phone_test *t, const uint8_t *message, size_t len);
EXPORT int kr_phone_test_action(uint64_t code);
EXPORT int kr_phone_test_der(const uint8_t *der, size_t len, uint8_t signature[KR_SIGNATURE]);

static bool sign_nothing(void *user, const uint8_t digest[KR_DIGEST], uint8_t signature[KR_SIGNATURE])
{
    (void)user;
    (void)digest;
    (void)signature;
    return false;
}

/* `stubbed`: 0 for real signatures, 1 for fake ones, 2 for a key store that does not sign. */
struct kr_phone_test *kr_phone_test_begin(const uint8_t private_key[32], const uint8_t point[KR_POINT], int stubbed,
                                          const uint64_t rooms[6])
{
    struct kr_phone_test *t = calloc(1, sizeof *t);
    struct kr_phone_memory memory = {
        malloc(rooms[0] * sizeof(struct kr_held_root)),    rooms[0], malloc(rooms[1] * sizeof(struct kr_held_key)),
        rooms[1], malloc(rooms[2] * sizeof(struct kr_held_box)),     rooms[2],
        malloc(rooms[3] * sizeof(struct kr_held_list)),    rooms[3], malloc(rooms[4] * sizeof(struct kr_held_receipt)),
        rooms[4], malloc(rooms[5] * sizeof(struct kr_held_entry)),   rooms[5],
    };

    if (t == NULL) {
        abort();
    }
    memcpy(t->keys.private_key, private_key, sizeof t->keys.private_key);
    t->port = kr_bearssl_port(&t->keys);
    t->port.random = NULL; /* never called */
    if (stubbed != 0) {
        t->port.verify = kr_fake_verify;
        t->port.sign = stubbed == 1 ? kr_fake_sign : sign_nothing;
    }
    kr_phone_begin(&t->phone, &t->port, point, &memory);
    return t;
}

void kr_phone_test_end(struct kr_phone_test *t)
{
    free(t->phone.memory.roots);
    free(t->phone.memory.keys);
    free(t->phone.memory.boxes);
    free(t->phone.memory.lists);
    free(t->phone.memory.receipts);
    free(t->phone.memory.entries);
    free(t);
}

void kr_phone_test_sizes(uint64_t sizes[9])
{
    const size_t all[9] = {
        sizeof(struct kr_phone_state),  sizeof(struct kr_conversation), sizeof(struct kr_held_root),
        sizeof(struct kr_held_key),     sizeof(struct kr_held_box),     sizeof(struct kr_held_list),
        sizeof(struct kr_held_receipt), sizeof(struct kr_held_entry),
        sizeof(struct kr_phone_ble),
    };
    for (size_t i = 0; i < 9; i++) {
        sizes[i] = all[i];
    }
}

/* A copy of exactly this size, so that a sanitizer sees each read behind it. */
static uint8_t *copy_of(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, bytes, len);
    return copy;
}

static struct kr_bytes bytes_of(struct kr_cursor *in)
{
    struct kr_bytes bytes = {NULL, 0};
    if (!kr_read_bytes(in, 0, SIZE_MAX, &bytes)) {
        abort();
    }
    return bytes;
}

static uint64_t number_of(struct kr_cursor *in)
{
    uint64_t number;
    if (!kr_read_uint(in, 0, KR_UINT_MAX, &number)) {
        abort();
    }
    return number;
}

static size_t count_of(struct kr_cursor *in)
{
    uint64_t count;
    if (!kr_read_array(in, 0, MOST, &count)) {
        abort();
    }
    return (size_t)count;
}

static size_t bytes_list(struct kr_cursor *in, struct kr_bytes list[MOST])
{
    size_t count = count_of(in);
    for (size_t i = 0; i < count; i++) {
        list[i] = bytes_of(in);
    }
    return count;
}

/* [key set, [root], [[key, assignment, renewAfter]], [[name, key, [list], receipt]]] */
int kr_phone_test_take(struct kr_phone_test *t, const uint8_t *answer, size_t len, uint64_t now)
{
    static struct kr_bytes roots[MOST], lists[MOST][MOST];
    static struct kr_answered_key keys[MOST];
    static struct kr_answered_box boxes[MOST];
    struct kr_cursor in = {answer, len};
    struct kr_keys_answer all = {{NULL, 0}, roots, 0, keys, 0, boxes, 0};

    (void)count_of(&in);
    all.key_set = bytes_of(&in);
    all.root_count = bytes_list(&in, roots);
    all.key_count = count_of(&in);
    for (size_t i = 0; i < all.key_count; i++) {
        (void)count_of(&in);
        keys[i].message = bytes_of(&in);
        keys[i].assignment = (uint32_t)number_of(&in);
        keys[i].renew_after = number_of(&in);
    }
    all.box_count = count_of(&in);
    for (size_t i = 0; i < all.box_count; i++) {
        (void)count_of(&in);
        boxes[i].name = bytes_of(&in);
        boxes[i].key = bytes_of(&in);
        boxes[i].lists = lists[i];
        boxes[i].list_count = bytes_list(&in, lists[i]);
        boxes[i].receipt = bytes_of(&in);
    }
    return (int)kr_phone_take_keys(&t->phone, &all, now);
}

/* [[entry], [receipt]] */
int kr_phone_test_home(struct kr_phone_test *t, const uint8_t *both, size_t len)
{
    struct kr_bytes entries[MOST], receipts[MOST];
    struct kr_cursor in = {both, len};

    (void)count_of(&in);
    size_t entry_count = bytes_list(&in, entries);
    size_t receipt_count = bytes_list(&in, receipts);
    return (int)kr_phone_bring_home(&t->phone, entries, entry_count, receipts, receipt_count);
}

/* Entries of the phone itself, as an app uploads them. */
int kr_phone_test_home_own(struct kr_phone_test *t, size_t begin, size_t count)
{
    struct kr_bytes entries[MOST];

    for (size_t i = 0; i < count && i < MOST; i++) {
        const struct kr_held_entry *entry = &t->phone.memory.entries[begin + i];
        entries[i] = (struct kr_bytes){entry->message, entry->len};
    }
    return (int)kr_phone_bring_home(&t->phone, entries, count, NULL, 0);
}

int kr_phone_test_keep(struct kr_phone_test *t, const uint8_t *entry, size_t len)
{
    return (int)kr_phone_keep_entry(&t->phone, (struct kr_bytes){entry, len});
}

void kr_phone_test_set(struct kr_phone_test *t, uint64_t counter, uint64_t met_server)
{
    t->phone.counter = counter;
    t->phone.met_server = met_server;
}

void kr_phone_test_met(struct kr_phone_test *t, uint64_t now)
{
    kr_phone_have_met(&t->phone, now);
}

uint64_t kr_phone_test_counter(struct kr_phone_test *t, uint64_t now)
{
    return kr_phone_next_counter(&t->phone, now);
}

/* [key set, [root], [[name, key]], [[key, assignment, renewAfter]], [list], [receipt], [entry], counter, metServer] */
size_t kr_phone_test_dump(const struct kr_phone_test *t, uint8_t *at, size_t room)
{
    const struct kr_phone_state *phone = &t->phone;
    const struct kr_phone_memory *memory = &phone->memory;
    struct kr_writer out = kr_writer(at, room);

    kr_write_head(&out, KR_ARRAY, 9);
    kr_write_bytes(&out, (struct kr_bytes){phone->key_set.message, phone->key_set.len});
    kr_write_head(&out, KR_ARRAY, phone->root_count);
    for (size_t i = 0; i < phone->root_count; i++) {
        kr_write_bytes(&out, (struct kr_bytes){memory->roots[i].message, memory->roots[i].len});
    }
    kr_write_head(&out, KR_ARRAY, phone->box_count);
    for (size_t i = 0; i < phone->box_count; i++) {
        kr_write_head(&out, KR_ARRAY, 2);
        kr_write_text(&out, kr_name(&memory->boxes[i].name));
        kr_write_bytes(&out, (struct kr_bytes){memory->boxes[i].key.point, memory->boxes[i].has_key ? KR_POINT : 0});
    }
    kr_write_head(&out, KR_ARRAY, phone->key_count);
    for (size_t i = 0; i < phone->key_count; i++) {
        kr_write_head(&out, KR_ARRAY, 3);
        kr_write_bytes(&out, (struct kr_bytes){memory->keys[i].message, memory->keys[i].len});
        kr_write_uint(&out, memory->keys[i].assignment);
        kr_write_uint(&out, memory->keys[i].renew_after);
    }
    kr_write_head(&out, KR_ARRAY, phone->list_count);
    for (size_t i = 0; i < phone->list_count; i++) {
        kr_write_bytes(&out, (struct kr_bytes){memory->lists[i].message, memory->lists[i].len});
    }
    kr_write_head(&out, KR_ARRAY, phone->receipt_count);
    for (size_t i = 0; i < phone->receipt_count; i++) {
        kr_write_bytes(&out, (struct kr_bytes){memory->receipts[i].message, memory->receipts[i].len});
    }
    kr_write_head(&out, KR_ARRAY, phone->entry_count);
    for (size_t i = 0; i < phone->entry_count; i++) {
        kr_write_bytes(&out, (struct kr_bytes){memory->entries[i].message, memory->entries[i].len});
    }
    kr_write_uint(&out, phone->counter);
    kr_write_uint(&out, phone->met_server);
    return out.full ? 0 : out.len;
}

/* [authority, artefacts], each a count and the messages, and whether the clock is right; the result is the code. */
int kr_phone_test_brings(const struct kr_phone_test *t, const uint8_t *message, size_t len, uint64_t now, uint8_t *at,
                         size_t room, size_t *written)
{
    struct kr_writer out = kr_writer(at, room);
    struct kr_challenge challenge;
    struct kr_bytes artefact;
    size_t counts[2] = {0, 0};
    uint8_t *copy = copy_of(message, len);
    enum kr_code code = kr_read_challenge(&t->port, (struct kr_bytes){copy, len}, &challenge);

    free(copy);
    while (code == KR_GOOD && kr_phone_authority(&t->phone, &challenge, counts[0], &artefact)) {
        counts[0]++;
    }
    while (code == KR_GOOD && kr_phone_artefact(&t->phone, &challenge, counts[1], &artefact)) {
        counts[1]++;
    }
    kr_write_head(&out, KR_ARRAY, 3);
    kr_write_head(&out, KR_ARRAY, counts[0]);
    for (size_t i = 0; i < counts[0] && kr_phone_authority(&t->phone, &challenge, i, &artefact); i++) {
        kr_write_bytes(&out, artefact);
    }
    kr_write_head(&out, KR_ARRAY, counts[1]);
    for (size_t i = 0; i < counts[1] && kr_phone_artefact(&t->phone, &challenge, i, &artefact); i++) {
        kr_write_bytes(&out, artefact);
    }
    kr_write_uint(&out, code == KR_GOOD && kr_is_clock_right(&challenge, now));
    *written = out.len;
    return (int)code;
}

size_t kr_phone_test_keys(const struct kr_phone_test *t, const uint8_t *name, size_t len, uint64_t now, uint8_t *at,
                          size_t room)
{
    struct kr_writer out = kr_writer(at, room);
    struct kr_bytes box = {name, len};
    const struct kr_held_key *key;
    size_t count = 0;

    while (kr_phone_key(&t->phone, box, count, now) != NULL) {
        count++;
    }
    kr_write_head(&out, KR_ARRAY, count);
    for (size_t i = 0; i < count; i++) {
        key = kr_phone_key(&t->phone, box, i, now);
        kr_write_head(&out, KR_ARRAY, 2);
        kr_write_bytes(&out, (struct kr_bytes){key->message, key->len});
        kr_write_uint(&out, kr_phone_is_overdue(&t->phone, key, now));
    }
    return out.len;
}

uint64_t kr_phone_test_missing(const struct kr_phone_test *t, const uint8_t *name, size_t len, uint64_t first)
{
    return kr_phone_first_missing(&t->phone, (struct kr_bytes){name, len}, first);
}

size_t kr_phone_test_registration(const struct kr_phone_test *t, const uint8_t *subject, size_t len,
                                  const uint8_t *nonce, uint8_t *out)
{
    return kr_phone_registration(&t->phone, (struct kr_bytes){subject, len}, nonce, out);
}

/* 0 begins a conversation with a command (`now`; 16 more with a network), 1 takes a reply, 2 a time, 3 a loss (`len`
 * is whether the whole message was sent), 4 fetches. */
void kr_phone_test_call(struct kr_phone_test *t, int call, const uint8_t *message, size_t len, uint64_t now,
                        uint64_t next[6], uint8_t *out)
{
    struct kr_conversation *c = &t->conversation;
    uint8_t *copy = copy_of(message, call == 1 || call == 2 ? len : 0);
    struct kr_bytes bytes = {copy, len};
    struct kr_next n = call == 0   ? kr_conversation_begin(c, &t->phone, now & 15, now >= 16)
                       : call == 1 ? kr_conversation_receive(c, bytes, now)
                       : call == 2 ? kr_conversation_time(c, bytes, now)
                       : call == 3 ? kr_conversation_lost(c, len > 0)
                                   : kr_conversation_fetch(c);
    free(copy);
    next[0] = (uint64_t)n.what;
    next[1] = (uint64_t)n.end;
    next[2] = n.code;
    next[3] = (uint64_t)n.action;
    next[4] = n.save;
    next[5] = n.message.len;
    if (n.message.len > 0) {
        memcpy(out, n.message.at, n.message.len);
    }
}

void kr_phone_test_want(struct kr_phone_test *t, uint32_t product)
{
    kr_conversation_want(&t->conversation, product);
}

int kr_phone_test_nothing(const struct kr_phone_test *t, const uint8_t *message, size_t len)
{
    struct kr_challenge challenge;
    return kr_read_challenge(&t->port, (struct kr_bytes){message, len}, &challenge) == KR_GOOD &&
           kr_conversation_has_done_nothing(&t->conversation, &challenge);
}

int kr_phone_test_action(uint64_t code)
{
    return (int)kr_action(code);
}

int kr_phone_test_der(const uint8_t *der, size_t len, uint8_t signature[KR_SIGNATURE])
{
    return kr_signature_from_der((struct kr_bytes){der, len}, signature);
}
