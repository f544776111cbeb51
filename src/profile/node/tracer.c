/*
 * tracer.c - the messages to kprof_tracer.erl, and the decoding of its events.
 *
 * Commands are go, lease, read and stop.  The node sends {kprof_calls, Seq,
 * Events} (decode.h); with the native probe {kprof_calls_lost, N}; if code was
 * loaded meanwhile, {kprof_calls_loads, TracedAgain, TracedNew, NotTraced,
 * TracedWhole, Why} (modules); and {kprof_calls_end, Why, Text, [{Pid, Name}],
 * RequestsBegun, RequestsEnded, RequestsThatLostTheirToken} or
 * {kprof_ended, gone, Text}.  With several nodes there are also
 * the commands entries, full, clock and {ended, Label}, and the messages
 * {kprof_entries}, {kprof_clock, Ns} and {kprof_requests, [{label, N, Label} |
 * {begins, N} | {ends, N}]}.
 *
 * Limits by identity and tier have messages of their own: tracer_limits.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "calls_probe_beam.h"
#include "calls/decode.h"
#include "kprofd/etf.h"
#include "profile/node/tracer.h"
#include "profile/node/tracer_limits.h"
#include "agent/probe_file.h"
#include "tracer_beam.h"

#define CLOCK_LIMIT (2 * KP_NS_PER_S)
#define TAKE_MAX 64	/* messages at once */

struct tracer {
	struct injected in;
	struct tracer_limit limit;
	struct kp_call_names *names;
	struct kp_calls_decoder *decoder;
	uint64_t left;		/* events that may still come */
	const struct tracer_news *news;
	bool open;		/* requests may begin */
};

#define OWN_OPTS 13

/*
 * The native probe's module is sent along; its library is the node's, which on
 * this machine is ours.
 */
static void
put_own(struct kp_buf *b, const void *ctx)
{
	static const char *const probes[] = { "relay", "native", "auto" };
	const struct tracer_opts *o = ctx;

	injected_put_number(b, "max_events", o->max_events);
	injected_put_number(b, "max_queue", o->max_queue);
	injected_put_patterns(b, "entry", o->entry, o->nentries);
	injected_put_number(b, "requests", o->requests);
	injected_put_number(b, "args", o->args);
	kp_etf_atom(b, "probe");
	kp_etf_atom(b, probes[o->probe]);
	kp_etf_atom(b, "probe_beam");
	kp_etf_binary(b, kp_calls_probe_beam, kp_calls_probe_beam_len);
	kp_etf_atom(b, "probe_library");
	probe_file_put(b, o->probe_library != NULL ? o->probe_library : "");
	injected_put_patterns(b, "marks", o->limit.marks, o->limit.nmarks);
	injected_put_patterns(b, "inside", o->limit.inside, o->limit.ninside);
	kp_etf_atom(b, "named");
	kp_etf_bool(b, o->limit.conf != NULL);
	kp_etf_atom(b, "attached");
	kp_etf_bool(b, o->limit.attached);
	kp_etf_atom(b, "epochs");
	if (o->nepochs > 0)
		kp_etf_list(b, o->nepochs);
	for (uint32_t i = 0; i < o->nepochs; i++)
		kp_etf_int(b, o->epochs[i]);
	kp_etf_nil(b);
}

enum kp_err
tracer_start(struct tracer **out, const struct tracer_opts *o,
    struct kp_call_names *names, struct injected_hello *h, char *why, size_t n)
{
	static const struct injected_code code = { "kprof_tracer",
		"another kprof traces there already", kp_tracer_beam,
		kp_tracer_load, sizeof(kp_tracer_beam),
		sizeof(kp_tracer_load) };
	struct injected_own own = { OWN_OPTS, put_own, o };
	struct tracer *t = calloc(1, sizeof(*t));
	enum kp_err e = KP_ENOMEM;

	if (t != NULL) {
		t->limit = o->limit;
		t->names = names;
		t->decoder = kp_calls_decoder_new(names, o->node,
		    (uint32_t)o->args);
	}
	if (t == NULL || t->decoder == NULL)
		snprintf(why, n, "out of memory");
	else
		e = injected_start(&t->in, &code, &o->g, &own, h, why, n);
	if (e == KP_OK && (o->limit.conf != NULL || o->limit.ninside > 0))
		e = tracer_mark(&t->in, &t->limit, names, why, n);
	if (e != KP_OK) {
		tracer_stop(t, 0);
		return e;
	}
	t->left = o->max_events;
	*out = t;
	return KP_OK;
}

/* ---- messages from the node ---- */

/* Hands an event on, unless decoding failed.  The node may exceed max_events. */
static enum kp_err
take_event(struct tracer *t, enum kp_err e, const struct kp_call_event *ev,
    tracer_sink *sink, void *ctx, struct tracer_end *end)
{
	if (e == KP_ENOENT)
		end->lost++;
	else if (e == KP_OK && t->left > 0 && t->left-- > 0)
		e = sink(ctx, ev);
	return e == KP_ENOENT ? KP_OK : e;
}

/* Reads binaries of the native probe. */
static enum kp_err
read_chunks(struct tracer *t, const struct kp_term *r, uint32_t n,
    tracer_sink *sink, void *ctx, struct tracer_end *end)
{
	struct kp_batch b = { .r = *r, .left = n, .tail = true };
	struct kp_call_event ev;
	enum kp_err e;

	do {
		e = kp_calls_next(t->decoder, &b, &ev);
		e = take_event(t, e, &ev, sink, ctx, end);
	} while (e == KP_OK);
	return e == KP_END ? KP_OK : e;
}

static enum kp_err
read_events(struct tracer *t, struct kp_term *r, tracer_sink *sink, void *ctx,
    struct tracer_end *end)
{
	struct kp_call_event ev;
	enum kp_err e = KP_OK;
	uint32_t n;

	kp_term_int(r);
	n = kp_term_list(r);
	if (n > 0 && kp_term_peek(r) == KP_TERM_BINARY)
		return read_chunks(t, r, n, sink, ctx, end);
	for (uint32_t i = 0; i < n && r->err == KP_OK && e == KP_OK; i++) {
		e = kp_calls_decode(t->decoder, r, &ev);
		e = take_event(t, e, &ev, sink, ctx, end);
	}
	return e;
}

static void
read_lost(struct kp_term *r, struct tracer_end *end)
{
	int64_t n = kp_term_int(r);

	if (r->err == KP_OK && n > 0)
		end->lost += (uint64_t)n;
}

static uint32_t
read_count(struct kp_term *r, uint32_t most)
{
	int64_t n = kp_term_int(r);

	return n < 0 || r->err != KP_OK ? 0 : n > most ? most : (uint32_t)n;
}

static void
read_loads(struct kp_term *r, struct tracer_end *end)
{
	static const char *const whys[][2] = {
		{ "others", ", since another tool has the node's setting for "
		    "new code (on_load)" },
		{ "exclude", " (with -exclude the VM does not trace them by "
		    "itself)" },
		{ "args", " (with -args the VM does not trace them by itself)" },
	};
	struct kp_span why;

	end->again = read_count(r, UINT32_MAX);
	end->came = read_count(r, UINT32_MAX);
	end->missed = read_count(r, UINT32_MAX);
	end->whole = read_count(r, UINT32_MAX);
	why = kp_term_atom(r);
	end->why = "";
	for (size_t i = 0; i < sizeof(whys) / sizeof(whys[0]); i++)
		if (kp_span_is(why, whys[i][0]))
			end->why = whys[i][1];
}

/* One of {label, N, Label}, {begins, N} and {ends, N}. */
static void
read_news_of(struct tracer *t, struct kp_term *r)
{
	const struct tracer_news *to = t->news;
	uint32_t arity = kp_term_tuple(r);
	struct kp_span what = kp_term_atom(r);
	int64_t n = kp_term_int(r), label = arity == 3 ? kp_term_int(r) : 0;

	if (r->err != KP_OK || n <= 0 || n >= KP_CALLS_REQUESTS_MAX)
		return;
	if (arity == 3 && kp_span_is(what, "label"))
		to->label(to->ctx, (uint32_t)n, label);
	else if (kp_span_is(what, "begins"))
		to->begins(to->ctx, (uint32_t)n);
	else if (kp_span_is(what, "ends"))
		to->ends(to->ctx, (uint32_t)n);
}

static void
read_news(struct tracer *t, struct kp_term *r)
{
	uint32_t n = t->news != NULL ? kp_term_list(r) : 0;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++)
		read_news_of(t, r);
}

/* [{Pid, Name}] of processes in the trace. */
static void
read_names(struct tracer *t, struct kp_term *r)
{
	uint32_t n = kp_term_list(r), procs = t->names->nprocs, proc;
	uint32_t node;
	struct kp_span name;
	struct kp_pid pid;
	bool added;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 2);
		pid = kp_term_pid(r);
		name = kp_term_atom(r);
		/* A process that is new here has no events, and needs no name. */
		if (r->err == KP_OK && kp_call_node_put(t->names, pid.node,
		    &node, &added) == KP_OK && kp_call_proc_put(t->names,
		    node, pid.id, pid.serial, &proc, &added) == KP_OK &&
		    proc < procs)
			kp_call_proc_name(t->names, proc, name);
	}
	if (n > 0)
		kp_term_nil(r);
}

static void
read_end(struct tracer *t, struct kp_term *r, struct tracer_end *end)
{
	end->end = injected_read_end(&t->in, r, end->text, sizeof(end->text));
	read_names(t, r);
	end->begun = read_count(r, KP_CALLS_REQUESTS_MAX - 1);
	end->ended = read_count(r, end->begun);
	end->unsure = read_count(r, UINT32_MAX);
}

/* KP_END: it was the last message. */
static enum kp_err
read_message(struct tracer *t, struct kp_term *r, tracer_sink *sink,
    void *ctx, struct tracer_end *end)
{
	struct kp_span tag;

	kp_term_tuple(r);
	tag = kp_term_atom(r);
	if (kp_span_is(tag, "kprof_calls"))
		return read_events(t, r, sink, ctx, end);
	if (kp_span_is(tag, "kprof_calls_lost")) {
		read_lost(r, end);
		return KP_OK;
	}
	if (kp_span_is(tag, "kprof_calls_loads")) {
		read_loads(r, end);
		return KP_OK;
	}
	if (kp_span_is(tag, "kprof_entries"))
		t->open = true;
	if (kp_span_is(tag, "kprof_requests")) {
		read_news(t, r);
		return KP_OK;
	}
	if (kp_span_is(tag, "kprof_identity"))
		return tracer_read_identity(&t->in, &t->limit, r);
	if (kp_span_is(tag, "kprof_request"))
		return tracer_read_wanted(&t->limit, r);
	if (kp_span_is(tag, "kprof_calls_end"))
		read_end(t, r, end);
	else if (kp_span_is(tag, "kprof_ended"))
		end->end = injected_read_end(&t->in, r, end->text,
		    sizeof(end->text));
	else
		return KP_OK;
	return KP_END;
}

/*
 * The first batch has no events, and confirms that the node traces.  Where there
 * are many requests, the types of the first may come before it.
 */
enum kp_err
tracer_go(struct tracer *t)
{
	enum kp_err e = injected_command(&t->in, "go");
	kp_mono_ns until = kp_mono_now() + TRACER_READ_LIMIT;
	struct kp_span tag;
	struct kp_term r;

	while (e == KP_OK && (e = injected_next(&t->in, until, &r)) == KP_OK) {
		kp_term_tuple(&r);
		tag = kp_term_atom(&r);
		if (kp_span_is(tag, "kprof_calls"))
			return KP_OK;
		if (kp_span_is(tag, "kprof_identity"))
			e = tracer_read_identity(&t->in, &t->limit, &r);
		else if (kp_span_is(tag, "kprof_request"))
			e = tracer_read_wanted(&t->limit, &r);
		else
			e = KP_ESTATE;
	}
	return e;
}

void
tracer_leave(struct tracer *t)
{
	injected_leave(&t->in);
}

bool
tracer_stop(struct tracer *t, kp_dur_ns wait)
{
	bool done;

	if (t == NULL)
		return true;
	done = injected_stop(&t->in, wait);
	kp_calls_decoder_free(t->decoder);
	free(t);
	return done;
}

/* ---- while it traces ---- */

void
tracer_listen(struct tracer *t, const struct tracer_news *news)
{
	t->news = news;
}

enum kp_err
tracer_command(struct tracer *t, const char *word)
{
	return injected_command(&t->in, word);
}

bool
tracer_is_open(const struct tracer *t)
{
	return t->open;
}

static void
put_ended(struct kp_buf *b, const void *label)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "ended");
	kp_etf_int(b, *(const int64_t *)label);
}

enum kp_err
tracer_request_ended(struct tracer *t, int64_t label)
{
	return injected_send(&t->in, put_ended, &label);
}

enum kp_err
tracer_clock(struct tracer *t, struct kp_offset *o)
{
	kp_mono_ns sent = kp_mono_now();
	struct kp_term r;
	int64_t there;
	enum kp_err e = injected_command(&t->in, "clock");

	if (e == KP_OK)
		e = injected_next(&t->in, sent + CLOCK_LIMIT, &r);
	if (e != KP_OK)
		return e;
	kp_term_tuple_n(&r, 2);
	if (!kp_span_is(kp_term_atom(&r), "kprof_clock"))
		return KP_ESTATE;
	there = kp_term_int(&r);
	if (kp_term_finish(&r) == KP_OK)
		kp_offset_trip(o, sent, there, kp_mono_now());
	return KP_OK;
}

enum kp_err
tracer_take(struct tracer *t, tracer_sink *sink, void *ctx,
    struct tracer_end *end)
{
	struct kp_term r;
	enum kp_err e = KP_OK;

	for (int i = 0; i < TAKE_MAX && e == KP_OK; i++) {
		e = injected_next(&t->in, 0, &r);
		if (e == KP_ETIMEOUT || e == KP_END)
			return e;
		if (e != KP_OK) {
			end->end = KP_CALLS_GONE;
			injected_broken(&t->in, e, end->text,
			    sizeof(end->text));
			return KP_OK;
		}
		e = read_message(t, &r, sink, ctx, end);
	}
	return e == KP_OK ? KP_EBUSY : e == KP_END ? KP_OK : e;
}

int
tracer_fd(const struct tracer *t)
{
	return injected_fd(&t->in);
}

enum kp_err
tracer_lease(struct tracer *t)
{
	return injected_lease(&t->in);
}
