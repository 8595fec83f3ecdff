/* In charge of bringing box and authority together: enrolment and provisioning (docs/keys.md, "Provisioning"). */
#include <string.h>

#include "box.h"
#include "inflate.h"

#define PAYLOAD_MOST 128

/* The three messages of a provisioning. */
struct three {
    struct kr_signed messages[3];
    struct kr_claims claims[3];
    struct kr_public_key root;
    struct kr_public_key keys[2];
};

enum { PROVISIONING, SET, LIST };

/* `enrolled`: the box's public key and the nonce of the server, signed by that key. */
enum kr_code kr_enrol(struct kr_box *box, struct kr_bytes nonce, struct kr_writer *reply)
{
    uint8_t bytes[PAYLOAD_MOST], enrolment[400];
    struct kr_writer payload = kr_writer(bytes, sizeof bytes);
    struct kr_writer out = kr_writer(enrolment, sizeof enrolment);

    if (box->kept.provisioned) {
        return KR_CODE_NOT_NOW;
    }
    kr_write_head(&payload, KR_MAP, 2);
    kr_write_int(&payload, KR_M_CNF);
    kr_write_head(&payload, KR_MAP, 1);
    kr_write_int(&payload, 1);
    kr_write_public_key(&payload, box->kept.self.point);
    kr_write_int(&payload, KR_M_NONCE);
    kr_write_bytes(&payload, nonce);
    if (payload.full || !kr_write_signed(box->port, &box->kept.self, KR_ENROLMENT,
                                         (struct kr_bytes){bytes, payload.len}, &out)) {
        return KR_CODE_REFUSED;
    }
    kr_write_head(reply, KR_ARRAY, 2);
    kr_write_uint(reply, KR_SAYS_ENROLLED);
    kr_write_bytes(reply, (struct kr_bytes){enrolment, out.len});
    return KR_GOOD;
}

static const struct kr_public_key *signer_of(const struct three *three, size_t which)
{
    for (size_t i = 0; i < three->claims[SET].key_count; i++) {
        if (kr_is_by(&three->messages[which], &three->keys[i])) {
            return &three->keys[i];
        }
    }
    return NULL;
}

/* A box that is at work stays with its authority and its name. */
static bool is_of_authority(const struct kr_kept *kept, const struct three *three)
{
    const struct kr_claims *claims = &three->claims[PROVISIONING];
    return !kept->provisioned || (kr_equal(three->root.point, kept->root.point, KR_POINT) &&
                                  kr_same(claims->iss, kr_text_bytes(&kept->authority)) &&
                                  kr_same(claims->aud, kr_text_bytes(&kept->name)));
}

/* What the three say of each other and of this box, before anything is verified. */
static enum kr_code check_three(struct kr_box *box, struct kr_link *link, const struct three *three)
{
    const struct kr_kept *kept = &box->kept;
    const struct kr_claims *claims = three->claims;

    if (!kr_equal(claims[PROVISIONING].box.at, kept->self.thumbprint, KR_DIGEST)) {
        return KR_CODE_BOX;
    }
    if (!(kr_use_nonce(box, link) && kr_equal(link->nonce, claims[PROVISIONING].nonce.at, KR_NONCE))) {
        return KR_CODE_NONCE;
    }
    if (!is_of_authority(kept, three)) {
        return KR_CODE_NOT_NOW;
    }
    if (!kr_is_by(&three->messages[SET], &three->root) || signer_of(three, PROVISIONING) == NULL ||
        signer_of(three, LIST) == NULL) {
        return KR_CODE_ISSUING_KEY;
    }
    if (!kr_same(claims[SET].iss, claims[PROVISIONING].iss) || !kr_same(claims[LIST].iss, claims[PROVISIONING].iss)) {
        return KR_CODE_ISSUER;
    }
    if (!kr_same(claims[LIST].aud, claims[PROVISIONING].aud)) {
        return KR_CODE_AUDIENCE;
    }
    return claims[SET].sequence < kept->sequence ? KR_CODE_OLDER : KR_GOOD;
}

static bool verify_three(const struct kr_port *port, const struct three *three)
{
    return kr_verify(port, &three->messages[SET], &three->root) &&
           kr_verify(port, &three->messages[PROVISIONING], signer_of(three, PROVISIONING)) &&
           kr_verify(port, &three->messages[LIST], signer_of(three, LIST));
}

static void take_three(struct kr_box *box, const struct three *three, const uint8_t *bits)
{
    struct kr_kept *kept = &box->kept;
    const struct kr_claims *claims = three->claims;

    kept->provisioned = true;
    kept->root = three->root;
    kr_set_text(&kept->authority, claims[PROVISIONING].iss);
    kr_set_text(&kept->name, claims[PROVISIONING].aud);
    kr_take_key_set(box, &claims[SET]);
    kr_take_list(box, &claims[LIST], bits); /* which is not bound to the nonce: an older one is left */
    kr_put_clock(box, claims[PROVISIONING].iat);
    (void)kr_log_event(box, KR_PROVISIONED);
}

enum kr_code kr_provision(struct kr_box *box, struct kr_link *link, struct kr_bytes provisioning, struct kr_bytes set,
                          struct kr_bytes list)
{
    const struct kr_bytes bytes[3] = {provisioning, set, list};
    static const enum kr_message kinds[3] = {KR_PROVISIONING, KR_KEY_SET, KR_STATUS_LIST};
    struct three three;
    uint8_t bits[KR_LIST_BITS / 8];
    enum kr_code code = KR_GOOD;

    for (size_t i = 0; code == KR_GOOD && i < 3; i++) {
        code = kr_read(bytes[i], kinds[i], &three.messages[i], &three.claims[i]);
    }
    if (code != KR_GOOD) {
        return code;
    }
    kr_public_key(box->port, three.claims[PROVISIONING].root, &three.root);
    for (size_t i = 0; i < three.claims[SET].key_count; i++) {
        kr_public_key(box->port, three.claims[SET].keys[i], &three.keys[i]);
    }
    code = check_three(box, link, &three);
    if (code != KR_GOOD) {
        return code;
    }
    if (!kr_take_token(box)) {
        return KR_CODE_BUSY;
    }
    if (!verify_three(box->port, &three)) {
        return KR_CODE_SIGNATURE;
    }
    if (!kr_inflate(three.claims[LIST].lst, bits, sizeof bits)) {
        return KR_CODE_INFLATE;
    }
    take_three(box, &three, bits);
    return KR_GOOD;
}
