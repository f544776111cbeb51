/* call_args.c - writes the description of arguments as text, and cuts it. */
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "calls/call_args.h"

#define NODES_DEEP 4u		/* what the tracer describes has three */

struct text {
	struct kp_buf *b;
	size_t start, max;
	struct kp_span node;	/* its pids are <0.A.B> */
};

/* One byte more than fits shows that the text must be cut. */
static size_t
room(const struct text *t)
{
	size_t n = t->b->len - t->start;

	return n <= t->max ? t->max + 1 - n : 0;
}

static void
put(struct text *t, const char *s)
{
	if (room(t) > 0)
		kp_buf_str(t->b, s);
}

static void
put_count(struct text *t, int64_t n, const char *what)
{
	if (room(t) > 0)
		kp_buf_printf(t->b, "%" PRId64 " %s%s", n, what,
		    n == 1 ? "" : "s");
}

static bool
is_own_pid(const struct text *t, struct kp_term r, struct kp_pid *pid)
{
	if (kp_term_peek(&r) != KP_TERM_PID)
		return false;
	*pid = kp_term_pid(&r);
	return pid->node.n == t->node.n &&
	    memcmp(pid->node.p, t->node.p, t->node.n) == 0;
}

static void
put_term(struct text *t, struct kp_term *r)
{
	struct kp_pid pid;

	if (room(t) > 0 && is_own_pid(t, *r, &pid)) {
		kp_buf_printf(t->b, "<0.%" PRIu32 ".%" PRIu32 ">", pid.id,
		    pid.serial);
		kp_term_skip(r);
	} else if (room(t) > 0)
		kp_term_print(r, t->b, room(t));
	else
		kp_term_skip(r);
}

static void
fail(struct kp_term *r)
{
	r->p = r->end;
	if (r->err == KP_OK)
		r->err = KP_EFORMAT;
}

static bool
is_word(struct kp_term r, const char *word)
{
	return kp_term_peek(&r) == KP_TERM_ATOM &&
	    kp_span_is(kp_term_atom(&r), word);
}

/* true, or false for something that is missing. */
static bool
get_bool(struct kp_term *r)
{
	struct kp_span word = kp_term_atom(r);

	if (!kp_span_is(word, "true") && !kp_span_is(word, "false"))
		fail(r);
	return kp_span_is(word, "true");
}

/* Enters a tuple of n elements; or passes the atom false. */
static bool
is_tuple(struct kp_term *r, uint32_t n)
{
	if (kp_term_peek(r) == KP_TERM_TUPLE) {
		kp_term_tuple_n(r, n);
		return r->err == KP_OK;
	}
	get_bool(r);
	return false;
}

static void put_node(struct text *t, struct kp_term *r, unsigned depth);

static void
put_tuple(struct text *t, struct kp_term *r, unsigned depth)
{
	uint32_t n = kp_term_tuple(r);
	int64_t size = kp_term_int(r);

	if (n == 0 || size < 0)
		fail(r);
	put(t, "{");
	for (uint32_t i = 1; i < n && r->err == KP_OK; i++) {
		if (i > size) {
			kp_term_skip(r);
			continue;
		}
		put(t, i > 1 ? "," : "");
		put_node(t, r, depth + 1);
	}
	put(t, size >= n ? n > 1 ? ",...}" : "...}" : "}");
}

/* ---- lists ---- */

/* Passes a node; true if it is an integer that is a printable character. */
static bool
is_char(struct kp_term *r, char *c)
{
	uint32_t n;
	int64_t v;

	if (kp_term_peek(r) != KP_TERM_TUPLE)
		return false;
	n = kp_term_tuple(r);
	if (n == 2 && !is_tuple(r, 1))
		return false;
	if (n > 2 || kp_term_peek(r) != KP_TERM_INT)
		return false;
	v = kp_term_int(r);
	if (n == 2 && get_bool(r))
		return false;
	*c = (char)v;
	return v >= ' ' && v < 0x7f && v != '"' && v != '\\';
}

/* True for a list of characters, as far as it is described; r is behind {. */
static bool
is_text(struct kp_term r)
{
	char c;

	while (is_char(&r, &c)) {
		if (kp_term_peek(&r) != KP_TERM_TUPLE)
			return !get_bool(&r) && r.err == KP_OK;
		if (kp_term_tuple(&r) != 1)
			return false;
		if (kp_term_peek(&r) != KP_TERM_TUPLE)
			return get_bool(&r);
		if (kp_term_tuple(&r) != 2)
			return false;
	}
	return false;
}

enum tail { TAIL_END, TAIL_CELL, TAIL_MORE, TAIL_IMPROPER };

/* TAIL_CELL: r is in the next cell. */
static enum tail
next_cell(struct kp_term *r)
{
	if (!is_tuple(r, 1))
		return TAIL_END;
	if (kp_term_peek(r) != KP_TERM_TUPLE)
		return get_bool(r) ? TAIL_MORE : TAIL_IMPROPER;
	kp_term_tuple_n(r, 2);
	return r->err == KP_OK ? TAIL_CELL : TAIL_END;
}

static void
put_chars(struct text *t, struct kp_term *r)
{
	enum tail tail;
	char c[2] = "";

	put(t, "\"");
	do {
		is_char(r, c);
		put(t, c);
		tail = next_cell(r);
	} while (tail == TAIL_CELL);
	put(t, tail == TAIL_MORE ? "\"..." : "\"");
}

static void
put_list(struct text *t, struct kp_term *r, unsigned depth)
{
	enum tail tail;

	kp_term_tuple_n(r, 2);
	if (is_text(*r)) {
		put_chars(t, r);
		return;
	}
	put(t, "[");
	put_node(t, r, depth + 1);
	while ((tail = next_cell(r)) == TAIL_CELL) {
		put(t, ",");
		put_node(t, r, depth + 1);
	}
	put(t, tail == TAIL_MORE ? ",...]" : tail == TAIL_IMPROPER ? "|...]" :
	    "]");
}

/* ---- other terms ---- */

static void
put_map(struct text *t, struct kp_term *r)
{
	int64_t n;

	kp_term_tuple_n(r, 2);
	n = kp_term_int(r);
	put(t, "#");
	if (is_word(*r, "false"))
		kp_term_skip(r);
	else
		put_term(t, r);
	put(t, "{");
	if (n > 0)
		put_count(t, n, "key");
	put(t, "}");
}

/* The beginning of a binary, or its length. */
static void
put_binary(struct text *t, struct kp_term *r)
{
	size_t end;
	int64_t n;

	kp_term_tuple_n(r, 2);
	n = kp_term_int(r);
	if (kp_term_peek(r) != KP_TERM_BINARY) {
		get_bool(r);
		put(t, "<<");
		put_count(t, n, "byte");
		put(t, ">>");
		return;
	}
	put_term(t, r);
	end = t->b->len;
	if (room(t) > 0 && end >= 2 && memcmp(t->b->p + end - 2, ">>", 2) == 0)
		t->b->len -= 2;
	put(t, "...>>");
}

static void
put_large(struct text *t, struct kp_term *r, unsigned depth)
{
	static const char *const kinds[] = { "#Fun", "#Ref", "#Integer" };
	size_t from = t->b->len;

	kp_term_tuple_n(r, 7);
	if (kp_term_peek(r) == KP_TERM_TUPLE)
		put_tuple(t, r, depth);
	else
		get_bool(r);
	if (kp_term_peek(r) == KP_TERM_TUPLE)
		put_list(t, r, depth);
	else
		get_bool(r);
	if (kp_term_peek(r) == KP_TERM_TUPLE)
		put_map(t, r);
	else
		get_bool(r);
	if (kp_term_peek(r) == KP_TERM_TUPLE)
		put_binary(t, r);
	else
		get_bool(r);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (get_bool(r))
			put(t, kinds[i]);
	/* A bit string, or a type that a later OTP adds. */
	if (t->b->len == from)
		put(t, "...");
}

static void
put_node(struct text *t, struct kp_term *r, unsigned depth)
{
	uint32_t n;

	if (depth > NODES_DEEP) {
		fail(r);
		return;
	}
	if (kp_term_peek(r) != KP_TERM_TUPLE) {
		get_bool(r);
		put(t, "...");
		return;
	}
	n = kp_term_tuple(r);
	if (n == 1) {
		put_term(t, r);
	} else if (n != 2) {
		fail(r);
	} else if (is_tuple(r, 1)) {
		put_term(t, r);
		get_bool(r);
	} else {
		put_large(t, r, depth);
	}
}

/* Cuts at the start of a character. */
static void
cut(struct text *t)
{
	size_t dots = t->max < 3 ? t->max : 3;

	if (t->b->err != KP_OK || t->b->len - t->start <= t->max)
		return;
	t->b->len = t->start + utf8_fit((const char *)t->b->p + t->start,
	    t->b->len - t->start, t->max - dots);
	kp_buf_put(t->b, "...", dots);
}

void
args_put(struct kp_buf *b, struct kp_term *r, struct kp_span node,
    size_t max)
{
	struct text t = { b, b->len, max, node };
	uint32_t n = kp_term_tuple(r);

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		put(&t, i > 0 ? ", " : "");
		if (is_word(*r, "more")) {
			put(&t, "...");
			kp_term_skip(r);
		} else {
			put_node(&t, r, 0);
		}
	}
	cut(&t);
}
