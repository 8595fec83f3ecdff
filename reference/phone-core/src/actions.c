/* The remedies for the codes that boxes send to phones. */
#include "phone.h"

enum kr_action kr_action(uint64_t code)
{
    switch (code) {
    case KR_CODE_COUNTER:
        return KR_AGAIN;
    case KR_CODE_NOT_YET:
    case KR_CODE_BUSY:
        return KR_WAIT;
    case KR_CODE_ISSUER:
    case KR_CODE_REVOKED:
    case KR_CODE_RIGHT:
    case KR_CODE_UNKNOWN:
        return KR_ASK;
    default:
        return KR_ONLINE;
    }
}
