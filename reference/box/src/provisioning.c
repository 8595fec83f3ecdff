/* Enrolment and provisioning of a box by an authority (docs/key-enrolment.md, "Provisioning"). */
#include <string.h>

#include "box.h"
#include "inflate.h"

#define PAYLOAD_MOST 128

enum { PROVISIONING, SET, LIST, PARTS };

/* The three messages of a provisioning, and their required signers. */
struct three {
    struct kr_signed messages[PARTS];
    struct kr_claims claims[PARTS];
    struct kr_public_key signers[PARTS]; /* the signer of the key set is the root */
};

static enum kr_code write_enrolment(const struct kr_box *box, struct kr_bytes nonce, struct kr_writer *reply)
{
    uint8_t bytes[PAYLOAD_MOST], enrolment[400];
    struct kr_writer payload = kr_writer(bytes, sizeof bytes);
    struct kr_writer out = kr_writer(enrolment, sizeof enrolment);

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

/* `enrolled`: the box's public key and the nonce of the server, signed by that key. */
enum kr_code kr_enrol(struct kr_box *box, struct kr_link *link, struct kr_bytes nonce, struct kr_writer *reply)
{
    if (box->kept.provisioned) {
        return KR_CODE_NOT_NOW;
    }
    return kr_take_token(box, link) ? write_enrolment(box, nonce, reply) : KR_CODE_BUSY;
}

/* Whether the message names one of these keys; sets `signer` to it. */
static bool find_signer(const struct kr_port *port, const struct kr_keys *keys, const struct kr_signed *message,
                        struct kr_public_key *signer)
{
    for (size_t i = 0; i < keys->count; i++) {
        kr_public_key(port, keys->encoded[i], signer);
        if (kr_is_by(message, signer)) {
            return true;
        }
    }
    return false;
}

/* A provisioned box keeps its authority and its name. */
static bool is_of_authority(const struct kr_kept *kept, const struct three *three)
{
    const struct kr_claims *claims = &three->claims[PROVISIONING];
    return !kept->provisioned || (kr_equal(three->signers[SET].point, kept->root.point, KR_POINT) &&
                                  kr_same(claims->iss, kr_text_bytes(&kept->authority)) &&
                                  kr_same(claims->aud, kr_text_bytes(&kept->name)));
}

static bool has_signers(const struct kr_port *port, struct three *three)
{
    const struct kr_claims *set = &three->claims[SET];
    return kr_is_by(&three->messages[SET], &three->signers[SET]) &&
           find_signer(port, &set->service_keys, &three->messages[PROVISIONING], &three->signers[PROVISIONING]) &&
           find_signer(port, &set->keys, &three->messages[LIST], &three->signers[LIST]);
}

static bool is_named(const struct kr_port *port, const struct kr_signed *message, const uint8_t *named)
{
    uint8_t digest[KR_DIGEST];
    kr_sha256(port, message->whole, digest);
    return kr_equal(digest, named, KR_DIGEST);
}

/* Steps 2 to 8: consistency of the three with each other and with this box, before signatures are verified. */
static enum kr_code check_three(struct kr_box *box, struct kr_link *link, struct three *three)
{
    const struct kr_kept *kept = &box->kept;
    const struct kr_claims *claims = three->claims;
    const struct kr_claims *provisioning = &claims[PROVISIONING];

    if (!kr_equal(provisioning->box, kept->self.thumbprint, KR_DIGEST)) {
        return KR_CODE_BOX;
    }
    if (!(kr_use_nonce(box, link) && kr_equal(link->nonce, provisioning->nonce, KR_NONCE))) {
        return KR_CODE_NONCE;
    }
    kr_public_key(box->port, provisioning->root, &three->signers[SET]);
    if (!is_of_authority(kept, three)) {
        return KR_CODE_NOT_NOW;
    }
    if (!has_signers(box->port, three)) {
        return KR_CODE_ISSUING_KEY;
    }
    if (!kr_same(claims[SET].iss, provisioning->iss) || !kr_same(claims[LIST].iss, provisioning->iss)) {
        return KR_CODE_ISSUER;
    }
    if (!kr_same(claims[LIST].aud, provisioning->aud)) {
        return KR_CODE_AUDIENCE;
    }
    if (!is_named(box->port, &three->messages[LIST], provisioning->list) ||
        !is_named(box->port, &three->messages[SET], provisioning->keyset)) {
        return KR_CODE_OTHER_PART;
    }
    return claims[SET].sequence < kept->sequence ? KR_CODE_OLDER : KR_GOOD;
}

static bool verify_three(const struct kr_port *port, const struct three *three)
{
    bool holds = true;
    for (size_t i = 0; holds && i < PARTS; i++) {
        holds = kr_verify(port, &three->messages[i], &three->signers[i]);
    }
    return holds;
}

static void take_three(struct kr_box *box, const struct three *three, const uint8_t *bits)
{
    struct kr_kept *kept = &box->kept;
    const struct kr_claims *provisioning = &three->claims[PROVISIONING];

    kept->provisioned = true;
    kept->root = three->signers[SET];
    kr_set_text(&kept->authority, provisioning->iss);
    kr_set_text(&kept->name, provisioning->aud);
    memcpy(kept->advertising, provisioning->advertising, KR_ADVERTISING);
    kr_drop_uncounted_lists(box);
    kr_drop_replaced_lists(box, &three->claims[LIST]);
    kr_take_key_set(box, &three->claims[SET]);
    kr_take_list(box, &three->messages[LIST], &three->claims[LIST], bits);
    kr_set_clock(box, provisioning->iat);
    kr_write_down(box);
    kr_log_event(box, KR_PROVISIONED);
}

enum kr_code kr_provision(struct kr_box *box, struct kr_link *link, struct kr_bytes provisioning, struct kr_bytes set,
                          struct kr_bytes list)
{
    const struct kr_bytes bytes[PARTS] = {provisioning, set, list};
    static const enum kr_message kinds[PARTS] = {KR_PROVISIONING, KR_KEY_SET, KR_STATUS_LIST};
    struct three three;
    uint8_t bits[KR_LIST_BITS / 8];
    enum kr_code code = KR_GOOD;

    for (size_t i = 0; code == KR_GOOD && i < PARTS; i++) {
        code = kr_read(box->port, bytes[i], kinds[i], &three.messages[i], &three.claims[i]);
    }
    if (code == KR_GOOD) {
        code = check_three(box, link, &three);
    }
    if (code != KR_GOOD) {
        return code;
    }
    if (!kr_take_token(box, link)) {
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
