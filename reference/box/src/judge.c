/* In charge of judging a key and its answer by what the box knows (docs/keys.md, "Judging"). */
#include "box.h"

/* The first that fails is the code; what comes after it is worked out all the same. */
static void must(enum kr_code *code, bool holds, enum kr_code otherwise)
{
    if (*code == KR_GOOD && !holds) {
        *code = otherwise;
    }
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool is_called(const struct kr_text *text, struct kr_bytes said)
{
    return kr_same(kr_text_bytes(text), said);
}

static bool is_set(const struct kr_list *list, uint64_t index)
{
    return list != NULL && index < KR_LIST_BITS && (list->bits[index / 8] >> (index % 8) & 1) != 0;
}

static bool names_the_key(const struct kr_attempt *attempt)
{
    return kr_is_by(&attempt->answer_message, &attempt->phone) &&
           kr_equal(attempt->answer.key.at, attempt->key_digest, KR_DIGEST);
}

static bool has_the_nonce(const struct kr_attempt *attempt)
{
    return kr_equal(attempt->answer.nonce.at, attempt->nonce, KR_NONCE);
}

static bool names_the_challenge(const struct kr_attempt *attempt)
{
    return kr_equal(attempt->answer.challenge.at, attempt->challenge, KR_DIGEST);
}

bool kr_is_fresh(const struct kr_attempt *attempt)
{
    return names_the_key(attempt) && has_the_nonce(attempt) && names_the_challenge(attempt);
}

enum kr_code kr_judge(const struct kr_box *box, const struct kr_attempt *attempt)
{
    const struct kr_kept *kept = &box->kept;
    const struct kr_claims *key = &attempt->key;
    const struct kr_claims *answer = &attempt->answer;
    const struct kr_list *list = attempt->list;
    const struct kr_phone *phone = kr_find_phone(kept, attempt->phone.thumbprint);
    uint64_t now = later(box->time, key->iat);
    uint64_t evidence = later(key->iat, list == NULL ? 0 : list->iat);
    enum kr_code code = KR_GOOD;

    must(&code, attempt->issuer != NULL, KR_CODE_ISSUING_KEY);
    must(&code, is_called(&kept->authority, key->iss), KR_CODE_ISSUER);
    must(&code, is_called(&kept->name, key->aud) && is_called(&kept->name, answer->aud), KR_CODE_AUDIENCE);
    must(&code, !kr_is_ahead(box, key->iat), KR_CODE_FUTURE);
    must(&code, key->nbf <= now + KR_TOLERANCE, KR_CODE_NOT_YET);
    must(&code, key->exp + KR_TOLERANCE > now, KR_CODE_EXPIRED);
    must(&code, kept->certain || (key->rights & 1u << KR_WHILE_UNCERTAIN), KR_CODE_UNCERTAIN);
    must(&code, list != NULL, KR_CODE_LIST);
    must(&code, key->index < KR_LIST_BITS, KR_CODE_INDEX);
    must(&code, !is_set(list, key->index), KR_CODE_REVOKED);
    must(&code, now <= evidence + key->limit, KR_CODE_STALE);
    must(&code, (key->rights & 1u << answer->command) != 0, KR_CODE_RIGHT);
    must(&code, names_the_key(attempt), KR_CODE_OTHER_KEY);
    must(&code, has_the_nonce(attempt), KR_CODE_NONCE);
    must(&code, names_the_challenge(attempt), KR_CODE_CHALLENGE);
    must(&code, phone == NULL || answer->counter > phone->counter, KR_CODE_COUNTER);
    return code;
}
