/* Fuzzes the box alone (libFuzzer, with sanitizers): `make fuzz`, or tests/offline_keys/fuzz_boxes.py with initial
 * states and messages. Signatures are fake. Decompressed lists are compared with zlib.
 *
 * An input is a byte for its kind, a byte for time and link, and the content. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "box.h"
#include "fake_signatures.h"
#include "inflate.h"
#include "keyrack_bearssl.h"
#include "memory_store.h"

#define STATES_MOST 64
#define IN_A_MESSAGE 100 /* from this kind on, the content is a payload; from A_STREAM on, a zlib stream */
#define A_STREAM 200
#define KINDS 6

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct kr_box states[STATES_MOST];
static size_t state_count;
static struct kr_memory_store memory;

static bool random_bytes(void *user, uint8_t *bytes, size_t len)
{
    (void)user;
    memset(bytes, 'r', len);
    return true;
}

static struct kr_bearssl nobody;
static struct kr_port port; /* SHA-256 as it is, the rest from above */
static const struct kr_store store = {&memory, kr_memory_put, kr_memory_get};

/* States written by tests/offline_keys/fuzz_boxes.py: images of the struct. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *path = getenv("KR_STATES");
    FILE *file = path ? fopen(path, "rb") : NULL;
    static const uint8_t point[KR_POINT] = {1, 2, 3};

    (void)argc;
    (void)argv;
    port = kr_bearssl_port(&nobody);
    port.verify = kr_fake_verify;
    port.sign = kr_fake_sign;
    port.random = random_bytes;
    (void)kr_box_reset(&states[0], &port, &store, point, 0);
    (void)kr_box_connect(&states[0], 0);
    state_count = 1;
    while (file && state_count < STATES_MOST && fread(&states[state_count], sizeof states[0], 1, file) == 1) {
        state_count++;
    }
    if (file) {
        fclose(file);
    }
    return 0;
}

static void same_as_zlib(const uint8_t *data, size_t size)
{
    uint8_t ours[KR_LIST_BITS / 8] = {0}, theirs[KR_LIST_BITS / 8 + 1] = {0};
    z_stream z = {0};

    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = theirs;
    z.avail_out = sizeof theirs;
    if (inflateInit(&z) != Z_OK) {
        abort();
    }
    bool expected = inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 1 && data[0] == 0x78;
    inflateEnd(&z);
    if (kr_inflate((struct kr_bytes){data, size}, ours, sizeof ours) != expected ||
        (expected && memcmp(ours, theirs, sizeof ours) != 0)) {
        abort();
    }
}

static void wrap(const struct kr_public_key *by, enum kr_message kind, struct kr_bytes payload, struct kr_writer *out)
{
    (void)kr_write_signed(&port, by, kind, payload, out);
}

/* The matching answer for this key, so that the fuzzer need not find hashes. */
static void answer(const struct kr_box *box, struct kr_bytes key, uint64_t command, struct kr_writer *out)
{
    uint8_t digest[KR_DIGEST], bytes[300];
    struct kr_writer payload = kr_writer(bytes, sizeof bytes);
    struct kr_signed message;
    struct kr_claims claims;
    struct kr_public_key phone = {{0}, {0}};

    if (kr_read(&port, key, KR_KEY, &message, &claims) == KR_GOOD) {
        kr_public_key(&port, claims.cnf, &phone);
    }
    kr_sha256(&port, key, digest);
    kr_write_head(&payload, KR_MAP, 6);
    kr_write_int(&payload, KR_M_AUD);
    kr_write_text(&payload, kr_text_bytes(&box->kept.name));
    kr_write_int(&payload, KR_M_NONCE);
    kr_write_bytes(&payload, (struct kr_bytes){box->links[0].nonce, KR_NONCE});
    kr_write_int(&payload, KR_M_COMMAND);
    kr_write_uint(&payload, command);
    kr_write_int(&payload, KR_M_COUNTER);
    kr_write_uint(&payload, KR_UINT_MAX);
    kr_write_int(&payload, KR_M_KEY);
    kr_write_bytes(&payload, (struct kr_bytes){digest, KR_DIGEST});
    kr_write_int(&payload, KR_M_CHALLENGE);
    kr_write_bytes(&payload, (struct kr_bytes){box->links[0].challenge, KR_DIGEST});
    wrap(&phone, KR_ANSWER, (struct kr_bytes){bytes, payload.len}, out);
}

static const struct kr_public_key *signer_of(const struct kr_box *box, enum kr_message kind)
{
    if (kind == KR_KEY_SET || kind == KR_NEW_ROOT) {
        return &box->kept.root;
    }
    return kind == KR_TIME || kind == KR_RECEIPT ? &box->kept.service[0] : &box->kept.issuing[0];
}

/* A message with this payload, by a signer that the box trusts. */
static size_t message_of(const struct kr_box *box, unsigned what, struct kr_bytes payload, uint8_t *message)
{
    static const enum kr_message kinds[] = {KR_STATUS_LIST, KR_KEY_SET, KR_NEW_ROOT, KR_TIME, KR_RECEIPT, KR_KEY};
    uint8_t first[KR_WIRE_MOST], second[KR_WIRE_MOST];
    struct kr_writer one = kr_writer(first, sizeof first), two = kr_writer(second, sizeof second);
    struct kr_writer out = kr_writer(message, KR_WIRE_MOST);
    enum kr_message kind = kinds[what % KINDS];

    wrap(signer_of(box, kind), kind, payload, &one);
    kr_write_head(&out, KR_ARRAY, kind == KR_KEY ? 3 : 2);
    kr_write_uint(&out, kind == KR_KEY ? KR_SAYS_OPEN : KR_SAYS_CARRY);
    kr_write_bytes(&out, (struct kr_bytes){first, one.len});
    if (kind == KR_KEY) {
        answer(box, (struct kr_bytes){first, one.len}, 1 + what / KINDS % 2, &two);
        kr_write_bytes(&out, (struct kr_bytes){second, two.len});
    }
    return out.len;
}

/* Invariants after each message. */
static void check(const struct kr_box *box, struct kr_outcome outcome)
{
    const struct kr_kept *kept = &box->kept;
    for (size_t i = 0; i < KR_PHONES; i++) {
        if (box->spent[i].remembered_key > KR_PHONE_BUCKET || box->spent[i].other_key > KR_PHONE_BUCKET) {
            abort();
        }
    }
    if (outcome.reply_len == 0 || outcome.reply_len > KR_WIRE_MOST || kept->next - kept->first > KR_LOG_PLACES ||
        kept->phone_count > KR_PHONES || kept->issuing_count > 2 || kept->service_count > 2 ||
        box->good_count > KR_GOOD_KEYS || box->tokens > KR_BUCKET || kept->ahead > KR_AHEAD || box->time > KR_UINT_MAX ||
        (outcome.effect != KR_STAYS && outcome.code != KR_GOOD)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t ticks[] = {0, 1, 9, 10, 11, 1000, 1000000, UINT64_MAX / 2};
    static const uint8_t hello[] = {0x82, 0x01, 0x81, KR_VERSION}, fetch[] = {0x82, 0x07, 0x00};
    uint8_t message[KR_WIRE_MOST], reply[KR_WIRE_MOST];

    if (size < 3) {
        return 0;
    }
    struct kr_bytes rest = {data + 2, size - 2};
    if (data[0] >= A_STREAM) {
        same_as_zlib(rest.at, rest.len);
        return 0;
    }
    struct kr_box box = states[data[0] % IN_A_MESSAGE % state_count];
    uint64_t tick = box.tick + ticks[data[1] & 7];
    unsigned link = (data[1] >> 3 & 7) == 0 ? data[1] >> 6 : 0;
    box.port = &port;
    box.store = &store;
    if (data[0] >= IN_A_MESSAGE) {
        rest.len = message_of(&box, data[1] >> 3, rest, message);
        rest.at = message;
        link = 0;
    }
    check(&box, kr_box_receive(&box, link, rest, tick, reply));
    check(&box, kr_box_receive(&box, link, (struct kr_bytes){hello, sizeof hello}, tick, reply));
    check(&box, kr_box_receive(&box, link, (struct kr_bytes){fetch, sizeof fetch}, tick, reply));
    return 0;
}
