/*
 * suggest.c - kprof suggest: proposes a tiers.conf for a node.
 *
 * It samples stacks, counts calls of the functions near them, and takes the functions
 * that may begin requests; traces requests of the best one, and groups what they call
 * into tiers; and has kprofd check the file.  If that says no, the next function is
 * tried.  Requests that are too short for samples are found by a trace of all
 * processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kprofd/cost.h"
#include "kprofd/dur.h"
#include "dist/epmd.h"
#include "kprofd/fn_name.h"
#include "profile/command/suggest_check.h"
#include "profile/command/suggest_node.h"
#include "suggest/identity.h"
#include "suggest/known.h"
#include "suggest/write.h"
#include "text/file_why.h"
#include "text/text.h"

#define SPAN (5 * KP_NS_PER_S)
#define SHORT_SPAN (2 * KP_NS_PER_S)	/* at most, of steps after sampling */
/* Samples of an entry, and tiers below it, with which it is good. */
#define SAMPLES_LEAST 20
#define TIERS_LEAST 2
#define SPAN_MAX (600 * KP_NS_PER_S)
#define UPSTREAM 0.2		/* of the best entry's score: worth another trace */
#define TRIES 3			/* entries that are traced and checked */
#define APPS_NAMED 12u
#define FILE_NAME_MAX 4096

struct args {
	const char *target, *name, *cookie_file, *file, *duration, *library;
	bool values, quiet;
	kp_dur_ns span;
};

/* What has been learnt, and the text that comes of it. */
struct run {
	const struct args *a;
	struct suggest_node node;
	/* Of all processes. */
	struct kp_call_names *names;	/* calls' */
	struct kp_call_names *own_names;	/* of a trace, if it is one */
	struct suggest_calls *calls;
	struct suggest_fn *fns;
	struct suggest_entry entries[SUGGEST_ENTRIES_MAX];
	size_t nentries, chosen;
	/* Of requests of the chosen one. */
	struct kp_call_names *in_names;
	struct suggest_calls *in_calls;
	struct suggest_fn *in_fns;
	struct suggest_tiers tiers;
	struct suggest_check check;
	struct kp_buf about, clause, why, text, verdict;
	kp_mono_ns begun;
	bool traced;		/* all processes were, since samples show none */
	char not_good[4096];	/* why the last one was not */
};

static void __attribute__((format(printf, 2, 3)))
progress(const struct run *r, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (r->a->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("%s", text);
}

static const char *
entry_name(const struct run *r, size_t i, char *text)
{
	const struct kp_call_fn *fn = &r->names->fns[r->entries[i].fn];

	return fn_name(text, FN_NAME_MAX, fn->mod, fn->fun, fn->arity);
}

static int
failed(const struct run *r, enum kp_err e)
{
	if (e == KP_END)
		say("'%s': interrupted; what was set there is taken back",
		    r->a->target);
	else
		say("%s", r->node.why);
	return EXIT_FAILED;
}

/* ---- what runs there ---- */

static void
put_known(struct run *r, struct kp_buf *b)
{
	const struct suggest_known *k;

	for (k = suggest_known; k < suggest_known + suggest_nknown; k++) {
		if (facts_find(r->node.facts, k->module) == NULL)
			continue;
		kp_buf_printf(b, "%s %s", k->name, k->does);
		if (k->example != NULL)
			kp_buf_printf(b, ": priv/examples/%s is written for "
			    "that", k->example);
		kp_buf_str(b, ".\n");
	}
}

static void
put_about(struct run *r)
{
	const char *apps[APPS_NAMED + 1];
	size_t n = facts_apps(r->node.facts, apps, APPS_NAMED + 1);
	struct kp_buf *b = &r->about;
	char x[TEXT_MAX], y[TEXT_MAX], z[TEXT_MAX];

	if (n > 0) {
		kp_buf_str(b, "Applications there: ");
		for (size_t i = 0; i < n && i < APPS_NAMED; i++) {
			kp_buf_str(b, i > 0 ? ", " : "");
			text_put(b, apps[i]);
		}
		kp_buf_str(b, n > APPS_NAMED ? " and others.\n" : ".\n");
	}
	put_known(r, b);
	kp_buf_printf(b, "%s for %s, which took %s of processor time",
	    text_counted(x, r->node.stacks.samples, "stack sample"),
	    text_span(y, r->node.span), text_dur(z, r->node.busy));
	kp_buf_printf(b, "; %s counted for %s", text_counted(x,
	    r->node.functions, "function"), text_span(y, r->node.short_span));
	kp_buf_printf(b, "; %s traced.\n", text_counted(x, r->node.events,
	    "event"));
	kp_buf_str(b, r->traced ? "Samples showed no requests: these were "
	    "found in a trace of all processes.\n" : "Samples showed which "
	    "functions begin requests; only requests were traced.\n");
	if (r->node.nhot > 0)
		kp_buf_printf(b, "Not traced, since they are called more than "
		    "20 000 times a second: %s.\n", text_counted(x,
		    r->node.nhot, "function"));
	if (r->node.modules_over > 0)
		kp_buf_printf(b, "Not looked at, since there are too many: "
		    "%s.\n", text_counted(x, r->node.modules_over, "module"));
}

/* ---- looking ---- */

/*
 * A framework's request, where the best entry leads to it each time: its type is
 * known.
 */
static void
prefer_known(struct run *r)
{
	const struct suggest_calls *c = r->calls;
	uint32_t *top = calloc(c->nspots + 1, sizeof(*top));
	uint64_t most = r->entries[0].calls;
	const struct kp_call_fn *fn;

	for (uint32_t i = 1; top != NULL && i < c->nspots; i++) {
		top[i] = c->spots[i].parent == 0 ? i : top[c->spots[i].parent];
		fn = &r->names->fns[c->spots[i].fn];
		if (c->spots[top[i]].fn != r->entries[0].fn ||
		    c->spots[i].calls * 2 < most || suggest_known_entry(fn->mod,
		    fn->fun, fn->arity) == NULL)
			continue;
		if (r->entries[0].fn == c->spots[i].fn)
			break;
		memmove(&r->entries[1], &r->entries[0],
		    (SUGGEST_ENTRIES_MAX - 1) * sizeof(r->entries[0]));
		r->nentries += r->nentries < SUGGEST_ENTRIES_MAX;
		r->entries[0].fn = c->spots[i].fn;
		r->entries[0].calls = c->spots[i].calls;
		break;
	}
	free(top);
}

static int
nothing(const struct run *r, const char *what)
{
	char t[TEXT_MAX];

	say("'%s': %s in %s: is it idle?  Put load on it and try again, or "
	    "look for longer: -for 60s", r->a->target, what,
	    text_span(t, r->node.span));
	return EXIT_FAILED;
}

/* Modules of no application: those of somebody who has just begun. */
static bool
has_modules(const struct run *r)
{
	size_t n;
	const struct facts_module *m = facts_modules(r->node.facts, &n);

	for (size_t i = 0; i < n; i++)
		if (!m[i].platform)
			return true;
	return false;
}

static int
count(struct run *r)
{
	char x[TEXT_MAX], y[TEXT_MAX];
	enum kp_err e;

	progress(r, "'%s': counting the calls of %s for %s", r->a->target,
	    text_counted(x, r->node.nmodules, "module"),
	    text_span(y, r->node.short_span));
	e = suggest_node_count(&r->node);
	if (e != KP_OK)
		return failed(r, e);
	return r->node.ncalled > 0 ? OPTS_GO_ON :
	    nothing(r, "no function of its applications was called");
}

static int
from_samples(struct run *r)
{
	enum kp_err e = suggest_node_tree(&r->node, &r->calls, &r->fns);

	if (e != KP_OK)
		return failed(r, e);
	r->names = r->node.stack_names;
	r->nentries = suggest_entries(r->calls, r->fns, r->entries);
	if (r->nentries > 0)
		prefer_known(r);
	return OPTS_GO_ON;
}

/* The last resort. */
static int
from_trace(struct run *r)
{
	enum kp_err e;
	int st;

	progress(r, "'%s': requests are too short, or too few, to be seen in "
	    "%llu samples: tracing all processes, %u events at most",
	    r->a->target, (unsigned long long)r->node.stacks.samples,
	    SUGGEST_EVENTS_MAX);
	e = suggest_node_widen(&r->node);
	if (e != KP_OK)
		return failed(r, e);
	st = count(r);
	if (st != OPTS_GO_ON)
		return st;
	r->traced = true;
	r->nentries = 0;
	suggest_calls_free(r->calls);
	free(r->fns);
	r->calls = NULL;
	r->fns = NULL;
	e = suggest_node_trace(&r->node, NULL, NULL, &r->own_names, &r->calls,
	    &r->fns);
	if (e != KP_OK)
		return failed(r, e);
	r->names = r->own_names;
	r->nentries = suggest_entries(r->calls, r->fns, r->entries);
	if (r->nentries > 0)
		prefer_known(r);
	return OPTS_GO_ON;
}

static int
look(struct run *r)
{
	char y[TEXT_MAX];
	const char *app;
	enum kp_err e;
	int st;

	e = suggest_node_open(&r->node);
	if (e != KP_OK)
		return failed(r, e);
	if (facts_apps(r->node.facts, &app, 1) == 0 && !has_modules(r)) {
		say("'%s' runs no application but those of OTP",
		    r->a->target);
		return EXIT_FAILED;
	}
	progress(r, "'%s': sampling stacks for %s", r->a->target,
	    text_span(y, r->node.span));
	e = suggest_node_sample(&r->node);
	if (e != KP_OK)
		return failed(r, e);
	if (r->node.nmodules == 0)
		return nothing(r, "none of its applications was seen");
	st = count(r);
	return st == OPTS_GO_ON ? from_samples(r) : st;
}

/* ---- one entry ---- */

static void
forget(struct run *r)
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
trace_requests(struct run *r)
{
	const struct kp_call_fn *fn = &r->names->fns[r->entries[r->chosen].fn];
	const struct kp_mfa_pat entry = { .mod = fn->mod, .fun = fn->fun,
		.arity = (int)fn->arity };
	double rate = suggest_node_rate(&r->node, fn);
	const struct suggest_calls *c;
	char name[FN_NAME_MAX];
	uint32_t in = 0;
	enum kp_err e;

	progress(r, "'%s': tracing %u requests of %s at most", r->a->target,
	    SUGGEST_REQUESTS, entry_name(r, r->chosen, name));
	forget(r);
	e = suggest_node_trace(&r->node, &entry, r->calls, &r->in_names,
	    &r->in_calls, &r->in_fns);
	if (e != KP_OK)
		return failed(r, e);
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
	e = suggest_tiers(c, r->in_fns, in, rate > 1 ? SUGGEST_HOT / rate :
	    SUGGEST_HOT, &r->tiers);
	if (e == KP_OK)
		return OPTS_GO_ON;
	snprintf(r->node.why, sizeof(r->node.why), "out of memory");
	return failed(r, e);
}

static double
rate_of(const void *ctx, const struct kp_call_fn *fn)
{
	return suggest_node_rate(ctx, fn);
}

static void
put_text(struct run *r, bool draft)
{
	char date[32];
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

	strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &tm));
	f.paths = strstr(f.clause, "{M, P}") != NULL;
	kp_buf_reset(&r->text);
	if (draft)
		suggest_write_draft(&f, &r->text);
	else
		suggest_write(&f, &r->text);
}

static enum kp_err
run_check(struct run *r, kp_dur_ns span, bool explain)
{
	r->check.span = span;
	r->check.explain = explain;
	r->check.values = r->a->values;
	if (r->text.err != KP_OK) {
		snprintf(r->node.why, sizeof(r->node.why), "the proposal is "
		    "too large");
		return r->text.err;
	}
	return suggest_check_run(&r->check, &r->text, r->node.why,
	    sizeof(r->node.why));
}

/* Finds the clause of the identity fun.  As trace_requests(). */
static int
find_identity(struct run *r)
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
	progress(r, "'%s': checking the draft", r->a->target);
	e = run_check(r, r->node.short_span / 2, true);
	if (e != KP_OK)
		return failed(r, e);
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
remove_warned(struct run *r)
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
check_once(struct run *r)
{
	enum kp_err e;

	kp_buf_reset(&r->verdict);
	put_text(r, false);
	progress(r, "'%s': checking the proposal", r->a->target);
	e = run_check(r, r->node.short_span, false);
	if (e == KP_OK)
		suggest_check_messages(&r->check, &r->verdict);
	return e;
}

/* OPTS_GO_ON: the file passes the check. */
static int
check(struct run *r)
{
	char *price;
	enum kp_err e = check_once(r);

	if (e == KP_OK && remove_warned(r))
		e = check_once(r);
	if (e != KP_OK)
		return failed(r, e);
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

/* Do the samples show this entry?  Requests may be too short for that, or too few. */
static bool
is_sampled(const struct run *r, const struct suggest_entry *e)
{
	const struct suggest_calls *c = r->calls;
	kp_dur_ns all = 0;

	for (uint32_t i = 1; i < c->nspots; i++)
		if (c->spots[i].parent == 0)
			all += c->spots[i].total;
	return all > 0 && !e->callback && !e->cut && e->calls > 0 &&
	    (!e->waits || e->modules > 0) && (double)c->events *
	    (double)e->total / (double)all >= SAMPLES_LEAST;
}

/* How often the entry i is called for requests of the chosen one, elsewhere. */
static uint64_t
calls_for(const struct run *r, size_t i)
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
look_upstream(struct run *r)
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

/* EXIT_DONE: none of the entries is good. */
static int
try_entries(struct run *r)
{
	char name[FN_NAME_MAX];
	size_t tries = 0;
	int st;

	for (r->chosen = 0; r->chosen < r->nentries && tries < TRIES;
	     r->chosen++) {
		if (!r->traced && !is_sampled(r, &r->entries[r->chosen]))
			continue;
		tries++;
		st = trace_requests(r);
		if (st == OPTS_GO_ON && !r->traced &&
		    r->tiers.n < TIERS_LEAST) {
			snprintf(r->not_good, sizeof(r->not_good), "it calls "
			    "too little");
			st = EXIT_DONE;
		}
		if (st == OPTS_GO_ON && r->traced)
			st = look_upstream(r);
		kp_buf_reset(&r->about);
		put_about(r);
		if (st == OPTS_GO_ON)
			st = find_identity(r);
		if (st == OPTS_GO_ON)
			st = check(r);
		if (st != EXIT_DONE)
			return st;
		progress(r, "'%s': not %s: %s", r->a->target,
		    entry_name(r, r->chosen, name), r->not_good);
	}
	return EXIT_DONE;
}

static int
propose(struct run *r)
{
	int st = try_entries(r);

	if (st == EXIT_DONE && !r->traced) {
		st = from_trace(r);
		if (st == OPTS_GO_ON)
			st = r->nentries == 0 ? nothing(r, "no function was "
			    "called that returned") : try_entries(r);
	}
	if (st != EXIT_DONE)
		return st;
	say("'%s': no function was found that begins requests: %s",
	    r->a->target, r->not_good);
	return EXIT_FAILED;
}

/* ---- the result ---- */

static int
cannot_write(const char *path)
{
	char why[FILE_WHY_MAX];

	say("cannot write '%s': %s", path, file_why(why, path, errno));
	return EXIT_FAILED;
}

/* Never over a file that is there. */
static int
write_new(const char *path, const struct kp_buf *text)
{
	bool good = false;
	FILE *to;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0 && errno == EEXIST) {
		say("'%s' is there already, and is left as it is", path);
		return EXIT_FAILED;
	}
	to = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (to != NULL) {
		good = fwrite(text->p, 1, text->len, to) == text->len;
		good = fclose(to) == 0 && good;
	}
	return good ? EXIT_DONE : cannot_write(path);
}

static int
finish(struct run *r)
{
	const struct suggest_tiers *t = &r->tiers;
	char name[FN_NAME_MAX], x[TEXT_MAX], y[TEXT_MAX], z[TEXT_MAX];
	kp_dur_ns named = 0;
	int st = EXIT_DONE;

	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i].entry)
			named += t->v[i].own - t->v[i].elsewhere;
	if (r->a->file != NULL)
		st = write_new(r->a->file, &r->text);
	else
		fwrite(r->text.p, 1, r->text.len, stdout);
	if (st != EXIT_DONE)
		return st;
	if (r->entries[r->chosen].callback)
		say("warning: %s is a server's callback, for want of a better "
		    "entry", entry_name(r, r->chosen, name));
	progress(r, "'%s': this took %s, and there %s of sampling and %s",
	    r->a->target, text_about(x, kp_mono_now() - r->begun),
	    text_dur(y, r->node.busy), text_counted(z, r->node.events,
	    "traced event"));
	progress(r, "'%s': requests are calls of %s; %s, in which %s of their "
	    "time passes%s%s", r->a->target, entry_name(r, r->chosen, name),
	    text_counted(x, t->n, "tier"), text_share(y, t->total > 0 ?
	    (double)named / (double)t->total : 0), r->a->file != NULL ? ": " :
	    "", r->a->file != NULL ? r->a->file : "");
	return EXIT_DONE;
}

static int
suggest(const struct args *a)
{
	struct run r = { .a = a, .begun = kp_mono_now(), .node = { .talk = { .target = a->target,
		.name = a->name, .cookie_file = a->cookie_file },
		.span = a->span, .short_span = a->span < SHORT_SPAN ?
		a->span : SHORT_SPAN } };
	int st = EXIT_FAILED;

	r.node.talk.wake = signals_catch();
	suggest_check_init(&r.check);
	r.check.talk = &r.node.talk;
	r.check.library = a->library;
	kp_buf_init(&r.about, SUGGEST_FILE_MAX);
	kp_buf_init(&r.clause, SUGGEST_CLAUSE_MAX);
	kp_buf_init(&r.why, SUGGEST_CLAUSE_MAX);
	kp_buf_init(&r.text, SUGGEST_FILE_MAX);
	kp_buf_init(&r.verdict, SUGGEST_FILE_MAX);
	if (r.node.talk.wake >= 0)
		st = look(&r);
	if (st == OPTS_GO_ON)
		st = propose(&r);
	if (st == OPTS_GO_ON)
		st = finish(&r);
	forget(&r);
	suggest_calls_free(r.calls);
	kp_call_names_free(r.own_names);
	free(r.fns);
	suggest_node_free(&r.node);
	suggest_check_free(&r.check);
	kp_buf_free(&r.about);
	kp_buf_free(&r.clause);
	kp_buf_free(&r.why);
	kp_buf_free(&r.text);
	kp_buf_free(&r.verdict);
	return st;
}

static int
check_args(const struct cmd *cmd, struct args *a)
{
	if (a->target == NULL)
		return opts_wrong(cmd, "-target NODE is missing");
	if (a->duration != NULL && (!kp_dur_parse(a->duration, &a->span) ||
	    a->span < KP_NS_PER_S / 2 || a->span > SPAN_MAX))
		return opts_wrong(cmd, "-for '%s': give a time from 500ms to "
		    "10m", a->duration);
	if (a->file != NULL && access(a->file, F_OK) == 0) {
		say("'%s' is there already, and is left as it is: give "
		    "another -o, or use it: kprofd -tiers %s -target %s",
		    a->file, a->file, a->target);
		return EXIT_FAILED;
	}
	return OPTS_GO_ON;
}

int
cmd_suggest(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .span = SPAN };
	const struct opt opts[] = {
		{ "target", "NODE", "the node to look at (needed)", opt_node,
		    &a.target, NULL },
		{ "for", "TIME", "sample stacks for this time (default 5s); "
		    "the other steps take 2s each, at most", opt_text, &a.duration, NULL },
		{ "o", "FILE", "write it there, unless there is such a file "
		    "(default: standard output)", opt_text, &a.file, NULL },
		{ "values", NULL, "show small values of a request's arguments, "
		    "not only their types", opt_flag, &a.values, NULL },
		{ "probe-library", "FILE", "where the node finds the native "
		    "probe's library (kprofd(8))", opt_text, &a.library, NULL },
		{ "quiet", NULL, "print no progress", opt_flag, &a.quiet,
		    NULL },
		{ "name", "NAME", "our node name", opt_text, &a.name, NULL },
		{ "cookie-file", "FILE", "where the cookie is", opt_text,
		    &a.cookie_file, NULL },
	};
	int st;

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st == OPTS_GO_ON)
		st = check_args(cmd, &a);
	return st == OPTS_GO_ON ? suggest(&a) : st;
}
