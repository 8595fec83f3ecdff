/* The NFC side of a box: messages in ISO 7816-4 APDUs (docs/key-nfc.md). The box is the card. */
#include <string.h>

#include "cose.h"
#include "hmac.h"
#include "transports.h"

#define SHORTEST 4      /* CLA, INS, P1, P2 */
#define MOST_DATA 256   /* of a response */
#define URI_RECORD 5    /* bytes of a URI record before the URI */
#define WITH_DATA 0x0400 /* P1 and P2 of a SELECT by AID */
#define NO_DATA 0x040c
#define BY_FILE 0x000c
#define CAPABILITIES_FILE 0xe103
#define RECORD_FILE 0xe104

enum {
    STATUS_WHOLE = 0, /* no response yet: a message is whole */
    STATUS_OK = 0x9000, STATUS_MORE = 0x6100, STATUS_LENGTH = 0x6700, STATUS_CONDITIONS = 0x6985,
    STATUS_NOT_FOUND = 0x6a82, STATUS_BUSY = 0x6a84, STATUS_PARAMETERS = 0x6a86, STATUS_INSTRUCTION = 0x6d00,
    STATUS_CLASS = 0x6e00
};

/* The selected application, or file of the NDEF application. */
enum { NOTHING, KEYRACK, NDEF, CAPABILITIES, RECORD };

static const uint8_t AID[] = {0xf0, 0x4b, 0x45, 0x59, 0x52, 0x41, 0x43, 0x4b, 0x01}; /* "KEYRACK", version 1 */
static const uint8_t NDEF_AID[] = {0xd2, 0x76, 0x00, 0x00, 0x85, 0x01, 0x01};
static const uint8_t SELECTED[] = {0x01, KR_WIRE_MOST >> 8, KR_WIRE_MOST & 0xff}; /* version, longest message */
/* Version 2.0, reads and writes of at most 255 bytes, the record for reading only. */
static const uint8_t CAPABILITY_FILE[] = {0x00, 0x0f, 0x20, 0x00, 0xff, 0x00, 0xff, 0x04,
                                          0x06, 0xe1, 0x04, 0x00, 0xff, 0x00, 0xff};
static const char SCHEME[] = "https://"; /* code 4 of a URI record */
#define SCHEME_LEN (sizeof SCHEME - 1)
#define RECORD_FILE_MOST (2 + URI_RECORD + KR_NFC_URL_MOST - SCHEME_LEN)

/* A command, and where the data of its response go. */
struct command {
    unsigned kind;  /* CLA and INS */
    unsigned place; /* P1 and P2 */
    struct kr_bytes data;
    uint8_t *out;
    size_t out_len;
};

static void drop(struct kr_nfc *nfc)
{
    nfc->len = 0;
    kr_buffer_abandon(nfc->buffer, nfc->link);
}

void kr_nfc_init(struct kr_nfc *nfc, struct kr_buffer *buffer, unsigned link, struct kr_bytes url)
{
    bool is_page = url.len >= SCHEME_LEN && url.len <= KR_NFC_URL_MOST && memcmp(url.at, SCHEME, SCHEME_LEN) == 0;

    memset(nfc, 0, sizeof *nfc);
    nfc->buffer = buffer;
    nfc->link = kr_link(link);
    if (is_page) {
        nfc->url = url;
    }
}

void kr_nfc_begin(struct kr_nfc *nfc, unsigned link)
{
    nfc->link = kr_link(link);
}

void kr_nfc_leave(struct kr_nfc *nfc)
{
    nfc->len = 0;
    kr_buffer_leave(nfc->buffer, nfc->link);
    nfc->selected = NOTHING;
    nfc->link = KR_NO_LINK; /* another phone may have it next */
}

/* The data of a short APDU, and the expected length of the response. */
static unsigned read_body(struct kr_nfc *nfc, struct kr_bytes apdu, struct kr_bytes *data)
{
    struct kr_bytes rest = {apdu.at + SHORTEST, apdu.len - SHORTEST};
    uint8_t expected = 0;

    *data = (struct kr_bytes){rest.at, 0};
    if (rest.len == 1) {
        expected = rest.at[0];
    } else if (rest.len > 1) {
        size_t length = rest.at[0]; /* an extended length begins with 0 */
        if (length == 0 || (rest.len != 1 + length && rest.len != 2 + length)) {
            return STATUS_LENGTH;
        }
        *data = (struct kr_bytes){rest.at + 1, length};
        expected = rest.len == 2 + length ? rest.at[1 + length] : 0;
    }
    nfc->expected = expected == 0 ? MOST_DATA : expected;
    return STATUS_OK;
}

static bool is_aid(struct kr_bytes data, const uint8_t *aid, size_t len)
{
    return kr_same(data, (struct kr_bytes){aid, len});
}

static unsigned select_application(struct kr_nfc *nfc, struct command *command)
{
    nfc->selected = NOTHING;
    nfc->restarted = true;
    if (is_aid(command->data, AID, sizeof AID)) {
        nfc->selected = KEYRACK;
        if (command->place == WITH_DATA) {
            memcpy(command->out, SELECTED, sizeof SELECTED);
            command->out_len = sizeof SELECTED;
        }
        return STATUS_OK;
    }
    if (is_aid(command->data, NDEF_AID, sizeof NDEF_AID) && nfc->url.len > 0) {
        nfc->selected = NDEF;
        return STATUS_OK;
    }
    return STATUS_NOT_FOUND;
}

static unsigned select(struct kr_nfc *nfc, struct command *command)
{
    drop(nfc);
    if (command->place == WITH_DATA || command->place == NO_DATA) {
        return select_application(nfc, command);
    }
    if (command->place != BY_FILE) {
        return STATUS_PARAMETERS;
    }
    if (nfc->selected < NDEF) {
        return STATUS_CONDITIONS;
    }
    unsigned file = command->data.len == 2 ? (unsigned)command->data.at[0] << 8 | command->data.at[1] : 0;
    if (file != CAPABILITIES_FILE && file != RECORD_FILE) {
        return STATUS_NOT_FOUND;
    }
    nfc->selected = file == CAPABILITIES_FILE ? CAPABILITIES : RECORD;
    return STATUS_OK;
}

/* The file with one URI record. Its length. */
static size_t record_file(const struct kr_nfc *nfc, uint8_t file[RECORD_FILE_MOST])
{
    size_t rest = nfc->url.len - SCHEME_LEN;
    const uint8_t head[URI_RECORD] = {0xd1, 0x01, (uint8_t)(rest + 1), 'U', 0x04};

    kr_put_number(file, URI_RECORD + rest, 2);
    memcpy(file + 2, head, URI_RECORD);
    memcpy(file + 2 + URI_RECORD, nfc->url.at + SCHEME_LEN, rest);
    return 2 + URI_RECORD + rest;
}

static unsigned read(struct kr_nfc *nfc, struct command *command)
{
    uint8_t record[RECORD_FILE_MOST];
    struct kr_bytes file = {CAPABILITY_FILE, sizeof CAPABILITY_FILE};

    if (nfc->selected < CAPABILITIES) {
        return STATUS_CONDITIONS;
    }
    if (command->data.len > 0) {
        return STATUS_LENGTH;
    }
    if (nfc->selected == RECORD) {
        file = (struct kr_bytes){record, record_file(nfc, record)};
    }
    if (command->place >= file.len) {
        return STATUS_PARAMETERS;
    }
    size_t rest = file.len - command->place;
    command->out_len = rest < nfc->expected ? rest : nfc->expected;
    memcpy(command->out, file.at + command->place, command->out_len);
    return STATUS_OK;
}

/* The next part of the reply. */
static unsigned part(struct kr_nfc *nfc, uint8_t *out, size_t *out_len)
{
    *out_len = kr_buffer_take(nfc->buffer, nfc->expected, out);
    size_t rest = kr_buffer_rest(nfc->buffer);
    return rest == 0 ? STATUS_OK : STATUS_MORE | (rest < 0xff ? (unsigned)rest : 0xff);
}

static unsigned check_keyrack(const struct kr_nfc *nfc, const struct command *command)
{
    if (nfc->selected != KEYRACK) {
        return STATUS_CONDITIONS;
    }
    return command->place == 0 ? STATUS_OK : STATUS_PARAMETERS;
}

static unsigned collect(struct kr_nfc *nfc, const struct command *command, bool is_last, uint64_t now)
{
    unsigned status = check_keyrack(nfc, command);
    bool is_owner;

    if (status != STATUS_OK) {
        return status;
    }
    if (kr_buffer_is_of(nfc->buffer, nfc->link, KR_PHASE_SENDING)) {
        drop(nfc);
    }
    is_owner = kr_buffer_is_of(nfc->buffer, nfc->link, KR_PHASE_RECEIVING);
    if (!is_owner && (nfc->len > 0 || !kr_buffer_claim(nfc->buffer, nfc->link, now))) {
        return STATUS_BUSY; /* or another link has taken the buffer */
    }
    if (command->data.len > (size_t)(KR_WIRE_MOST - nfc->len) || (is_last && nfc->len + command->data.len == 0)) {
        return STATUS_LENGTH;
    }
    if (!is_owner) {
        kr_buffer_begin(nfc->buffer, nfc->link, now);
    }
    memcpy(nfc->buffer->message + nfc->len, command->data.at, command->data.len);
    nfc->len = (uint16_t)(nfc->len + command->data.len);
    if (!is_last) {
        return STATUS_OK;
    }
    kr_buffer_complete(nfc->buffer, nfc->len);
    return STATUS_WHOLE;
}

static unsigned get_response(struct kr_nfc *nfc, struct command *command)
{
    unsigned status = check_keyrack(nfc, command);

    if (status != STATUS_OK) {
        return status;
    }
    if (command->data.len > 0) {
        return STATUS_LENGTH;
    }
    if (!kr_buffer_is_of(nfc->buffer, nfc->link, KR_PHASE_SENDING)) {
        return STATUS_INSTRUCTION;
    }
    return part(nfc, command->out, &command->out_len);
}

static unsigned carry_out(struct kr_nfc *nfc, struct command *command, uint64_t now)
{
    switch (command->kind) {
    case 0x00a4:
        return select(nfc, command);
    case 0x00b0:
        return read(nfc, command);
    case 0x8010:
    case 0x9010:
        return collect(nfc, command, command->kind == 0x8010, now);
    case 0x00c0:
        return get_response(nfc, command);
    default:
        break;
    }
    unsigned class = command->kind >> 8;
    return class == 0x00 || class == 0x80 || class == 0x90 ? STATUS_INSTRUCTION : STATUS_CLASS;
}

static size_t respond(unsigned status, size_t len, uint8_t *response)
{
    kr_put_number(response + len, status, 2);
    return len + 2;
}

size_t kr_nfc_receive(struct kr_nfc *nfc, struct kr_bytes apdu, uint64_t now, uint8_t response[KR_NFC_RESPONSE_MOST])
{
    struct command command = {0, 0, {NULL, 0}, response, 0};
    unsigned status = STATUS_LENGTH;

    nfc->restarted = false;
    if (apdu.len >= SHORTEST) {
        command.kind = (unsigned)apdu.at[0] << 8 | apdu.at[1];
        command.place = (unsigned)apdu.at[2] << 8 | apdu.at[3];
        status = read_body(nfc, apdu, &command.data);
        if (status == STATUS_OK) {
            status = carry_out(nfc, &command, now);
        }
    }
    if (status == STATUS_WHOLE) {
        return 0;
    }
    if (status != STATUS_OK && (status & 0xff00) != STATUS_MORE) {
        drop(nfc);
    }
    return respond(status, command.out_len, response);
}

size_t kr_nfc_reply(struct kr_nfc *nfc, size_t reply_len, uint8_t response[KR_NFC_RESPONSE_MOST])
{
    size_t len = 0;
    unsigned status = STATUS_CONDITIONS;

    nfc->len = 0;
    if (kr_buffer_reply(nfc->buffer, nfc->link, reply_len)) {
        status = part(nfc, response, &len);
    }
    return respond(status, len, response);
}
