/*
 * buf.c - grows the buffer up to its limit, and appends bytes, big-endian
 * integers and formatted text.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/buf.h"

void
kp_buf_init(struct kp_buf *b, size_t max)
{
	*b = (struct kp_buf){ .max = max };
}

void
kp_buf_free(struct kp_buf *b)
{
	free(b->p);
	kp_buf_init(b, b->max);
}

void
kp_buf_reset(struct kp_buf *b)
{
	b->len = 0;
	b->err = KP_OK;
}

/* Makes room for n more bytes and returns where they go, or NULL. */
static uint8_t *
buf_room(struct kp_buf *b, size_t n)
{
	uint8_t *p;
	size_t cap;

	if (b->err != KP_OK)
		return NULL;
	if (n > b->max - b->len) {
		b->err = KP_ELIMIT;
		return NULL;
	}
	if (n > b->cap - b->len) {
		cap = b->cap > 0 ? b->cap : 256;
		while (cap - b->len < n)
			cap *= 2;
		if (cap > b->max)
			cap = b->max;
		p = realloc(b->p, cap);
		if (p == NULL) {
			b->err = KP_ENOMEM;
			return NULL;
		}
		b->p = p;
		b->cap = cap;
	}
	return b->p + b->len;
}

void
kp_buf_put(struct kp_buf *b, const void *p, size_t n)
{
	uint8_t *to;

	if (n == 0)
		return;
	to = buf_room(b, n);
	if (to == NULL)
		return;
	memcpy(to, p, n);
	b->len += n;
}

void
kp_buf_u8(struct kp_buf *b, uint8_t v)
{
	kp_buf_put(b, &v, 1);
}

void
kp_buf_be16(struct kp_buf *b, uint16_t v)
{
	uint8_t a[2] = { (uint8_t)(v >> 8), (uint8_t)v };

	kp_buf_put(b, a, sizeof(a));
}

void
kp_buf_varint(struct kp_buf *b, uint64_t v)
{
	for (; v > 0x7f; v >>= 7)
		kp_buf_u8(b, (uint8_t)(v | 0x80));
	kp_buf_u8(b, (uint8_t)v);
}

void
kp_buf_zigzag(struct kp_buf *b, int64_t v)
{
	kp_buf_varint(b, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

/* The key before a value is its field's number and kind. */
void
kp_buf_pb_uint(struct kp_buf *b, unsigned field, uint64_t v)
{
	kp_buf_varint(b, field << 3);
	kp_buf_varint(b, v);
}

void
kp_buf_pb_fixed(struct kp_buf *b, unsigned field, uint64_t bits)
{
	kp_buf_varint(b, field << 3 | 1);
	for (int i = 0; i < 8; i++)
		kp_buf_u8(b, (uint8_t)(bits >> 8 * i));
}

void
kp_buf_pb_bytes(struct kp_buf *b, unsigned field, const void *p, size_t n)
{
	kp_buf_varint(b, field << 3 | 2);
	kp_buf_varint(b, n);
	kp_buf_put(b, p, n);
}

void
kp_buf_be32(struct kp_buf *b, uint32_t v)
{
	uint8_t a[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16),
		(uint8_t)(v >> 8), (uint8_t)v };

	kp_buf_put(b, a, sizeof(a));
}

void
kp_buf_be64(struct kp_buf *b, uint64_t v)
{
	kp_buf_be32(b, (uint32_t)(v >> 32));
	kp_buf_be32(b, (uint32_t)v);
}

void
kp_buf_str(struct kp_buf *b, const char *s)
{
	kp_buf_put(b, s, strlen(s));
}

void
kp_buf_printf(struct kp_buf *b, const char *fmt, ...)
{
	va_list ap;
	char *to;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		b->err = KP_EFORMAT;
		return;
	}
	/* vsnprintf needs room for its NUL, which does not count. */
	to = (char *)buf_room(b, (size_t)n + 1);
	if (to == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

const char *
kp_buf_cstr(struct kp_buf *b)
{
	uint8_t *to = buf_room(b, 1);

	if (to == NULL)
		return "";
	*to = '\0';
	return (const char *)b->p;
}

void
kp_bytes_fail(struct kp_bytes *b, enum kp_err err)
{
	if (b->err == KP_OK)
		b->err = err;
	b->p = b->end;
}

uint64_t
kp_bytes_long_varint(struct kp_bytes *b)
{
	uint64_t v = 0;
	uint8_t byte;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (b->p == b->end) {
			kp_bytes_fail(b, KP_ESHORT);
			return 0;
		}
		byte = *b->p++;
		/* the tenth byte holds bit 63 and nothing else */
		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return v;
	}
	kp_bytes_fail(b, KP_EFORMAT);
	return 0;
}

int64_t
kp_bytes_zigzag(struct kp_bytes *b)
{
	uint64_t v = kp_bytes_varint(b);

	return (int64_t)(v >> 1 ^ (v & 1 ? UINT64_MAX : 0));
}
