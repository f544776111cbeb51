/*
 * count_requests.c - checks the options, reads tiers.conf, and finds its entries, the
 * tier and the identity; then runs a trace, adds up its events, and turns the sums into
 * counters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near_names.h"
#include "base/vec.h"
#include "calls/call_sum.h"
#include "config/tiers_file.h"
#include "count_requests.h"
#include "fn_command.h"
#include "kprofd/fn_name.h"
#include "kprofd/nodes.h"
#include "kprofd/term.h"
#include "profile/report/trace_report.h"
#include "request/names.h"
#include "text/text.h"

#define IDENTITIES 1100		/* the node asks about 1000 */
#define NEAR_MAX 3		/* edits of a misspelled name */
#define NAMED_MAX 10		/* names that an error lists */

struct bits {
	uint8_t *v;
	uint32_t n;		/* bytes */
};

struct limits {
	const struct limits_args *a;
	size_t requests;
	struct kp_conf *conf;	/* NULL: no -tiers */
	struct kp_mfa_pat entry;	/* -entry; mod NULL: none */
	struct kp_mfa_pat *entries, *marks;	/* borrowed from conf */
	size_t nentries, nmarks;
	const struct kp_tier *tier;
	struct bits inside;	/* functions of the tier */
	struct idents idents;
	bool named;		/* by identity: */
	struct bits wanted;	/* requests of it */
	enum kp_err (*on_wanted)(void *ctx, uint32_t request);
	void *ctx;		/* of on_wanted */
	struct kp_call_event *events;
	size_t nevents, room, max_events;
	const char **names;	/* entries as text */
	struct counts_limit shown;
	/* While it is counted. */
	const struct tracer_opts *o;
	struct kp_calls_sum *sum;
	bool quiet;
};

/* ---- sets of numbers ---- */

static enum kp_err
bits_set(struct bits *b, uint32_t i)
{
	enum kp_err e = vec_reach(&b->v, &b->n, i / 8);

	if (e == KP_OK)
		b->v[i / 8] |= (uint8_t)(1u << i % 8);
	return e;
}

static bool
bits_has(const struct bits *b, uint32_t i)
{
	return i / 8 < b->n && (b->v[i / 8] >> i % 8 & 1) != 0;
}

/* ---- misspelled names ---- */

struct near {
	const char *want, *best;
	unsigned d;
	struct kp_buf all;
	size_t n;
};

static void
near_begin(struct near *x, const char *want)
{
	*x = (struct near){ .want = want, .d = NEAR_MAX + 1 };
	kp_buf_init(&x->all, 4096);
}

static void
near_add(struct near *x, const char *name)
{
	unsigned d = kp_name_distance(x->want, name, NEAR_MAX);

	/* A short name is not near to another that shares little with it. */
	if (d < x->d && d < strlen(name)) {
		x->d = d;
		x->best = name;
	}
	if (x->n++ >= NAMED_MAX)
		return;
	kp_buf_str(&x->all, x->n > 1 ? ", " : "");
	text_put(&x->all, name);
}

/* "did you mean 'a'? There are a, b" */
static void
near_put(struct near *x, const char *there, struct kp_buf *b)
{
	if (x->best != NULL) {
		kp_buf_str(b, ": did you mean '");
		text_put(b, x->best);
		kp_buf_str(b, "'?");
	}
	if (x->n > 0)
		kp_buf_printf(b, "%s %s %s%s", x->best != NULL ? "" : ":",
		    there, kp_buf_cstr(&x->all), x->n > NAMED_MAX ? " ..." : "");
	kp_buf_free(&x->all);
}

static int
unknown(struct near *x, const char *what, const char *file)
{
	struct kp_buf b;

	kp_buf_init(&b, 8192);
	near_put(x, "there are", &b);
	say("'%s' has no %s '%s'%s", file, what, x->want, kp_buf_cstr(&b));
	kp_buf_free(&b);
	return EXIT_FAILED;
}

/* ---- tiers.conf ---- */

static int
conf_read(struct limits *l)
{
	const char *file = l->a->tiers;
	struct kp_diags diags;
	enum kp_err e;
	char why[300], *src;
	size_t n;

	src = tiers_file_read(file, &n, why, sizeof(why));
	if (src == NULL) {
		say("%s", why);
		return EXIT_FAILED;
	}
	e = kp_conf_parse(&l->conf, src, n, &diags);
	if (e != KP_OK && diags.n > 0)
		diag_print(stderr, file, src, n, &diags);
	else if (e != KP_OK)
		say("cannot read '%s': %s", file, kp_err_str(e));
	kp_diags_free(&diags);
	free(src);
	return e == KP_OK ? OPTS_GO_ON : EXIT_FAILED;
}

static bool
is_for(const struct kp_entry *e, const struct opt_list *nodes)
{
	char name[KP_NODE_NAME_MAX + 1];
	bool found = e->nnodes == 0;

	for (size_t i = 0; i < e->nnodes; i++)
		for (size_t j = 0; j < nodes->n && !found; j++)
			found = kp_glob(e->nodes[i],
			    kp_node_bare(nodes->v[j], name));
	return found;
}

/* Functions of the first tier are entries if the file names none. */
static int
entries_take(struct limits *l, const struct opt_list *targets)
{
	const struct kp_conf *c = l->conf;

	for (size_t i = 0; i < c->nentries; i++)
		if (is_for(&c->entries[i], targets))
			l->entries[l->nentries++] = c->entries[i].fn;
	for (size_t i = 0; c->nentries == 0 && i < c->tiers[0].nfns; i++)
		l->entries[l->nentries++] = c->tiers[0].fns[i];
	if (l->nentries > 0)
		return OPTS_GO_ON;
	say("'%s' has no entry for '%s'", l->a->tiers, targets->v[0]);
	return EXIT_FAILED;
}

/* Calls of entries and tiers may reveal an identity, as for kprofd. */
static void
marks_take(struct limits *l)
{
	const struct kp_conf *c = l->conf;

	for (size_t i = 0; i < c->nentries; i++)
		l->marks[l->nmarks++] = c->entries[i].fn;
	for (size_t i = 0; i < c->ntiers; i++)
		for (size_t j = 0; j < c->tiers[i].nfns; j++)
			l->marks[l->nmarks++] = c->tiers[i].fns[j];
}

static int
tier_take(struct limits *l)
{
	struct near x;

	for (size_t i = 0; i < l->conf->ntiers; i++)
		if (strcmp(l->conf->tiers[i].name, l->a->tier) == 0)
			l->tier = &l->conf->tiers[i];
	if (l->tier != NULL)
		return OPTS_GO_ON;
	near_begin(&x, l->a->tier);
	for (size_t i = 0; i < l->conf->ntiers; i++)
		near_add(&x, l->conf->tiers[i].name);
	return unknown(&x, "tier", l->a->tiers);
}

/* An identity as reports show it; valid until the next one is added. */
static const char *
identity_name(struct limits *l, struct kp_span term)
{
	bool overflow;

	return l->idents.text[idents_intern(&l->idents, term, &overflow)];
}

static void
on_identity(void *ctx, const uint8_t *term, size_t n)
{
	struct limits *l = ctx;

	identity_name(l, (struct kp_span){ term, (uint32_t)n });
}

/* If no clause has a variable, all identities are known before. */
static int
identity_take(struct limits *l)
{
	bool all, found = false;
	struct near x;

	if (!kp_conf_has_identity(l->conf)) {
		say("'%s' has no identity fun: no request is of type '%s'",
		    l->a->tiers, l->a->identity);
		return EXIT_FAILED;
	}
	if (!idents_init(&l->idents, l->conf, IDENTITIES)) {
		say("out of memory");
		return EXIT_FAILED;
	}
	l->named = true;
	all = kp_spec_identities(l->conf, on_identity, l);
	near_begin(&x, l->a->identity);
	for (uint32_t i = KP_IDENT_OTHER + 1; i < l->idents.len; i++) {
		found |= strcmp(l->idents.text[i], l->a->identity) == 0;
		near_add(&x, l->idents.text[i]);
	}
	if (all && !found)
		return unknown(&x, "identity", l->a->tiers);
	kp_buf_free(&x.all);
	return OPTS_GO_ON;
}

static int
conf_take(struct limits *l, const struct opt_list *targets)
{
	int st = conf_read(l);

	if (st != OPTS_GO_ON)
		return st;
	l->entries = calloc(KP_TIER_FNS_MAX + KP_ENTRY_MAX,
	    sizeof(*l->entries));
	l->marks = calloc(KP_TIER_FNS_MAX + KP_ENTRY_MAX, sizeof(*l->marks));
	if (l->entries == NULL || l->marks == NULL) {
		say("out of memory");
		return EXIT_FAILED;
	}
	if (l->a->entry == NULL && !l->a->attached)
		st = entries_take(l, targets);
	if (st == OPTS_GO_ON && l->a->tier != NULL)
		st = tier_take(l);
	if (st == OPTS_GO_ON && l->a->identity != NULL)
		st = identity_take(l);
	if (st == OPTS_GO_ON && l->named)
		marks_take(l);
	return st;
}

/* ---- the limit as text ---- */

static char *
pat_name(const struct kp_mfa_pat *p)
{
	struct kp_buf text;
	char *name;

	kp_buf_init(&text, 4 * KP_ATOM_TEXT_MAX);
	fn_pat_put(&text, p);
	name = strdup(kp_buf_cstr(&text));
	kp_buf_free(&text);
	return name;
}

static int
shown_make(struct limits *l)
{
	const struct kp_mfa_pat *v = l->entry.mod != NULL ? &l->entry :
	    l->entries;
	size_t n = l->entry.mod != NULL ? 1 : l->nentries;

	l->shown = (struct counts_limit){ .attached = l->a->attached,
		.identity = l->a->identity, .tier = l->a->tier };
	l->names = calloc(n + 1, sizeof(*l->names));
	for (size_t i = 0; l->names != NULL && i < n; i++) {
		l->names[i] = pat_name(&v[i]);
		if (l->names[i] == NULL)
			break;
		l->shown.nentries++;
	}
	l->shown.entries = l->names;
	if (l->shown.nentries == n && l->names != NULL)
		return OPTS_GO_ON;
	say("out of memory");
	return EXIT_FAILED;
}

/* ---- begin and end ---- */

static int
check(const struct cmd *cmd, const struct limits_args *a)
{
	if (a->attached && a->entry != NULL)
		return opts_wrong(cmd, "-attached and -entry: choose one");
	if (a->attached && a->requests > 0)
		return opts_wrong(cmd, "-attached goes without -requests: "
		    "-for TIME ends it, or Ctrl-C");
	if (a->identity != NULL && a->tiers == NULL)
		return opts_wrong(cmd, "-identity NAME goes with -tiers FILE");
	if (a->tier != NULL && a->tiers == NULL)
		return opts_wrong(cmd, "-tier NAME goes with -tiers FILE");
	return OPTS_GO_ON;
}

int
limits_open(const struct cmd *cmd, const struct limits_args *a,
    const struct opt_list *targets, struct limits **out)
{
	bool by_request = a->entry != NULL || a->tiers != NULL || a->attached;
	struct limits *l;
	int st = check(cmd, a);

	*out = NULL;
	if (st != OPTS_GO_ON)
		return st;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return EXIT_FAILED;
	l->a = a;
	l->requests = a->requests;
	if (a->tiers != NULL && a->entry == NULL && l->requests == 0)
		l->requests = !a->attached;
	else if (a->tiers == NULL || a->entry != NULL)
		st = functions_entry(cmd, a->entry, &l->entry, &l->requests);
	if (st == OPTS_GO_ON && a->tiers != NULL)
		st = conf_take(l, targets);
	if (st == OPTS_GO_ON && by_request)
		st = shown_make(l);
	if (st == OPTS_GO_ON && by_request)
		*out = l;
	else
		limits_free(l);
	return st;
}

void
limits_free(struct limits *l)
{
	if (l == NULL)
		return;
	for (size_t i = 0; i < l->shown.nentries; i++)
		free((char *)(uintptr_t)l->names[i]);
	free(l->names);
	free(l->events);
	free(l->wanted.v);
	free(l->inside.v);
	if (l->named)
		idents_free(&l->idents);
	free(l->entries);
	free(l->marks);
	kp_mfa_pat_free(&l->entry);
	kp_conf_free(l->conf);
	free(l);
}

const struct counts_limit *
limits_shown(const struct limits *l)
{
	return &l->shown;
}

/* ---- while tracing ---- */

static bool
on_is_wanted(void *ctx, struct kp_span term)
{
	struct limits *l = ctx;

	return strcmp(identity_name(l, term), l->a->identity) == 0;
}

static enum kp_err
on_wanted(void *ctx, uint32_t request)
{
	struct limits *l = ctx;

	return l->on_wanted != NULL ? l->on_wanted(l->ctx, request) :
	    bits_set(&l->wanted, request);
}

static enum kp_err
on_inside(void *ctx, uint32_t fn)
{
	struct limits *l = ctx;

	return bits_set(&l->inside, fn);
}

void
limits_trace(struct limits *l, struct tracer_opts *o,
    enum kp_err (*wanted)(void *ctx, uint32_t request), void *ctx)
{
	struct tracer_limit *t = &o->limit;

	l->on_wanted = wanted;
	l->ctx = ctx;
	o->entry = l->entry.mod != NULL ? &l->entry : l->entries;
	o->nentries = l->entry.mod != NULL ? 1 : l->nentries;
	o->requests = l->requests;
	l->max_events = (size_t)o->max_events;
	t->attached = l->a->attached;
	t->ctx = l;
	if (l->tier != NULL) {
		t->inside = l->tier->fns;
		t->ninside = l->tier->nfns;
		t->on_inside = on_inside;
	}
	if (l->named) {
		t->conf = l->conf;
		t->marks = l->marks;
		t->nmarks = l->nmarks;
		t->is_wanted = on_is_wanted;
		t->on_wanted = on_wanted;
	}
}

static bool
is_inside(void *ctx, uint32_t fn)
{
	const struct limits *l = ctx;

	return bits_has(&l->inside, fn);
}

/* Adds an event to the sum, or keeps it for limits_end(). */
static enum kp_err
on_event(void *ctx, const struct kp_call_event *ev)
{
	struct limits *l = ctx;
	enum kp_err e;

	if (!l->named)
		return kp_calls_sum_add(l->sum, ev);
	/* The node sends max_events at most: no KP_ELIMIT. */
	e = vec_room(&l->events, &l->room, l->nevents, l->max_events);
	if (e != KP_OK)
		return e;
	l->events[l->nevents++] = *ev;
	return KP_OK;
}

/* Adds what processes did while they worked for requests of the identity. */
static enum kp_err
limits_end(struct limits *l)
{
	struct bits at = { 0 };		/* processes that do */
	struct kp_call_event ev;
	enum kp_err e = KP_OK;
	bool was, is;

	for (size_t i = 0; i < l->nevents && e == KP_OK; i++) {
		ev = l->events[i];
		was = is = bits_has(&at, ev.proc);
		if (ev.kind == KP_CALL_REQUEST) {
			is = bits_has(&l->wanted, ev.other);
			ev.other = is ? ev.other : 0;
		}
		if (is && !was)
			e = bits_set(&at, ev.proc);
		else if (was && !is)
			at.v[ev.proc / 8] &= (uint8_t)~(1u << ev.proc % 8);
		if (e == KP_OK && (was || is))
			e = kp_calls_sum_add(l->sum, &ev);
	}
	free(at.v);
	return e;
}

void
limits_remark(const struct limits *l, uint32_t begun, struct kp_buf *b)
{
	struct near x;

	if (!l->named || begun > 0)
		return;
	near_begin(&x, l->a->identity);
	for (uint32_t i = KP_IDENT_OTHER + 1; i < l->idents.len; i++)
		near_add(&x, l->idents.text[i]);
	kp_buf_str(b, "no request was of type '");
	text_put(b, l->a->identity);
	kp_buf_u8(b, '\'');
	near_put(&x, "there were", b);
	kp_buf_u8(b, '\n');
}

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

/* ---- the trace ---- */

/* Says what is awaited, where that may take long. */
static void
on_tracing(void *ctx)
{
	const struct limits *l = ctx;
	const struct tracer_opts *o = l->o;
	const struct counts_limit *of = &l->shown;

	if (l->quiet)
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

/* Puts the remarks about the figures into one line, with "; " for their ends. */
static void
put_remarks(const struct limits *l, const struct tracer_end *end,
    char *ended, size_t n)
{
	struct kp_calls_info info = { .end = end->end, .lost = end->lost,
		.requests = (uint32_t)l->o->requests, .begun = end->begun,
		.ended = end->ended };
	struct trace_view v = { .sum = l->sum, .info = &info,
		.queue_most = true };	/* no option limits the queue */
	struct kp_buf b, line;
	char count[TEXT_MAX];
	const char *at;

	kp_buf_init(&b, 16384);
	kp_buf_init(&line, 16384);
	limits_remark(l, end->begun, &b);
	trace_remarks(&b, &v);
	if (end->unsure > 0)
		kp_buf_printf(&b, "%s may lack calls: "
		    FUNCTIONS_UNSURE_TEXT "\n", text_counted(count,
		    end->unsure, "request"));
	if (end->text[0] != '\0')
		kp_buf_printf(&b, "%s\n", end->text);
	for (at = kp_buf_cstr(&b); *at != '\0'; at++)
		if (*at != '\n')
			kp_buf_u8(&line, (uint8_t)*at);
		else if (at[1] != '\0')
			kp_buf_str(&line, "; ");
	snprintf(ended, n, "%s", kp_buf_cstr(&line));
	kp_buf_free(&line);
	kp_buf_free(&b);
}

static int
take_events(struct tracers *ts, struct limits *l, struct kp_counts *p)
{
	const struct tracers_sink sink = { .event = on_event,
		.tracing = on_tracing, .ctx = l };
	const char *target = l->o->g.talk.target;
	char why[INJECTED_TEXT_MAX];
	enum kp_err e = tracers_go(ts, why, sizeof(why));

	if (e != KP_OK)
		return functions_failed(target, e, why, "counted");
	e = functions_take(ts, l->o->g.span > 0 ?
	    kp_mono_now() + l->o->g.span : INT64_MAX, &sink);
	if (!tracers_leave(ts))
		functions_say_late(target);
	if (e == KP_OK)
		e = limits_end(l);
	if (e == KP_OK)
		e = kp_calls_sum_end(l->sum);
	if (e == KP_OK)
		e = counts_of(p, l->sum);
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
	const struct kp_calls_opts so = { .cpu = true, .ctx = l,
		.inside = l->tier != NULL ? is_inside : NULL };
	char why[INJECTED_TEXT_MAX + 512] = "out of memory";
	struct tracers *ts = NULL;
	enum kp_err e = KP_ENOMEM;
	int st;

	limits_trace(l, o, NULL, NULL);
	o->g.span = limit > 0 || o->requests == 0 ||
	    o->g.apply[0] != '\0' ? limit : REQUESTS_LIMIT;
	l->o = o;
	l->quiet = quiet || limit > 0;
	l->sum = kp_calls_sum_new(&so);
	if (l->sum != NULL)
		e = tracers_start(&ts, o, &o->g.talk.target, 1, p->names, why,
		    sizeof(why));
	if (e == KP_OK) {
		functions_say_doubt(o->g.talk.target, tracers_hello(ts, 0));
		st = take_events(ts, l, p);
	} else
		st = functions_failed(o->g.talk.target, e, why, "counted");
	if (st == EXIT_DONE) {
		*h = *tracers_hello(ts, 0);
		put_remarks(l, tracers_ended(ts, 0), ended, n);
	}
	tracers_stop(ts);
	kp_calls_sum_free(l->sum);
	l->sum = NULL;
	return st;
}
