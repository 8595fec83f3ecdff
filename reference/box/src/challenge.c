/* Challenges and their nonces (docs/key-link.md, "On the link"). */
#include <string.h>

#include "box.h"
#include "hmac.h"

#define NONCE_LIVES 10  /* seconds */
#define PROOF_LIVES 300 /* seconds; enough to fetch a whole log */

/* A nonce never repeats, even if the random source does, because both counters only increase. */
static void make_nonce(struct kr_box *box, const uint8_t random[KR_NONCE], uint8_t nonce[KR_NONCE])
{
    uint8_t seed[16 + KR_NONCE], digest[KR_DIGEST];
    box->challenges++;
    kr_put_number(seed, box->kept.boot, 8);
    kr_put_number(seed + 8, box->challenges, 8);
    memcpy(seed + 16, random, KR_NONCE);
    kr_hmac(box->port, (struct kr_bytes){box->kept.secret, KR_DIGEST}, (struct kr_bytes){seed, sizeof seed}, digest);
    memcpy(nonce, digest, KR_NONCE);
    kr_wipe(seed, sizeof seed);
    kr_wipe(digest, sizeof digest);
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
    kr_wipe(random, sizeof random);
    kr_write_head(reply, KR_ARRAY, 2);
    kr_write_uint(reply, KR_SAYS_CHALLENGE);
    write_members(box, link, reply);
    kr_sha256(box->port, (struct kr_bytes){reply->at, reply->len}, link->challenge);
    link->made = box->tick;
    link->has_nonce = true;
    return KR_GOOD;
}
