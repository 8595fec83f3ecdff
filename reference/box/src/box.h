/* Internal functions of the box: clock, buckets, lists, log and messages. */
#ifndef KR_BOX_H
#define KR_BOX_H

#include "claims.h"

#define KR_VERSION 2    /* of the protocol; the box speaks no other one */
#define KR_AHEAD 604800 /* maximum seconds that artefacts move the clock in total, and a list is ahead of it */
#define KR_TOLERANCE 300
#define KR_BUCKET 16    /* tokens of the common bucket */
#define KR_LINK_BUCKET 8
#define KR_PHONE_BUCKET 4

/* The first member of a message on a link. */
enum kr_says {
    KR_SAYS_HELLO = 1, KR_SAYS_CHALLENGE, KR_SAYS_CARRY, KR_SAYS_TAKEN, KR_SAYS_OPEN, KR_SAYS_RESULT, KR_SAYS_FETCH,
    KR_SAYS_ENTRIES, KR_SAYS_ENROL, KR_SAYS_ENROLLED, KR_SAYS_PROVISION, KR_SAYS_VERSIONS
};

enum kr_event { KR_OPENED = 1, KR_CLOSED, KR_REFUSAL, KR_STARTED, KR_CLOCK_SET, KR_PROVISIONED };

/* The members of an entry that do not come from the box's state. */
struct kr_record {
    enum kr_event event;
    enum kr_code code;
    uint64_t command;
    uint64_t counter;
    struct kr_bytes cti;
    struct kr_bytes device;
};

/* clock.c */
/* The sum, at most `most`. */
uint64_t kr_add(uint64_t value, uint64_t more, uint64_t most);
/* Updates clock and buckets to this tick. */
void kr_tick(struct kr_box *box, uint64_t tick);
bool kr_is_future(const struct kr_box *box, uint64_t iat);
void kr_move_forward(struct kr_box *box, uint64_t iat);
/* Sets the clock to a time that was signed for a valid nonce. The floor is unchanged. */
void kr_set_clock(struct kr_box *box, uint64_t time);
void kr_write_down(struct kr_box *box);

/* buckets.c */
/* Refills the buckets for these seconds. */
void kr_fill_buckets(struct kr_box *box, uint64_t seconds);
/* Takes a token from one of the buckets of the phone in this place. */
bool kr_take_phone_token(struct kr_box *box, size_t place, bool is_remembered_key);
/* Takes a token from the link's bucket and, without a proof on the link, from the common bucket; both or none. */
bool kr_take_token(struct kr_box *box, struct kr_link *link);

/* challenge.c */
/* Ends the nonce of this link. Whether it was valid. */
bool kr_use_nonce(const struct kr_box *box, struct kr_link *link);
/* Whether a phone proved a valid key on this link since its last hello, and not too long ago. */
bool kr_is_proven(const struct kr_box *box, const struct kr_link *link);
/* `is_spoken`: whether the phone speaks a version that the box speaks. */
enum kr_code kr_hello(struct kr_box *box, struct kr_link *link, bool is_spoken, struct kr_writer *reply);

/* log.c */
void kr_count_refusal(struct kr_box *box, enum kr_code code);
/* Writes the next entry to the log and to `entry` (KR_ENTRY_MOST bytes). False if it wrote none: the log has no
 * place for such an entry, or the store or the port failed. */
bool kr_log(struct kr_box *box, const struct kr_record *record, uint8_t *entry, size_t *len);
/* Writes an event of the box itself, or counts it. */
void kr_log_event(struct kr_box *box, enum kr_event event);
enum kr_code kr_fetch(struct kr_box *box, const struct kr_link *link, uint64_t from, struct kr_writer *reply);

/* authority.c */
struct kr_bytes kr_text_bytes(const struct kr_text *text);
void kr_set_text(struct kr_text *text, struct kr_bytes bytes);
/* The one of these keys that the message names as its signer, or NULL. Takes constant time. */
const struct kr_public_key *kr_signer(const struct kr_public_key *keys, size_t count, const struct kr_signed *message);
void kr_take_key_set(struct kr_box *box, const struct kr_claims *set);
void kr_take_root(struct kr_box *box, const struct kr_claims *root);

/* lists.c. A list counts if its iat is at most KR_AHEAD later than the clock; others are ignored. */
const struct kr_list *kr_newest_list(const struct kr_box *box);
/* The list with this URI, or NULL. Takes constant time, like kr_phone_place. */
const struct kr_list *kr_find_list(const struct kr_box *box, struct kr_bytes uri);
/* KR_GOOD if the box may accept this list, else KR_CODE_GENERATION or KR_CODE_OLDER. */
enum kr_code kr_check_list(const struct kr_box *box, const struct kr_claims *list);
void kr_drop_uncounted_lists(struct kr_box *box);
/* Drops lists whose signer is not among the issuing keys. */
void kr_drop_unsigned_lists(struct kr_box *box);
/* Drops lists that a provisioning with this list replaces. */
void kr_drop_replaced_lists(struct kr_box *box, const struct kr_claims *list);
/* Stores an acceptable list. */
void kr_take_list(struct kr_box *box, const struct kr_signed *message, const struct kr_claims *list,
                  const uint8_t *bits);

/* phones.c */
/* The place of this phone; KR_PHONES if it is unknown. */
size_t kr_phone_place(const struct kr_kept *kept, const uint8_t thumbprint[KR_DIGEST]);
void kr_keep_counter(struct kr_box *box, const uint8_t thumbprint[KR_DIGEST], uint64_t counter);
bool kr_is_good_key(const struct kr_box *box, const uint8_t digest[KR_DIGEST]);
void kr_keep_good_key(struct kr_box *box, const uint8_t digest[KR_DIGEST]);

/* The input of the judgement of an `open`. */
struct kr_attempt {
    struct kr_signed key_message;
    struct kr_signed answer_message;
    struct kr_claims key;
    struct kr_claims answer;
    uint8_t key_digest[KR_DIGEST];
    bool is_good_key;           /* whether the box remembers it */
    struct kr_public_key phone;
    size_t phone_place;
    uint8_t nonce[KR_NONCE]; /* the valid nonce of the link */
    uint8_t challenge[KR_DIGEST];
    const struct kr_public_key *issuer; /* NULL if its kid is unknown */
    const struct kr_list *list;         /* NULL if the box does not have it */
};

/* judge.c */
struct kr_judgement {
    enum kr_code code; /* of the first row that fails */
    uint32_t failed;   /* a bit for the code of each row that fails */
};
#define KR_ROW(code) (UINT32_C(1) << (code))
struct kr_judgement kr_judge(const struct kr_box *box, const struct kr_attempt *attempt);

/* artefacts.c, provisioning.c, open.c, box.c: answers on a link */
enum kr_code kr_carry(struct kr_box *box, struct kr_link *link, struct kr_bytes artefact);
enum kr_code kr_enrol(struct kr_box *box, struct kr_link *link, struct kr_bytes nonce, struct kr_writer *reply);
enum kr_code kr_provision(struct kr_box *box, struct kr_link *link, struct kr_bytes provisioning, struct kr_bytes set,
                          struct kr_bytes list);
enum kr_code kr_open(struct kr_box *box, struct kr_link *link, struct kr_bytes key, struct kr_bytes answer,
                     enum kr_effect *effect, struct kr_writer *reply);
void kr_write_result(struct kr_writer *reply, enum kr_code code, struct kr_bytes entry);

#endif
