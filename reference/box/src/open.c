/* `open` (docs/key-boxes.md, "What a box does with `open`"). */
#include <string.h>

#include "box.h"

/* Rows of the judgement that an answer must pass as a proof. If one fails, it is for another key or challenge. */
#define FRESHNESS (KR_ROW(KR_CODE_OTHER_KEY) | KR_ROW(KR_CODE_NONCE) | KR_ROW(KR_CODE_CHALLENGE))
/* Rows that may fail for a driver of this box, who may still read its log. */
#define EXCUSED (KR_ROW(KR_CODE_UNCERTAIN) | KR_ROW(KR_CODE_STALE) | KR_ROW(KR_CODE_RIGHT))
/* Rows that fail for a key of another box. Such a key writes no entry into this box's log. */
#define FOR_THIS_BOX (KR_ROW(KR_CODE_ISSUER) | KR_ROW(KR_CODE_AUDIENCE))
/* Rows that an `open` must pass to spend a token of a phone's bucket. An eavesdropper can evaluate them, too, so the
 * choice of a bucket reveals nothing about clock, lists and counters. */
#define FOR_PHONE_BUCKET (KR_ROW(KR_CODE_ISSUING_KEY) | FOR_THIS_BOX | FRESHNESS)

static void look_up(const struct kr_box *box, struct kr_attempt *attempt)
{
    kr_sha256(box->port, attempt->key_message.whole, attempt->key_digest);
    kr_public_key(box->port, attempt->key.cnf, &attempt->phone);
    attempt->is_good_key = kr_is_good_key(box, attempt->key_digest);
    attempt->phone_place = kr_phone_place(&box->kept, attempt->phone.thumbprint);
    attempt->issuer = kr_signer(box->kept.issuing, box->kept.issuing_count, &attempt->key_message);
    attempt->list = kr_find_list(box, attempt->key.uri);
}

/* A known phone whose own bucket is empty takes a token like an unknown one. */
static bool take_token(struct kr_box *box, struct kr_link *link, const struct kr_attempt *attempt,
                       const struct kr_judgement *judgement)
{
    bool is_known = (judgement->failed & FOR_PHONE_BUCKET) == 0 && attempt->phone_place < KR_PHONES;
    return (is_known && kr_take_phone_token(box, attempt->phone_place, attempt->is_good_key)) ||
           kr_take_token(box, link);
}

/* "Reading" without its last step: uses only what the phone sent and did. */
static enum kr_code read_attempt(struct kr_box *box, struct kr_link *link, struct kr_bytes key, struct kr_bytes answer,
                                 struct kr_attempt *attempt)
{
    if (!kr_use_nonce(box, link)) {
        return KR_CODE_NONCE;
    }
    memcpy(attempt->nonce, link->nonce, KR_NONCE);
    memcpy(attempt->challenge, link->challenge, KR_DIGEST);
    enum kr_code code = kr_read(box->port, key, KR_KEY, &attempt->key_message, &attempt->key);
    if (code == KR_GOOD) {
        code = kr_read(box->port, answer, KR_ANSWER, &attempt->answer_message, &attempt->answer);
    }
    if (code != KR_GOOD) {
        return code;
    }
    if (!box->kept.provisioned) {
        return KR_CODE_NOT_NOW;
    }
    look_up(box, attempt);
    return KR_GOOD;
}

/* A key with an unknown `kid` is also verified, with the first issuing key, and then rejected, to take the same
 * time. */
static bool is_key_good(const struct kr_box *box, const struct kr_attempt *attempt)
{
    if (attempt->is_good_key) {
        return true;
    }
    const struct kr_public_key *by = attempt->issuer != NULL ? attempt->issuer : &box->kept.issuing[0];
    return kr_verify(box->port, &attempt->key_message, by) && attempt->issuer != NULL;
}

/* A proven command is logged, and the lock moves only after that. */
static enum kr_code conclude(struct kr_box *box, const struct kr_attempt *attempt,
                             const struct kr_judgement *judgement, enum kr_effect *effect, struct kr_writer *reply)
{
    const struct kr_claims *answer = &attempt->answer;
    enum kr_code code = judgement->code;
    bool opens = answer->command == KR_OPEN;
    enum kr_event event = code != KR_GOOD ? KR_REFUSAL : opens ? KR_OPENED : KR_CLOSED;
    const struct kr_record record = {event, code, answer->command, answer->counter, {attempt->key.cti, KR_CTI},
                                     {attempt->phone.thumbprint, KR_DIGEST}};
    uint8_t entry[KR_ENTRY_MOST];
    size_t len = 0;

    if (code == KR_GOOD) {
        kr_keep_counter(box, attempt->phone.thumbprint, answer->counter);
        kr_keep_good_key(box, attempt->key_digest);
        if (!kr_log(box, &record, entry, &len)) {
            return KR_CODE_REFUSED;
        }
        *effect = opens ? KR_OPENS : KR_CLOSES;
    } else if ((judgement->failed & FOR_THIS_BOX) != 0 || !kr_log(box, &record, entry, &len)) {
        len = 0;
        kr_count_refusal(box, code);
    }
    kr_write_result(reply, code, (struct kr_bytes){entry, len});
    return code;
}

/* Evaluates everything before the answer, so that each fault takes the same time. */
enum kr_code kr_open(struct kr_box *box, struct kr_link *link, struct kr_bytes key, struct kr_bytes answer,
                     enum kr_effect *effect, struct kr_writer *reply)
{
    struct kr_attempt attempt;

    enum kr_code code = read_attempt(box, link, key, answer, &attempt);
    if (code != KR_GOOD) {
        return code;
    }
    struct kr_judgement judgement = kr_judge(box, &attempt);
    if (!take_token(box, link, &attempt, &judgement)) {
        return KR_CODE_BUSY;
    }
    bool key_good = is_key_good(box, &attempt);
    bool answer_good = kr_verify(box->port, &attempt.answer_message, &attempt.phone);
    if (key_good) {
        kr_move_forward(box, attempt.key.iat);
    }
    if (key_good && answer_good && (judgement.failed & FRESHNESS) == 0) {
        if ((judgement.failed & ~EXCUSED) == 0) {
            link->proven = true;
            link->proven_at = box->tick;
        }
        return conclude(box, &attempt, &judgement, effect, reply);
    }
    if (judgement.code != KR_GOOD) {
        return judgement.code;
    }
    return key_good ? KR_CODE_ANSWER_SIGNATURE : KR_CODE_KEY_SIGNATURE;
}
