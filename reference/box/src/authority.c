/* The box's authority: its root, its issuing keys and its service keys (docs/keys.md, "Keys of the authority"). */
#include <string.h>

#include "box.h"

struct kr_bytes kr_text_bytes(const struct kr_text *text)
{
    return (struct kr_bytes){text->at, text->len};
}

/* A text of iss or aud, whose length was checked. */
void kr_set_text(struct kr_text *text, struct kr_bytes bytes)
{
    memset(text->at, 0, sizeof text->at);
    text->len = (uint8_t)bytes.len;
    memcpy(text->at, bytes.at, bytes.len);
}

const struct kr_public_key *kr_signer(const struct kr_public_key *keys, size_t count, const struct kr_signed *message)
{
    const struct kr_public_key *signer = NULL;
    for (size_t i = count; i-- > 0;) {
        signer = kr_is_by(message, &keys[i]) ? &keys[i] : signer;
    }
    return signer;
}

static uint8_t take_keys(const struct kr_port *port, const struct kr_keys *keys, struct kr_public_key taken[2])
{
    memset(taken, 0, 2 * sizeof taken[0]);
    for (size_t i = 0; i < keys->count; i++) {
        kr_public_key(port, keys->encoded[i], &taken[i]);
    }
    return keys->count;
}

/* Signatures by keys of the previous set are void. */
void kr_take_key_set(struct kr_box *box, const struct kr_claims *set)
{
    struct kr_kept *kept = &box->kept;
    kept->issuing_count = take_keys(box->port, &set->keys, kept->issuing);
    kept->service_count = take_keys(box->port, &set->service_keys, kept->service);
    kept->sequence = set->sequence;
    kr_drop_unsigned_lists(box);
    box->good_count = 0;
    box->changed = true;
}

/* Keeps the key set; this root must sign the next one. */
void kr_take_root(struct kr_box *box, const struct kr_claims *root)
{
    kr_public_key(box->port, root->root, &box->kept.root);
    box->kept.sequence = root->sequence;
    box->changed = true;
}
