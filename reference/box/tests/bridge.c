/* Additions for tests: a store in memory, fixed random bytes, and fake signatures. Not for firmware. */
#define _XOPEN_SOURCE 700
#include <string.h>
#include <ucontext.h>

#include "cbor.h"
#include "export.h"
#include "fake_signatures.h"
#include "inflate.h"
#include "keyrack_bearssl.h"
#include "keyrack_transports.h"
#include "memory_store.h"

#define PAINT 0xa5

struct kr_test {
    struct kr_box box;
    struct kr_port port;
    struct kr_store store;
    struct kr_bearssl keys;
    uint8_t random[KR_DIGEST]; /* the output of the random source */
    struct kr_memory_store memory;
};

EXPORT size_t kr_test_size(void);
EXPORT size_t kr_test_box_size(void);
EXPORT size_t kr_test_transports_size(void);
EXPORT void kr_test_begin(struct kr_test *t, const uint8_t private_key[32], int stubbed);
EXPORT int kr_test_public(struct kr_test *t, uint8_t point[KR_POINT]);
EXPORT void kr_test_receive(struct kr_test *t, unsigned link, const uint8_t *message, size_t len, uint64_t tick,
                            uint8_t *reply, uint32_t outcome[4]);
EXPORT int kr_test_reset(struct kr_test *t, const uint8_t point[KR_POINT], uint64_t tick);
EXPORT int kr_test_start(struct kr_test *t, uint64_t elapsed, uint64_t tick);
EXPORT void kr_test_start_damaged(struct kr_test *t, uint64_t tick);
EXPORT int kr_test_write_down(struct kr_test *t, uint64_t tick);
EXPORT unsigned kr_test_connect(struct kr_test *t, uint64_t tick);
EXPORT void kr_test_disconnect(struct kr_test *t, unsigned link);
EXPORT size_t kr_test_stack(struct kr_test *t, unsigned link, const uint8_t *message, size_t len, uint64_t tick,
                            uint8_t *reply, uint8_t *stack, size_t size);
EXPORT int kr_test_inflate(const uint8_t *stream, size_t len, uint8_t *out, size_t size);
EXPORT int kr_test_cbor(const uint8_t *item, size_t len, int may_be_tagged);
EXPORT int kr_test_is_point(struct kr_test *t, const uint8_t point[KR_POINT]);
EXPORT int kr_test_verify(struct kr_test *t, const uint8_t point[KR_POINT], const uint8_t digest[KR_DIGEST],
                          const uint8_t signature[KR_SIGNATURE]);

static bool random_bytes(void *user, uint8_t *bytes, size_t len)
{
    struct kr_test *t = user;
    if (len > sizeof t->random) {
        return false;
    }
    memcpy(bytes, t->random, len);
    return true;
}

size_t kr_test_size(void)
{
    return sizeof(struct kr_test);
}

size_t kr_test_box_size(void)
{
    return sizeof(struct kr_box);
}

/* All of a box with three transports but the box itself. */
size_t kr_test_transports_size(void)
{
    return sizeof(struct kr_buffer) + sizeof(struct kr_ble) + sizeof(struct kr_nfc) + sizeof(struct kr_wire);
}

void kr_test_begin(struct kr_test *t, const uint8_t private_key[32], int stubbed)
{
    t->keys.random = random_bytes;
    t->keys.user = t;
    memcpy(t->keys.private_key, private_key, sizeof t->keys.private_key);
    t->port = kr_bearssl_port(&t->keys);
    if (stubbed) {
        t->port.verify = kr_fake_verify;
        t->port.sign = kr_fake_sign;
    }
    t->store = kr_memory_store(&t->memory);
    t->box.port = &t->port;
    t->box.store = &t->store;
}

int kr_test_public(struct kr_test *t, uint8_t point[KR_POINT])
{
    return kr_bearssl_make_key(&t->keys, point);
}

int kr_test_reset(struct kr_test *t, const uint8_t point[KR_POINT], uint64_t tick)
{
    return kr_box_reset(&t->box, &t->port, &t->store, point, tick);
}

int kr_test_start(struct kr_test *t, uint64_t elapsed, uint64_t tick)
{
    struct kr_kept kept = t->box.kept;
    return kr_box_start(&t->box, &t->port, &t->store, &kept, elapsed, tick);
}

void kr_test_start_damaged(struct kr_test *t, uint64_t tick)
{
    kr_box_start_damaged(&t->box, &t->port, &t->store, tick);
}

int kr_test_write_down(struct kr_test *t, uint64_t tick)
{
    return kr_box_write_down(&t->box, tick);
}

unsigned kr_test_connect(struct kr_test *t, uint64_t tick)
{
    return kr_box_connect(&t->box, tick);
}

void kr_test_disconnect(struct kr_test *t, unsigned link)
{
    kr_box_disconnect(&t->box, link);
}

void kr_test_receive(struct kr_test *t, unsigned link, const uint8_t *message, size_t len, uint64_t tick,
                     uint8_t *reply, uint32_t outcome[4])
{
    struct kr_outcome o = kr_box_receive(&t->box, link, (struct kr_bytes){message, len}, tick, reply);
    outcome[0] = (uint32_t)o.code;
    outcome[1] = (uint32_t)o.effect;
    outcome[2] = (uint32_t)o.reply_len;
    outcome[3] = o.persist ? 1 : 0;
}

/* Calls kr_test_receive on its own stack, filled with a pattern, and returns the number of changed bytes. */
struct on_stack {
    struct kr_test *t;
    unsigned link;
    struct kr_bytes message;
    uint64_t tick;
    uint8_t *reply;
    ucontext_t back;
};

/* makecontext passes ints only, so the pointer goes in two halves. */
static void run_on_stack(unsigned high, unsigned low)
{
    struct on_stack *call = (struct on_stack *)((uintptr_t)high << 16 << 16 | (uintptr_t)low);
    (void)kr_box_receive(&call->t->box, call->link, call->message, call->tick, call->reply);
}

size_t kr_test_stack(struct kr_test *t, unsigned link, const uint8_t *message, size_t len, uint64_t tick,
                     uint8_t *reply, uint8_t *stack, size_t size)
{
    struct on_stack call = {t, link, {message, len}, tick, reply, {0}};
    uintptr_t at = (uintptr_t)&call;
    ucontext_t context;
    size_t unused = 0;

    memset(stack, PAINT, size);
    if (getcontext(&context) != 0) {
        return 0;
    }
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = size;
    context.uc_link = &call.back;
    makecontext(&context, (void (*)(void))run_on_stack, 2, (unsigned)(at >> 16 >> 16), (unsigned)(at & 0xffffffffu));
    if (swapcontext(&call.back, &context) != 0) {
        return 0;
    }
    while (unused < size && stack[unused] == PAINT) {
        unused++; /* stacks grow down */
    }
    return size - unused;
}

int kr_test_inflate(const uint8_t *stream, size_t len, uint8_t *out, size_t size)
{
    return kr_inflate((struct kr_bytes){stream, len}, out, size);
}

int kr_test_cbor(const uint8_t *item, size_t len, int may_be_tagged)
{
    return kr_cbor_check((struct kr_bytes){item, len}, may_be_tagged ? KR_MAY_BE_TAGGED : KR_UNTAGGED);
}

int kr_test_is_point(struct kr_test *t, const uint8_t point[KR_POINT])
{
    return t->port.is_point(t->port.user, point);
}

int kr_test_verify(struct kr_test *t, const uint8_t point[KR_POINT], const uint8_t digest[KR_DIGEST],
                   const uint8_t signature[KR_SIGNATURE])
{
    return t->port.verify(t->port.user, point, digest, signature);
}
