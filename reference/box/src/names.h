/* The parts of advertised names. */
#ifndef KR_NAMES_H
#define KR_NAMES_H

#include "keyrack_fragments.h"

/* HMAC of a label and the lowest bytes of a number. */
void kr_derive(const struct kr_port *port, struct kr_bytes key, const char *label, uint64_t number, unsigned bytes,
               uint8_t digest[KR_DIGEST]);
/* `K-` and the first 30 bits, five for each character. */
void kr_spell_name(const uint8_t digest[KR_DIGEST], uint8_t name[KR_ADVERTISED_NAME]);

#endif
