/* Uploads: the registration of PUT /sdk/devices, and the entries and receipts of PUT /sdk/boxlog. */
#include <string.h>

#include "phone.h"

#define CNF_KEY 1

enum kr_code kr_read_receipt(const struct kr_port *port, struct kr_bytes message, struct kr_held_receipt *receipt)
{
    struct kr_read read;
    enum kr_code code = kr_read_held(port, message, KR_RECEIPT, &read, receipt->message, &receipt->len);

    if (code == KR_GOOD) {
        kr_set_name(&receipt->box, read.claims.aud);
        receipt->number = read.claims.upto;
        receipt->iat = read.claims.iat;
    }
    return code;
}

/* Of two receipts of a box, the one with the higher number, else the later one. Without room it is dropped, and the box
 * keeps its entries for longer. */
void kr_take_receipt(struct kr_phone_state *phone, const struct kr_held_receipt *receipt)
{
    struct kr_held_receipt *receipts = phone->memory.receipts;

    for (size_t i = 0; i < phone->receipt_count; i++) {
        struct kr_held_receipt *known = &receipts[i];
        if (!kr_same(kr_name(&known->box), kr_name(&receipt->box))) {
            continue;
        }
        if (receipt->number > known->number || (receipt->number == known->number && receipt->iat > known->iat)) {
            *known = *receipt;
        }
        return;
    }
    if (phone->receipt_count < phone->memory.receipt_room) {
        receipts[phone->receipt_count++] = *receipt;
    }
}

static bool is_among(const struct kr_held_entry *entry, const struct kr_bytes *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (kr_same((struct kr_bytes){entry->message, entry->len}, entries[i])) {
            return true;
        }
    }
    return false;
}

enum kr_code kr_phone_bring_home(struct kr_phone_state *phone, const struct kr_bytes *entries, size_t entry_count,
                                 const struct kr_bytes *receipts, size_t receipt_count)
{
    struct kr_held_entry *held = phone->memory.entries;
    struct kr_held_receipt receipt;
    size_t kept = 0;

    for (size_t i = 0; i < receipt_count; i++) {
        enum kr_code code = kr_read_receipt(phone->port, receipts[i], &receipt);
        if (code != KR_GOOD) {
            return code;
        }
    }
    for (size_t i = 0; i < phone->entry_count; i++) {
        if (is_among(&held[i], entries, entry_count)) {
            continue;
        }
        if (kept != i) {
            held[kept] = held[i];
        }
        kept++;
    }
    phone->entry_count = kept;
    for (size_t i = 0; i < receipt_count; i++) {
        if (kr_read_receipt(phone->port, receipts[i], &receipt) == KR_GOOD) {
            kr_take_receipt(phone, &receipt);
        }
    }
    return KR_GOOD;
}

size_t kr_phone_registration(const struct kr_phone_state *phone, struct kr_bytes subject, const uint8_t nonce[KR_NONCE],
                             uint8_t *message)
{
    uint8_t bytes[KR_REGISTRATION_MOST];
    struct kr_writer payload = kr_writer(bytes, sizeof bytes);
    struct kr_writer out = kr_writer(message, KR_REGISTRATION_MOST);

    if (subject.len == 0 || subject.len > KR_URI_MOST) {
        return 0;
    }
    kr_write_head(&payload, KR_MAP, 3);
    kr_write_int(&payload, KR_M_SUB);
    kr_write_text(&payload, subject);
    kr_write_int(&payload, KR_M_CNF);
    kr_write_head(&payload, KR_MAP, 1);
    kr_write_int(&payload, CNF_KEY);
    kr_write_public_key(&payload, phone->self.point);
    kr_write_int(&payload, KR_M_NONCE);
    kr_write_bytes(&payload, (struct kr_bytes){nonce, KR_NONCE});
    struct kr_bytes written = {bytes, payload.len};
    return !payload.full && kr_cbor_check(written, KR_UNTAGGED) &&
                   kr_write_signed(phone->port, &phone->self, KR_REGISTRATION, written, &out)
               ? out.len
               : 0;
}
