/* The judgement of a key and its answer, by the state of the box (docs/key-boxes.md, "Judging"). */
#include "box.h"

/* The first failed row is the code. The later rows are evaluated, too. */
static void must(struct kr_judgement *judgement, bool holds, enum kr_code otherwise)
{
    if (holds) {
        return;
    }
    judgement->failed |= KR_ROW(otherwise);
    if (judgement->code == KR_GOOD) {
        judgement->code = otherwise;
    }
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_called(const struct kr_text *text, struct kr_bytes name)
{
    return kr_same(kr_text_bytes(text), name);
}

static bool is_set(const struct kr_list *list, uint64_t index)
{
    return list != NULL && index < KR_LIST_BITS && (list->bits[index / 8] >> (index % 8) & 1) != 0;
}

static bool names_the_key(const struct kr_attempt *attempt)
{
    return kr_is_by(&attempt->answer_message, &attempt->phone) &&
           kr_equal(attempt->answer.key, attempt->key_digest, KR_DIGEST);
}

static bool is_counter_higher(const struct kr_kept *kept, const struct kr_attempt *attempt)
{
    return attempt->phone_place == KR_PHONES || attempt->answer.counter > kept->phones[attempt->phone_place].counter;
}

struct kr_judgement kr_judge(const struct kr_box *box, const struct kr_attempt *attempt)
{
    const struct kr_kept *kept = &box->kept;
    const struct kr_claims *key = &attempt->key;
    const struct kr_claims *answer = &attempt->answer;
    const struct kr_list *list = attempt->list;
    uint64_t now = later(box->time, key->iat);
    uint64_t evidence = later(key->iat, list == NULL ? 0 : list->iat);
    struct kr_judgement judgement = {KR_GOOD, 0};

    must(&judgement, attempt->issuer != NULL, KR_CODE_ISSUING_KEY);
    must(&judgement, is_called(&kept->authority, key->iss), KR_CODE_ISSUER);
    must(&judgement, is_called(&kept->name, key->aud) && is_called(&kept->name, answer->aud), KR_CODE_AUDIENCE);
    must(&judgement, !kr_is_future(box, key->iat), KR_CODE_FUTURE);
    must(&judgement, key->nbf <= now + KR_TOLERANCE, KR_CODE_NOT_YET);
    must(&judgement, key->exp + KR_TOLERANCE > now, KR_CODE_EXPIRED);
    must(&judgement, kept->certain || (key->rights & 1u << KR_WHILE_UNCERTAIN), KR_CODE_UNCERTAIN);
    must(&judgement, list != NULL, KR_CODE_LIST);
    must(&judgement, key->index < KR_LIST_BITS, KR_CODE_INDEX);
    must(&judgement, !is_set(list, key->index), KR_CODE_REVOKED);
    must(&judgement, now <= evidence + key->limit, KR_CODE_STALE);
    must(&judgement, (key->rights & 1u << answer->command) != 0, KR_CODE_RIGHT);
    must(&judgement, names_the_key(attempt), KR_CODE_OTHER_KEY);
    must(&judgement, kr_equal(answer->nonce, attempt->nonce, KR_NONCE), KR_CODE_NONCE);
    must(&judgement, kr_equal(answer->challenge, attempt->challenge, KR_DIGEST), KR_CODE_CHALLENGE);
    must(&judgement, is_counter_higher(kept, attempt), KR_CODE_COUNTER);
    return judgement;
}
