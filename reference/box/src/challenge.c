/* Challenges and their nonces (docs/key-link.md, "On the link"). */
#include <string.h>

#include "box.h"

#define BLOCK 64       /* of SHA-256 */
#define NONCE_LIVES 10  /* seconds */
#define PROOF_LIVES 300 /* seconds; enough to fetch a whole log */

static void put64(uint8_t *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

/* Removes secrets from the stack. A compiler may remove a useless write, but not to volatile memory. */
static void wipe(uint8_t *bytes, size_t len)
{
    volatile uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++) {
        at[i] = 0;
    }
}

/* HMAC (RFC 2104) with a key of 32 bytes. */
static void hmac(const struct kr_port *port, const uint8_t key[KR_DIGEST], struct kr_bytes bytes,
                 uint8_t digest[KR_DIGEST])
{
    uint8_t inner[BLOCK], outer[BLOCK], within[KR_DIGEST];
    for (unsigned i = 0; i < BLOCK; i++) {
        unsigned of_key = i < KR_DIGEST ? key[i] : 0;
        inner[i] = (uint8_t)(of_key ^ 0x36);
        outer[i] = (uint8_t)(of_key ^ 0x5c);
    }
    const struct kr_bytes first[] = {{inner, BLOCK}, bytes};
    const struct kr_bytes second[] = {{outer, BLOCK}, {within, KR_DIGEST}};
    port->sha256(port->user, first, 2, within);
    port->sha256(port->user, second, 2, digest);
    wipe(inner, sizeof inner);
    wipe(outer, sizeof outer);
    wipe(within, sizeof within);
}

/* A nonce never repeats, even if the random source does, because both counters only increase. */
static void make_nonce(struct kr_box *box, const uint8_t random[KR_NONCE], uint8_t nonce[KR_NONCE])
{
    uint8_t seed[16 + KR_NONCE], digest[KR_DIGEST];
    box->challenges++;
    put64(seed, box->kept.boot);
    put64(seed + 8, box->challenges);
    memcpy(seed + 16, random, KR_NONCE);
    hmac(box->port, box->kept.secret, (struct kr_bytes){seed, sizeof seed}, digest);
    memcpy(nonce, digest, KR_NONCE);
    wipe(seed, sizeof seed);
    wipe(digest, sizeof digest);
}

bool kr_use_nonce(const struct kr_box *box, struct kr_link *link)
{
    bool live = link->has_nonce && box->tick - link->made < NONCE_LIVES;
    link->has_nonce = false;
    return live;
}

bool kr_is_proven(const struct kr_box *box, const struct kr_link *link)
{
    return link->proven && box->tick - link->proven_at < PROOF_LIVES;
}

static void write_members(const struct kr_box *box, const struct kr_link *link, struct kr_writer *out)
{
    const struct kr_kept *kept = &box->kept;
    const struct kr_list *newest = kr_newest_list(box);
    const uint64_t numbers[] = {
        box->time, kept->certain ? 1 : 0, kept->sequence, newest == NULL ? 0 : newest->generation,
        newest == NULL ? 0 : newest->iat, kept->first, kept->next,
    };

    kr_write_head(out, KR_MAP, 12);
    kr_write_uint(out, 1);
    kr_write_uint(out, KR_VERSION);
    kr_write_uint(out, 2);
    kr_write_text(out, kr_text_bytes(&kept->name));
    kr_write_uint(out, 3);
    kr_write_bytes(out, (struct kr_bytes){link->nonce, KR_NONCE});
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        kr_write_uint(out, 4 + i);
        kr_write_uint(out, numbers[i]);
    }
    kr_write_uint(out, 11);
    kr_write_bytes(out, (struct kr_bytes){kept->newest, KR_DIGEST});
    kr_write_uint(out, 12);
    kr_write_bytes(out, (struct kr_bytes){kept->root.thumbprint, kept->provisioned ? KR_KID : 0});
}

static void write_versions(struct kr_writer *reply)
{
    kr_write_head(reply, KR_ARRAY, 2);
    kr_write_uint(reply, KR_SAYS_VERSIONS);
    kr_write_head(reply, KR_ARRAY, 1);
    kr_write_uint(reply, KR_VERSION);
}

/* A hello starts a visit: it ends nonce and proof of the previous visit, also without a common version. */
enum kr_code kr_hello(struct kr_box *box, struct kr_link *link, bool is_spoken, struct kr_writer *reply)
{
    uint8_t random[KR_NONCE];

    link->has_nonce = false;
    link->proven = false;
    link->proven_at = 0;
    if (!is_spoken) {
        write_versions(reply);
        return KR_GOOD;
    }
    if (!box->port->random(box->port->user, random, sizeof random)) {
        return KR_CODE_REFUSED;
    }
    make_nonce(box, random, link->nonce);
    wipe(random, sizeof random);
    kr_write_head(reply, KR_ARRAY, 2);
    kr_write_uint(reply, KR_SAYS_CHALLENGE);
    write_members(box, link, reply);
    kr_sha256(box->port, (struct kr_bytes){reply->at, reply->len}, link->challenge);
    link->made = box->tick;
    link->has_nonce = true;
    return KR_GOOD;
}
