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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "output_file.h"
#include "kprofd/dur.h"
#include "conn/reach/opt_node.h"
#include "kprofd/fn_name.h"
#include "client/functions/suggest_run.h"
#include "suggest/identity.h"
#include "suggest/known.h"
#include "suggest/write.h"
#include "text/file_why.h"
#include "text/text.h"

#define SPAN (5 * KP_NS_PER_S)
#define SHORT_SPAN (2 * KP_NS_PER_S)	/* at most, of steps after sampling */
#define SPAN_MAX (600 * KP_NS_PER_S)
#define APPS_NAMED 12u
#define KNOWN_RATE 2.0	/* calls a second of a framework's request */
#define FILE_NAME_MAX 4096

void __attribute__((format(printf, 2, 3)))
suggest_progress(const struct suggest_run *r, const char *fmt, ...)
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

const char *
suggest_entry_name(const struct suggest_run *r, size_t i, char *text)
{
	const struct kp_call_fn *fn = &r->names->fns[r->entries[i].fn];

	return fn_name(text, FN_NAME_MAX, fn->mod, fn->fun, fn->arity);
}

int
suggest_failed(const struct suggest_run *r, enum kp_err e)
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
put_known(struct suggest_run *r, struct kp_buf *b)
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

/* Processes of OTP's modules may be of an application; then it is theirs. */
static bool
is_platform(const void *facts, const char *app, const char *mod)
{
	const struct facts_module *m = mod == NULL || app[0] != '\0' ? NULL :
	    facts_find(facts, mod);

	return facts_is_platform(app) || (m != NULL && m->platform);
}

void
suggest_about(struct suggest_run *r)
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
	suggest_pools_about(&r->node.pools, r->node.pooled, is_platform,
	    r->node.facts, b);
	kp_buf_printf(b, "%s for %s, which took %s of processor time",
	    text_counted(x, r->node.stacks.samples, "stack sample"),
	    text_span(y, r->node.span), text_dur(z, r->node.cost.sampling));
	kp_buf_printf(b, "; %s counted for %s", text_counted(x,
	    r->node.functions, "function"), text_span(y, r->node.short_span));
	kp_buf_printf(b, "; %s traced.\n", text_counted(x, r->node.events,
	    "event"));
	kp_buf_str(b, r->entries[r->chosen].known ? "What begins requests is "
	    "known of it; only requests were traced.\n" : r->traced ?
	    "Samples showed no requests: these were found in a trace of all "
	    "processes, for a second at most.\n" : "Samples showed which "
	    "functions begin requests; only requests were traced.\n");
	if (r->node.nhot > 0)
		kp_buf_printf(b, "Not traced, since they are called more than "
		    "%s times a second: %s.\n", text_count(y,
		    (uint64_t)r->node.hot), text_counted(x, r->node.nhot,
		    "function"));
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
prefer_known(struct suggest_run *r)
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
nothing(const struct suggest_run *r, const char *what)
{
	char t[TEXT_MAX];

	say("'%s': %s in %s: is it idle?  Put load on it and try again, or "
	    "look for longer: -for 60s", r->a->target, what,
	    text_span(t, r->node.span));
	return EXIT_FAILED;
}

/* Modules of no application: those of somebody who has just begun. */
static bool
has_modules(const struct suggest_run *r)
{
	size_t n;
	const struct facts_module *m = facts_modules(r->node.facts, &n);

	for (size_t i = 0; i < n; i++)
		if (!m[i].platform)
			return true;
	return false;
}

static int
count(struct suggest_run *r)
{
	char x[TEXT_MAX], y[TEXT_MAX];
	enum kp_err e;

	suggest_progress(r, "'%s': counting the calls of %s for %s", r->a->target,
	    text_counted(x, r->node.nmodules, "module"),
	    text_span(y, r->node.short_span));
	e = suggest_node_count(&r->node);
	if (e != KP_OK)
		return suggest_failed(r, e);
	return r->node.ncalled > 0 ? OPTS_GO_ON :
	    nothing(r, "no function of its applications was called");
}

static struct kp_span
span_of(const char *s)
{
	return (struct kp_span){ (const uint8_t *)s, (uint32_t)strlen(s) };
}

/*
 * A framework's request that is called often is the entry, whatever samples show:
 * a process that lives for one request is hardly ever sampled.  Its number must be
 * among the names before there is a tree.
 */
static enum kp_err
known_find(struct suggest_run *r, struct suggest_entry *best, double *rate)
{
	const struct suggest_known *k;
	struct kp_call_fn f;
	enum kp_err e = KP_OK;
	uint32_t fn;
	bool added;

	*rate = 0;
	for (k = suggest_known; k < suggest_known + suggest_nknown &&
	     e == KP_OK; k++) {
		if (k->mod == NULL)
			continue;
		f = (struct kp_call_fn){ .mod = (char *)(uintptr_t)k->mod,
			.fun = (char *)(uintptr_t)k->fun, .arity = k->arity };
		if (suggest_node_rate(&r->node, &f) <= *rate)
			continue;
		e = kp_call_fn_put(r->node.stack_names, span_of(k->mod),
		    span_of(k->fun), k->arity, &fn, &added);
		*rate = suggest_node_rate(&r->node, &f);
		*best = (struct suggest_entry){ .fn = fn, .known = true,
			.calls = (uint64_t)(*rate * 2) };
	}
	return e;
}

static void
entry_first(struct suggest_run *r, struct suggest_entry e)
{
	size_t at = 0;

	while (at < r->nentries && r->entries[at].fn != e.fn)
		at++;
	if (at < r->nentries)
		e.modules = r->entries[at].modules;
	if (at == SUGGEST_ENTRIES_MAX)
		at--;
	r->nentries += at == r->nentries;
	memmove(&r->entries[1], &r->entries[0], at * sizeof(r->entries[0]));
	r->entries[0] = e;
}

static int
from_samples(struct suggest_run *r)
{
	struct suggest_entry known = { .known = true };
	double rate;
	enum kp_err e = known_find(r, &known, &rate);

	if (e != KP_OK)
		suggest_node_no_memory(&r->node);
	else
		e = suggest_node_tree(&r->node, &r->calls, &r->fns);
	if (e != KP_OK)
		return suggest_failed(r, e);
	r->names = r->node.stack_names;
	r->nentries = suggest_entries(r->calls, r->fns, r->entries);
	if (r->nentries > 0)
		prefer_known(r);
	if (rate >= KNOWN_RATE)
		entry_first(r, known);
	return OPTS_GO_ON;
}

/* The last resort. */
static int
from_trace(struct suggest_run *r)
{
	char x[TEXT_MAX];
	enum kp_err e;

	suggest_progress(r, "'%s': requests are too short, or too few, to be seen in "
	    "%llu samples: tracing all processes for %s, %u events at most",
	    r->a->target, (unsigned long long)r->node.stacks.samples,
	    text_span(x, SUGGEST_ALL_SPAN), SUGGEST_ALL_EVENTS);
	r->traced = true;
	r->nentries = 0;
	suggest_calls_free(r->calls);
	free(r->fns);
	r->calls = NULL;
	r->fns = NULL;
	e = suggest_node_trace(&r->node, NULL, -1, NULL, &r->own_names, &r->calls,
	    &r->fns);
	if (e != KP_OK)
		return suggest_failed(r, e);
	r->names = r->own_names;
	r->nentries = suggest_entries(r->calls, r->fns, r->entries);
	if (r->nentries > 0)
		prefer_known(r);
	return OPTS_GO_ON;
}

static int
look(struct suggest_run *r)
{
	char y[TEXT_MAX];
	const char *app;
	enum kp_err e;
	int st;

	e = suggest_node_open(&r->node);
	if (e != KP_OK)
		return suggest_failed(r, e);
	if (facts_apps(r->node.facts, &app, 1) == 0 && !has_modules(r)) {
		say("'%s' runs no application but those of OTP",
		    r->a->target);
		return EXIT_FAILED;
	}
	suggest_progress(r, "'%s': sampling stacks for %s", r->a->target,
	    text_span(y, r->node.span));
	e = suggest_node_sample(&r->node);
	if (e != KP_OK)
		return suggest_failed(r, e);
	if (r->node.nmodules == 0)
		return nothing(r, "none of its applications was seen");
	st = count(r);
	return st == OPTS_GO_ON ? from_samples(r) : st;
}

static int
propose(struct suggest_run *r)
{
	int st = suggest_entries_try(r);

	if (st == EXIT_DONE && !r->traced) {
		st = from_trace(r);
		if (st == OPTS_GO_ON)
			st = r->nentries == 0 ? nothing(r, "no function was "
			    "called that returned") : suggest_entries_try(r);
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

/* Of this only the sampling is measured: the node works meanwhile. */
static void
say_cost(const struct suggest_run *r)
{
	kp_dur_ns took = kp_mono_now() - r->begun, cost;
	struct suggest_cost c = suggest_node_cost(&r->node);
	char s[TEXT_MAX], t[TEXT_MAX], u[TEXT_MAX], v[TEXT_MAX], x[TEXT_MAX],
	    y[TEXT_MAX], z[TEXT_MAX], w[TEXT_MAX];

	cost = suggest_cost_time(&c);
	suggest_progress(r, "'%s': this took %s, and there %s of processor "
	    "time, %s of a scheduler, by an upper estimate: %s of sampling "
	    "(measured), %s of counting calls, %s of tracing%s, %s of kprofd "
	    "-check, %s of questions", r->a->target, text_about(s, took),
	    text_dur(t, cost), text_share(u, took > 0 ? (double)cost /
	    (double)took : 0), text_dur(v, c.sampling), text_dur(x,
	    suggest_work_time(&c.counts)), text_dur(y,
	    suggest_work_time(&c.traces)), r->traced ? ", of all processes "
	    "for a moment" : "", text_dur(z, suggest_work_time(&c.checks)),
	    text_dur(w, suggest_work_time(&c.asked)));
}

void
suggest_summary(const struct suggest_run *r, const char *file)
{
	const struct suggest_tiers *t = &r->tiers;
	char name[FN_NAME_MAX], x[TEXT_MAX], y[TEXT_MAX];
	kp_dur_ns named = 0;

	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i].entry)
			named += t->v[i].own - t->v[i].elsewhere;
	suggest_entry_name(r, r->chosen, name);
	if (r->entries[r->chosen].callback)
		say("warning: %s is a server's callback, for want of a better "
		    "entry", name);
	suggest_progress(r, "'%s': requests are calls of %s; %s, in which %s "
	    "of their time passes%s%s", r->a->target, name, text_counted(x,
	    t->n, "tier"), text_share(y, t->total > 0 ?
	    (double)named / (double)t->total : 0), file[0] != '\0' ? ": " :
	    "", file);
}

static int
finish(struct suggest_run *r)
{
	int st = EXIT_DONE;

	if (r->a->file != NULL)
		st = write_new(r->a->file, &r->text);
	else
		fwrite(r->text.p, 1, r->text.len, stdout);
	if (st != EXIT_DONE)
		return st;
	say_cost(r);
	suggest_summary(r, r->a->file != NULL ? r->a->file : "");
	return EXIT_DONE;
}

static int
suggest(const struct suggest_args *a)
{
	struct suggest_run r = { .a = a, .begun = kp_mono_now(), .node = { .talk = { .target = a->target,
		.reach = &a->reach },
		.span = a->span, .short_span = a->span < SHORT_SPAN ?
		a->span : SHORT_SPAN } };
	int st = EXIT_FAILED;

	r.node.talk.wake = signals_catch();
	snprintf(r.not_good, sizeof(r.not_good), "none was called often "
	    "enough");
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
	if (st == OPTS_GO_ON && suggest_keys_wanted(&r))
		st = suggest_keys(&r);
	if (st == OPTS_GO_ON)
		st = finish(&r);
	suggest_forget(&r);
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
check_args(const struct cmd *cmd, struct suggest_args *a)
{
	char why[REACH_WHY_MAX];
	struct stat there;

	if (a->target == NULL)
		return opts_wrong(cmd, "-target NODE is missing");
	if (!reach_finish(&a->reach, why, sizeof(why)))
		return opts_wrong(cmd, "%s", why);
	if (a->duration != NULL && (!kp_dur_parse(a->duration, &a->span) ||
	    a->span < KP_NS_PER_S / 2 || a->span > SPAN_MAX))
		return opts_wrong(cmd, "-for '%s': give a time from 500ms to "
		    "10m", a->duration);
	/* A link to nowhere is there, too. */
	if (a->file != NULL && lstat(a->file, &there) == 0) {
		say("'%s' is there already, and is left as it is: give "
		    "another -o, or use it: kprofd -tiers %s -target %s",
		    a->file, a->file, a->target);
		return EXIT_FAILED;
	}
	return a->file == NULL || output_can_be(a->file, false) ? OPTS_GO_ON :
	    EXIT_FAILED;
}

int
cmd_suggest(const struct cmd *cmd, int argc, char **argv)
{
	struct suggest_args a = { .span = SPAN };
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
		OPT_GROUP("The connection to the node"),
		REACH_OPTIONS(a.reach),
	};
	int st;

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st == OPTS_GO_ON)
		st = check_args(cmd, &a);
	return st == OPTS_GO_ON ? suggest(&a) : st;
}
