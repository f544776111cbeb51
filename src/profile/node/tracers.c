/*
 * tracers.c - starts a tracer in each node, measures clocks, takes events from the
 * nodes in turn, and gives requests common numbers.
 *
 * Commands to kprof_tracer.erl are go, lease, read and stop.  It sends {kprof_calls,
 * Seq, Events} (calls/decode.h); with the native probe {kprof_calls_lost, N}; if code
 * was loaded meanwhile, {kprof_calls_loads, TracedAgain, TracedNew, NotTraced,
 * TracedWhole, Why} (modules); and {kprof_calls_end, Why, Text, [{Pid, Name}],
 * RequestsBegun, RequestsEnded, RequestsThatLostTheirToken} or
 * {kprof_ended, gone, Text}.  With several nodes there are also
 * the commands entries, full, clock, {ended, Label} and {unwanted, Label}, and the
 * messages {kprof_entries}, {kprof_clock, Ns} and {kprof_requests, [{label, N, Label} |
 * {begins, N} | {ends, N} | {wanted, N} | {unwanted, N}]}.
 *
 * A trace of one identity or one tier: before `go` the command `marked` asks which
 * functions mark requests.  The node answers {kprof_marked, Entries, Marks, Inside},
 * each [{M, F, A}], and gets {specs, [{MFA, Spec}]} for those that the identity fun has
 * clauses for.  Later it asks {kprof_identity, Id, Term}, gets {identity, Id, Bool}, and
 * sends {kprof_request, Number} for each request of such an identity; with several
 * nodes {wanted, N}, or {unwanted, N}, which the other nodes are told then.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/probe_file.h"
#include "calls/decode.h"
#include "calls_probe_beam.h"
#include "kprofd/etf.h"
#include "kprofd/fn_name.h"
#include "kprofd/label.h"
#include "kprofd/nodes.h"
#include "kprofd/offset.h"
#include "profile/node/request_ids.h"
#include "profile/node/tracers.h"
#include "tracer_beam.h"

#define READ_LIMIT (60 * KP_NS_PER_S)	/* without a message from the node */
#define CLOCK_LIMIT (2 * KP_NS_PER_S)
#define TAKE_MAX 64	/* messages at once */
#define TRIPS 8		/* round trips to each clock, before and after */
#define LATE (200 * KP_NS_PER_MS)	/* for work after a request's end */
#define SILENCE_MAX (60 * KP_NS_PER_S)
#define WAIT (500 * KP_NS_PER_MS)	/* for leases */
#define SPECS_MAX (8u << 20)		/* of all functions together */

/* In one node. */
struct tracer {
	struct tracers *all;
	struct injected *in;
	struct injected_hello hello;
	struct tracer_end end;
	uint32_t node;			/* its number in the names */
	struct kp_calls_decoder *decoder;
	uint64_t left;			/* events that may still come */
	bool open;			/* requests may begin */
	bool names_requests;		/* it has functions that give identities */
	bool over;			/* no more messages come */
	kp_mono_ns last_event;
	struct kp_offset before, after;	/* of its clock to ours */
	struct request_ids_node numbers;	/* its request numbers -> ours */
};

struct tracers {
	struct tracer v[TRACERS_MAX];
	uint32_t n;
	struct kp_call_names *names;
	struct tracer_limit limit;
	int wake;
	const struct tracers_sink *sink;	/* while events are taken */
	struct request_ids numbers;	/* used with several nodes */
	kp_mono_ns enough_at;		/* INT64_MAX: not yet */
	kp_mono_ns measured_at;		/* end of the first round trips */
	bool tracing;			/* the sink knows */
};

/* ---- requests of several nodes ---- */

/* Two nodes may at first know a request by different labels. */
static void
on_label(struct tracer *t, uint32_t n, int64_t label)
{
	struct tracers *ts = t->all;
	uint32_t same = request_ids_label(&ts->numbers, &t->numbers, n, label);

	if (same > 0)
		ts->sink->same(ts->sink->ctx, same,
		    request_ids_of(&t->numbers, n));
}

/* Sends {what, Label} to all nodes but one (NULL: to all). */
static void
tell_labels(struct tracers *ts, const struct tracer *but, uint32_t request,
    const char *what)
{
	uint32_t at = 0;
	int64_t label;
	struct kp_buf b;

	while (request > 0 &&
	    request_ids_next_label(&ts->numbers, request, &at, &label))
		for (struct tracer *to = ts->v; to < ts->v + ts->n; to++) {
			if (to == but || to->over)
				continue;
			injected_begin(to->in, &b);
			kp_etf_tuple(&b, 2);
			kp_etf_atom(&b, what);
			kp_etf_int(&b, label);
			injected_send(to->in, &b);
		}
}

static void
look_enough(struct tracers *ts)
{
	if (ts->numbers.ended == ts->numbers.asked &&
	    ts->enough_at == INT64_MAX)
		ts->enough_at = kp_mono_now() + LATE;
}

/* It counts from now on as one the user asked for. */
static void
counts(struct tracers *ts, uint32_t request)
{
	uint32_t node = 0;

	request_ids_counts(&ts->numbers, request, &node);
	ts->sink->begun(ts->sink->ctx, request, node);
	for (uint32_t i = 0; i < ts->n &&
	     ts->numbers.begun == ts->numbers.asked; i++)
		if (!ts->v[i].over)
			injected_command(ts->v[i].in, "full");
	look_enough(ts);
}

static void
on_begins(struct tracer *t, uint32_t n)
{
	struct tracers *ts = t->all;
	uint32_t request = request_ids_of(&t->numbers, n);

	if (request_ids_begins(&ts->numbers, request, t->node))
		counts(ts, request);
}

/* Another node may have begun one first: then nobody wants this one. */
static void
on_wanted(struct tracer *t, uint32_t n)
{
	struct tracers *ts = t->all;
	uint32_t request = request_ids_of(&t->numbers, n), node;

	if (request_ids_wanted(&ts->numbers, request))
		counts(ts, request);
	else if (ts->numbers.begun == ts->numbers.asked &&
	    !request_ids_counts(&ts->numbers, request, &node))
		tell_labels(ts, NULL, request, "unwanted");
}

/* The other nodes then take work under its labels for new requests. */
static void
on_ends(struct tracer *t, uint32_t n)
{
	struct tracers *ts = t->all;
	uint32_t request = request_ids_of(&t->numbers, n);

	if (!request_ids_ends(&ts->numbers, request))
		return;
	look_enough(ts);
	tell_labels(ts, t, request, "ended");
}

/* [{label, N, Label} | {begins, N} | ...]; N is the node's own number. */
static void
read_requests(struct tracer *t, struct kp_term *r)
{
	uint32_t count = kp_term_list(r), arity;
	struct kp_span what;
	int64_t n, label;

	for (uint32_t i = 0; i < count && r->err == KP_OK; i++) {
		arity = kp_term_tuple(r);
		what = kp_term_atom(r);
		n = kp_term_int(r);
		label = arity == 3 ? kp_term_int(r) : 0;
		if (r->err != KP_OK || n <= 0 || n >= KP_CALLS_REQUESTS_MAX)
			continue;
		if (arity == 3 && kp_span_is(what, "label"))
			on_label(t, (uint32_t)n, label);
		else if (kp_span_is(what, "begins"))
			on_begins(t, (uint32_t)n);
		else if (kp_span_is(what, "ends"))
			on_ends(t, (uint32_t)n);
		else if (kp_span_is(what, "wanted"))
			on_wanted(t, (uint32_t)n);
		else if (kp_span_is(what, "unwanted"))
			tell_labels(t->all, t, request_ids_of(&t->numbers,
			    (uint32_t)n), "unwanted");
	}
}

/* ---- limits: one identity, one tier ---- */

/* What a node's answer to `marked` lists. */
enum marked { ENTRIES, MARKS, INSIDE };

struct naming {
	const struct tracer_limit *limit;
	struct kp_call_names *names;
	struct kp_spec_params params;
	struct kp_buf specs;	/* {MFA, Spec}, ... */
	uint32_t n;
	enum kp_err err;
};

static void
put_naming(struct naming *m, struct kp_span mod, struct kp_span fun,
    uint32_t arity, bool entry)
{
	char mod_text[KP_CALLS_NAME_MAX + 1], fun_text[KP_CALLS_NAME_MAX + 1];
	struct kp_mfa f = { mod_text, fun_text, arity };
	const struct kp_conf *conf = m->limit->conf;

	injected_copy_text(mod, mod_text, sizeof(mod_text));
	injected_copy_text(fun, fun_text, sizeof(fun_text));
	if (conf == NULL || !kp_spec_names(conf, &f))
		return;
	m->n++;
	kp_etf_tuple(&m->specs, 2);
	kp_etf_tuple(&m->specs, 3);
	kp_etf_atom(&m->specs, mod_text);
	kp_etf_atom(&m->specs, fun_text);
	kp_etf_int(&m->specs, arity);
	m->err = entry ? kp_spec_entry(conf, &f, &m->params, &m->specs) :
	    kp_spec_tier(conf, &f, &m->params, &m->specs);
}

/* Reads a list of {M, F, A}. */
static void
read_marked(struct kp_term *r, struct naming *m, enum marked what)
{
	uint32_t n = kp_term_list(r), arity, fn;
	struct kp_span mod, fun;
	bool added;

	for (uint32_t i = 0; i < n && r->err == KP_OK && m->err == KP_OK; i++) {
		arity = kp_term_mfa(r, &mod, &fun);
		if (r->err != KP_OK)
			return;
		if (what != INSIDE) {
			/* An attached kprofd gives its entries their token. */
			put_naming(m, mod, fun, arity,
			    what == ENTRIES && !m->limit->attached);
			continue;
		}
		m->err = kp_call_fn_put(m->names, mod, fun, arity, &fn, &added);
		if (m->err == KP_OK && m->limit->on_inside != NULL)
			m->err = m->limit->on_inside(m->limit->ctx, fn);
	}
	if (n > 0)
		kp_term_nil(r);
}

/* Sends match specs for calls that reveal a request's identity; epoch: of labels. */
static enum kp_err
mark(struct tracer *t, uint64_t epoch, char *why, size_t n)
{
	const struct tracer_limit *l = &t->all->limit;
	struct naming m = { .limit = l, .names = t->all->names, .params = {
		.one_in = 1, .trace = true, .label_const = epoch <<
		KP_LABEL_EPOCH_SHIFT } };
	struct injected_message answer = { .arity = 0 };
	struct kp_term *r = &answer.r;
	enum kp_err e = injected_command(t->in, "marked");
	struct kp_buf b;

	while (e == KP_OK && !kp_span_is(answer.tag, "kprof_marked"))
		e = injected_next(t->in, kp_mono_now() + READ_LIMIT, &answer);
	kp_buf_init(&m.specs, SPECS_MAX);
	if (e == KP_OK) {
		read_marked(r, &m, ENTRIES);
		read_marked(r, &m, MARKS);
		read_marked(r, &m, INSIDE);
		e = r->err != KP_OK ? r->err : m.specs.err != KP_OK ?
		    m.specs.err : m.err;
	}
	t->names_requests = m.n > 0;
	if (e == KP_OK && m.n > 0) {
		injected_begin(t->in, &b);
		kp_etf_tuple(&b, 2);
		kp_etf_atom(&b, "specs");
		kp_etf_list(&b, m.n);
		kp_buf_put(&b, m.specs.p, m.specs.len);
		kp_etf_nil(&b);
		e = injected_send(t->in, &b);
	}
	if (e != KP_OK && e != KP_END)
		injected_broken(t->in->target, e, why, n);
	kp_buf_free(&m.specs);
	return e;
}

/* {kprof_identity, Id, Term} */
static void
read_identity(struct tracer *t, struct kp_term *r)
{
	const struct tracer_limit *l = &t->all->limit;
	int64_t id = kp_term_int(r);
	struct kp_span term = kp_term_raw(r);
	struct kp_buf b;

	if (r->err != KP_OK || l->is_wanted == NULL)
		return;
	injected_begin(t->in, &b);
	kp_etf_tuple(&b, 3);
	kp_etf_atom(&b, "identity");
	kp_etf_int(&b, id);
	kp_etf_bool(&b, l->is_wanted(l->ctx, term));
	/* The next wait for a message reports a lost connection. */
	injected_send(t->in, &b);
}

/* ---- messages from the node ---- */

/* Passes an event on, with our number of its request. */
static enum kp_err
on_event(struct tracer *t, const struct kp_call_event *was)
{
	const struct tracers_sink *sink = t->all->sink;
	struct kp_call_event ev = *was;
	bool known = true;

	if (t->all->numbers.no_memory)
		return KP_ENOMEM;
	t->last_event = kp_mono_now();
	if (t->all->n == 1)
		return sink->event(sink->ctx, was);
	if (ev.kind == KP_CALL_REQUEST && ev.other > 0)
		known = (ev.other = request_ids_of(&t->numbers, ev.other)) > 0;
	else if (ev.kind == KP_CALL_SEND || ev.kind == KP_CALL_RECEIVE)
		known = (ev.request = request_ids_of(&t->numbers,
		    ev.request)) > 0;
	if (!known) {
		t->end.lost++;
		return KP_OK;
	}
	return sink->event(sink->ctx, &ev);
}

/* Hands an event on, unless decoding failed.  The node may exceed max_events. */
static enum kp_err
take_event(struct tracer *t, enum kp_err e, const struct kp_call_event *ev)
{
	if (e == KP_ENOENT)
		t->end.lost++;
	else if (e == KP_OK && t->left > 0 && t->left-- > 0)
		e = on_event(t, ev);
	return e == KP_ENOENT ? KP_OK : e;
}

/* Reads binaries of the native probe. */
static enum kp_err
read_chunks(struct tracer *t, const struct kp_term *r, uint32_t n)
{
	struct kp_batch b = { .r = *r, .left = n, .tail = true };
	struct kp_call_event ev;
	enum kp_err e;

	do {
		e = kp_calls_next(t->decoder, &b, &ev);
		e = take_event(t, e, &ev);
	} while (e == KP_OK);
	return e == KP_END ? KP_OK : e;
}

static enum kp_err
read_events(struct tracer *t, struct kp_term *r)
{
	struct kp_call_event ev;
	enum kp_err e = KP_OK;
	uint32_t n;

	kp_term_int(r);
	n = kp_term_list(r);
	if (n > 0 && kp_term_peek(r) == KP_TERM_BINARY)
		return read_chunks(t, r, n);
	for (uint32_t i = 0; i < n && r->err == KP_OK && e == KP_OK; i++) {
		e = kp_calls_decode(t->decoder, r, &ev);
		e = take_event(t, e, &ev);
	}
	return e;
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

/* [{Pid, Name}] of processes in the trace. */
static void
read_names(struct kp_call_names *names, struct kp_term *r)
{
	uint32_t n = kp_term_list(r), procs = names->nprocs, proc;
	uint32_t node;
	struct kp_span name;
	struct kp_pid pid;
	bool added;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 2);
		pid = kp_term_pid(r);
		name = kp_term_atom(r);
		/* A process that is new here has no events, and needs no name. */
		if (r->err == KP_OK && kp_call_node_put(names, pid.node,
		    &node, &added) == KP_OK && kp_call_proc_put(names,
		    node, pid.id, pid.serial, &proc, &added) == KP_OK &&
		    proc < procs)
			kp_call_proc_name(names, proc, name);
	}
	if (n > 0)
		kp_term_nil(r);
}

/* KP_END: it was the last message. */
static enum kp_err
read_message(struct tracer *t, struct injected_message *m)
{
	const struct tracer_limit *l = &t->all->limit;
	struct tracer_end *end = &t->end;
	struct kp_term *r = &m->r;
	int64_t n;

	if (kp_span_is(m->tag, "kprof_calls"))
		return read_events(t, r);
	if (kp_span_is(m->tag, "kprof_request")) {
		n = kp_term_int(r);
		return r->err == KP_OK && n > 0 && n < KP_CALLS_REQUESTS_MAX &&
		    l->on_wanted != NULL ? l->on_wanted(l->ctx, (uint32_t)n) :
		    KP_OK;
	}
	if (kp_span_is(m->tag, "kprof_calls_lost")) {
		n = kp_term_int(r);
		end->lost += r->err == KP_OK && n > 0 ? (uint64_t)n : 0;
	} else if (kp_span_is(m->tag, "kprof_calls_loads")) {
		read_loads(r, end);
	} else if (kp_span_is(m->tag, "kprof_entries")) {
		t->open = true;
	} else if (kp_span_is(m->tag, "kprof_requests") && t->all->n > 1) {
		read_requests(t, r);
	} else if (kp_span_is(m->tag, "kprof_identity")) {
		read_identity(t, r);
	} else if (kp_span_is(m->tag, "kprof_calls_end")) {
		injected_read_end(t->in, r);
		read_names(t->all->names, r);
		end->begun = read_count(r, KP_CALLS_REQUESTS_MAX - 1);
		end->ended = read_count(r, end->begun);
		end->unsure = read_count(r, UINT32_MAX);
	}
	if (!t->in->ended)
		return KP_OK;
	end->end = t->in->end;
	snprintf(end->text, sizeof(end->text), "%s", t->in->text);
	return KP_END;
}

/*
 * Takes messages that have come.  KP_OK: the trace has ended; KP_ETIMEOUT: there
 * are no more for now; KP_EBUSY: there are; KP_END: woken; or what the sink
 * returned.
 */
static enum kp_err
take(struct tracer *t)
{
	struct injected_message m;
	enum kp_err e = KP_OK;

	for (int i = 0; i < TAKE_MAX && e == KP_OK; i++) {
		e = injected_next(t->in, 0, &m);
		if (e == KP_ETIMEOUT || e == KP_END)
			return e;
		if (e != KP_OK) {
			t->end.end = KP_CALLS_GONE;
			injected_broken(t->in->target, e, t->end.text,
			    sizeof(t->end.text));
			return KP_OK;
		}
		e = read_message(t, &m);
	}
	return e == KP_OK ? KP_EBUSY : e == KP_END ? KP_OK : e;
}

/* ---- clocks ---- */

/* Measures the node's clock by round trips, while no events come. */
static void
measure(struct tracer *t, struct kp_offset *offset)
{
	struct injected_message m;
	kp_mono_ns sent;
	int64_t there;

	for (int i = 0; i < TRIPS && t->all->n > 1; i++) {
		sent = kp_mono_now();
		if (injected_command(t->in, "clock") != KP_OK ||
		    injected_next(t->in, sent + CLOCK_LIMIT, &m) != KP_OK ||
		    m.arity != 2 || !kp_span_is(m.tag, "kprof_clock"))
			return;
		there = kp_term_int(&m.r);
		if (kp_term_finish(&m.r) == KP_OK)
			kp_offset_trip(offset, sent, there, kp_mono_now());
	}
}

/*
 * The middle of the offsets measured before and after; without the latter the
 * error grows by the drift since.
 */
static void
offset_of(const struct tracer *t, kp_dur_ns *offset, kp_dur_ns *error)
{
	kp_mono_ns now = kp_mono_now();
	kp_dur_ns at, by, drift;

	*offset = 0;
	*error = KP_OFFSET_TRIP_MAX;
	kp_offset_get(&t->before, t->all->measured_at, offset, error);
	if (kp_offset_get(&t->after, now, &at, &by)) {
		drift = at - *offset;
		*offset += drift / 2;
		*error = (by > *error ? by : *error) +
		    (drift < 0 ? -drift : drift) / 2;
	} else {
		*error += (now - t->all->measured_at) / 1000000 *
		    KP_OFFSET_DRIFT_PPM;
	}
}

/* Notes offsets of clocks to that of the first node. */
static void
set_offsets(struct tracers *ts)
{
	struct kp_call_node *nd;
	kp_dur_ns first, error;

	for (uint32_t i = 1; i < ts->n; i++) {
		nd = &ts->names->nodes[i];
		offset_of(&ts->v[0], &first, &error);
		offset_of(&ts->v[i], &nd->offset, &nd->error);
		nd->offset -= first;
		nd->error += error;
	}
}

/* ---- start ---- */

#define OPTIONS 13
#define OPTIONS_MAX (1u << 20)	/* bytes */

static void
lease_all(void *ctx)
{
	struct tracers *ts = ctx;

	/* A lost connection is noticed when its tracer is to start. */
	for (uint32_t i = 0; i < ts->n; i++)
		injected_lease(ts->v[i].in);
}

/*
 * The native probe's module is sent along; its library is the node's, which on
 * this machine is ours.
 */
static void
put_options(struct kp_buf *b, const struct tracer_opts *o, const uint32_t *epochs,
    uint32_t n)
{
	static const char *const probes[] = { "relay", "native", "auto" };

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
	kp_etf_list(b, n);
	for (uint32_t i = 0; i < n; i++)
		kp_etf_int(b, epochs[i]);
	kp_etf_nil(b);
}

/*
 * Of the labels that the i-th node makes; those of entries that give identities have a
 * constant alone (label.h).
 */
static uint32_t
epoch_of(const struct tracers *ts, uint32_t first, uint32_t i)
{
	const unsigned shift = KP_LABEL_CONST_SHIFT - KP_LABEL_EPOCH_SHIFT;

	if (ts->limit.conf == NULL)
		return (first + i) % KP_LABEL_EPOCHS + 1;
	return ((first + i) % KP_LABEL_CONSTS + 1) << shift;
}

/*
 * Starts the next of n tracers.  Epochs are of the labels that this node makes, and then
 * those of the other nodes; first: of the first node, from 0 on.
 */
static enum kp_err
one_start(struct tracers *ts, const struct tracer_opts *o, const char *target,
    uint32_t first, uint32_t n, char *why, size_t whylen)
{
	static const struct injected_code code = { "kprof_tracer",
		"another kprof traces there already", kp_tracer_beam,
		kp_tracer_load, sizeof(kp_tracer_beam),
		sizeof(kp_tracer_load) };
	struct tracer *t = &ts->v[ts->n];
	struct injected_opts g = o->g;
	uint32_t epochs[TRACERS_MAX];
	char bare[KP_NODE_NAME_MAX + 1];
	struct kp_span name = { .p = (const uint8_t *)bare };
	struct kp_buf own;
	enum kp_err e;
	bool added = false;

	*t = (struct tracer){ .all = ts, .end.end = KP_CALLS_GONE,
		.left = o->max_events };
	name.n = (uint32_t)strlen(kp_node_bare(target, bare));
	e = kp_call_node_put(ts->names, name, &t->node, &added);
	if (e != KP_OK || !added) {
		snprintf(why, whylen, "'%s' is not the name of another node",
		    target);
		return e != KP_OK ? e : KP_EFORMAT;
	}
	t->decoder = kp_calls_decoder_new(ts->names, t->node,
	    (uint32_t)o->args);
	if (t->decoder == NULL) {
		snprintf(why, whylen, "out of memory");
		return KP_ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		epochs[i] = epoch_of(ts, first, (ts->n + i) % n);
	g.talk.target = target;
	g.meanwhile = lease_all;
	g.ctx = ts;
	kp_buf_init(&own, OPTIONS_MAX);
	put_options(&own, o, epochs, n);
	e = injected_start(&t->in, &code, &g, &own, OPTIONS, &t->hello, why,
	    whylen);
	kp_buf_free(&own);
	if (e == KP_OK && (o->limit.conf != NULL || o->limit.ninside > 0))
		e = mark(t, epochs[0], why, whylen);
	if (e != KP_OK) {
		injected_stop(t->in, 0);
		t->in = NULL;
		kp_calls_decoder_free(t->decoder);
		return e;
	}
	ts->names->nodes[t->node].otp =
	    (uint32_t)(t->hello.otp > 0 ? t->hello.otp : 1);
	ts->n++;
	return KP_OK;
}

/* KP_ENOENT if no node can tell of what type a request is. */
static enum kp_err
check_naming(const struct tracers *ts, char *why, size_t n)
{
	for (uint32_t i = 0; i < ts->n; i++)
		if (ts->v[i].names_requests)
			return KP_OK;
	snprintf(why, n, "'%s'%s: no clause of the identity fun is for a "
	    "function that is there", ts->v[0].in->target, ts->n > 1 ?
	    " and the other targets" : "");
	return KP_ENOENT;
}

/* KP_ENOENT if a pattern has no function in any node. */
static enum kp_err
check_absent(const struct tracers *ts, const struct tracer_opts *o, char *why,
    size_t whylen)
{
	const struct kp_mfa_pat *p;
	char name[FN_NAME_MAX];
	uint32_t i, j;

	/* Of several entries not all need exist. */
	for (i = o->nentries == 1 ? 0 : 1; i <= o->g.npatterns; i++) {
		for (j = 0; j < ts->n; j++)
			if (!injected_is_absent(&ts->v[j].hello, i))
				break;
		if (j < ts->n)
			continue;
		p = i == 0 ? o->entry : &o->g.patterns[i - 1];
		snprintf(why, whylen, "no target has a function '%s'",
		    fn_pat(name, sizeof(name), p));
		return KP_ENOENT;
	}
	return KP_OK;
}

enum kp_err
tracers_start(struct tracers **out, const struct tracer_opts *o,
    const char *const *targets, uint32_t n, struct kp_call_names *names,
    char *why, size_t whylen)
{
	struct tracers *ts = calloc(1, sizeof(*ts));
	uint32_t first = 0;
	enum kp_err e = KP_OK;

	if (ts == NULL || getrandom(&first, sizeof(first), 0) < 0) {
		snprintf(why, whylen, "out of memory");
		free(ts);
		return KP_ENOMEM;
	}
	ts->names = names;
	ts->limit = o->limit;
	ts->wake = o->g.talk.wake;
	ts->numbers.asked = (uint32_t)o->requests;
	ts->numbers.named = o->limit.conf != NULL;
	ts->enough_at = INT64_MAX;
	for (uint32_t i = 0; i < n && e == KP_OK; i++)
		e = one_start(ts, o, targets[i], first % KP_LABEL_EPOCHS, n, why,
		    whylen);
	if (e == KP_OK && n > 1)
		e = check_absent(ts, o, why, whylen);
	if (e == KP_OK && o->limit.conf != NULL)
		e = check_naming(ts, why, whylen);
	if (e != KP_OK) {
		tracers_stop(ts);
		return e;
	}
	for (uint32_t i = 0; i < n; i++)
		measure(&ts->v[i], &ts->v[i].before);
	ts->measured_at = kp_mono_now();
	set_offsets(ts);
	*out = ts;
	return KP_OK;
}

const struct injected_hello *
tracers_hello(const struct tracers *ts, uint32_t i)
{
	return &ts->v[i].hello;
}

/*
 * The first batch has no events, and confirms that the node traces.  Where there
 * are many requests, the types of the first may come before it.
 */
static enum kp_err
go(struct tracer *t)
{
	enum kp_err e = injected_command(t->in, "go");
	kp_mono_ns until = kp_mono_now() + READ_LIMIT;
	struct injected_message m;

	while (e == KP_OK && (e = injected_next(t->in, until, &m)) == KP_OK) {
		if (kp_span_is(m.tag, "kprof_calls"))
			return KP_OK;
		e = kp_span_is(m.tag, "kprof_identity") ||
		    kp_span_is(m.tag, "kprof_request") ?
		    read_message(t, &m) : KP_ESTATE;
	}
	return e;
}

/* Requests may begin only when all nodes trace, so that none is incomplete. */
enum kp_err
tracers_go(struct tracers *ts, char *why, size_t whylen)
{
	enum kp_err e = KP_OK;
	uint32_t i;

	for (i = 0; i < ts->n && e == KP_OK; i++) {
		lease_all(ts);
		e = go(&ts->v[i]);
		ts->v[i].last_event = kp_mono_now();
	}
	for (uint32_t j = 0; j < ts->n && ts->n > 1 && e == KP_OK; j++)
		if ((e = injected_command(ts->v[j].in, "entries")) != KP_OK)
			i = j + 1;
	if (e != KP_OK)
		snprintf(why, whylen, "'%s': nothing was traced: its tracer "
		    "has ended",
		    ts->names->nodes[i - 1].name);
	return e;
}

/* ---- while it traces ---- */

/* One round over the nodes; *more: events are waiting; *over: nodes that ended. */
static enum kp_err
take_all(struct tracers *ts, bool *more, uint32_t *over)
{
	enum kp_err e;
	struct tracer *o;

	*more = false;
	*over = 0;
	for (uint32_t i = 0; i < ts->n; i++) {
		o = &ts->v[i];
		e = o->over ? KP_OK : take(o);
		if (e == KP_OK)
			o->over = true;
		else if (e == KP_EBUSY)
			*more = true;
		else if (e != KP_ETIMEOUT)
			return e;
		*over += o->over;
	}
	return ts->numbers.no_memory ? KP_ENOMEM : KP_OK;
}

static void
report_tracing(struct tracers *ts)
{
	for (uint32_t i = 0; i < ts->n && ts->n > 1; i++)
		if (!ts->v[i].open)
			return;
	if (!ts->tracing && ts->sink->tracing != NULL)
		ts->sink->tracing(ts->sink->ctx);
	ts->tracing = true;
}

static void
wait_for_more(struct tracers *ts, kp_mono_ns until)
{
	struct pollfd p[TRACERS_MAX + 1];
	kp_mono_ns now = kp_mono_now();
	kp_dur_ns left = until > now ? until - now : 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < ts->n; i++)
		if (!ts->v[i].over)
			p[n++] = (struct pollfd){
				dist_sync_fd(ts->v[i].in->talk), POLLIN, 0 };
	p[n++] = (struct pollfd){ ts->wake, POLLIN, 0 };
	poll(p, n, (int)((left < WAIT ? left : WAIT) / KP_NS_PER_MS) +
	    (left > 0));
}

enum kp_err
tracers_run(struct tracers *ts, kp_mono_ns deadline,
    const struct tracers_sink *sink)
{
	kp_mono_ns until;
	uint32_t over;
	enum kp_err e;
	bool more;

	ts->sink = sink;
	for (;;) {
		e = take_all(ts, &more, &over);
		if (e != KP_OK || over > 0)
			return e;
		report_tracing(ts);
		if (kp_mono_now() >= ts->enough_at)
			return KP_OK;
		if (kp_mono_now() >= deadline)
			return KP_ETIMEOUT;
		until = deadline < ts->enough_at ? deadline : ts->enough_at;
		wait_for_more(ts, more ? 0 : until);
	}
}

/* Gives up nodes without an event since then. */
static void
give_up(struct tracers *ts, enum kp_calls_end why, kp_mono_ns since)
{
	struct tracer *o;

	for (uint32_t i = 0; i < ts->n; i++) {
		o = &ts->v[i];
		if (o->over || o->last_event > since)
			continue;
		o->over = true;
		o->end.end = why;
	}
}

static void
finish(struct tracers *ts)
{
	struct tracer *o;

	for (uint32_t i = 0; i < ts->n; i++) {
		o = &ts->v[i];
		ts->names->nodes[i].end = o->end.end;
		if (o->end.end != KP_CALLS_GONE && o->end.end != KP_CALLS_CUT)
			measure(o, &o->after);
	}
	set_offsets(ts);
}

enum kp_err
tracers_end(struct tracers *ts, const struct tracers_sink *sink)
{
	kp_mono_ns now = kp_mono_now();
	enum kp_err e = KP_OK;
	uint32_t over = 0;
	bool more = false;
	struct tracer *o;

	ts->sink = sink;
	for (uint32_t i = 0; i < ts->n; i++) {
		o = &ts->v[i];
		o->last_event = now;
		if (!o->over && injected_command(o->in, "read") != KP_OK)
			o->over = true;
	}
	for (;;) {
		e = take_all(ts, &more, &over);
		if (e != KP_OK || over == ts->n)
			break;
		give_up(ts, KP_CALLS_GONE, kp_mono_now() - SILENCE_MAX);
		wait_for_more(ts, more ? 0 : kp_mono_now() + WAIT);
	}
	if (e == KP_END) {
		give_up(ts, KP_CALLS_CUT, INT64_MAX);
		e = KP_OK;
	}
	if (e == KP_OK)
		finish(ts);
	return e;
}

const struct tracer_end *
tracers_ended(const struct tracers *ts, uint32_t i)
{
	return &ts->v[i].end;
}

uint32_t
tracers_begun(const struct tracers *ts, uint32_t *ended)
{
	*ended = ts->n > 1 ? ts->numbers.ended : ts->v[0].end.ended;
	return ts->n > 1 ? ts->numbers.begun : ts->v[0].end.begun;
}

bool
tracers_leave(struct tracers *ts)
{
	kp_mono_ns deadline = kp_mono_now() + INJECTED_STOP_WAIT;
	bool silent, done = true;
	kp_dur_ns left;
	struct tracer *one;

	/* None is traced on while another one takes its time. */
	for (uint32_t i = 0; i < ts->n; i++)
		if (ts->v[i].in != NULL)
			injected_leave(ts->v[i].in);
	for (uint32_t i = 0; i < ts->n; i++) {
		one = &ts->v[i];
		silent = one->end.end == KP_CALLS_GONE ||
		    one->end.end == KP_CALLS_CUT;
		left = deadline - kp_mono_now();
		done &= injected_stop(one->in, silent ? 0 : left > 0 ? left : 1);
		one->in = NULL;
	}
	return done;
}

void
tracers_stop(struct tracers *ts)
{
	if (ts == NULL)
		return;
	tracers_leave(ts);
	for (uint32_t i = 0; i < ts->n; i++) {
		request_ids_node_free(&ts->v[i].numbers);
		kp_calls_decoder_free(ts->v[i].decoder);
	}
	request_ids_free(&ts->numbers);
	free(ts);
}
