/* A visit to a box: brings what the box lacks, opens or closes it, and fetches its log. */
#include <string.h>

#include "phone.h"

#define FETCHES_MOST 300 /* a box holds 1,024 entries, and gives 4 at a time */
#define KEYS_MOST 3      /* tried for one command, because each attempt costs a token of the box */
#define ENTRIES_MOST 4   /* in one reply */

/* New roots and the key set come first, because they verify the rest. A time comes before lists that may be ahead of
 * the clock. */
enum stage { AUTHORITY, CLOCK, ARTEFACTS, COMMAND };
enum waits { FOR_NOTHING, FOR_CHALLENGE, FOR_TAKEN, FOR_TIME, FOR_RESULT, FOR_ENTRIES };

static struct kr_next end(struct kr_conversation *c, enum kr_end how, uint64_t code, enum kr_action action)
{
    struct kr_next next = {KR_END, {NULL, 0}, false, how, code, action};
    c->waits = FOR_NOTHING;
    return next;
}

static struct kr_next invalid(struct kr_conversation *c, enum kr_code code)
{
    return end(c, KR_END_INVALID, code, KR_NO_ACTION);
}

static struct kr_next refused(struct kr_conversation *c, uint64_t code)
{
    return end(c, KR_END_REFUSED, code > KR_CODE_OTHER_PART ? KR_CODE_REFUSED : code, kr_action(code));
}

static struct kr_next no_key(struct kr_conversation *c)
{
    return end(c, KR_END_NO_KEY, KR_GOOD, KR_ONLINE);
}

static struct kr_next unknown(struct kr_conversation *c)
{
    return end(c, KR_END_UNKNOWN, KR_GOOD, KR_LOOK);
}

static struct kr_next send(struct kr_conversation *c, enum waits waits, size_t len)
{
    struct kr_next next = {KR_SEND, {c->out, len}, false, KR_END_DONE, KR_GOOD, KR_NO_ACTION};
    c->waits = waits;
    return next;
}

static struct kr_next hello(struct kr_conversation *c)
{
    return send(c, FOR_CHALLENGE, kr_write_hello(c->out));
}

/* Each artefact that a phone keeps fits a message. */
static struct kr_next carry(struct kr_conversation *c, struct kr_bytes artefact)
{
    return send(c, FOR_TAKEN, kr_write_carry(artefact, c->out, sizeof c->out));
}

static struct kr_next use_key(struct kr_conversation *c, uint64_t now)
{
    if (c->attempt == 0) {
        c->box = c->challenge.name;
        c->chosen_at = now;
    }
    const struct kr_held_key *key = kr_phone_key(c->phone, kr_name(&c->box), c->attempt, c->chosen_at);
    if (key == NULL || kr_phone_box(c->phone, kr_name(&c->box)) == NULL) {
        return no_key(c);
    }
    c->attempt++;
    c->assignment = key->assignment;
    c->counter = kr_phone_next_counter(c->phone, now);
    struct kr_bytes message = {key->message, key->len};
    size_t len = kr_write_open(c->phone, &c->challenge, c->command, c->counter, message, c->out, sizeof c->out);
    struct kr_next next =
        len == 0 ? end(c, KR_END_UNSIGNED, KR_GOOD, KR_AGAIN) : send(c, FOR_RESULT, len);
    next.save = true; /* the counter */
    return next;
}

/* The next step after a challenge, or after something was brought. Each stage that brought something is followed by a
 * new challenge, because a nonce lives for 10 s. */
static struct kr_next go_on(struct kr_conversation *c, uint64_t now)
{
    struct kr_bytes artefact;

    if (c->stage == AUTHORITY) {
        if (kr_phone_authority(c->phone, &c->challenge, c->place, &artefact)) {
            return carry(c, artefact);
        }
        c->stage = CLOCK;
        if (c->place > 0) {
            return hello(c);
        }
    }
    if (c->stage == CLOCK) {
        if (c->has_network && !kr_is_clock_right(&c->challenge, now)) {
            struct kr_next next = {KR_ASK_TIME, {NULL, 0}, false, KR_END_DONE, KR_GOOD, KR_NO_ACTION};
            c->waits = FOR_TIME;
            return next;
        }
        c->stage = ARTEFACTS;
    }
    if (c->stage == ARTEFACTS) {
        if (kr_phone_artefact(c->phone, &c->challenge, c->place, &artefact)) {
            return carry(c, artefact);
        }
        c->stage = COMMAND;
        if (c->place > 0) {
            return hello(c);
        }
    }
    return use_key(c, now);
}

/* The name stays during a visit: a fake box could try out which boxes the phone knows. */
static struct kr_next on_challenge(struct kr_conversation *c, struct kr_bytes message, uint64_t now)
{
    struct kr_challenge challenge;
    enum kr_code code = kr_read_challenge(c->phone->port, message, &challenge);

    c->place = 0;
    if (code != KR_GOOD) {
        return invalid(c, code);
    }
    if (!kr_is_box_of(kr_name(&challenge.name), c->product)) {
        return end(c, KR_END_OTHER_BOX, KR_GOOD, KR_AGAIN);
    }
    if (c->is_greeted && !kr_same(kr_name(&challenge.name), kr_name(&c->challenge.name))) {
        return invalid(c, KR_CODE_AUDIENCE);
    }
    c->is_greeted = true;
    c->challenge = challenge;
    return go_on(c, now);
}

/* A rejected artefact is not brought again in this conversation. */
static struct kr_next on_taken(struct kr_conversation *c, struct kr_reply *reply, uint64_t now)
{
    uint64_t is_refused;

    if (reply->says != KR_TAKEN || reply->count != 1 || !kr_read_uint(&reply->in, 0, 1, &is_refused)) {
        return invalid(c, KR_CODE_STRUCTURE);
    }
    if (c->stage == CLOCK) { /* the time ended the nonce, also if the box has rejected it */
        c->stage = ARTEFACTS;
        return hello(c);
    }
    c->place++;
    return go_on(c, now);
}

/* Rejections of one key, after which another key for the same box may open. */
static bool is_of_one_key(uint64_t code)
{
    return code == KR_CODE_REFUSED || (code >= KR_CODE_NOT_YET && code <= KR_CODE_RIGHT) || code > KR_CODE_OTHER_PART;
}

/* An older entry is no proof of the command. */
static bool is_proof(const struct kr_conversation *c, const struct kr_entry *entry)
{
    return entry->event == c->command && entry->counter == c->counter && entry->device.len == KR_DIGEST &&
           kr_equal(entry->device.at, c->phone->self.thumbprint, KR_DIGEST);
}

static struct kr_next on_result(struct kr_conversation *c, struct kr_reply *reply)
{
    struct kr_entry entry;
    struct kr_bytes bytes;
    struct kr_next next;
    uint64_t code;
    bool changed = false;

    if (!kr_read_result(reply, &code, &bytes)) {
        return unknown(c);
    }
    const struct kr_held_box *box = kr_phone_box(c->phone, kr_name(&c->box));
    bool is_entry = box != NULL && bytes.len > 0 && kr_read_entry_of(c->phone, box, bytes, &entry) == KR_GOOD;
    if (code == KR_GOOD && !(is_entry && is_proof(c, &entry))) {
        return unknown(c);
    }
    if (is_entry) {
        (void)kr_keep_entry(c->phone, &entry, &changed);
    }
    if (code == KR_GOOD) {
        next = end(c, KR_END_DONE, KR_GOOD, KR_NO_ACTION);
    } else if (!is_of_one_key(code)) {
        next = refused(c, code);
    } else {
        c->refusal = c->refusal == 0 ? code : c->refusal;
        bool has_other = c->attempt < KEYS_MOST &&
                         kr_phone_key(c->phone, kr_name(&c->box), c->attempt, c->chosen_at) != NULL;
        next = has_other ? hello(c) : refused(c, c->refusal);
    }
    next.save = changed;
    return next;
}

static struct kr_next fetch(struct kr_conversation *c)
{
    c->fetches++;
    return send(c, FOR_ENTRIES, kr_write_fetch(c->from, c->out, sizeof c->out));
}

static struct kr_next on_entries(struct kr_conversation *c, struct kr_reply *reply)
{
    uint64_t next_number, count;
    bool has_room = true, changed = false;

    if (reply->says != KR_ENTRIES || reply->count != 2 || !kr_read_uint(&reply->in, 0, KR_UINT_MAX, &next_number) ||
        !kr_read_array(&reply->in, 0, ENTRIES_MOST, &count)) {
        return invalid(c, KR_CODE_STRUCTURE);
    }
    enum kr_code code = kr_keep_entries(c->phone, kr_name(&c->box), reply->in, count, &c->from, &has_room, &changed);
    if (code != KR_GOOD) {
        return invalid(c, code);
    }
    c->from = kr_phone_first_missing(c->phone, kr_name(&c->box), c->from);
    bool is_last = count == 0 || !has_room || c->from >= next_number || c->fetches >= FETCHES_MOST;
    struct kr_next next = is_last ? end(c, KR_END_DONE, KR_GOOD, KR_NO_ACTION) : fetch(c);
    next.save = changed;
    return next;
}

struct kr_next kr_conversation_begin(struct kr_conversation *conversation, struct kr_phone_state *phone,
                                     uint64_t command, bool has_network)
{
    memset(conversation, 0, sizeof *conversation);
    conversation->phone = phone;
    conversation->command = command;
    conversation->has_network = has_network;
    return hello(conversation);
}

void kr_conversation_want(struct kr_conversation *conversation, uint32_t product)
{
    conversation->product = product;
}

struct kr_next kr_conversation_receive(struct kr_conversation *conversation, struct kr_bytes message, uint64_t now)
{
    struct kr_conversation *c = conversation;
    struct kr_reply reply;
    struct kr_bytes entry;
    uint64_t code = kr_read_reply(message, &reply);
    bool is_box_newer;

    if (c->waits == FOR_RESULT) {
        return code == KR_GOOD ? on_result(c, &reply) : unknown(c);
    }
    if (code != KR_GOOD) {
        return invalid(c, (enum kr_code)code);
    }
    if (reply.says == KR_RESULT) { /* a box answers so what it rejects */
        return kr_read_result(&reply, &code, &entry) ? refused(c, code) : invalid(c, KR_CODE_STRUCTURE);
    }
    switch (c->waits) {
    case FOR_CHALLENGE:
        if (reply.says == KR_VERSIONS && kr_read_versions(&reply, &is_box_newer)) {
            return end(c, KR_END_VERSION, KR_GOOD, is_box_newer ? KR_UPDATE : KR_ASK);
        }
        return on_challenge(c, message, now);
    case FOR_TAKEN:
        return on_taken(c, &reply, now);
    case FOR_ENTRIES:
        return on_entries(c, &reply);
    default:
        return invalid(c, KR_CODE_STRUCTURE);
    }
}

struct kr_next kr_conversation_time(struct kr_conversation *conversation, struct kr_bytes time, uint64_t now)
{
    if (conversation->waits != FOR_TIME) {
        return invalid(conversation, KR_CODE_STRUCTURE);
    }
    if (time.len > 0 && time.len <= kr_most(KR_TIME)) {
        return carry(conversation, time);
    }
    conversation->stage = ARTEFACTS; /* the rights of the key decide whether the box opens */
    return go_on(conversation, now);
}

struct kr_next kr_conversation_lost(struct kr_conversation *conversation, bool whole)
{
    bool is_unknown = conversation->waits == FOR_RESULT && whole;
    return is_unknown ? unknown(conversation) : end(conversation, KR_END_LOST, KR_GOOD, KR_AGAIN);
}

struct kr_next kr_conversation_fetch(struct kr_conversation *conversation)
{
    struct kr_conversation *c = conversation;

    c->box = c->challenge.name;
    if (kr_phone_box(c->phone, kr_name(&c->box)) == NULL) {
        return no_key(c);
    }
    c->fetches = 0;
    c->from = kr_phone_first_missing(c->phone, kr_name(&c->box), c->challenge.first);
    return fetch(c);
}

bool kr_conversation_has_done_nothing(const struct kr_conversation *conversation, const struct kr_challenge *later)
{
    return kr_same(kr_name(&later->name), kr_name(&conversation->challenge.name)) &&
           later->next == conversation->challenge.next;
}
