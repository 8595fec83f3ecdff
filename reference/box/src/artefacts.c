/* Artefacts that phones carry to a box: lists, key sets, new roots, times and receipts. */
#include "box.h"
#include "inflate.h"

#define SMALL_STEP 60 /* seconds; the box does not save a time that moves a certain clock by less */

static const enum kr_message ARTEFACTS[] = {KR_STATUS_LIST, KR_KEY_SET, KR_NEW_ROOT, KR_TIME, KR_RECEIPT};

static enum kr_code read_artefact(const struct kr_port *port, struct kr_bytes bytes, struct kr_signed *message,
                                  struct kr_claims *claims, enum kr_message *kind)
{
    enum kr_code code = KR_CODE_TOO_LONG;
    if (bytes.len <= kr_most(KR_STATUS_LIST)) { /* the longest of them */
        code = kr_read_signed(bytes, message);
    }
    if (code != KR_GOOD) {
        return code;
    }
    for (size_t i = 0; i < sizeof ARTEFACTS / sizeof ARTEFACTS[0]; i++) {
        if (kr_is_typ(message->typ, ARTEFACTS[i])) {
            *kind = ARTEFACTS[i];
            return kr_read_claims(port, message->payload, *kind, claims);
        }
    }
    return KR_CODE_TYP;
}

/* Whether the log has this entry, byte for byte. */
static bool holds_entry(struct kr_box *box, const struct kr_claims *receipt)
{
    uint8_t entry[KR_ENTRY_MOST], digest[KR_DIGEST];
    size_t len;

    if (receipt->upto >= box->kept.next || !box->store->get(box->store->user, receipt->upto, entry, &len) ||
        len > sizeof entry) {
        return false;
    }
    kr_sha256(box->port, (struct kr_bytes){entry, len}, digest);
    return kr_equal(digest, receipt->upto_digest, KR_DIGEST);
}

/* Only the sequence decides about a key set or a new root, so a box whose clock stood for long accepts them, too. */
static bool is_of_root(enum kr_message kind)
{
    return kind == KR_KEY_SET || kind == KR_NEW_ROOT;
}

static bool moves_forward(enum kr_message kind)
{
    return kind == KR_STATUS_LIST || kind == KR_RECEIPT;
}

/* The key that must have signed the artefact; NULL if no key of the right kind has its `kid`. */
static const struct kr_public_key *signer_of(const struct kr_kept *kept, enum kr_message kind,
                                             const struct kr_signed *message)
{
    if (is_of_root(kind)) {
        return kr_signer(&kept->root, 1, message);
    }
    return kind == KR_STATUS_LIST ? kr_signer(kept->issuing, kept->issuing_count, message)
                                  : kr_signer(kept->service, kept->service_count, message);
}

/* Rows "place" to "what it names". */
static enum kr_code check_newer(struct kr_box *box, enum kr_message kind, const struct kr_claims *claims)
{
    const struct kr_kept *kept = &box->kept;

    if (is_of_root(kind)) {
        return claims->sequence > kept->sequence ? KR_GOOD : KR_CODE_OLDER;
    }
    if (kind == KR_STATUS_LIST) {
        return kr_check_list(box, claims);
    }
    if (kind != KR_RECEIPT) {
        return KR_GOOD;
    }
    if (claims->upto < kept->first) {
        return KR_CODE_OLDER;
    }
    return holds_entry(box, claims) ? KR_GOOD : KR_CODE_RECEIPT;
}

/* The checks before the bucket. */
static enum kr_code check_artefact(struct kr_box *box, struct kr_link *link, enum kr_message kind,
                                   const struct kr_public_key *signer, const struct kr_claims *claims)
{
    const struct kr_kept *kept = &box->kept;

    if (signer == NULL) {
        return KR_CODE_ISSUING_KEY;
    }
    if (!kr_same(claims->iss, kr_text_bytes(&kept->authority))) {
        return KR_CODE_ISSUER;
    }
    if (!is_of_root(kind) && !kr_same(claims->aud, kr_text_bytes(&kept->name))) {
        return KR_CODE_AUDIENCE;
    }
    if (kind == KR_TIME && !(kr_use_nonce(box, link) && kr_equal(link->nonce, claims->nonce, KR_NONCE))) {
        return KR_CODE_NONCE;
    }
    enum kr_code code = check_newer(box, kind, claims);
    if (code == KR_GOOD && moves_forward(kind) && kr_is_future(box, claims->iat)) {
        code = KR_CODE_FUTURE;
    }
    return code;
}

/* A small step is neither saved nor logged, because each visiting phone sets the clock. */
static void take_time(struct kr_box *box, uint64_t time)
{
    uint64_t step = time > box->time ? time - box->time : box->time - time;
    bool is_small = box->kept.certain && step < SMALL_STEP;

    kr_set_clock(box, time);
    if (!is_small) {
        kr_write_down(box);
        kr_log_event(box, KR_CLOCK_SET);
    }
}

static void take(struct kr_box *box, enum kr_message kind, const struct kr_signed *message,
                 const struct kr_claims *claims, const uint8_t *bits)
{
    kr_drop_uncounted_lists(box);
    switch (kind) {
    case KR_KEY_SET:
        kr_take_key_set(box, claims);
        break;
    case KR_NEW_ROOT:
        kr_take_root(box, claims);
        break;
    case KR_STATUS_LIST:
        kr_take_list(box, message, claims, bits);
        break;
    case KR_RECEIPT:
        box->kept.first = claims->upto + 1;
        box->changed = true;
        break;
    default:
        take_time(box, claims->iat);
    }
    if (moves_forward(kind)) {
        kr_move_forward(box, claims->iat);
    }
}

enum kr_code kr_carry(struct kr_box *box, struct kr_link *link, struct kr_bytes artefact)
{
    struct kr_signed message;
    struct kr_claims claims;
    enum kr_message kind = KR_MESSAGES;
    uint8_t bits[KR_LIST_BITS / 8];

    enum kr_code code = read_artefact(box->port, artefact, &message, &claims, &kind);
    if (code != KR_GOOD) {
        return code;
    }
    if (!box->kept.provisioned) {
        return KR_CODE_NOT_NOW;
    }
    const struct kr_public_key *signer = signer_of(&box->kept, kind, &message);
    code = check_artefact(box, link, kind, signer, &claims);
    if (code != KR_GOOD) {
        return code;
    }
    if (!kr_take_token(box, link)) {
        return KR_CODE_BUSY;
    }
    if (!kr_verify(box->port, &message, signer)) {
        return KR_CODE_SIGNATURE;
    }
    if (kind == KR_STATUS_LIST && !kr_inflate(claims.lst, bits, sizeof bits)) {
        return KR_CODE_INFLATE;
    }
    take(box, kind, &message, &claims, bits);
    return KR_GOOD;
}
