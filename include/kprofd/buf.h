/*
 * buf.h - writes into a bounded, growing byte buffer, and reads what it wrote.
 *
 * Errors stick: after the first failed write every later one does nothing,
 * so a caller writes a whole message and checks b->err once.  After an error
 * the caller must discard the contents.
 */
#ifndef KPROFD_BUF_H
#define KPROFD_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "kprofd/err.h"

struct kp_buf {
	uint8_t *p;	/* owned; NULL until the first write */
	size_t len;	/* bytes written */
	size_t cap;	/* bytes allocated */
	size_t max;	/* never grows past this many bytes */
	enum kp_err err; /* KP_OK, KP_ELIMIT or KP_ENOMEM; sticks */
};

/* max: in bytes.  Allocates nothing yet. */
void kp_buf_init(struct kp_buf *b, size_t max);
/* Frees the bytes; the buffer may be initialised again. */
void kp_buf_free(struct kp_buf *b);
/* Forgets contents and error, keeps the allocation. */
void kp_buf_reset(struct kp_buf *b);

void kp_buf_put(struct kp_buf *b, const void *p, size_t n);
void kp_buf_u8(struct kp_buf *b, uint8_t v);
/* big-endian, as in the external term format and in distribution frames */
void kp_buf_be16(struct kp_buf *b, uint16_t v);
void kp_buf_be32(struct kp_buf *b, uint32_t v);
/* LEB128, as in DWARF and protobuf: 7 bits a byte, the lowest first. */
void kp_buf_varint(struct kp_buf *b, uint64_t v);
/* The same of a signed number, as protobuf's sint64: 0, -1, 1, -2 ... */
void kp_buf_zigzag(struct kp_buf *b, int64_t v);
/* A field of a protobuf message: a number; one of 64 bits; bytes, a text or a message. */
void kp_buf_pb_uint(struct kp_buf *b, unsigned field, uint64_t v);
void kp_buf_pb_fixed(struct kp_buf *b, unsigned field, uint64_t bits);
void kp_buf_pb_bytes(struct kp_buf *b, unsigned field, const void *p, size_t n);
void kp_buf_be64(struct kp_buf *b, uint64_t v);
void kp_buf_str(struct kp_buf *b, const char *s);
void kp_buf_printf(struct kp_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Returns the contents as a C string, or "" on error.  len excludes its NUL. */
const char *kp_buf_cstr(struct kp_buf *b);

/* ---- reading ---- */

/* Bytes that are not read yet; after an error there are none. */
struct kp_bytes {
	const uint8_t *p, *end;
	enum kp_err err;	/* the first; sticks */
};

void kp_bytes_fail(struct kp_bytes *b, enum kp_err err);
/* What kp_buf_varint() wrote.  0 after an error: KP_ESHORT, KP_EFORMAT past 64 bits. */
uint64_t kp_bytes_long_varint(struct kp_bytes *b);
static inline uint64_t
kp_bytes_varint(struct kp_bytes *b)
{
	/* most are one byte */
	return b->p < b->end && *b->p < 0x80 ? *b->p++ : kp_bytes_long_varint(b);
}
/* What kp_buf_zigzag() wrote. */
int64_t kp_bytes_zigzag(struct kp_bytes *b);

#endif
