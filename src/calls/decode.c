/*
 * decode.c - decodes trace messages into events, and writes arguments of calls as
 * text.
 *
 * A function's name is decoded when it comes for the first time; after that its
 * bytes are looked up.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/utf8.h"
#include "calls/decode.h"
#include "decode/term_bytes.h"
#include "kprofd/nodes.h"

/* ---- arguments of a call, as text in Erlang's syntax ---- */

/*
 * The match spec in the node bounds their description, whatever the arguments are
 * (erlang/tracer/kprof_tracer_patterns.erl):
 *   Arguments  {Node, .., Node} or {Node, .., Node, more}
 *   Node       {Term} | {{Term}, false}	small, and whole
 *              {false, {Tuple, List, Map, Binary, Fun, Ref, Integer}}
 *              false			not described
 *   Tuple      {Size, Node, ..}		the first ones; or false
 *   List       {Node, Tail} | false
 *   Tail       false			the end
 *              {{Node, Tail}} | {true} | {false}	a cell; more; improper
 *   Map        {Size, Struct | false} | false
 *   Binary     {Bytes, Beginning | false} | false
 *   Fun, Ref, Integer	true: it is one
 */

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
		term_fail(r, KP_EFORMAT);
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
		term_fail(r, KP_EFORMAT);
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
put_map(struct text *t, struct kp_term *r, unsigned depth)
{
	int64_t n;

	(void)depth;
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
put_binary(struct text *t, struct kp_term *r, unsigned depth)
{
	size_t end;
	int64_t n;

	(void)depth;
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
	static void (*const puts[])(struct text *t, struct kp_term *r,
	    unsigned depth) = { put_tuple, put_list, put_map, put_binary };
	static const char *const others[] = { "#Fun", "#Ref", "#Integer" };
	size_t from = t->b->len;

	kp_term_tuple_n(r, 7);
	for (size_t i = 0; i < sizeof(puts) / sizeof(puts[0]); i++)
		if (kp_term_peek(r) == KP_TERM_TUPLE)
			puts[i](t, r, depth);
		else
			get_bool(r);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (get_bool(r))
			put(t, others[i]);
	/* A bit string, or a type that a later OTP adds. */
	if (t->b->len == from)
		put(t, "...");
}

static void
put_node(struct text *t, struct kp_term *r, unsigned depth)
{
	uint32_t n;

	if (depth > NODES_DEEP) {
		term_fail(r, KP_EFORMAT);
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
		term_fail(r, KP_EFORMAT);
	} else if (is_tuple(r, 1)) {
		put_term(t, r);
		get_bool(r);
	} else {
		put_large(t, r, depth);
	}
}

/*
 * Appends at most max bytes; a longer text is cut with "..." at the start of a
 * character.  An invalid term appends something, and its error sticks in r.
 */
static void
put_args(struct kp_buf *b, struct kp_term *r, struct kp_span node, size_t max)
{
	struct text t = { b, b->len, max, node };
	size_t dots = max < 3 ? max : 3;
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
	if (b->err != KP_OK || b->len - t.start <= max)
		return;
	b->len = t.start + utf8_fit((const char *)b->p + t.start,
	    b->len - t.start, max - dots);
	kp_buf_put(b, "...", dots);
}

/* ---- the decoder ---- */

struct kp_calls_decoder {
	struct kp_call_names *names;
	struct intern by_raw;
	struct kp_buf args;	/* of the last call */
	uint32_t args_max;
	struct kp_native *native;	/* NULL until the first native chunk */
	bool done;		/* the work of -apply */
	uint32_t own;		/* the target's node */
	struct kp_span last_node;	/* name of the last pid's node; a copy */
	uint32_t node;		/* its number */
	uint8_t name[KP_NODE_NAME_MAX + 1];
};

struct kp_calls_decoder *
kp_calls_decoder_new(struct kp_call_names *names, uint32_t node, uint32_t args)
{
	struct kp_calls_decoder *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->names = names;
	d->own = node;
	d->args_max = args < KP_CALLS_ARGS_MAX ? args : KP_CALLS_ARGS_MAX;
	kp_buf_init(&d->args, 2 * (size_t)KP_CALLS_ARGS_MAX);
	return d;
}

void
kp_calls_decoder_free(struct kp_calls_decoder *d)
{
	if (d == NULL)
		return;
	intern_free(&d->by_raw);
	kp_buf_free(&d->args);
	kp_native_free(d->native);
	free(d);
}

/* ---- names ---- */

/* Our modules there do not count as callers: they call what -apply names. */
static bool
is_ours(struct kp_span mod)
{
	return kp_span_is(mod, "kprof_tracer") ||
	    kp_span_is(mod, "kprof_counters");
}

/*
 * The function in which the process of -apply waits after its work: to a trace
 * the process has exited, once, however often it is woken there.
 */
#define FN_DONE UINT32_MAX

static void
end_at_done(struct kp_calls_decoder *d, struct kp_call_event *ev)
{
	if (ev->kind == KP_CALL_CALL && ev->other == FN_DONE)
		ev->other = KP_FN_UNDEFINED;
	if (ev->fn != FN_DONE)
		return;
	ev->fn = KP_FN_UNDEFINED;
	if (ev->kind == KP_CALL_OUT && !d->done) {
		ev->kind = KP_CALL_EXIT;
		d->done = true;
	}
}

/* Decodes a {M, F, A} that is new. */
static uint32_t
fn_new(struct kp_calls_decoder *d, struct kp_term *r, struct kp_span raw)
{
	struct kp_span mod, fun;
	struct kp_term at;
	uint32_t fn = KP_FN_UNDEFINED, arity;
	enum kp_err e;
	bool added;

	kp_term_begin_raw(&at, raw.p, raw.n);
	arity = kp_term_mfa(&at, &mod, &fun);
	e = kp_term_finish(&at);
	if (e == KP_OK && is_ours(mod) && kp_span_is(fun, "told"))
		fn = FN_DONE;
	if (e == KP_OK && !is_ours(mod))
		e = kp_call_fn_put(d->names, mod, fun, arity, &fn, &added);
	if (e == KP_OK && intern_put(&d->by_raw, raw.p, raw.n, fn) == NULL)
		e = KP_ENOMEM;
	if (e != KP_OK)
		term_fail(r, e);
	return fn;
}

/* Its {M, F, A} as bytes; none: it is unknown. */
static uint32_t
fn_number(struct kp_calls_decoder *d, struct kp_term *r, struct kp_span raw)
{
	const struct interned *known;

	if (raw.n == 0)
		return KP_FN_UNDEFINED;
	known = intern_get(&d->by_raw, raw.p, raw.n);
	return known != NULL ? known->val : fn_new(d, r, raw);
}

/* {M, F, A}; an atom or 0 is an unknown function. */
static uint32_t
get_fn(struct kp_calls_decoder *d, struct kp_term *r)
{
	struct kp_span raw;

	if (kp_term_peek(r) != KP_TERM_TUPLE) {
		kp_term_skip(r);
		return KP_FN_UNDEFINED;
	}
	raw = kp_term_raw(r);
	return r->err == KP_OK ? fn_number(d, r, raw) : KP_FN_UNDEFINED;
}

static uint32_t
proc_number(struct kp_calls_decoder *d, struct kp_term *r, uint32_t node,
    uint32_t id, uint32_t serial)
{
	uint32_t proc = 0;
	enum kp_err e;
	bool added;

	e = kp_call_proc_put(d->names, node, id, serial, &proc, &added);
	if (e != KP_OK)
		term_fail(r, e);
	return proc;
}

/* Most pids are of the same node as the one before. */
static enum kp_err
get_node(struct kp_calls_decoder *d, struct kp_span name, uint32_t *node)
{
	enum kp_err e;
	bool added;

	*node = d->node;
	if (d->last_node.n > 0 && name.n == d->last_node.n &&
	    memcmp(name.p, d->last_node.p, name.n) == 0)
		return KP_OK;
	e = kp_call_node_put(d->names, name, node, &added);
	if (e != KP_OK)
		return e;
	memcpy(d->name, name.p, name.n);
	d->last_node = (struct kp_span){ d->name, name.n };
	d->node = *node;
	return KP_OK;
}

static uint32_t
get_proc(struct kp_calls_decoder *d, struct kp_term *r)
{
	struct kp_pid pid = kp_term_pid(r);
	uint32_t node;
	enum kp_err e;

	if (r->err != KP_OK)
		return 0;
	e = get_node(d, pid.node, &node);
	if (e != KP_OK) {
		term_fail(r, e);
		return 0;
	}
	return proc_number(d, r, node, pid.id, pid.serial);
}

static const struct {
	const char *word;
	uint32_t arity;		/* of the message */
	enum kp_call_kind kind;
} kinds[] = {
	{ "call", 6, KP_CALL_CALL },
	{ "return_to", 5, KP_CALL_RETURN_TO },
	{ "in", 5, KP_CALL_IN },
	{ "out", 5, KP_CALL_OUT },
	{ "gc_start", 5, KP_CALL_GC_START },
	{ "gc_end", 5, KP_CALL_GC_END },
	{ "spawn", 6, KP_CALL_SPAWN },
	{ "exit", 5, KP_CALL_EXIT },
	{ "request", 5, KP_CALL_REQUEST },
	{ "send", 5, KP_CALL_SEND },
	{ "receive", 5, KP_CALL_RECEIVE },
};

static enum kp_call_kind
get_kind(struct kp_term *r, uint32_t arity)
{
	struct kp_span word = kp_term_atom(r);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].arity == arity && kp_span_is(word, kinds[i].word))
			return kinds[i].kind;
	term_fail(r, KP_EFORMAT);
	return KP_CALL_EXIT;
}

static uint32_t
get_request(struct kp_term *r)
{
	int64_t n = kp_term_int(r);

	if (n >= 0 && n < KP_CALLS_REQUESTS_MAX)
		return (uint32_t)n;
	term_fail(r, KP_EFORMAT);
	return 0;
}

/* Reads Caller or {Caller, Arguments}; an unknown caller is an atom. */
static void
get_caller(struct kp_calls_decoder *d, struct kp_term *r,
    struct kp_call_event *ev)
{
	struct kp_term at = *r;
	bool args = kp_term_peek(r) == KP_TERM_TUPLE && kp_term_tuple(&at) == 2;

	if (args)
		kp_term_tuple(r);
	ev->other = get_fn(d, r);
	if (!args)
		return;
	kp_buf_reset(&d->args);
	put_args(&d->args, r, d->last_node, d->args_max);
	if (d->args.err != KP_OK)
		term_fail(r, d->args.err);
	if (r->err == KP_OK)
		ev->args = (struct kp_span){ d->args.p,
			(uint32_t)d->args.len };
}

static void
get_event(struct kp_calls_decoder *d, struct kp_term *r,
    struct kp_call_event *ev)
{
	uint32_t arity = kp_term_tuple(r);

	if (!kp_span_is(kp_term_atom(r), "trace_ts"))
		term_fail(r, KP_EFORMAT);
	ev->proc = get_proc(d, r);
	ev->kind = get_kind(r, arity);
	switch (ev->kind) {
	case KP_CALL_CALL:
		ev->fn = get_fn(d, r);
		get_caller(d, r, ev);
		if (ev->fn == KP_FN_UNDEFINED)
			term_fail(r, KP_EFORMAT);
		break;
	case KP_CALL_SPAWN:
		ev->other = get_proc(d, r);
		ev->fn = get_fn(d, r);
		break;
	case KP_CALL_RETURN_TO:
	case KP_CALL_IN:
	case KP_CALL_OUT:
		ev->fn = get_fn(d, r);
		break;
	case KP_CALL_REQUEST:
		ev->other = get_request(r);
		break;
	case KP_CALL_SEND:
	case KP_CALL_RECEIVE:
		/* Serials wrap, so a long request may use one twice. */
		kp_term_tuple_n(r, ev->kind == KP_CALL_SEND ? 2 : 3);
		ev->request = get_request(r);
		ev->serial = (uint32_t)kp_term_int(r);
		if (ev->kind == KP_CALL_RECEIVE)
			ev->other = get_proc(d, r);
		break;
	default:
		kp_term_skip(r);
	}
	end_at_done(d, ev);
	ev->ts = kp_term_int(r);
	if (ev->ts <= -KP_CALLS_TIME_MAX || ev->ts >= KP_CALLS_TIME_MAX)
		term_fail(r, KP_EFORMAT);
}

enum kp_err
kp_calls_decode(struct kp_calls_decoder *d, struct kp_term *r,
    struct kp_call_event *ev)
{
	struct kp_span raw = kp_term_raw(r);
	struct kp_term at;
	enum kp_err e;

	*ev = (struct kp_call_event){ 0 };
	if (r->err != KP_OK)
		return r->err;
	kp_term_begin_raw(&at, raw.p, raw.n);
	get_event(d, &at, ev);
	e = kp_term_finish(&at);
	if (e == KP_OK)
		return KP_OK;
	*ev = (struct kp_call_event){ 0 };
	return e == KP_ENOMEM ? KP_ENOMEM : KP_ENOENT;
}

/* ---- events of the native probe ---- */

static uint32_t
native_proc(struct kp_calls_decoder *d, struct kp_term *r, uint64_t name)
{
	return proc_number(d, r, d->own, (uint32_t)name,
	    (uint32_t)(name >> 32));
}

/* r only keeps the error. */
static void
native_event(struct kp_calls_decoder *d, struct kp_term *r,
    const struct kp_native_event *in, struct kp_call_event *ev)
{
	unsigned kind = in->rec.kind - KP_NATIVE_CALLS;

	if (kind < KP_CALL_CALL || kind > KP_CALL_EXIT ||
	    in->rec.ts <= -KP_CALLS_TIME_MAX ||
	    in->rec.ts >= KP_CALLS_TIME_MAX ||
	    (kind == KP_CALL_CALL && in->fn.n == 0)) {
		term_fail(r, KP_EFORMAT);
		return;
	}
	ev->kind = (enum kp_call_kind)kind;
	ev->ts = in->rec.ts;
	ev->proc = native_proc(d, r, in->rec.pid);
	if (kind == KP_CALL_CALL)
		ev->other = fn_number(d, r, in->caller);
	else if (kind == KP_CALL_SPAWN)
		ev->other = native_proc(d, r, in->rec.other);
	if (kind == KP_CALL_CALL || kind == KP_CALL_RETURN_TO ||
	    kind == KP_CALL_IN || kind == KP_CALL_OUT || kind == KP_CALL_SPAWN)
		ev->fn = fn_number(d, r, in->fn);
	end_at_done(d, ev);
}

enum kp_err
kp_calls_next(struct kp_calls_decoder *d, struct kp_batch *b,
    struct kp_call_event *ev)
{
	struct kp_native_event in;
	struct kp_term r;
	enum kp_err e;

	*ev = (struct kp_call_event){ 0 };
	if (d->native == NULL && (d->native = kp_native_new()) == NULL)
		return KP_ENOMEM;
	e = kp_native_next_record(d->native, b, &in);
	if (e != KP_OK)
		return e;
	kp_term_begin_raw(&r, NULL, 0);
	native_event(d, &r, &in, ev);
	if (r.err == KP_OK)
		return KP_OK;
	*ev = (struct kp_call_event){ 0 };
	return r.err == KP_ENOMEM ? KP_ENOMEM : KP_ENOENT;
}
