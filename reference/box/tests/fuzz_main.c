/* Random inputs for a fuzzer where the compiler has no libFuzzer: how many, then a seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keyrack_box.h"

#define INPUT_MOST 600

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state;

/* xorshift64 */
static uint64_t next_number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* A copy of exactly this size, so that a sanitizer sees what is read beyond it. */
static void run(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, bytes, len);
    (void)LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
    uint8_t bytes[INPUT_MOST];

    state = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (unsigned long i = 0; i < count; i++) {
        size_t len = (size_t)(next_number() % (INPUT_MOST + 1));
        for (size_t at = 0; at < len; at++) {
            bytes[at] = (uint8_t)(next_number() >> 32);
        }
        run(bytes, len);
    }
    printf("%lu inputs\n", count);
    return 0;
}
