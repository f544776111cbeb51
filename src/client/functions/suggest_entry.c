/*
 * suggest_entry.c - makes a proposal with one entry: traces its requests, measures the
 * draft's functions alone, finds the type of a request, and has kprofd check the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kprofd/fn_name.h"
#include "client/functions/suggest_run.h"
#include "suggest/identity.h"
#include "suggest/known.h"
#include "suggest/write.h"
#include "text/text.h"

/* Samples of an entry, and tiers below it, with which it is good. */
#define SAMPLES_LEAST 20
#define TIERS_LEAST 2
#define CALLS_LEAST 3
#define NAMED_LEAST 0.1	/* of the requests' time is in tiers */
#define CUT_MODULES 4
#define UPSTREAM 0.2		/* of the best entry's score: worth another trace */
#define TRIES 3			/* entries that are traced and checked */
#define CHECKS 4		/* each without the functions that the last warned of */
#define REACH_TEXT_MAX 65536u	/* bytes: with more, none are shown */

void
suggest_forget(struct suggest_run *r)
{
	suggest_calls_free(r->in_calls);
	kp_call_names_free(r->in_names);
	free(r->in_fns);
	r->in_calls = NULL;
	r->in_names = NULL;
	r->in_fns = NULL;
}

/* OPTS_GO_ON: it has tiers; EXIT_DONE: it is not one; or failed. */
static int
trace_requests(struct suggest_run *r)
{
	const struct kp_call_fn *fn = &r->names->fns[r->entries[r->chosen].fn];
	const struct kp_mfa_pat entry = { .mod = fn->mod, .fun = fn->fun,
		.arity = (int)fn->arity };
	double rate = suggest_node_rate(&r->node, fn);
	const struct suggest_calls *c;
	char name[FN_NAME_MAX];
	uint32_t in = 0;
	enum kp_err e;

	suggest_progress(r, "'%s': tracing %u requests of %s at most", r->a->target,
	    SUGGEST_REQUESTS, suggest_entry_name(r, r->chosen, name));
	suggest_forget(r);
	e = suggest_node_trace(&r->node, &entry, rate, r->calls, &r->in_names,
	    &r->in_calls, &r->in_fns);
	if (e != KP_OK)
		return suggest_failed(r, e);
	c = r->in_calls;
	for (uint32_t i = 0; i < r->in_names->nfns; i++)
		if (r->in_names->fns[i].arity == fn->arity &&
		    strcmp(r->in_names->fns[i].mod, fn->mod) == 0 &&
		    strcmp(r->in_names->fns[i].fun, fn->fun) == 0)
			in = i;
	if (c->begun == 0 || in == 0 || c->ended * 2 < c->begun ||
	    c->nested * 10 > c->begun) {
		snprintf(r->not_good, sizeof(r->not_good), "%s %s", name,
		    c->begun == 0 || in == 0 ? "was not called again" :
		    c->nested * 10 > c->begun ? "calls itself" :
		    "was not seen to return");
		/* Nor is it a tier. */
		r->calls->loops[r->entries[r->chosen].fn] = true;
		return EXIT_DONE;
	}
	e = suggest_tiers(c, r->in_fns, in, rate > 1 ? SUGGEST_HOT_RATE / rate :
	    SUGGEST_HOT_RATE, &r->tiers);
	if (e == KP_OK)
		return OPTS_GO_ON;
	snprintf(r->node.why, sizeof(r->node.why), "out of memory");
	return suggest_failed(r, e);
}

/* Notes which functions are in tiers, and of which modules helpers are. */
static void
marks_put(struct suggest_run *r)
{
	const struct suggest_tiers *t = &r->tiers;

	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->v[i].nfns; k++)
			r->in_fns[t->v[i].fns[k]].chosen = true;
}

/* Helpers are not traced again: that they were left out stays said. */
static void
helpers_carry(const struct suggest_tiers *from, struct suggest_tiers *to)
{
	for (size_t i = 0; i < from->nleft; i++)
		if (from->left[i].why == SUGGEST_HELPER &&
		    to->nleft < SUGGEST_LEFT_MAX)
			to->left[to->nleft++] = from->left[i];
}

/*
 * While all functions are traced, most of a short call's time is tracing.  So the
 * ways into modules are traced again, alone, and their times decide.
 */
static int
measure(struct suggest_run *r)
{
	const struct kp_call_fn *fn = &r->names->fns[r->entries[r->chosen].fn];
	const struct kp_mfa_pat entry = { .mod = fn->mod, .fun = fn->fun,
		.arity = (int)fn->arity };
	double rate = suggest_node_rate(&r->node, fn);
	uint32_t in = r->tiers.v[0].fns[0];	/* the entry's is the first */
	struct kp_call_names *names;
	struct suggest_calls *c;
	struct suggest_fn *fns;
	struct suggest_tiers t;
	enum kp_err e;

	suggest_progress(r, "'%s': measuring %u requests", r->a->target,
	    SUGGEST_REQUESTS);
	marks_put(r);
	e = suggest_node_measure(&r->node, &entry, &r->tiers, r->in_names,
	    r->in_calls, r->in_fns, &names, &c, &fns);
	if (e != KP_OK)
		return suggest_failed(r, e);
	if (c->begun > 0)
		e = suggest_tiers(c, fns, in, rate > 1 ? SUGGEST_HOT_RATE / rate :
		    SUGGEST_HOT_RATE, &t);
	if (e != KP_OK || c->begun == 0 || t.n < TIERS_LEAST) {
		suggest_calls_free(c);	/* the first trace is as good */
		kp_call_names_free(names);
		free(fns);
		return OPTS_GO_ON;
	}
	helpers_carry(&r->tiers, &t);
	suggest_forget(r);
	r->in_names = names;
	r->in_calls = c;
	r->in_fns = fns;
	r->tiers = t;
	return OPTS_GO_ON;
}

static double
rate_of(const void *ctx, const struct kp_call_fn *fn)
{
	return suggest_node_rate(ctx, fn);
}

/* As a shell takes them. */
static void
put_reach(struct kp_buf *b, const struct reach *reach)
{
	static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "abcdefghijklmnopqrstuvwxyz"
				   "0123456789_-./:=@[],+%";
	struct reach_args *a = malloc(sizeof(*a));

	if (a == NULL)
		return;
	reach_args(a, reach);
	for (size_t i = 0; i < a->n; i++) {
		bool plain = a->v[i][strspn(a->v[i], safe)] == '\0';

		kp_buf_str(b, plain ? " " : " '");
		for (const char *p = a->v[i]; *p != '\0'; p++)
			if (*p == '\'')
				kp_buf_str(b, "'\\''");
			else
				kp_buf_u8(b, (uint8_t)*p);
		kp_buf_str(b, plain ? "" : "'");
	}
	free(a);
}

static void
put_text(struct suggest_run *r, bool draft)
{
	char date[32];
	struct kp_buf reach;
	time_t now = time(NULL);
	struct tm tm;
	struct suggest_file f = { .node = r->a->target, .date = date,
		.names = r->in_names, .fns = r->in_fns, .entries = r->entries,
		.entry_names = r->names, .nentries = r->nentries,
		.chosen = r->chosen, .tiers = &r->tiers, .rate = rate_of,
		.ctx = &r->node, .about = kp_buf_cstr(&r->about),
		.verdict = kp_buf_cstr(&r->verdict),
		.clause = kp_buf_cstr(&r->clause),
		.why = kp_buf_cstr(&r->why) };

	kp_buf_init(&reach, REACH_TEXT_MAX);
	put_reach(&reach, &r->a->reach);
	f.reach = kp_buf_cstr(&reach);
	strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &tm));
	f.paths = strstr(f.clause, "{M, P}") != NULL;
	kp_buf_reset(&r->text);
	if (draft)
		suggest_write_draft(&f, &r->text);
	else
		suggest_write(&f, &r->text);
	kp_buf_free(&reach);
}

/* "5 200 events/s, 0.26 % of a scheduler", as kprofd -check writes it: 5200. */
static double
events_of(const char *price)
{
	double n = 0;

	for (; *price == ' ' || (*price >= '0' && *price <= '9'); price++)
		if (*price != ' ')
			n = n * 10 + (*price - '0');
	return n;
}

static enum kp_err
run_check(struct suggest_run *r, kp_dur_ns span, bool explain)
{
	char *price;
	enum kp_err e;

	r->check.span = span;
	r->check.explain = explain;
	r->check.values = r->a->values;
	if (r->text.err != KP_OK) {
		snprintf(r->node.why, sizeof(r->node.why), "the proposal is "
		    "too large");
		return r->text.err;
	}
	e = suggest_check_run(&r->check, &r->text, r->node.why,
	    sizeof(r->node.why));
	price = suggest_check_line(&r->check, "about ");
	suggest_node_checked(&r->node, &r->tiers, r->in_names,
	    price != NULL ? events_of(price) : 0, span);
	free(price);
	return e;
}

/* Finds the clause of the identity fun.  As trace_requests(). */
static int
find_identity(struct suggest_run *r)
{
	const struct kp_call_fn *fn = &r->names->fns[r->entries[r->chosen].fn];
	const struct kp_mfa f = { fn->mod, fn->fun, fn->arity };
	const struct suggest_known *known = suggest_known_entry(fn->mod,
	    fn->fun, fn->arity);
	char *example;
	enum kp_err e;

	kp_buf_reset(&r->clause);
	kp_buf_reset(&r->why);
	kp_buf_str(&r->why, "The type of a request: ");
	put_text(r, true);
	suggest_progress(r, "'%s': checking the draft", r->a->target);
	e = run_check(r, r->node.short_span / 2, true);
	if (e != KP_OK)
		return suggest_failed(r, e);
	example = suggest_check_line(&r->check, "example: ");
	if (known != NULL && known->identity != NULL) {
		kp_buf_str(&r->clause, known->identity);
		kp_buf_printf(&r->why, "as in priv/examples/%s",
		    known->example);
	} else {
		suggest_identity(&f, example != NULL ? example : "",
		    &r->clause, &r->why);
	}
	if (example != NULL) {
		kp_buf_str(&r->why, ".\nOne was ");
		text_put(&r->why, example);
	}
	kp_buf_str(&r->why, ".\n");
	free(example);
	return OPTS_GO_ON;
}

/* "web:f/2" in "web:f/2 calls itself", and not in "web:f/21" */
static bool
is_named(const char *said, const char *name)
{
	size_t n = strlen(name);
	const char *at;

	for (at = strstr(said, name); at != NULL; at = strstr(at + 1, name))
		if ((at == said || strchr(" '\n", at[-1]) != NULL) &&
		    (at[n] < '0' || at[n] > '9'))
			return true;
	return false;
}

/* Removes functions that the check warns of, since they do not return. */
static bool
remove_warned(struct suggest_run *r)
{
	const char *said = kp_buf_cstr(&r->verdict);
	const struct kp_call_fn *fn;
	char name[FN_NAME_MAX];
	struct suggest_tier *t;
	bool any = false;

	for (t = r->tiers.v; t < r->tiers.v + r->tiers.n; t++)
		for (size_t i = 0; i < t->nfns && !t->entry; i++) {
			fn = &r->in_names->fns[t->fns[i]];
			fn_name(name, FN_NAME_MAX, fn->mod, fn->fun,
			    fn->arity);
			if (!is_named(said, name))
				continue;
			any = true;
			t->nfns--;
			memmove(&t->fns[i], &t->fns[i + 1],
			    (t->nfns - i) * sizeof(t->fns[0]));
			memmove(&t->calls[i], &t->calls[i + 1],
			    (t->nfns - i) * sizeof(t->calls[0]));
			i--;
		}
	for (size_t i = r->tiers.n; i-- > 0;) {
		if (r->tiers.v[i].nfns > 0)
			continue;
		r->tiers.n--;
		memmove(&r->tiers.v[i], &r->tiers.v[i + 1],
		    (r->tiers.n - i) * sizeof(r->tiers.v[0]));
	}
	return any;
}

/* As run_check(); r->verdict has what it said. */
static enum kp_err
check_once(struct suggest_run *r)
{
	enum kp_err e;

	kp_buf_reset(&r->verdict);
	put_text(r, false);
	suggest_progress(r, "'%s': checking the proposal", r->a->target);
	e = run_check(r, r->node.short_span, false);
	if (e == KP_OK)
		suggest_check_messages(&r->check, &r->verdict);
	return e;
}

/* OPTS_GO_ON: the file passes the check. */
static int
check(struct suggest_run *r)
{
	char *price;
	enum kp_err e = check_once(r);

	for (unsigned i = 1; i < CHECKS && e == KP_OK && remove_warned(r); i++)
		e = check_once(r);
	if (e != KP_OK)
		return suggest_failed(r, e);
	if (r->check.status != 0) {
		snprintf(r->not_good, sizeof(r->not_good), "kprofd -check says "
		    "%s", kp_buf_cstr(&r->verdict));
		return EXIT_DONE;
	}
	price = suggest_check_line(&r->check, "about ");
	if (price != NULL) {
		kp_buf_str(&r->verdict, "it costs about ");
		text_put(&r->verdict, price);
		kp_buf_u8(&r->verdict, '\n');
	}
	free(price);
	kp_buf_str(&r->verdict, "ok\n");
	put_text(r, false);
	return OPTS_GO_ON;
}

/*
 * Do the samples show this entry?  Requests may be too short for that, or too few.
 * Where what is around it was not seen it has to be the work of many modules.
 */
static bool
is_sampled(const struct suggest_entry *e)
{
	return e->known || (!e->callback && e->calls >= CALLS_LEAST &&
	    (!e->cut || e->modules >= CUT_MODULES) &&
	    (!e->waits || e->modules > 0) && e->samples >= SAMPLES_LEAST);
}

/* How often the entry i is called for requests of the chosen one, elsewhere. */
static uint64_t
calls_for(const struct suggest_run *r, size_t i)
{
	const struct kp_call_fn *fn = &r->names->fns[r->entries[i].fn], *at;
	const struct suggest_calls *c = r->in_calls;

	for (uint32_t k = 1; k < c->nspots; k++) {
		at = &r->in_names->fns[c->spots[k].fn];
		if (c->spots[k].parent == 0 && c->spots[k].total > 0 &&
		    at->arity == fn->arity && strcmp(at->fun, fn->fun) == 0 &&
		    strcmp(at->mod, fn->mod) == 0)
			return c->spots[k].calls;
	}
	return 0;
}

/*
 * The chosen entry may do what another one causes, in another process: then that one
 * is chosen.  As trace_requests().
 */
static int
look_upstream(struct suggest_run *r)
{
	size_t first = r->chosen, other = first + 1;
	int st;

	if (other >= r->nentries || r->entries[other].callback ||
	    r->entries[other].score < UPSTREAM * r->entries[first].score ||
	    calls_for(r, other) > 0)
		return OPTS_GO_ON;
	r->chosen = other;
	st = trace_requests(r);
	if (st == OPTS_GO_ON && calls_for(r, first) * 4 >= r->in_calls->begun &&
	    r->entries[other].modules * 2 >= r->entries[first].modules)
		return OPTS_GO_ON;
	if (st != OPTS_GO_ON && st != EXIT_DONE)
		return st;
	r->chosen = first;
	return trace_requests(r);
}

/* Do the tiers hold what requests take, in their processes and others? */
static bool
is_explained(const struct suggest_run *r)
{
	const struct suggest_tiers *t = &r->tiers;
	kp_dur_ns named = 0;

	for (size_t i = 0; i < t->n; i++)
		named += t->v[i].entry ? 0 : t->v[i].own;
	return (double)named >= NAMED_LEAST *
	    (double)(t->total + t->elsewhere);
}

int
suggest_entry_try(struct suggest_run *r)
{
	int st = trace_requests(r);

	if (st == OPTS_GO_ON && !r->traced && !r->asked &&
	    r->tiers.n < TIERS_LEAST) {
		snprintf(r->not_good, sizeof(r->not_good), "it calls too "
		    "little");
		return EXIT_DONE;
	}
	if (st == OPTS_GO_ON && r->traced && !r->asked)
		st = look_upstream(r);
	if (st == OPTS_GO_ON)
		st = measure(r);
	if (st == OPTS_GO_ON && !r->asked && !is_explained(r)) {
		snprintf(r->not_good, sizeof(r->not_good), "hardly any of its "
		    "time is in functions that it calls");
		return EXIT_DONE;
	}
	kp_buf_reset(&r->about);
	suggest_about(r);
	if (st == OPTS_GO_ON)
		st = find_identity(r);
	return st == OPTS_GO_ON ? check(r) : st;
}

int
suggest_entries_try(struct suggest_run *r)
{
	char name[FN_NAME_MAX];
	size_t tries = 0;
	int st;

	for (r->chosen = 0; r->chosen < r->nentries && tries < TRIES;
	     r->chosen++) {
		if (!r->traced && !is_sampled(&r->entries[r->chosen]))
			continue;
		if (r->traced && r->entries[r->chosen].calls < CALLS_LEAST)
			continue;
		tries++;
		st = suggest_entry_try(r);
		if (st != EXIT_DONE)
			return st;
		suggest_progress(r, "'%s': not %s: %s", r->a->target,
		    suggest_entry_name(r, r->chosen, name), r->not_good);
	}
	return EXIT_DONE;
}
