/* What the transports share: the buffer of message and reply, and fragments. */
#ifndef KR_TRANSPORTS_H
#define KR_TRANSPORTS_H

#include "keyrack_transports.h"

/* message_buffer.c. The link that begins a message owns the buffer until its reply is sent. Links that were refused get
 * the buffer in their order. A link that is slow to send its message, or to take its reply, loses the buffer to the next
 * one. While the firmware processes a message, the buffer stays in use, even if the link ends. */
/* Whether this link may begin a message now. If not, the link waits for its turn. */
bool kr_buffer_claim(struct kr_buffer *buffer, unsigned link, uint64_t now);
/* Owns the buffer, to receive a message. `kr_buffer_claim` has said that this is possible. */
void kr_buffer_begin(struct kr_buffer *buffer, unsigned link, uint64_t now);
/* Whether this link owns the buffer in this phase. */
bool kr_buffer_is_of(const struct kr_buffer *buffer, unsigned link, enum kr_phase phase);
/* The message is whole, and the firmware processes it. */
void kr_buffer_complete(struct kr_buffer *buffer, size_t len);
/* Begins to send the reply. False if the link has given it up, or has sent no message. */
bool kr_buffer_reply(struct kr_buffer *buffer, unsigned link, size_t len);
/* What is to be sent yet. */
size_t kr_buffer_rest(const struct kr_buffer *buffer);
/* Copies the next bytes of the reply. After the last one the buffer is free. How many they are. */
size_t kr_buffer_take(struct kr_buffer *buffer, size_t most, uint8_t *bytes);
/* Drops message and reply of this link. */
void kr_buffer_abandon(struct kr_buffer *buffer, unsigned link);
/* This link has ended: drops its message, its reply and its turn. */
void kr_buffer_leave(struct kr_buffer *buffer, unsigned link);

/* The number of a link of a host, KR_NO_LINK for one that does not exist. */
uint8_t kr_link(unsigned link);

/* fragments.c */
bool kr_is_open(const struct kr_reassembly *reassembly);
/* Writes a fragment of one byte of data. Its length. */
size_t kr_short_fragment(uint8_t command, uint8_t data, uint8_t *fragment);
/* Writes the fragment with this number of the reply in the buffer. Its length. */
size_t kr_next_fragment(struct kr_buffer *buffer, unsigned number, size_t size, uint8_t *fragment);

/* wire.c */
/* CRC-32 of these bytes, after bytes with this CRC; 0 before the first one. */
uint32_t kr_crc32(uint32_t crc, const uint8_t *bytes, size_t len);

#endif
