/* The box as a whole: reset, start, links, and messages of a link (docs/key-link.md, "On the link"). */
#include <string.h>

#include "box.h"

#define VERSIONS_MOST 8 /* maximum versions in a phone's message */

static void begin(struct kr_box *box, const struct kr_port *port, const struct kr_store *store, uint64_t tick)
{
    memset(box, 0, sizeof *box);
    box->port = port;
    box->store = store;
    box->tick = tick;
    box->tokens = KR_BUCKET;
}

bool kr_box_reset(struct kr_box *box, const struct kr_port *port, const struct kr_store *store,
                  const uint8_t point[KR_POINT], uint64_t tick)
{
    uint8_t encoded[KR_PUBLIC_KEY];
    struct kr_writer out = kr_writer(encoded, sizeof encoded);

    begin(box, port, store, tick);
    kr_write_public_key(&out, point);
    kr_public_key(port, encoded, &box->kept.self);
    box->kept.boot = 1;
    box->kept.first = 1;
    box->kept.next = 1;
    box->damaged = !port->random(port->user, box->kept.secret, sizeof box->kept.secret);
    return !box->damaged;
}

static bool are_lists_sound(const struct kr_list lists[KR_LISTS])
{
    return lists[0].uri_len <= KR_URI_MOST && lists[1].uri_len <= KR_URI_MOST &&
           (lists[1].generation == 0 || lists[1].generation < lists[0].generation);
}

/* Whether a box may have saved this state. So no later code reads beyond its bounds. */
static bool is_sound(const struct kr_kept *kept)
{
    uint8_t least = kept->provisioned ? 1 : 0; /* keys of each kind */
    return kept->boot >= 1 && kept->authority.len <= KR_NAME_MOST && kept->name.len <= KR_NAME_MOST &&
           kept->issuing_count >= least && kept->issuing_count <= 2 && kept->service_count >= least &&
           kept->service_count <= 2 && are_lists_sound(kept->lists) && kept->floor <= KR_UINT_MAX &&
           kept->ahead <= KR_AHEAD && kept->phone_count <= KR_PHONES && kept->first >= 1 && kept->first <= kept->next &&
           kept->next - kept->first <= KR_LOG_PLACES;
}

bool kr_box_start(struct kr_box *box, const struct kr_port *port, const struct kr_store *store,
                  const struct kr_kept *kept, uint64_t elapsed, uint64_t tick)
{
    bool stood = elapsed == KR_CLOCK_STOOD;

    if (!is_sound(kept)) {
        kr_box_start_damaged(box, port, store, tick);
        return false;
    }
    begin(box, port, store, tick);
    box->kept = *kept;
    box->kept.boot++;
    box->kept.certain = kept->certain && !stood;
    box->time = kr_add(kept->floor, stood ? 0 : elapsed, KR_UINT_MAX);
    if (kept->provisioned) {
        kr_log_event(box, KR_STARTED);
    }
    return true;
}

void kr_box_start_damaged(struct kr_box *box, const struct kr_port *port, const struct kr_store *store, uint64_t tick)
{
    begin(box, port, store, tick);
    box->damaged = true;
}

bool kr_box_write_down(struct kr_box *box, uint64_t tick)
{
    if (box->damaged) {
        return false;
    }
    kr_tick(box, tick);
    kr_write_down(box);
    return true;
}

/* The first free link, else the oldest one, preferably without a proof. */
static unsigned choose_link(const struct kr_box *box)
{
    unsigned oldest = 0;
    for (unsigned i = 0; i < KR_LINKS; i++) {
        const struct kr_link *link = &box->links[i], *other = &box->links[oldest];
        bool is_proven = kr_is_proven(box, link), is_other_proven = kr_is_proven(box, other);
        if (link->connection == 0) {
            return i;
        }
        if (is_proven == is_other_proven ? link->connection < other->connection : is_other_proven) {
            oldest = i;
        }
    }
    return oldest;
}

unsigned kr_box_connect(struct kr_box *box, uint64_t tick)
{
    kr_tick(box, tick);
    unsigned link = choose_link(box);
    kr_box_disconnect(box, link);
    box->links[link].connection = ++box->connections;
    box->links[link].tokens = KR_LINK_BUCKET;
    box->links[link].since = box->tick;
    return link;
}

void kr_box_disconnect(struct kr_box *box, unsigned link)
{
    if (link < KR_LINKS) {
        memset(&box->links[link], 0, sizeof box->links[link]);
    }
}

bool kr_box_is_proven(const struct kr_box *box, unsigned link)
{
    return link < KR_LINKS && kr_is_proven(box, &box->links[link]);
}

void kr_write_result(struct kr_writer *reply, enum kr_code code, struct kr_bytes entry)
{
    kr_write_head(reply, KR_ARRAY, 3);
    kr_write_uint(reply, KR_SAYS_RESULT);
    kr_write_uint(reply, code);
    kr_write_bytes(reply, entry);
}

static enum kr_code taken(enum kr_code code, struct kr_writer *reply)
{
    kr_write_head(reply, KR_ARRAY, 2);
    kr_write_uint(reply, KR_SAYS_TAKEN);
    kr_write_uint(reply, code == KR_GOOD ? 0 : 1);
    return code;
}

/* The rest of a message, which is this number of byte strings. */
static bool read_strings(struct kr_cursor *in, uint64_t rest, struct kr_bytes *strings, uint64_t count)
{
    bool good = rest == count;
    for (uint64_t i = 0; good && i < count; i++) {
        good = kr_read_bytes(in, 0, KR_WIRE_MOST, &strings[i]);
    }
    return good;
}

/* Reads the phone's versions, ascending, and whether the box's version is one of them. */
static bool read_versions(struct kr_cursor *in, bool *is_spoken)
{
    uint64_t count, version, least = 0;

    *is_spoken = false;
    if (!kr_read_array(in, 1, VERSIONS_MOST, &count)) {
        return false;
    }
    for (; count > 0; count--) {
        if (!kr_read_uint(in, least, KR_UINT_MAX, &version)) {
            return false;
        }
        *is_spoken = *is_spoken || version == KR_VERSION;
        least = version + 1;
    }
    return true;
}

/* Handles a message of this kind. A message without a reply is rejected. */
static enum kr_code serve(struct kr_box *box, struct kr_link *link, uint64_t what, struct kr_cursor *in, uint64_t rest,
                          enum kr_effect *effect, struct kr_writer *reply)
{
    struct kr_bytes s[3];
    uint64_t from;
    bool is_spoken;

    switch (what) {
    case KR_SAYS_HELLO:
        return rest == 1 && read_versions(in, &is_spoken) ? kr_hello(box, link, is_spoken, reply) : KR_CODE_STRUCTURE;
    case KR_SAYS_CARRY:
        return read_strings(in, rest, s, 1) ? taken(kr_carry(box, link, s[0]), reply) : KR_CODE_STRUCTURE;
    case KR_SAYS_OPEN:
        return read_strings(in, rest, s, 2) ? kr_open(box, link, s[0], s[1], effect, reply) : KR_CODE_STRUCTURE;
    case KR_SAYS_FETCH:
        return rest == 1 && kr_read_uint(in, 0, KR_UINT_MAX, &from) ? kr_fetch(box, link, from, reply)
                                                                    : KR_CODE_STRUCTURE;
    case KR_SAYS_ENROL:
        return read_strings(in, rest, s, 1) && s[0].len == KR_NONCE ? kr_enrol(box, link, s[0], reply)
                                                                    : KR_CODE_STRUCTURE;
    case KR_SAYS_PROVISION:
        return read_strings(in, rest, s, 3) ? taken(kr_provision(box, link, s[0], s[1], s[2]), reply)
                                            : KR_CODE_STRUCTURE;
    default:
        return what >= 1 && what <= KR_SAYS_VERSIONS ? KR_CODE_STRUCTURE : KR_CODE_UNKNOWN;
    }
}

static enum kr_code receive(struct kr_box *box, struct kr_link *link, struct kr_bytes message, enum kr_effect *effect,
                            struct kr_writer *reply)
{
    struct kr_cursor in = kr_cursor(message);
    uint64_t members, what;

    if (message.len > KR_WIRE_MOST) {
        return KR_CODE_TOO_LONG;
    }
    if (!kr_cbor_check(message, KR_UNTAGGED)) {
        return KR_CODE_ENCODING;
    }
    if (!kr_read_array(&in, 1, KR_WIRE_MOST, &members) || !kr_read_uint(&in, 0, KR_UINT_MAX, &what)) {
        return KR_CODE_STRUCTURE;
    }
    return serve(box, link, what, &in, members - 1, effect, reply);
}

/* A newer phone continues with an older message if the box does not know this one. Only this code shows the reason. */
static void write_refusal(struct kr_writer *reply, enum kr_code code)
{
    kr_write_result(reply, code == KR_CODE_UNKNOWN ? code : KR_CODE_REFUSED, (struct kr_bytes){NULL, 0});
}

struct kr_outcome kr_box_receive(struct kr_box *box, unsigned link, struct kr_bytes message, uint64_t tick,
                                 uint8_t *reply)
{
    struct kr_outcome outcome = {KR_CODE_REFUSED, KR_STAYS, 0, false};
    struct kr_writer out = kr_writer(reply, KR_WIRE_MOST);

    box->changed = false;
    kr_tick(box, tick);
    if (!box->damaged && link < KR_LINKS && box->links[link].connection != 0) {
        outcome.code = receive(box, &box->links[link], message, &outcome.effect, &out);
    }
    if (out.len == 0) {
        write_refusal(&out, outcome.code);
        kr_count_refusal(box, outcome.code);
    }
    outcome.reply_len = out.len;
    outcome.persist = box->changed;
    return outcome;
}
