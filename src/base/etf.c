/* etf.c - writes Erlang's external term format. */
#include <string.h>

#include "kprofd/etf.h"

void
kp_etf_version(struct kp_buf *b)
{
	kp_buf_u8(b, ETF_VERSION);
}

void
kp_etf_atom_n(struct kp_buf *b, const char *name, size_t n)
{
	if (n > 255) {
		if (b->err == KP_OK)
			b->err = KP_ELIMIT;
		return;
	}
	kp_buf_u8(b, ETF_SMALL_ATOM_UTF8);
	kp_buf_u8(b, (uint8_t)n);
	kp_buf_put(b, name, n);
}

void
kp_etf_atom(struct kp_buf *b, const char *name)
{
	kp_etf_atom_n(b, name, strlen(name));
}

void
kp_etf_bool(struct kp_buf *b, bool v)
{
	kp_etf_atom(b, v ? "true" : "false");
}

void
kp_etf_int(struct kp_buf *b, int64_t v)
{
	uint64_t mag;

	if (v >= 0 && v <= 255) {
		kp_buf_u8(b, ETF_SMALL_INTEGER);
		kp_buf_u8(b, (uint8_t)v);
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		kp_buf_u8(b, ETF_INTEGER);
		kp_buf_be32(b, (uint32_t)v);
	} else {
		/* The sign byte precedes the magnitude, low byte first. */
		mag = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
		kp_buf_u8(b, ETF_SMALL_BIG);
		kp_buf_u8(b, 8);
		kp_buf_u8(b, v < 0);
		for (int i = 0; i < 8; i++)
			kp_buf_u8(b, (uint8_t)(mag >> (8 * i)));
	}
}

void
kp_etf_float(struct kp_buf *b, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	kp_buf_u8(b, ETF_NEW_FLOAT);
	kp_buf_be64(b, bits);
}

void
kp_etf_tuple(struct kp_buf *b, uint32_t arity)
{
	if (arity <= 255) {
		kp_buf_u8(b, ETF_SMALL_TUPLE);
		kp_buf_u8(b, (uint8_t)arity);
	} else {
		kp_buf_u8(b, ETF_LARGE_TUPLE);
		kp_buf_be32(b, arity);
	}
}

void
kp_etf_list(struct kp_buf *b, uint32_t n)
{
	kp_buf_u8(b, ETF_LIST);
	kp_buf_be32(b, n);
}

void
kp_etf_nil(struct kp_buf *b)
{
	kp_buf_u8(b, ETF_NIL);
}

void
kp_etf_binary(struct kp_buf *b, const void *p, size_t n)
{
	if (n > UINT32_MAX) {
		if (b->err == KP_OK)
			b->err = KP_ELIMIT;
		return;
	}
	kp_buf_u8(b, ETF_BINARY);
	kp_buf_be32(b, (uint32_t)n);
	kp_buf_put(b, p, n);
}

void
kp_etf_string(struct kp_buf *b, const char *p, size_t n)
{
	if (n == 0) {
		kp_etf_nil(b);
		return;
	}
	if (n > UINT16_MAX) {
		if (b->err == KP_OK)
			b->err = KP_ELIMIT;
		return;
	}
	kp_buf_u8(b, ETF_STRING);
	kp_buf_be16(b, (uint16_t)n);
	kp_buf_put(b, p, n);
}

void
kp_etf_map(struct kp_buf *b, uint32_t n)
{
	kp_buf_u8(b, ETF_MAP);
	kp_buf_be32(b, n);
}

void
kp_etf_pid(struct kp_buf *b, const char *node, uint32_t id, uint32_t serial,
    uint32_t creation)
{
	kp_buf_u8(b, ETF_NEW_PID);
	kp_etf_atom(b, node);
	kp_buf_be32(b, id);
	kp_buf_be32(b, serial);
	kp_buf_be32(b, creation);
}
