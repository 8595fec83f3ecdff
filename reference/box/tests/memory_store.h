/* A store of entries in memory. */
#ifndef KR_MEMORY_STORE_H
#define KR_MEMORY_STORE_H

#include <string.h>

#include "keyrack_box.h"

struct kr_memory_store {
    uint32_t lens[KR_STORE_PLACES];
    uint8_t entries[KR_STORE_PLACES][KR_ENTRY_MOST];
};

static inline bool kr_memory_put(void *user, uint64_t number, struct kr_bytes entry)
{
    struct kr_memory_store *memory = user;
    size_t place = (size_t)(number % KR_STORE_PLACES);
    memory->lens[place] = (uint32_t)entry.len;
    memcpy(memory->entries[place], entry.at, entry.len);
    return true;
}

/* False for an entry that was never put. */
static inline bool kr_memory_get(void *user, uint64_t number, uint8_t *entry, size_t *len)
{
    const struct kr_memory_store *memory = user;
    size_t place = (size_t)(number % KR_STORE_PLACES);
    *len = memory->lens[place];
    memcpy(entry, memory->entries[place], *len);
    return *len > 0;
}

static inline struct kr_store kr_memory_store(struct kr_memory_store *memory)
{
    return (struct kr_store){memory, kr_memory_put, kr_memory_get};
}

#endif
