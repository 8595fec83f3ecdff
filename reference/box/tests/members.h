/* Payloads that a test builds member by member. Not for firmware. */
#ifndef KR_MEMBERS_H
#define KR_MEMBERS_H

#include <string.h>

#include "claims.h"

/* A message under construction. */
struct message {
    uint8_t bytes[KR_WIRE_MOST];
    struct kr_writer out;
};

static struct kr_bytes text(const char *text)
{
    return (struct kr_bytes){(const uint8_t *)text, strlen(text)};
}

static void begin(struct message *m, unsigned members)
{
    m->out = kr_writer(m->bytes, sizeof m->bytes);
    kr_write_head(&m->out, KR_MAP, members);
}

static void number(struct message *m, int64_t key, uint64_t value)
{
    kr_write_int(&m->out, key);
    kr_write_uint(&m->out, value);
}

static void name(struct message *m, int64_t key, const char *value)
{
    kr_write_int(&m->out, key);
    kr_write_text(&m->out, text(value));
}

static void octets(struct message *m, int64_t key, const uint8_t *bytes, size_t len)
{
    kr_write_int(&m->out, key);
    kr_write_bytes(&m->out, (struct kr_bytes){bytes, len});
}

static void one_key(struct message *m, int64_t key, const uint8_t point[KR_POINT])
{
    kr_write_int(&m->out, key);
    kr_write_head(&m->out, KR_ARRAY, 1);
    kr_write_public_key(&m->out, point);
}

#endif
