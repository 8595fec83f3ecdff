/* In charge of `open` (docs/keys.md, "What a box does with `open`"). */
#include <string.h>

#include "box.h"

static bool is_remembered(const struct kr_box *box, const uint8_t digest[KR_DIGEST])
{
    for (size_t i = 0; i < box->good_count; i++) {
        if (kr_equal(box->good[i], digest, KR_DIGEST)) {
            return true;
        }
    }
    return false;
}

static void remember(struct kr_box *box, const uint8_t digest[KR_DIGEST])
{
    memcpy(box->good[box->good_next], digest, KR_DIGEST);
    box->good_next = (uint8_t)((box->good_next + 1) % KR_GOOD_KEYS);
    if (box->good_count < KR_GOOD_KEYS) {
        box->good_count++;
    }
}

/* "Reading": looks only at what the phone has sent and done. */
static enum kr_code read_attempt(struct kr_box *box, struct kr_link *link, struct kr_bytes key, struct kr_bytes answer,
                                 struct kr_attempt *attempt)
{
    if (!kr_use_nonce(box, link)) {
        return KR_CODE_NONCE;
    }
    memcpy(attempt->nonce, link->nonce, KR_NONCE);
    memcpy(attempt->challenge, link->challenge, KR_DIGEST);
    enum kr_code code = kr_read(key, KR_KEY, &attempt->key_message, &attempt->key);
    if (code == KR_GOOD) {
        code = kr_read(answer, KR_ANSWER, &attempt->answer_message, &attempt->answer);
    }
    if (code == KR_GOOD && !box->kept.provisioned) {
        code = KR_CODE_NOT_NOW;
    }
    if (code == KR_GOOD && !kr_take_token(box)) {
        code = KR_CODE_BUSY;
    }
    return code;
}

static void look_up(const struct kr_box *box, struct kr_attempt *attempt)
{
    kr_sha256(box->port, attempt->key_message.whole, attempt->key_digest);
    kr_public_key(box->port, attempt->key.cnf, &attempt->phone);
    attempt->issuer = kr_issuing_key(&box->kept, &attempt->key_message);
    attempt->list = kr_find_list(&box->kept, attempt->key.uri);
}

/* A key of nobody whom the box knows is verified too, by the first issuing key, and is not good: that takes as long. */
static bool is_key_good(struct kr_box *box, const struct kr_attempt *attempt)
{
    if (is_remembered(box, attempt->key_digest)) {
        return true;
    }
    const struct kr_public_key *by = attempt->issuer != NULL ? attempt->issuer : &box->kept.issuing[0];
    bool good = kr_verify(box->port, &attempt->key_message, by) && attempt->issuer != NULL;
    if (good) {
        remember(box, attempt->key_digest);
    }
    return good;
}

/* What is proven is written down, and the lock moves only where it was. */
static enum kr_code conclude(struct kr_box *box, const struct kr_attempt *attempt, enum kr_code code,
                             enum kr_effect *effect, struct kr_writer *reply)
{
    const struct kr_claims *answer = &attempt->answer;
    bool opens = answer->command == KR_OPEN;
    enum kr_event event = code != KR_GOOD ? KR_REFUSAL : opens ? KR_OPENED : KR_CLOSED;
    const struct kr_record record = {event, code, answer->command, answer->counter, attempt->key.cti,
                                     {attempt->phone.thumbprint, KR_DIGEST}};
    uint8_t entry[KR_ENTRY_MOST];
    size_t len = 0;

    if (code == KR_GOOD) {
        kr_keep_counter(box, attempt->phone.thumbprint, answer->counter);
        if (!kr_log(box, &record, entry, &len)) {
            return KR_CODE_REFUSED;
        }
        *effect = opens ? KR_OPENS : KR_CLOSES;
    } else if (!kr_has_place_for_refusals(&box->kept) || !kr_log(box, &record, entry, &len)) {
        len = 0;
        kr_count_refusal(box, code);
    }
    kr_write_result(reply, code, (struct kr_bytes){entry, len});
    return code;
}

/* All is worked out before anything is said, so that it takes as long whatever is wrong. */
enum kr_code kr_open(struct kr_box *box, struct kr_link *link, struct kr_bytes key, struct kr_bytes answer,
                     enum kr_effect *effect, struct kr_writer *reply)
{
    struct kr_attempt attempt;

    enum kr_code code = read_attempt(box, link, key, answer, &attempt);
    if (code != KR_GOOD) {
        return code;
    }
    look_up(box, &attempt);
    code = kr_judge(box, &attempt);
    bool key_good = is_key_good(box, &attempt);
    bool answer_good = kr_verify(box->port, &attempt.answer_message, &attempt.phone);
    if (key_good) {
        kr_move_forward(box, attempt.key.iat);
    }
    if (key_good && answer_good && kr_is_fresh(&attempt)) {
        link->proven = true;
        return conclude(box, &attempt, code, effect, reply);
    }
    if (code == KR_GOOD) {
        code = key_good ? KR_CODE_ANSWER_SIGNATURE : KR_CODE_KEY_SIGNATURE;
    }
    return code;
}
