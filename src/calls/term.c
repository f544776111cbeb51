/*
 * term.c - trace messages to events; see calls_term.h.
 *
 * A function's name is looked at only when it comes for the first time; then
 * its bytes are known.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/calls_term.h"
#include "kprofd/nodes.h"
#include "request/intern.h"

struct kp_calls_decoder {
	struct kp_call_names *names;
	struct intern by_raw;
	struct kp_span near;	/* the name of the node met last; a copy */
	uint32_t node;
	uint8_t name[KP_NODE_NAME_MAX + 1];
};

struct kp_calls_decoder *
kp_calls_decoder_new(struct kp_call_names *names)
{
	struct kp_calls_decoder *d = calloc(1, sizeof(*d));

	if (d != NULL)
		d->names = names;
	return d;
}

void
kp_calls_decoder_free(struct kp_calls_decoder *d)
{
	if (d == NULL)
		return;
	intern_free(&d->by_raw);
	free(d);
}

static void
fail(struct kp_term *r, enum kp_err e)
{
	r->p = r->end;
	if (r->err == KP_OK)
		r->err = e;
}

/* {M, F, A} that was not met before. */
static uint32_t
fn_new(struct kp_calls_decoder *d, struct kp_term *r, struct kp_span raw,
    uint64_t hash)
{
	struct kp_span mod, fun;
	struct kp_term at;
	uint32_t fn = KP_FN_UNDEFINED;
	int64_t arity;
	enum kp_err e;
	bool added;

	kp_term_begin_raw(&at, raw.p, raw.n);
	kp_term_tuple_n(&at, 3);
	mod = kp_term_atom(&at);
	fun = kp_term_atom(&at);
	arity = kp_term_int(&at);
	e = kp_term_finish(&at);
	if (e == KP_OK && (arity < 0 || arity > 255))
		e = KP_EFORMAT;
	if (e == KP_OK)
		e = kp_call_fn_put(d->names, mod, fun, (uint32_t)arity, &fn,
		    &added);
	if (e == KP_OK && !intern_put(&d->by_raw, raw.p, raw.n, hash, fn))
		e = KP_ENOMEM;
	if (e != KP_OK)
		fail(r, e);
	return fn;
}

/* {M, F, A}; an atom and 0 stand for none that is known. */
static uint32_t
get_fn(struct kp_calls_decoder *d, struct kp_term *r)
{
	struct kp_span raw;
	uint64_t hash;
	uint32_t *known;

	if (kp_term_peek(r) != KP_TERM_TUPLE) {
		kp_term_skip(r);
		return KP_FN_UNDEFINED;
	}
	raw = kp_term_raw(r);
	if (r->err != KP_OK)
		return KP_FN_UNDEFINED;
	hash = hash_bytes(raw.p, raw.n);
	known = intern_get(&d->by_raw, raw.p, raw.n, hash);
	return known != NULL ? *known : fn_new(d, r, raw, hash);
}

/* Mostly it is that of the pid before. */
static enum kp_err
get_node(struct kp_calls_decoder *d, struct kp_span name, uint32_t *node)
{
	enum kp_err e;
	bool added;

	*node = d->node;
	if (d->near.n > 0 && name.n == d->near.n &&
	    memcmp(name.p, d->near.p, name.n) == 0)
		return KP_OK;
	e = kp_call_node_put(d->names, name, node, &added);
	if (e != KP_OK)
		return e;
	memcpy(d->name, name.p, name.n);
	d->near = (struct kp_span){ d->name, name.n };
	d->node = *node;
	return KP_OK;
}

static uint32_t
get_proc(struct kp_calls_decoder *d, struct kp_term *r)
{
	struct kp_pid pid = kp_term_pid(r);
	uint32_t proc = 0, node;
	enum kp_err e;
	bool added;

	if (r->err != KP_OK)
		return 0;
	e = get_node(d, pid.node, &node);
	if (e == KP_OK)
		e = kp_call_proc_put_at(d->names, node, pid.id, pid.serial,
		    &proc, &added);
	if (e != KP_OK)
		fail(r, e);
	return proc;
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
	fail(r, KP_EFORMAT);
	return KP_CALL_EXIT;
}

static uint32_t
get_request(struct kp_term *r)
{
	int64_t n = kp_term_int(r);

	if (n >= 0 && n < KP_CALLS_REQUESTS_MAX)
		return (uint32_t)n;
	fail(r, KP_EFORMAT);
	return 0;
}

/* Serials wrap; in so long a request they need not be unique. */
static void
get_message(struct kp_calls_decoder *d, struct kp_term *r,
    struct kp_call_event *ev)
{
	kp_term_tuple_n(r, ev->kind == KP_CALL_SEND ? 2 : 3);
	ev->request = get_request(r);
	ev->serial = (uint32_t)kp_term_int(r);
	if (ev->kind == KP_CALL_RECEIVE)
		ev->other = get_proc(d, r);
}

static void
get_event(struct kp_calls_decoder *d, struct kp_term *r,
    struct kp_call_event *ev)
{
	uint32_t arity = kp_term_tuple(r);

	if (!kp_span_is(kp_term_atom(r), "trace_ts"))
		fail(r, KP_EFORMAT);
	ev->proc = get_proc(d, r);
	ev->kind = get_kind(r, arity);
	switch (ev->kind) {
	case KP_CALL_CALL:
		ev->fn = get_fn(d, r);
		ev->other = get_fn(d, r);
		if (ev->fn == KP_FN_UNDEFINED)
			fail(r, KP_EFORMAT);
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
		get_message(d, r, ev);
		break;
	default:
		kp_term_skip(r);
	}
	ev->ts = kp_term_int(r);
	if (ev->ts <= -KP_CALLS_TIME_MAX || ev->ts >= KP_CALLS_TIME_MAX)
		fail(r, KP_EFORMAT);
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
