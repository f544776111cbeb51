/*
 * term.c - a bounded reader of the external term format.
 *
 * One table says how each tag is laid out, and a loop without recursion
 * passes any term by it.  Every step of that loop reads one byte of input at
 * least, and a container is entered only if the bytes that are left could
 * hold its elements: so time is linear in the input, whatever it claims.
 */
#include <math.h>
#include <string.h>

#include "decode/term_bytes.h"
#include "kprofd/trace.h"

/*
 * A term is: head bytes in all, among them the tag and then a length field of
 * lenw bytes; if node is set, an atom and then `after` bytes; then unit bytes
 * for each one of the length; then kids terms, and per terms for each one of
 * the length.
 */
struct shape {
	uint8_t kind; /* enum kp_term_kind; NONE: not a tag */
	uint8_t head, lenw, unit;
	uint8_t node, after;
	uint8_t kids, per;
};

static const struct shape shapes[256] = {
	[ETF_SMALL_INTEGER] = { KP_TERM_INT, .head = 2 },
	[ETF_INTEGER] = { KP_TERM_INT, .head = 5 },
	[ETF_SMALL_BIG] = { KP_TERM_INT, .head = 3, .lenw = 1, .unit = 1 },
	[ETF_LARGE_BIG] = { KP_TERM_INT, .head = 6, .lenw = 4, .unit = 1 },
	[ETF_NEW_FLOAT] = { KP_TERM_FLOAT, .head = 9 },
	[ETF_ATOM] = { KP_TERM_ATOM, .head = 3, .lenw = 2, .unit = 1 },
	[ETF_ATOM_UTF8] = { KP_TERM_ATOM, .head = 3, .lenw = 2, .unit = 1 },
	[ETF_SMALL_ATOM] = { KP_TERM_ATOM, .head = 2, .lenw = 1, .unit = 1 },
	[ETF_SMALL_ATOM_UTF8] = { KP_TERM_ATOM, .head = 2, .lenw = 1,
	    .unit = 1 },
	[ETF_SMALL_TUPLE] = { KP_TERM_TUPLE, .head = 2, .lenw = 1, .per = 1 },
	[ETF_LARGE_TUPLE] = { KP_TERM_TUPLE, .head = 5, .lenw = 4, .per = 1 },
	[ETF_NIL] = { KP_TERM_NIL, .head = 1 },
	[ETF_STRING] = { KP_TERM_LIST, .head = 3, .lenw = 2, .unit = 1 },
	[ETF_LIST] = { KP_TERM_LIST, .head = 5, .lenw = 4, .kids = 1,
	    .per = 1 },
	[ETF_BINARY] = { KP_TERM_BINARY, .head = 5, .lenw = 4, .unit = 1 },
	[ETF_BIT_BINARY] = { KP_TERM_BINARY, .head = 6, .lenw = 4, .unit = 1 },
	[ETF_MAP] = { KP_TERM_MAP, .head = 5, .lenw = 4, .per = 2 },
	[ETF_PID] = { KP_TERM_PID, .head = 1, .node = 1, .after = 9 },
	[ETF_NEW_PID] = { KP_TERM_PID, .head = 1, .node = 1, .after = 12 },
	[ETF_PORT] = { KP_TERM_OTHER, .head = 1, .node = 1, .after = 5 },
	[ETF_NEW_PORT] = { KP_TERM_OTHER, .head = 1, .node = 1, .after = 8 },
	[ETF_V4_PORT] = { KP_TERM_OTHER, .head = 1, .node = 1, .after = 12 },
	[ETF_REFERENCE] = { KP_TERM_OTHER, .head = 1, .node = 1, .after = 5 },
	[ETF_NEW_REFERENCE] = { KP_TERM_OTHER, .head = 3, .lenw = 2, .unit = 4,
	    .node = 1, .after = 1 },
	[ETF_NEWER_REFERENCE] = { KP_TERM_OTHER, .head = 3, .lenw = 2,
	    .unit = 4, .node = 1, .after = 4 },
	/* its size counts the size field too, so the head is the tag alone */
	[ETF_NEW_FUN] = { KP_TERM_OTHER, .head = 1, .lenw = 4, .unit = 1 },
	[ETF_EXPORT] = { KP_TERM_OTHER, .head = 1, .kids = 3 },
};

/* Size, arity, uniq, index and number of free variables. */
#define FUN_SIZE_MIN 29

/* The next n bytes, or NULL. */
static const uint8_t *
take(struct kp_term *r, uint64_t n)
{
	const uint8_t *p = r->p;

	if (n > term_left(r)) {
		term_fail(r, KP_ESHORT);
		return NULL;
	}
	r->p = p + n;
	return p;
}

static uint32_t
be(const uint8_t *p, unsigned width)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < width; i++)
		v = v << 8 | p[i];
	return v;
}

/* The tag ahead if it is one; else fails and returns 0. */
static uint8_t
tag_ahead(struct kp_term *r)
{
	if (term_left(r) == 0) {
		term_fail(r, KP_ESHORT);
		return 0;
	}
	if (shapes[r->p[0]].kind == KP_TERM_NONE) {
		term_fail(r, KP_EFORMAT);
		return 0;
	}
	return r->p[0];
}

/* The length field of the term ahead, which stays ahead. */
static uint32_t
length_ahead(struct kp_term *r, const struct shape *s)
{
	if (term_left(r) < 1u + s->lenw) {
		term_fail(r, KP_ESHORT);
		return 0;
	}
	return be(r->p + 1, s->lenw);
}

/*
 * Passes a term, but only the head of a container, and returns how many terms
 * follow that belong to it.
 */
static uint64_t
pass_head(struct kp_term *r)
{
	uint8_t tag = tag_ahead(r);
	const struct shape *s = &shapes[tag];
	uint64_t kids;
	uint32_t len;

	len = length_ahead(r, s);
	if ((tag == ETF_NEW_FUN && len < FUN_SIZE_MIN) ||
	    (tag == ETF_LIST && len == 0))
		term_fail(r, KP_EFORMAT);
	if (s->node) {
		take(r, s->head);
		kp_term_atom(r);
		take(r, s->after + (uint64_t)len * s->unit);
	} else {
		take(r, s->head + (uint64_t)len * s->unit);
	}
	if (r->err != KP_OK)
		return 0;
	kids = s->kids + (uint64_t)len * s->per;
	if (kids > term_left(r)) {
		term_fail(r, KP_ESHORT);
		return 0;
	}
	return kids;
}

void
kp_term_skip(struct kp_term *r)
{
	uint64_t left[KP_TERM_DEPTH_MAX + 1]; /* terms to come, by level */
	unsigned depth = 0;
	uint64_t kids;

	left[0] = 1;
	for (;;) {
		left[depth]--;
		kids = pass_head(r);
		if (kids > 0) {
			if (depth == KP_TERM_DEPTH_MAX) {
				term_fail(r, KP_ELIMIT);
				return;
			}
			left[++depth] = kids;
		}
		if (r->err != KP_OK)
			return;
		while (left[depth] == 0) {
			if (depth-- == 0)
				return;
		}
	}
}

struct kp_span
kp_term_raw(struct kp_term *r)
{
	const uint8_t *p = r->p;

	kp_term_skip(r);
	return term_since(r, p);
}

void
kp_term_begin_raw(struct kp_term *r, const void *p, size_t n)
{
	*r = (struct kp_term){ .p = p, .err = KP_OK };
	r->end = n > 0 ? r->p + n : r->p;
	/* spans are 32 bits wide */
	if (n > UINT32_MAX)
		term_fail(r, KP_ELIMIT);
}

void
kp_term_begin(struct kp_term *r, const void *p, size_t n)
{
	const uint8_t *version;

	kp_term_begin_raw(r, p, n);
	version = take(r, 1);
	if (version != NULL && *version != ETF_VERSION)
		term_fail(r, KP_EFORMAT);
}

enum kp_err
kp_term_finish(struct kp_term *r)
{
	if (term_left(r) > 0)
		term_fail(r, KP_EFORMAT);
	return r->err;
}

enum kp_term_kind
kp_term_peek(const struct kp_term *r)
{
	return shapes[term_tag(r)].kind;
}

/* Fails unless the term ahead is of this kind. */
static uint8_t
expect(struct kp_term *r, enum kp_term_kind kind)
{
	uint8_t tag = tag_ahead(r);

	if (tag != 0 && shapes[tag].kind != kind) {
		term_fail(r, KP_EFORMAT);
		return 0;
	}
	return tag;
}

/* sign, then len bytes of magnitude, the least significant first */
static int64_t
big(struct kp_term *r, const uint8_t *p, uint32_t len)
{
	uint64_t mag = 0;
	bool neg = p[0] != 0;

	for (uint32_t i = len; i > 0; i--) {
		if (mag >> 56 != 0) {
			term_fail(r, KP_EFORMAT);
			return 0;
		}
		mag = mag << 8 | p[i];
	}
	if (mag > (uint64_t)INT64_MAX + neg) {
		term_fail(r, KP_EFORMAT);
		return 0;
	}
	return (int64_t)(neg ? 0 - mag : mag);
}

int64_t
kp_term_int(struct kp_term *r)
{
	uint8_t tag = expect(r, KP_TERM_INT);
	const struct shape *s = &shapes[tag];
	uint32_t len = length_ahead(r, s);
	const uint8_t *p = take(r, s->head + (uint64_t)len * s->unit);

	if (p == NULL || tag == 0)
		return 0;
	switch (tag) {
	case ETF_SMALL_INTEGER:
		return p[1];
	case ETF_INTEGER:
		return (int32_t)term_be32(p + 1);
	default:
		return big(r, p + s->head - 1, len);
	}
}

uint64_t
kp_term_count(struct kp_term *r, int64_t max)
{
	int64_t v = kp_term_int(r);

	if (v < 0 || v > max)
		term_fail(r, KP_EFORMAT);
	return r->err == KP_OK ? (uint64_t)v : 0;
}

kp_target_ns
kp_term_time(struct kp_term *r)
{
	int64_t v = kp_term_int(r);

	if (v >= KP_TARGET_TIME_MAX || v <= -KP_TARGET_TIME_MAX)
		term_fail(r, KP_EFORMAT);
	return r->err == KP_OK ? v : 0;
}

double
kp_term_float(struct kp_term *r)
{
	const uint8_t *p;
	uint64_t bits;
	double v;

	expect(r, KP_TERM_FLOAT);
	p = take(r, 9);
	if (p == NULL)
		return 0;
	bits = (uint64_t)term_be32(p + 1) << 32 | term_be32(p + 5);
	memcpy(&v, &bits, sizeof(v));
	if (!isfinite(v)) {
		term_fail(r, KP_EFORMAT);
		return 0;
	}
	return v;
}

/* A term of this kind that is a head and then bytes: its bytes. */
static struct kp_span
bytes(struct kp_term *r, enum kp_term_kind kind)
{
	const struct shape *s = &shapes[expect(r, kind)];
	uint32_t len = length_ahead(r, s);
	const uint8_t *p = take(r, s->head + (uint64_t)len);

	if (p == NULL || r->err != KP_OK)
		return (struct kp_span){ NULL, 0 };
	return (struct kp_span){ p + s->head, len };
}

struct kp_span
kp_term_atom(struct kp_term *r)
{
	return bytes(r, KP_TERM_ATOM);
}

struct kp_span
kp_term_binary(struct kp_term *r)
{
	if (term_tag(r) == ETF_BIT_BINARY)
		term_fail(r, KP_EFORMAT);
	return bytes(r, KP_TERM_BINARY);
}

void
kp_term_nil(struct kp_term *r)
{
	expect(r, KP_TERM_NIL);
	take(r, 1);
}

struct kp_pid
kp_term_pid(struct kp_term *r)
{
	uint8_t tag = expect(r, KP_TERM_PID);
	struct kp_pid pid = { .id = 0 };
	const uint8_t *p;

	take(r, 1);
	pid.node = kp_term_atom(r);
	p = take(r, shapes[tag].after);
	if (p == NULL || r->err != KP_OK)
		return (struct kp_pid){ .id = 0 };
	pid.id = term_be32(p);
	pid.serial = term_be32(p + 4);
	pid.creation = tag == ETF_NEW_PID ? term_be32(p + 8) : p[8];
	return pid;
}

/* The head of a container: its length, once that many terms could follow. */
static uint32_t
head(struct kp_term *r, enum kp_term_kind kind)
{
	uint8_t tag = expect(r, kind);
	uint32_t len;

	if (tag == 0)
		return 0;
	len = length_ahead(r, &shapes[tag]);
	pass_head(r);
	return r->err == KP_OK ? len : 0;
}

uint32_t
kp_term_tuple(struct kp_term *r)
{
	return head(r, KP_TERM_TUPLE);
}

void
kp_term_tuple_n(struct kp_term *r, uint32_t arity)
{
	if (kp_term_tuple(r) != arity)
		term_fail(r, KP_EFORMAT);
}

uint32_t
kp_term_list(struct kp_term *r)
{
	if (kp_term_peek(r) == KP_TERM_NIL) {
		kp_term_nil(r);
		return 0;
	}
	if (term_tag(r) == ETF_STRING)
		term_fail(r, KP_EFORMAT);
	return head(r, KP_TERM_LIST);
}

uint32_t
kp_term_map(struct kp_term *r)
{
	return head(r, KP_TERM_MAP);
}

uint32_t
kp_term_mfa(struct kp_term *r, struct kp_span *mod, struct kp_span *fun)
{
	int64_t arity;

	kp_term_tuple_n(r, 3);
	*mod = kp_term_atom(r);
	*fun = kp_term_atom(r);
	arity = kp_term_int(r);
	if (arity < 0 || arity > 255)
		term_fail(r, KP_EFORMAT);
	return r->err == KP_OK ? (uint32_t)arity : 0;
}

/* The bytes of a LIST_EXT of small integers. */
static size_t
byte_list(struct kp_term *r, uint8_t *to, size_t cap)
{
	uint32_t n = kp_term_list(r);
	int64_t v;

	if (n > cap) {
		term_fail(r, KP_ELIMIT);
		return 0;
	}
	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		v = kp_term_int(r);
		if (v < 0 || v > 255)
			term_fail(r, KP_EFORMAT);
		else
			to[i] = (uint8_t)v;
	}
	if (n > 0)
		kp_term_nil(r);
	return r->err == KP_OK ? n : 0;
}

size_t
kp_term_string(struct kp_term *r, void *buf, size_t cap)
{
	struct kp_span s;

	if (term_tag(r) != ETF_STRING)
		return byte_list(r, buf, cap);
	s = bytes(r, KP_TERM_LIST);
	if (s.n > cap) {
		term_fail(r, KP_ELIMIT);
		return 0;
	}
	if (s.n > 0)
		memcpy(buf, s.p, s.n);
	return s.n;
}

bool
kp_span_is(struct kp_span s, const char *lit)
{
	return term_span_is(s, lit, strlen(lit));
}

struct kp_span
kp_span_of(const char *text)
{
	return (struct kp_span){ (const uint8_t *)text,
		(uint32_t)strlen(text) };
}

char *
kp_span_dup(struct kp_span s)
{
	return strndup(s.n > 0 ? (const char *)s.p : "", s.n);
}
