/*
 * count_requests.c - runs a trace, adds up its events, and turns the sums into
 * counters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "count_requests.h"
#include "shared.h"
#include "profile/report/trace_report.h"
#include "text/text.h"

/* ---- sums of calls as counters ---- */

static bool
is_function(uint32_t fn)
{
	return fn >= KP_FN_FIRST;
}

/*
 * As in the VM's counters the time of a garbage collection is its caller's, and
 * a function that was not called has no row.
 */
static enum kp_err
put_rows(struct kp_counts *p, const struct kp_calls_sum *s)
{
	bool *called = calloc(p->names->nfns, sizeof(*called));
	const struct kp_calls_clock *c;
	struct kp_counts_row row;
	enum kp_err e = called != NULL ? KP_OK : KP_ENOMEM;

	for (uint32_t i = 0; i < s->nclocks && e == KP_OK; i++)
		if (is_function(s->clocks[i].fn) && s->clocks[i].calls > 0)
			called[s->clocks[i].fn] = true;
	for (uint32_t i = 0; i < s->nclocks && e == KP_OK; i++) {
		c = &s->clocks[i];
		row = (struct kp_counts_row){
			.fn = c->fn == KP_FN_GC ? c->caller : c->fn,
			.proc = p->by_process ? c->proc : KP_PROC_ALL,
			.calls = is_function(c->fn) ? c->calls : 0,
			.value = (uint64_t)c->own };
		if (called[row.fn])
			e = kp_counts_put(p, &row);
	}
	free(called);
	return e;
}

static enum kp_err
counts_of(struct kp_counts *p, const struct kp_calls_sum *s)
{
	enum kp_err e = put_rows(p, s);

	kp_counts_merge(p);
	for (size_t i = 0; i < p->nrows; i++)
		p->rows[i].value /= KP_NS_PER_US;
	p->elapsed = s->last - s->first;
	return e;
}

/* ---- events ---- */

struct counting {
	const struct tracer_opts *o;
	struct kp_calls_sum *s;
	struct limits *l;
	bool quiet;
};

static enum kp_err
on_event(void *ctx, const struct kp_call_event *ev)
{
	struct counting *k = ctx;

	return limits_add(k->l, k->s, ev);
}

/* Says what is awaited, where that may take long. */
static void
on_tracing(void *ctx)
{
	const struct counting *k = ctx;
	const struct tracer_opts *o = k->o;
	const struct counts_limit *of = limits_shown(k->l);

	if (k->quiet)
		return;
	if (o->requests > 0)
		say("counting in %llu requests in '%s', which %s%s begins%s; "
		    "Ctrl-C ends it and shows the figures",
		    (unsigned long long)o->requests, o->g.talk.target,
		    of->nentries > 1 ? "an entry such as " : "",
		    of->nentries > 0 ? of->entries[0] : "an entry",
		    o->g.apply[0] != '\0' ? "" :
		    ", for " REQUESTS_LIMIT_TEXT " at most (see -for)");
	else
		say("counting in requests of the kprofd in '%s'; Ctrl-C ends "
		    "it and shows the figures", o->g.talk.target);
}

/* Lines become one, and their ends "; ". */
static void
in_one_line(struct kp_buf *b, const char *lines)
{
	for (; *lines != '\0'; lines++)
		if (*lines != '\n')
			kp_buf_u8(b, (uint8_t)*lines);
		else if (lines[1] != '\0')
			kp_buf_str(b, "; ");
}

/* Puts the remarks about the figures into one line. */
static void
put_remarks(const struct counting *k, const struct tracer_end *end,
    char *ended, size_t n)
{
	struct kp_calls_info info = { .end = end->end, .lost = end->lost,
		.requests = (uint32_t)k->o->requests, .begun = end->begun,
		.ended = end->ended };
	struct trace_view v = { .sum = k->s, .info = &info,
		.queue_most = true };	/* there is no option for it */
	struct kp_buf b, line;
	char count[TEXT_MAX];

	kp_buf_init(&b, 16384);
	kp_buf_init(&line, 16384);
	limits_remark(k->l, &b);
	trace_remarks(&b, &v);
	if (end->unsure > 0)
		kp_buf_printf(&b, "%s may lack calls: "
		    FUNCTIONS_UNSURE_TEXT "\n", text_counted(count,
		    end->unsure, "request"));
	if (end->text[0] != '\0')
		kp_buf_printf(&b, "%s\n", end->text);
	in_one_line(&line, kp_buf_cstr(&b));
	snprintf(ended, n, "%s", kp_buf_cstr(&line));
	kp_buf_free(&line);
	kp_buf_free(&b);
}

static int
take_events(struct tracers *ts, struct counting *k, struct kp_counts *p)
{
	const struct tracers_sink sink = { .event = on_event,
		.tracing = on_tracing, .ctx = k };
	const char *target = k->o->g.talk.target;
	char why[INJECTED_TEXT_MAX];
	enum kp_err e = tracers_go(ts, why, sizeof(why));

	if (e != KP_OK)
		return functions_failed(target, e, why, "counted");
	e = functions_take(ts, k->o->g.span > 0 ?
	    kp_mono_now() + k->o->g.span : INT64_MAX, &sink);
	if (!tracers_leave(ts))
		functions_say_late(target);
	if (e == KP_OK)
		e = limits_end(k->l, k->s);
	if (e == KP_OK)
		e = kp_calls_sum_end(k->s);
	if (e == KP_OK)
		e = counts_of(p, k->s);
	if (e != KP_OK)
		say("cannot add up what was called: %s", kp_err_str(e));
	return e == KP_OK ? EXIT_DONE : EXIT_FAILED;
}

int
count_requests(struct tracer_opts *o, struct limits *l, kp_dur_ns limit,
    bool quiet, struct injected_hello *h, struct kp_counts *p, char *ended,
    size_t n)
{
	/* The VM's clock of a function stands still with its process. */
	struct kp_calls_opts so = { .cpu = true };
	struct counting k = { .o = o, .l = l, .quiet = quiet || limit > 0 };
	char why[INJECTED_TEXT_MAX + 512] = "out of memory";
	struct tracers *ts = NULL;
	enum kp_err e = KP_ENOMEM;
	int st;

	limits_trace(l, o);
	o->g.span = limit > 0 || o->requests == 0 ||
	    o->g.apply[0] != '\0' ? limit : REQUESTS_LIMIT;
	limits_sum(l, &so);
	k.s = kp_calls_sum_new(&so);
	if (k.s != NULL)
		e = tracers_start(&ts, o, &o->g.talk.target, 1, p->names, why,
		    sizeof(why));
	if (e == KP_OK) {
		functions_say_doubt(o->g.talk.target, tracers_hello(ts, 0));
		st = take_events(ts, &k, p);
	} else
		st = functions_failed(o->g.talk.target, e, why, "counted");
	if (st == EXIT_DONE) {
		*h = *tracers_hello(ts, 0);
		put_remarks(&k, tracers_ended(ts, 0), ended, n);
	}
	tracers_stop(ts);
	kp_calls_sum_free(k.s);
	return st;
}
