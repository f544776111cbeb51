/*
 * count_requests.c - runs a tracer, adds up its events, and turns the sums into
 * a profile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "count_requests.h"
#include "functions.h"
#include "profile/report/calls.h"

#define PART_NONE UINT32_MAX

/* ---- sums of calls as a profile ---- */

/* Whose time it is: that of garbage collection is its caller's, as in the VM. */
static uint32_t
charged(const struct kp_calls_clock *c)
{
	return c->fn == KP_FN_GC ? c->caller : c->fn;
}

static bool
is_function(uint32_t fn)
{
	return fn >= KP_FN_FIRST;
}

/* One for each that was called: at[] says where, PART_NONE: it was not. */
static enum kp_err
put_fns(struct kp_profile *p, const struct kp_call_names *names,
    const struct kp_calls_sum *s, uint32_t *at)
{
	const struct kp_call_fn *fn;
	struct kp_profile_fn *to;

	for (uint32_t i = 0; i < s->nclocks; i++) {
		if (is_function(s->clocks[i].fn) && s->clocks[i].calls > 0)
			at[s->clocks[i].fn] = 0;
	}
	for (uint32_t i = KP_FN_FIRST; i < kp_call_fns(names); i++) {
		if (at[i] == PART_NONE)
			continue;
		at[i] = (uint32_t)p->nfns;
		fn = kp_call_fn(names, i);
		to = &p->fns[p->nfns++];
		to->mod = strdup(fn->mod);
		to->fun = strdup(fn->fun);
		to->arity = fn->arity;
		if (to->mod == NULL || to->fun == NULL)
			return KP_ENOMEM;
	}
	return KP_OK;
}

/* ns for now. */
static void
put_sums(struct kp_profile *p, const struct kp_call_names *names,
    const struct kp_calls_sum *s, const uint32_t *at)
{
	const struct kp_calls_clock *c;
	const struct kp_call_proc *proc;
	struct kp_profile_row *row;
	uint32_t fn;

	for (uint32_t i = 0; i < s->nclocks; i++) {
		c = &s->clocks[i];
		fn = at[charged(c)];
		if (fn == PART_NONE)
			continue;
		proc = kp_call_proc(names, c->proc);
		row = &p->rows[p->nrows++];
		row->fn = fn;
		row->proc.id = proc->id;
		row->proc.serial = proc->serial;
		row->calls = is_function(c->fn) ? c->calls : 0;
		row->value = (uint64_t)c->own;
		p->fns[fn].calls += row->calls;
		p->fns[fn].value += row->value;
	}
}

static enum kp_err
put_names(struct kp_profile *p, const struct kp_call_names *names)
{
	const struct kp_call_proc *proc;
	struct kp_profile_name *to;

	for (uint32_t i = 0; i < kp_call_procs(names); i++) {
		proc = kp_call_proc(names, i);
		if (proc->name == NULL)
			continue;
		to = &p->names[p->nnames++];
		to->proc.id = proc->id;
		to->proc.serial = proc->serial;
		to->name = strdup(proc->name);
		if (to->name == NULL)
			return KP_ENOMEM;
	}
	return KP_OK;
}

static void
as_us(struct kp_profile *p)
{
	for (size_t i = 0; i < p->nfns; i++)
		p->fns[i].value /= KP_NS_PER_US;
	for (size_t i = 0; i < p->nrows; i++)
		p->rows[i].value /= KP_NS_PER_US;
}

/* Rows of one process and several callers become one. */
static enum kp_err
profile_of(struct kp_profile *p, const struct kp_call_names *names,
    const struct kp_calls_sum *s)
{
	struct kp_profile parts = { .type = p->type };
	size_t nfns = kp_call_fns(names), nprocs = kp_call_procs(names);
	uint32_t *at = malloc((nfns + 1) * sizeof(*at));
	enum kp_err e = KP_ENOMEM;

	parts.fns = calloc(nfns + 1, sizeof(*parts.fns));
	parts.rows = calloc(s->nclocks + 1, sizeof(*parts.rows));
	p->names = calloc(nprocs + 1, sizeof(*p->names));
	if (at != NULL && parts.fns != NULL && parts.rows != NULL &&
	    p->names != NULL) {
		memset(at, 0xff, (nfns + 1) * sizeof(*at));
		e = put_fns(&parts, names, s, at);
	}
	if (e == KP_OK) {
		put_sums(&parts, names, s, at);
		parts.elapsed = s->last - s->first;
		p->stretch = 1;
		e = put_names(p, names);
	}
	if (e == KP_OK)
		e = kp_profile_add(p, &parts);
	if (e == KP_OK)
		as_us(p);
	kp_profile_free(&parts);
	free(at);
	return e;
}

/* ---- events ---- */

struct taking {
	struct kp_calls_sum *s;
	struct limits *l;
};

static enum kp_err
on_event(void *ctx, const struct kp_call_event *ev)
{
	struct taking *k = ctx;

	return limits_add(k->l, k->s, ev);
}

/* What is to be said beside the figures, in one line. */
static void
put_remarks(const struct kp_calls_sum *s, const struct tracer_end *end,
    const struct tracer_opts *o, const struct limits *l, char *ended, size_t n)
{
	struct kp_calls_info info = { .end = end->end, .lost = end->lost,
		.requests = (uint32_t)o->requests, .begun = end->begun,
		.ended = end->ended };
	struct calls_view v = { .sum = s, .info = &info,
		.queue_most = true };	/* there is no option for it */
	struct kp_buf b;
	char *line;

	kp_buf_init(&b, 16384);
	limits_remark(l, &b);
	calls_remarks(&b, &v);
	if (end->text[0] != '\0')
		kp_buf_printf(&b, "%s\n", end->text);
	snprintf(ended, n, "%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
	while ((line = strchr(ended, '\n')) != NULL)
		*line = line[1] == '\0' ? '\0' : ';';
}

/* Where it may take long. */
static void
say_begin(const struct tracer_opts *o, const struct limits *l, bool call)
{
	const struct profile_limit *of = limits_shown(l);

	if (o->requests > 0)
		say("counting in %llu requests in '%s', which %s%s begins%s; "
		    "Ctrl-C ends it and shows the figures",
		    (unsigned long long)o->requests, o->g.talk.target,
		    of->nentries > 1 ? "an entry such as " : "",
		    of->nentries > 0 ? of->entries[0] : "an entry", call ? "" :
		    ", for " REQUESTS_LIMIT_TEXT " at most (see -for)");
	else
		say("counting in requests of the kprofd in '%s'; Ctrl-C ends "
		    "it and shows the figures", o->g.talk.target);
}

/* Ends t. */
static int
take_events(struct tracer *t, const struct tracer_opts *o, kp_dur_ns limit,
    bool quiet, struct taking *k, struct tracer_end *end)
{
	bool call = o->g.apply[0] != '\0';
	enum kp_err e = tracer_go(t);

	if (e != KP_OK) {
		if (e == KP_END)
			interrupted(o->g.talk.target, "counted");
		else
			say("'%s': nothing was counted: its tracer has ended",
			    o->g.talk.target);
		tracer_stop(t);
		return EXIT_FAILED;
	}
	if (limit == 0 && !quiet)
		say_begin(o, k->l, call);
	e = tracer_run(t, o->g.span > 0 ? kp_mono_now() + o->g.span :
	    INT64_MAX, on_event, k, end);
	if (e == KP_ETIMEOUT || e == KP_END) {
		signals_drain();
		e = tracer_end(t, on_event, k, end);
	}
	tracer_stop(t);
	if (e == KP_OK)
		e = limits_end(k->l, k->s);
	if (e == KP_OK)
		e = kp_calls_sum_end(k->s);
	if (e != KP_OK)
		say("cannot add up what was called: %s", kp_err_str(e));
	return e == KP_OK ? EXIT_DONE : EXIT_FAILED;
}

int
count_requests(struct tracer_opts *o, struct limits *l, kp_dur_ns limit,
    bool quiet, struct injected_hello *h, struct kp_profile *p, char *ended,
    size_t n)
{
	/* The VM's clock of a function stands still with its process. */
	struct kp_calls_opts so = { .cpu = true };
	struct kp_call_names *names = kp_call_names_new();
	struct kp_calls_sum *s = NULL;
	struct taking k = { .l = l };
	struct tracer_end end = { .end = KP_CALLS_GONE };
	char why[INJECTED_TEXT_MAX + 512] = "out of memory";
	int st = EXIT_FAILED;
	struct tracer *t;
	enum kp_err e = KP_ENOMEM;

	limits_trace(l, o);
	o->g.span = limit > 0 || o->requests == 0 ||
	    o->g.apply[0] != '\0' ? limit : REQUESTS_LIMIT;
	limits_sum(l, &so);
	k.s = s = kp_calls_sum_new(&so);
	if (names != NULL && s != NULL)
		e = tracer_start(&t, o, names, h, why, sizeof(why));
	if (e == KP_END)
		interrupted(o->g.talk.target, "counted");
	else if (e != KP_OK)
		say("%s", why);
	else
		st = take_events(t, o, limit, quiet, &k, &end);
	if (st == EXIT_DONE) {
		put_remarks(s, &end, o, l, ended, n);
		e = profile_of(p, names, s);
		if (e != KP_OK) {
			say("cannot add up what was called: %s",
			    kp_err_str(e));
			st = EXIT_FAILED;
		}
	}
	kp_calls_sum_free(s);
	kp_call_names_free(names);
	return st;
}
