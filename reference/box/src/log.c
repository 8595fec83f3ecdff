/* The log: signed entries, each with the SHA-256 of the previous one (docs/key-log.md, "The log of a box"). */
#include <string.h>

#include "box.h"

#define ENTRIES_AT_ONCE 4 /* in one reply */
#define PAYLOAD_MOST 320

static uint64_t places_left(const struct kr_kept *kept)
{
    return KR_LOG_PLACES - (kept->next - kept->first);
}

/* Only openings and closings use the last places, so other events never displace them. */
static bool has_place_for(const struct kr_kept *kept, enum kr_event event)
{
    return event == KR_OPENED || event == KR_CLOSED || places_left(kept) >= KR_LOG_FOR_OPENINGS;
}

/* A rejection that is not logged. The next entry has the count of them. */
void kr_count_refusal(struct kr_box *box, enum kr_code code)
{
    if (box->refused_count < KR_UINT_MAX) {
        box->refused_count++;
    }
    box->refused_code = (uint8_t)code;
}

static void member(struct kr_writer *out, int64_t key, uint64_t value)
{
    kr_write_int(out, key);
    kr_write_uint(out, value);
}

static void member_bytes(struct kr_writer *out, int64_t key, struct kr_bytes value)
{
    kr_write_int(out, key);
    kr_write_bytes(out, value);
}

static void write_payload(const struct kr_box *box, const struct kr_record *record, uint64_t first,
                          struct kr_writer *out)
{
    const struct kr_kept *kept = &box->kept;
    const struct kr_list *newest = kr_newest_list(box);

    kr_write_head(out, KR_MAP, 16);
    kr_write_int(out, KR_M_AUD);
    kr_write_text(out, kr_text_bytes(&kept->name));
    member(out, KR_M_IAT, box->time);
    member_bytes(out, KR_M_CTI, record->cti);
    member(out, KR_M_COMMAND, record->command);
    member(out, KR_M_COUNTER, record->counter);
    member(out, KR_M_NUMBER, kept->next);
    member_bytes(out, KR_M_PREVIOUS, (struct kr_bytes){kept->newest, KR_DIGEST});
    member(out, KR_M_FIRST, first);
    member(out, KR_M_EVENT, record->event);
    member(out, KR_M_CODE, record->code);
    member(out, KR_M_CERTAIN, kept->certain ? 1 : 0);
    member_bytes(out, KR_M_DEVICE, record->device);
    kr_write_int(out, KR_M_HELD);
    kr_write_head(out, KR_ARRAY, 3);
    kr_write_uint(out, kept->sequence);
    kr_write_uint(out, newest == NULL ? 0 : newest->generation);
    kr_write_uint(out, newest == NULL ? 0 : newest->iat);
    kr_write_int(out, KR_M_REFUSED);
    kr_write_head(out, KR_ARRAY, 2);
    kr_write_uint(out, box->refused_count);
    kr_write_uint(out, box->refused_code);
    member(out, KR_M_SKIPPED, box->skipped_count);
    member_bytes(out, KR_M_ROOT_KID, (struct kr_bytes){kept->root.thumbprint, KR_KID});
}

bool kr_log(struct kr_box *box, const struct kr_record *record, uint8_t *entry, size_t *len)
{
    struct kr_kept *kept = &box->kept;
    uint8_t bytes[PAYLOAD_MOST];
    struct kr_writer payload = kr_writer(bytes, sizeof bytes);
    struct kr_writer out = kr_writer(entry, KR_ENTRY_MOST);
    uint64_t first = places_left(kept) > 0 ? kept->first : kept->first + 1; /* drops the oldest */

    if (!has_place_for(kept, record->event)) {
        return false;
    }
    write_payload(box, record, first, &payload);
    if (payload.full ||
        !kr_write_signed(box->port, &kept->self, KR_ENTRY, (struct kr_bytes){bytes, payload.len}, &out) ||
        !box->store->put(box->store->user, kept->next, (struct kr_bytes){entry, out.len})) {
        return false;
    }
    kept->first = first;
    kept->next++;
    kr_sha256(box->port, (struct kr_bytes){entry, out.len}, kept->newest);
    box->refused_count = 0;
    box->refused_code = 0;
    box->skipped_count = 0;
    kr_write_down(box);
    box->changed = true;
    *len = out.len;
    return true;
}

void kr_log_event(struct kr_box *box, enum kr_event event)
{
    struct kr_record record = {event, KR_GOOD, 0, 0, {NULL, 0}, {NULL, 0}};
    uint8_t entry[KR_ENTRY_MOST];
    size_t len;
    if (!kr_log(box, &record, entry, &len)) {
        box->skipped_count++;
    }
}

/* `entries`: from `from`, or else from the first one in the log, as many as fit in the reply. */
enum kr_code kr_fetch(struct kr_box *box, const struct kr_link *link, uint64_t from, struct kr_writer *reply)
{
    const struct kr_kept *kept = &box->kept;
    uint8_t entry[KR_ENTRY_MOST];
    size_t len, head;
    uint8_t count = 0;

    if (!kr_is_proven(box, link)) {
        return KR_CODE_NOT_NOW;
    }
    kr_write_head(reply, KR_ARRAY, 3);
    kr_write_uint(reply, KR_SAYS_ENTRIES);
    kr_write_uint(reply, kept->next);
    head = reply->len;
    kr_write_head(reply, KR_ARRAY, 0);
    for (uint64_t number = from > kept->first ? from : kept->first; number < kept->next; number++) {
        size_t before = reply->len;
        if (count == ENTRIES_AT_ONCE || !box->store->get(box->store->user, number, entry, &len) || len > sizeof entry) {
            break;
        }
        kr_write_bytes(reply, (struct kr_bytes){entry, len});
        if (reply->full) {
            reply->len = before; /* the next request gets it */
            reply->full = false;
            break;
        }
        count++;
    }
    reply->at[head] = (uint8_t)(reply->at[head] + count); /* the count is known now */
    return KR_GOOD;
}
