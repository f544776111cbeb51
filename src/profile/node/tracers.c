/*
 * tracers.c - starts a tracer in each node, measures clocks, takes events from the
 * nodes in turn, and gives requests common numbers.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kprofd/fn_name.h"
#include "kprofd/nodes.h"
#include "profile/node/request_ids.h"
#include "profile/node/tracers.h"

#define TRIPS 8		/* round trips to each clock, before and after */
#define LATE (200 * KP_NS_PER_MS)	/* for work after a request's end */
#define SILENCE_MAX (60 * KP_NS_PER_S)
#define WAIT (500 * KP_NS_PER_MS)	/* for leases */

struct one {
	struct tracers *all;
	struct tracer *t;
	uint32_t node;
	struct injected_hello hello;
	struct tracer_end end;
	struct tracer_news news;
	bool over;			/* no more messages come */
	kp_mono_ns last_event;
	struct kp_offset before, after;	/* of its clock to ours */
	struct request_ids_node numbers;	/* its request numbers -> ours */
};

struct tracers {
	struct one v[TRACERS_MAX];
	uint32_t n;
	struct kp_call_names *names;
	int wake;
	const struct tracers_sink *sink;	/* while events are taken */
	struct request_ids numbers;	/* used with several nodes */
	kp_mono_ns enough_at;		/* INT64_MAX: not yet */
	kp_mono_ns measured_at;		/* end of the first round trips */
	bool tracing;			/* the sink knows */
};

/* ---- requests ---- */

/* Two nodes may at first know a request by different labels. */
static void
on_label(void *ctx, uint32_t n, int64_t label)
{
	struct one *o = ctx;
	struct tracers *ts = o->all;
	uint32_t same = request_ids_label(&ts->numbers, &o->numbers, n, label);

	if (same > 0)
		ts->sink->same(ts->sink->ctx, same,
		    request_ids_of(&o->numbers, n));
}

static void
on_begins(void *ctx, uint32_t n)
{
	struct one *o = ctx;
	struct tracers *ts = o->all;
	uint32_t request = request_ids_of(&o->numbers, n);

	if (!request_ids_begins(&ts->numbers, request))
		return;
	ts->sink->begun(ts->sink->ctx, request, o->node);
	for (uint32_t i = 0; i < ts->n &&
	     ts->numbers.begun == ts->numbers.asked; i++)
		if (!ts->v[i].over)
			tracer_command(ts->v[i].t, "full");
}

/* The other nodes then take work under its labels for new requests. */
static void
on_ends(void *ctx, uint32_t n)
{
	struct one *o = ctx;
	struct tracers *ts = o->all;
	uint32_t request = request_ids_of(&o->numbers, n), at = 0;
	int64_t label;

	if (!request_ids_ends(&ts->numbers, request))
		return;
	if (ts->numbers.ended == ts->numbers.asked &&
	    ts->enough_at == INT64_MAX)
		ts->enough_at = kp_mono_now() + LATE;
	while (request_ids_next_label(&ts->numbers, request, &at, &label))
		for (uint32_t j = 0; j < ts->n; j++)
			if (j != o->node && !ts->v[j].over)
				tracer_request_ended(ts->v[j].t, label);
}

/* As tracer_sink: passes an event on, with our number of its request. */
static enum kp_err
on_event(void *ctx, const struct kp_call_event *was)
{
	struct one *o = ctx;
	const struct tracers_sink *sink = o->all->sink;
	struct kp_call_event ev = *was;
	bool known = true;

	if (o->all->numbers.no_memory)
		return KP_ENOMEM;
	o->last_event = kp_mono_now();
	if (o->all->n == 1)
		return sink->event(sink->ctx, was);
	if (ev.kind == KP_CALL_REQUEST && ev.other > 0)
		known = (ev.other = request_ids_of(&o->numbers, ev.other)) > 0;
	else if (ev.kind == KP_CALL_SEND || ev.kind == KP_CALL_RECEIVE)
		known = (ev.request = request_ids_of(&o->numbers,
		    ev.request)) > 0;
	if (!known) {
		o->end.lost++;
		return KP_OK;
	}
	return sink->event(sink->ctx, &ev);
}

/* ---- clocks ---- */

static void
measure(struct one *o, struct kp_offset *offset)
{
	for (int i = 0; i < TRIPS && o->all->n > 1; i++)
		if (tracer_clock(o->t, offset) != KP_OK)
			return;
}

/*
 * The middle of the offsets measured before and after; without the latter the
 * error grows by the drift since.
 */
static void
offset_of(const struct one *o, kp_dur_ns *offset, kp_dur_ns *error)
{
	kp_mono_ns now = kp_mono_now();
	kp_dur_ns at, by, drift;

	*offset = 0;
	*error = KP_OFFSET_TRIP_MAX;
	kp_offset_get(&o->before, o->all->measured_at, offset, error);
	if (kp_offset_get(&o->after, now, &at, &by)) {
		drift = at - *offset;
		*offset += drift / 2;
		*error = (by > *error ? by : *error) +
		    (drift < 0 ? -drift : drift) / 2;
	} else {
		*error += (now - o->all->measured_at) / 1000000 *
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

static void
lease_all(void *ctx)
{
	struct tracers *ts = ctx;

	/* A lost connection is noticed when its tracer is to start. */
	for (uint32_t i = 0; i < ts->n; i++)
		tracer_lease(ts->v[i].t);
}

/* The epochs of n nodes, the node's own first. */
static void
epochs_put(uint32_t *epochs, uint32_t first, uint32_t own, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		epochs[i] = (first + (own + i) % n) % TRACER_EPOCHS + 1;
}

static enum kp_err
one_start(struct tracers *ts, struct tracer_opts o, const char *target,
    uint32_t first, uint32_t n, char *why, size_t whylen)
{
	struct one *one = &ts->v[ts->n];
	uint32_t epochs[TRACERS_MAX];
	char node[KP_NODE_NAME_MAX + 1];
	struct kp_span name = { .p = (const uint8_t *)node };
	enum kp_err e;
	bool added;

	*one = (struct one){ .all = ts, .end.end = KP_CALLS_GONE,
		.news = { on_label, on_begins, on_ends, one } };
	name.n = (uint32_t)strlen(kp_node_bare(target, node));
	epochs_put(epochs, first, ts->n, n);
	o.epochs = epochs;
	o.nepochs = n;
	o.g.talk.target = target;
	o.g.meanwhile = lease_all;
	o.g.ctx = ts;
	e = kp_call_node_put(ts->names, name, &one->node, &added);
	o.node = one->node;
	if (e == KP_OK && added)
		e = tracer_start(&one->t, &o, ts->names, &one->hello, why,
		    whylen);
	else
		snprintf(why, whylen, "'%s' is not the name of another node",
		    target);
	if (e != KP_OK || !added)
		return e != KP_OK ? e : KP_EFORMAT;
	tracer_listen(one->t, &one->news);
	ts->names->nodes[one->node].otp =
	    (uint32_t)(one->hello.otp > 0 ? one->hello.otp : 1);
	ts->n++;
	return KP_OK;
}

/* KP_ENOENT if a pattern has no function in any node. */
static enum kp_err
check_absent(const struct tracers *ts, const struct tracer_opts *o, char *why,
    size_t whylen)
{
	const struct kp_mfa_pat *p;
	char name[FN_NAME_MAX];
	uint32_t i, j;

	for (i = o->nentries > 0 ? 0 : 1; i <= o->g.npatterns; i++) {
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
	ts->wake = o->g.talk.wake;
	ts->numbers.asked = (uint32_t)o->requests;
	ts->enough_at = INT64_MAX;
	for (uint32_t i = 0; i < n && e == KP_OK; i++)
		e = one_start(ts, *o, targets[i], first % TRACER_EPOCHS, n,
		    why, whylen);
	if (e == KP_OK && n > 1)
		e = check_absent(ts, o, why, whylen);
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

/* Requests may begin only when all nodes trace, so that none is incomplete. */
enum kp_err
tracers_go(struct tracers *ts, char *why, size_t whylen)
{
	enum kp_err e = KP_OK;
	uint32_t i;

	for (i = 0; i < ts->n && e == KP_OK; i++) {
		lease_all(ts);
		e = tracer_go(ts->v[i].t);
		ts->v[i].last_event = kp_mono_now();
	}
	for (uint32_t j = 0; j < ts->n && ts->n > 1 && e == KP_OK; j++)
		if ((e = tracer_command(ts->v[j].t, "entries")) != KP_OK)
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
	struct one *o;

	*more = false;
	*over = 0;
	for (uint32_t i = 0; i < ts->n; i++) {
		o = &ts->v[i];
		e = o->over ? KP_OK : tracer_take(o->t, on_event, o, &o->end);
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
		if (!tracer_is_open(ts->v[i].t))
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
			p[n++] = (struct pollfd){ tracer_fd(ts->v[i].t),
				POLLIN, 0 };
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
	struct one *o;

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
	struct one *o;

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
	struct one *o;

	ts->sink = sink;
	for (uint32_t i = 0; i < ts->n; i++) {
		o = &ts->v[i];
		o->last_event = now;
		if (!o->over && tracer_command(o->t, "read") != KP_OK)
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
	struct one *one;

	/* None is traced on while another one takes its time. */
	for (uint32_t i = 0; i < ts->n; i++)
		if (ts->v[i].t != NULL)
			tracer_leave(ts->v[i].t);
	for (uint32_t i = 0; i < ts->n; i++) {
		one = &ts->v[i];
		silent = one->end.end == KP_CALLS_GONE ||
		    one->end.end == KP_CALLS_CUT;
		left = deadline - kp_mono_now();
		done &= tracer_stop(one->t, silent ? 0 : left > 0 ? left : 1);
		one->t = NULL;
	}
	return done;
}

void
tracers_stop(struct tracers *ts)
{
	if (ts == NULL)
		return;
	tracers_leave(ts);
	for (uint32_t i = 0; i < ts->n; i++)
		request_ids_node_free(&ts->v[i].numbers);
	request_ids_free(&ts->numbers);
	free(ts);
}
