/* Entries that the phone keeps until the server has them. */
#include <string.h>

#include "phone.h"

static struct kr_bytes message_of(const struct kr_held_entry *entry)
{
    return (struct kr_bytes){entry->message, entry->len};
}

size_t kr_entry_room(const struct kr_phone_state *phone, struct kr_bytes box)
{
    size_t of_box = 0, room = phone->memory.entry_room - phone->entry_count;

    for (size_t i = 0; i < phone->entry_count; i++) {
        of_box += kr_same(kr_name(&phone->memory.entries[i].box), box);
    }
    size_t left = of_box < KR_ENTRIES_OF_BOX ? KR_ENTRIES_OF_BOX - of_box : 0;
    return left < room ? left : room;
}

bool kr_keep_entry(struct kr_phone_state *phone, const struct kr_entry *entry, bool *changed)
{
    struct kr_bytes message = {entry->bytes, entry->len};

    for (size_t i = 0; i < phone->entry_count; i++) {
        if (kr_same(message_of(&phone->memory.entries[i]), message)) {
            return true;
        }
    }
    if (kr_entry_room(phone, entry->aud) == 0) {
        return false;
    }
    struct kr_held_entry *held = &phone->memory.entries[phone->entry_count++];
    kr_set_name(&held->box, entry->aud);
    held->number = entry->number;
    held->len = (uint16_t)entry->len;
    memcpy(held->message, entry->bytes, entry->len);
    *changed = true;
    return true;
}

enum kr_code kr_phone_keep_entry(struct kr_phone_state *phone, struct kr_bytes bytes)
{
    struct kr_entry entry;
    bool changed;
    enum kr_code code = kr_read_entry(bytes, &entry);
    if (code == KR_GOOD) {
        (void)kr_keep_entry(phone, &entry, &changed);
    }
    return code;
}

/* Reads entries from a number on, and keeps them or not. `from` becomes the number after the last one. */
static enum kr_code read_entries(struct kr_phone_state *phone, const struct kr_held_box *box, struct kr_cursor in,
                                 uint64_t count, bool keeps, uint64_t *from, bool *has_room, bool *changed)
{
    struct kr_entry entry;
    struct kr_bytes bytes;

    for (; count > 0; count--) {
        (void)kr_read_bytes(&in, 0, KR_WIRE_MOST, &bytes); /* its form was checked before */
        enum kr_code code = keeps ? kr_read_entry(bytes, &entry) : kr_read_entry_of(phone, box, bytes, &entry);
        if (code != KR_GOOD || entry.number < *from) {
            return code != KR_GOOD ? code : KR_CODE_STRUCTURE;
        }
        *from = entry.number + 1;
        if (keeps && !kr_keep_entry(phone, &entry, changed)) {
            *has_room = false;
        }
    }
    return KR_GOOD;
}

enum kr_code kr_keep_entries(struct kr_phone_state *phone, struct kr_bytes name, struct kr_cursor in, uint64_t count,
                             uint64_t *from, bool *has_room, bool *changed)
{
    const struct kr_held_box *box = kr_phone_box(phone, name);
    uint64_t checked = *from;
    struct kr_cursor form = in;
    struct kr_bytes bytes;

    for (uint64_t i = 0; i < count; i++) {
        if (!kr_read_bytes(&form, 0, KR_WIRE_MOST, &bytes)) {
            return KR_CODE_STRUCTURE;
        }
    }
    enum kr_code code = box == NULL ? KR_CODE_AUDIENCE
                                    : read_entries(phone, box, in, count, false, &checked, has_room, changed);
    if (code == KR_GOOD) {
        code = read_entries(phone, box, in, count, true, from, has_room, changed);
        *has_room = *has_room && kr_entry_room(phone, name) > 0;
    }
    return code;
}

static bool has_entry(const struct kr_phone_state *phone, struct kr_bytes box, uint64_t number)
{
    for (size_t i = 0; i < phone->entry_count; i++) {
        const struct kr_held_entry *entry = &phone->memory.entries[i];
        if (entry->number == number && kr_same(kr_name(&entry->box), box)) {
            return true;
        }
    }
    return false;
}

uint64_t kr_phone_first_missing(const struct kr_phone_state *phone, struct kr_bytes box, uint64_t first)
{
    uint64_t number = first;

    for (size_t i = 0; i < phone->receipt_count; i++) {
        const struct kr_held_receipt *receipt = &phone->memory.receipts[i];
        if (kr_same(kr_name(&receipt->box), box) && receipt->number >= number) {
            number = receipt->number + 1;
        }
    }
    number = number == 0 ? 1 : number;
    while (has_entry(phone, box, number)) {
        number++;
    }
    return number;
}
