/* In charge of what the parts of the box share: its clock, its bucket, its lists, its log. */
#ifndef KR_BOX_H
#define KR_BOX_H

#include "claims.h"

#define KR_AHEAD 604800 /* seconds that something signed may be ahead of the clock */
#define KR_BUCKET 16
#define KR_TOLERANCE 300

/* What a message of a link says it is. */
enum kr_says {
    KR_SAYS_HELLO = 1, KR_SAYS_CHALLENGE, KR_SAYS_CARRY, KR_SAYS_TAKEN, KR_SAYS_OPEN, KR_SAYS_RESULT, KR_SAYS_FETCH,
    KR_SAYS_ENTRIES, KR_SAYS_ENROL, KR_SAYS_ENROLLED, KR_SAYS_PROVISION
};

enum kr_event { KR_OPENED = 1, KR_CLOSED, KR_REFUSAL, KR_STARTED, KR_CLOCK_SET, KR_PROVISIONED };

/* What an entry says beside what the box knows. */
struct kr_record {
    enum kr_event event;
    enum kr_code code;
    uint64_t command;
    uint64_t counter;
    struct kr_bytes cti;
    struct kr_bytes device;
};

/* clock.c */
/* The sum, or `most` where it is more. */
uint64_t kr_add(uint64_t value, uint64_t more, uint64_t most);
void kr_tick(struct kr_box *box, uint64_t tick);
bool kr_take_token(struct kr_box *box);
bool kr_is_ahead(const struct kr_box *box, uint64_t iat);
void kr_move_forward(struct kr_box *box, uint64_t iat);
void kr_put_clock(struct kr_box *box, uint64_t time);
void kr_write_down(struct kr_box *box);

/* challenge.c */
/* The nonce of this link is dead from now on. Whether it was live. */
bool kr_use_nonce(const struct kr_box *box, struct kr_link *link);
enum kr_code kr_hello(struct kr_box *box, struct kr_link *link, struct kr_writer *reply);

/* log.c */
bool kr_has_place_for_refusals(const struct kr_kept *kept);
void kr_count_refusal(struct kr_box *box, enum kr_code code);
/* Writes the next entry, which then lies in `entry` (KR_ENTRY_MOST bytes). False where nothing was written. */
bool kr_log(struct kr_box *box, const struct kr_record *record, uint8_t *entry, size_t *len);
/* An event of the box itself. */
bool kr_log_event(struct kr_box *box, enum kr_event event);
enum kr_code kr_fetch(struct kr_box *box, const struct kr_link *link, uint64_t from, struct kr_writer *reply);

/* authority.c */
struct kr_bytes kr_text_bytes(const struct kr_text *text);
void kr_set_text(struct kr_text *text, struct kr_bytes bytes);
/* These two take as long whatever they find, as does kr_find_phone: who has no good key learns nothing from the time. */
const struct kr_public_key *kr_issuing_key(const struct kr_kept *kept, const struct kr_signed *message);
const struct kr_list *kr_find_list(const struct kr_kept *kept, struct kr_bytes uri);
bool kr_is_newer_list(const struct kr_kept *kept, const struct kr_claims *list);
void kr_take_list(struct kr_box *box, const struct kr_claims *list, const uint8_t *bits);
void kr_take_key_set(struct kr_box *box, const struct kr_claims *set);

/* phones.c */
const struct kr_phone *kr_find_phone(const struct kr_kept *kept, const uint8_t thumbprint[KR_DIGEST]);
void kr_keep_counter(struct kr_box *box, const uint8_t thumbprint[KR_DIGEST], uint64_t counter);

/* What is looked at while an `open` is worked on. */
struct kr_attempt {
    struct kr_signed key_message;
    struct kr_signed answer_message;
    struct kr_claims key;
    struct kr_claims answer;
    uint8_t key_digest[KR_DIGEST];
    struct kr_public_key phone;
    uint8_t nonce[KR_NONCE]; /* that was live on the link */
    uint8_t challenge[KR_DIGEST];
    const struct kr_public_key *issuer; /* NULL where its kid is unknown */
    const struct kr_list *list;         /* NULL where the box does not have it */
};

/* judge.c */
enum kr_code kr_judge(const struct kr_box *box, const struct kr_attempt *attempt);
/* Whether the answer was made for this key and this challenge: one that was recorded is not, and proves nothing. */
bool kr_is_fresh(const struct kr_attempt *attempt);

/* artefacts.c, provisioning.c, open.c, box.c: what is answered on a link */
enum kr_code kr_carry(struct kr_box *box, struct kr_link *link, struct kr_bytes artefact);
enum kr_code kr_enrol(struct kr_box *box, struct kr_bytes nonce, struct kr_writer *reply);
enum kr_code kr_provision(struct kr_box *box, struct kr_link *link, struct kr_bytes provisioning, struct kr_bytes set,
                          struct kr_bytes list);
enum kr_code kr_open(struct kr_box *box, struct kr_link *link, struct kr_bytes key, struct kr_bytes answer,
                     enum kr_effect *effect, struct kr_writer *reply);
void kr_write_result(struct kr_writer *reply, enum kr_code code, struct kr_bytes entry);

#endif
