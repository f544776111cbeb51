/*
 * decode.c - decodes trace messages into events.
 *
 * A function's name is decoded when it comes for the first time; after that its
 * bytes are looked up.
 */
#include <stdlib.h>
#include <string.h>

#include "calls/call_args.h"
#include "calls/decode.h"
#include "kprofd/nodes.h"
#include "base/intern.h"
#include "base/map.h"

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

static void
fail(struct kp_term *r, enum kp_err e)
{
	r->p = r->end;
	if (r->err == KP_OK)
		r->err = e;
}

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
		fail(r, e);
	return fn;
}

static uint32_t
fn_number(struct kp_calls_decoder *d, struct kp_term *r, struct kp_span raw)
{
	const struct interned *known = intern_get(&d->by_raw, raw.p, raw.n);

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
		fail(r, e);
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
		fail(r, e);
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

/* Serials wrap, so a long request may use one twice. */
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
get_args(struct kp_calls_decoder *d, struct kp_term *r,
    struct kp_call_event *ev)
{
	kp_buf_reset(&d->args);
	args_put(&d->args, r, d->last_node, d->args_max);
	if (d->args.err != KP_OK)
		fail(r, d->args.err);
	if (r->err == KP_OK)
		ev->args = (struct kp_span){ d->args.p,
			(uint32_t)d->args.len };
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
	if (args)
		get_args(d, r, ev);
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
		get_caller(d, r, ev);
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
	end_at_done(d, ev);
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

/* ---- events of the native probe ---- */

static uint32_t
native_proc(struct kp_calls_decoder *d, struct kp_term *r, uint64_t name)
{
	return proc_number(d, r, d->own, (uint32_t)name,
	    (uint32_t)(name >> 32));
}

static uint32_t
native_fn(struct kp_calls_decoder *d, struct kp_term *r, struct kp_span raw)
{
	return raw.n > 0 ? fn_number(d, r, raw) : KP_FN_UNDEFINED;
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
		fail(r, KP_EFORMAT);
		return;
	}
	ev->kind = (enum kp_call_kind)kind;
	ev->ts = in->rec.ts;
	ev->proc = native_proc(d, r, in->rec.pid);
	if (kind == KP_CALL_CALL)
		ev->other = native_fn(d, r, in->caller);
	else if (kind == KP_CALL_SPAWN)
		ev->other = native_proc(d, r, in->rec.other);
	if (kind == KP_CALL_CALL || kind == KP_CALL_RETURN_TO ||
	    kind == KP_CALL_IN || kind == KP_CALL_OUT || kind == KP_CALL_SPAWN)
		ev->fn = native_fn(d, r, in->fn);
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
