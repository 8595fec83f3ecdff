/* Internal functions of the phone. */
#ifndef KR_PHONE_H
#define KR_PHONE_H

#include "claims.h"
#include "keyrack_phone.h"

/* The first member of a message on a link. */
enum kr_phone_says {
    KR_HELLO = 1, KR_CHALLENGE, KR_CARRY, KR_TAKEN, KR_SAY_OPEN, KR_RESULT, KR_FETCH, KR_ENTRIES, KR_VERSIONS = 12
};

/* state.c */
struct kr_bytes kr_name(const struct kr_text *text);
/* `name` has at most KR_NAME_MOST bytes. */
void kr_set_name(struct kr_text *text, struct kr_bytes name);
/* Whether a name is that of a box of this product, "box:PRODUCT:EPOCH". Also for a box without a name, which is not set
 * up, and for product 0. */
bool kr_is_box_of(struct kr_bytes name, uint32_t product);

/* entry.c */
struct kr_entry {
    struct kr_bytes aud;
    uint64_t number;
    uint64_t event;
    uint64_t counter;
    struct kr_bytes device;
    struct kr_signed message;
    size_t len;
    uint8_t bytes[KR_ENTRY_MOST]; /* with a low s; the members above point into it */
};

/* Reads an entry of any box, and makes its s low. */
enum kr_code kr_read_entry(struct kr_bytes bytes, struct kr_entry *entry);
/* Reads an entry that this box has signed. */
enum kr_code kr_read_entry_of(const struct kr_phone_state *phone, const struct kr_held_box *box, struct kr_bytes bytes,
                              struct kr_entry *entry);

/* entries.c */
/* The entries of this box that the phone has room for. */
size_t kr_entry_room(const struct kr_phone_state *phone, struct kr_bytes box);
/* Keeps an entry. False if there is no room for it. `changed` is set if it is new. */
bool kr_keep_entry(struct kr_phone_state *phone, const struct kr_entry *entry, bool *changed);
/* Keeps these entries of a box: all, or none if the box did not sign one of them, because such a box is a fake. `from`
 * is the least number, and becomes the number after the last one. `has_room`: whether there is room for another one. */
enum kr_code kr_keep_entries(struct kr_phone_state *phone, struct kr_bytes name, struct kr_cursor in, uint64_t count,
                             uint64_t *from, bool *has_room, bool *changed);

/* answer.c */
struct kr_read {
    struct kr_signed message;
    struct kr_claims claims;
};
/* Reads a message of the server, and copies it to `held`, which has room for the longest one of this kind. */
enum kr_code kr_read_held(const struct kr_port *port, struct kr_bytes message, enum kr_message kind,
                          struct kr_read *read, uint8_t *held, uint16_t *len);

/* uploads.c */
enum kr_code kr_read_receipt(const struct kr_port *port, struct kr_bytes message, struct kr_held_receipt *receipt);
void kr_take_receipt(struct kr_phone_state *phone, const struct kr_held_receipt *receipt);

/* link.c */
/* A reply: its type, and its other members. */
struct kr_reply {
    uint64_t says;
    uint64_t count;
    struct kr_cursor in;
};
enum kr_code kr_read_reply(struct kr_bytes message, struct kr_reply *reply);
/* Whether this is a result; the code may be unknown. */
bool kr_read_result(struct kr_reply *reply, uint64_t *code, struct kr_bytes *entry);
/* Whether these are versions of a box that speaks none of this program's. */
bool kr_read_versions(struct kr_reply *reply, bool *is_box_newer);
size_t kr_write_carry(struct kr_bytes artefact, uint8_t *message, size_t room);
size_t kr_write_fetch(uint64_t from, uint8_t *message, size_t room);
/* An open, signed by the phone's key. 0 if the port did not sign. */
size_t kr_write_open(const struct kr_phone_state *phone, const struct kr_challenge *challenge, uint64_t command,
                     uint64_t counter, struct kr_bytes key, uint8_t *message, size_t room);

#endif
