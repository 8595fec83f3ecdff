/* Measures an opening: by a key that is new to the box (two verifications, one signature), and by a known key (one of
 * each). Prints the medians of 301 rounds, or of the number given as argument. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "box.h"
#include "keyrack_bearssl.h"
#include "members.h"
#include "memory_store.h"

#define ROUNDS_MOST 1001
#define NOW 1800000000u
#define ISS "customer:7"
#define NAME "box:1041:3"
#define URI "https://keyrack.example/v3/boxes/1041/status?epoch=3&generation=1"

/* A signer. */
struct signer {
    struct kr_bearssl keys;
    struct kr_port port;
    struct kr_public_key public_key;
};

static struct kr_box box;
static struct kr_memory_store memory;
static uint64_t counter = 1;

/* Only for measurements, not for keys. */
static bool random_bytes(void *user, uint8_t *bytes, size_t len)
{
    (void)user;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(rand() >> 5);
    }
    return true;
}

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "bench: %s\n", what);
        exit(1);
    }
}

static void make_signer(struct signer *signer)
{
    uint8_t point[KR_POINT], encoded[KR_PUBLIC_KEY];
    struct kr_writer out = kr_writer(encoded, sizeof encoded);

    signer->keys.random = random_bytes;
    signer->port = kr_bearssl_port(&signer->keys);
    must(kr_bearssl_make_key(&signer->keys, point), "no key");
    kr_write_public_key(&out, point);
    kr_public_key(&signer->port, encoded, &signer->public_key);
}

/* Signs the written payload. */
static void sign(struct message *m, const struct signer *by, enum kr_message kind)
{
    struct message payload = *m;
    m->out = kr_writer(m->bytes, sizeof m->bytes);
    must(kr_write_signed(&by->port, &by->public_key, kind, (struct kr_bytes){payload.bytes, payload.out.len}, &m->out),
         "not signed");
}

static void write_list(struct message *m)
{
    static const uint8_t begins[] = {0x78, 0x01, 0x01, 0x00, 0x01, 0xff, 0xfe}, ends[] = {0x01, 0x00, 0x00, 0x01};
    uint8_t stream[sizeof begins + 256 + sizeof ends] = {0};

    memcpy(stream, begins, sizeof begins);
    memcpy(stream + sizeof begins + 256, ends, sizeof ends);
    begin(m, 8);
    name(m, KR_M_ISS, ISS);
    name(m, KR_M_SUB, URI);
    name(m, KR_M_AUD, NAME);
    number(m, KR_M_EXP, NOW + 604800);
    number(m, KR_M_IAT, NOW);
    kr_write_int(&m->out, KR_M_STATUS_LIST);
    kr_write_head(&m->out, KR_MAP, 2);
    kr_write_text(&m->out, text("lst"));
    kr_write_bytes(&m->out, (struct kr_bytes){stream, sizeof stream});
    kr_write_text(&m->out, text("bits"));
    kr_write_uint(&m->out, 1);
    number(m, KR_M_TTL, 300);
    number(m, KR_M_GENERATION, 1);
}

static void write_key(struct message *m, const struct signer *issuer, const struct signer *phone)
{
    uint8_t cti[KR_CTI];
    random_bytes(NULL, cti, sizeof cti);
    begin(m, 12);
    name(m, KR_M_ISS, ISS);
    name(m, KR_M_SUB, "u-4711");
    name(m, KR_M_AUD, NAME);
    number(m, KR_M_EXP, NOW + 604800);
    number(m, KR_M_NBF, NOW);
    number(m, KR_M_IAT, NOW);
    octets(m, KR_M_CTI, cti, sizeof cti);
    kr_write_int(&m->out, KR_M_CNF);
    kr_write_head(&m->out, KR_MAP, 1);
    kr_write_uint(&m->out, 1);
    kr_write_public_key(&m->out, phone->public_key.point);
    kr_write_int(&m->out, KR_M_STATUS);
    kr_write_head(&m->out, KR_MAP, 1);
    kr_write_text(&m->out, text("status_list"));
    kr_write_head(&m->out, KR_MAP, 2);
    kr_write_text(&m->out, text("idx"));
    kr_write_uint(&m->out, 7);
    kr_write_text(&m->out, text("uri"));
    kr_write_text(&m->out, text(URI));
    number(m, KR_M_ASSIGNMENT, 90210);
    kr_write_int(&m->out, KR_M_RIGHTS);
    kr_write_head(&m->out, KR_ARRAY, 2);
    kr_write_uint(&m->out, KR_OPEN);
    kr_write_uint(&m->out, KR_CLOSE);
    number(m, KR_M_LIMIT, 604800);
    sign(m, issuer, KR_KEY);
}

/* Sends `[what, bytes...]`; returns the milliseconds. */
static double send(uint64_t what, const struct message *const *parts, size_t count, uint64_t tick, uint8_t *reply)
{
    struct message m;
    struct timespec from, to;

    m.out = kr_writer(m.bytes, sizeof m.bytes);
    kr_write_head(&m.out, KR_ARRAY, 1 + count);
    kr_write_uint(&m.out, what);
    for (size_t i = 0; i < count; i++) {
        kr_write_bytes(&m.out, (struct kr_bytes){parts[i]->bytes, parts[i]->out.len});
    }
    must(!m.out.full, "too long");
    clock_gettime(CLOCK_MONOTONIC, &from);
    struct kr_outcome outcome = kr_box_receive(&box, 0, (struct kr_bytes){m.bytes, m.out.len}, tick, reply);
    clock_gettime(CLOCK_MONOTONIC, &to);
    must(outcome.code == KR_GOOD, "refused");
    return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
}

/* Sends a hello, and stores the nonce and the hash of the challenge. */
static void hello(uint64_t tick, uint8_t *reply)
{
    static const uint8_t says[] = {0x82, 0x01, 0x81, KR_VERSION};
    struct kr_outcome outcome = kr_box_receive(&box, 0, (struct kr_bytes){says, sizeof says}, tick, reply);
    must(outcome.code == KR_GOOD, "no challenge");
}

static void write_set(struct message *m, const struct signer *issuer, const struct signer *service)
{
    begin(m, 5);
    name(m, KR_M_ISS, ISS);
    number(m, KR_M_IAT, NOW);
    number(m, KR_M_SEQUENCE, 1);
    one_key(m, KR_M_KEYS, issuer->public_key.point);
    one_key(m, KR_M_SERVICE_KEYS, service->public_key.point);
}

/* Writes the SHA-256 of this message. */
static void hash(struct message *m, int64_t key, const struct signer *signer, const struct message *named)
{
    uint8_t digest[KR_DIGEST];
    kr_sha256(&signer->port, (struct kr_bytes){named->bytes, named->out.len}, digest);
    octets(m, key, digest, sizeof digest);
}

static void provision(const struct signer *root, const struct signer *issuer, const struct signer *service)
{
    static struct message provisioning, set, list;
    static const uint8_t advertising[KR_ADVERTISING];
    const struct message *const parts[] = {&provisioning, &set, &list};
    uint8_t reply[KR_WIRE_MOST];

    write_set(&set, issuer, service);
    sign(&set, root, KR_KEY_SET);
    write_list(&list);
    sign(&list, issuer, KR_STATUS_LIST);
    hello(1, reply);
    begin(&provisioning, 9);
    name(&provisioning, KR_M_ISS, ISS);
    name(&provisioning, KR_M_AUD, NAME);
    number(&provisioning, KR_M_IAT, NOW);
    octets(&provisioning, KR_M_NONCE, box.links[0].nonce, KR_NONCE);
    kr_write_int(&provisioning.out, KR_M_ROOT);
    kr_write_public_key(&provisioning.out, root->public_key.point);
    octets(&provisioning, KR_M_BOX, box.kept.self.thumbprint, KR_DIGEST);
    octets(&provisioning, KR_M_ADVERTISING, advertising, sizeof advertising);
    hash(&provisioning, KR_M_LIST, service, &list);
    hash(&provisioning, KR_M_KEYSET, service, &set);
    sign(&provisioning, service, KR_PROVISIONING);
    (void)send(KR_SAYS_PROVISION, parts, 3, 1, reply);
}

static double open_by(const struct message *key, const struct signer *phone, uint64_t tick)
{
    static struct message answer;
    const struct message *const parts[] = {key, &answer};
    uint8_t reply[KR_WIRE_MOST];

    hello(tick, reply);
    begin(&answer, 6);
    name(&answer, KR_M_AUD, NAME);
    octets(&answer, KR_M_NONCE, box.links[0].nonce, KR_NONCE);
    number(&answer, KR_M_COMMAND, KR_OPEN);
    number(&answer, KR_M_COUNTER, counter++);
    hash(&answer, KR_M_KEY, phone, key);
    octets(&answer, KR_M_CHALLENGE, box.links[0].challenge, KR_DIGEST);
    sign(&answer, phone, KR_ANSWER);
    return send(KR_SAYS_OPEN, parts, 2, tick, reply);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof values[0], compare);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    static struct signer own, root, issuer, service, phone;
    struct signer *const signers[] = {&own, &root, &issuer, &service, &phone};
    static struct message key;
    const struct kr_store store = kr_memory_store(&memory);
    double first[ROUNDS_MOST], known[ROUNDS_MOST];
    size_t rounds = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 301;

    must(rounds > 0 && rounds <= ROUNDS_MOST, "rounds: 1 to 1001");
    for (size_t i = 0; i < sizeof signers / sizeof signers[0]; i++) {
        make_signer(signers[i]);
    }
    must(kr_box_reset(&box, &own.port, &store, own.public_key.point, 0), "no reset");
    must(kr_box_connect(&box, 0) == 0, "no link");
    provision(&root, &issuer, &service);
    for (size_t i = 0; i < rounds; i++) {
        write_key(&key, &issuer, &phone);
        first[i] = open_by(&key, &phone, 4 + 4 * i); /* a link gets a token each 4 s */
        known[i] = open_by(&key, &phone, 5 + 4 * i);
    }
    printf("opening by a new key      %.2f ms (goal: below 4)\n", median(first, rounds));
    printf("opening by a known key    %.2f ms (goal: below 2)\n", median(known, rounds));
    printf("struct kr_box             %zu bytes\n", sizeof box);
    return 0;
}
