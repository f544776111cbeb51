/*
 * suggest.c - kprof suggest: proposes a tiers.conf for a node.
 *
 * It samples stacks, counts calls of the functions near them, and takes the functions
 * that may begin requests; traces requests of the best one, and groups what they call
 * into tiers; and has kprofd check the file.  If the check fails, it tries the next
 * function.  A trace of all processes finds requests that are too short for samples.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/functions/output_file.h"
#include "client/functions/suggest.h"
#include "conn/reach.h"
#include "text/timefmt.h"
#include "kprofd/fn_name.h"
#include "text/file_why.h"
#include "text/text.h"

#define SPAN (5 * KP_NS_PER_S)
#define SHORT_SPAN (2 * KP_NS_PER_S)	/* at most, of steps after sampling */
#define SPAN_MAX (600 * KP_NS_PER_S)
#define SAID_MAX (1u << 20)	/* bytes that are read of what kprofd -check says */
#define FRAMEWORK_RATE 2.0	/* calls a second of a framework's request */
/* Samples of an entry with which it is good. */
#define SAMPLES_LEAST 20
#define CALLS_LEAST 3
#define CUT_MODULES 4
#define TRIES 3			/* entries that are traced and checked */
#define LOOPS 3			/* that samples show around requests */
#define TRACES 3		/* of all processes */
#define APPS_NAMED 12u
#define CTRL_C '\x03'
#define CTRL_D '\x04'

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
	const struct kp_call_fn *fn = &r->all.names->fns[r->entries[i].fn];

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

/* ---- looking ---- */

/*
 * A framework's request, where the best entry leads to it each time: its type is
 * known.
 */
static void
prefer_framework(struct suggest_run *r)
{
	const struct suggest_tree *c = r->all.tree;
	uint32_t *top = calloc(c->nframes + 1, sizeof(*top));
	uint64_t most = r->entries[0].calls;
	const struct kp_call_fn *fn;

	for (uint32_t i = 1; top != NULL && i < c->nframes; i++) {
		top[i] = c->frames[i].parent == 0 ? i : top[c->frames[i].parent];
		fn = &r->all.names->fns[c->frames[i].fn];
		if (c->frames[top[i]].fn != r->entries[0].fn ||
		    c->frames[i].calls * 2 < most ||
		    suggest_stock_of(&r->node, fn) == NULL)
			continue;
		if (r->entries[0].fn == c->frames[i].fn)
			break;
		memmove(&r->entries[1], &r->entries[0],
		    (SUGGEST_ENTRIES_MAX - 1) * sizeof(r->entries[0]));
		r->nentries += r->nentries < SUGGEST_ENTRIES_MAX;
		r->entries[0].fn = c->frames[i].fn;
		r->entries[0].calls = c->frames[i].calls;
		break;
	}
	free(top);
}

/* A file that fits needs no load. */
static void
known(const struct suggest_run *r)
{
	if (r->node.nstocks > 0)
		say("'%s' has %s: share/kprofd/examples/%s of the installation is for "
		    "that (priv/examples in the source)", r->a->target,
		    r->node.stocks[0].of->name, r->node.stocks[0].of->example);
}

static int
nothing(const struct suggest_run *r, const char *what)
{
	char t[TEXT_MAX];

	say("'%s': %s in %s: is it idle?  Put load on it and try again, or "
	    "look for longer: -for 60s", r->a->target, what,
	    text_span(t, r->node.span));
	known(r);
	return EXIT_FAILED;
}

/* Modules of no application: those of somebody who has just begun. */
static bool
has_modules(const struct facts *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (!f->v[i].platform)
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
	return r->node.cost.counts.counted > 0 ? OPTS_GO_ON :
	    nothing(r, "no function of its applications was called");
}

/*
 * Requests of a framework are the entry where they come often, whatever samples show:
 * a process that lives for one request is hardly ever sampled.  Which of them: the one
 * that is called most.  Its number must be among the names before there is a tree.
 */
static enum kp_err
framework_find(struct suggest_run *r, struct suggest_entry *best, double *rate)
{
	struct kp_call_fn f, most = { .mod = NULL };
	const struct kp_mfa_pat *p;
	const struct kp_conf *c;
	double each, highest = 0;
	bool added;

	*rate = 0;
	for (size_t i = 0; i < r->node.nstocks && *rate < FRAMEWORK_RATE; i++) {
		c = r->node.stocks[i].conf;
		*rate = highest = 0;
		for (size_t k = 0; k < c->nentries; k++) {
			p = &c->entries[k].fn;
			f = (struct kp_call_fn){ .mod = p->mod, .fun = p->fun,
				.arity = (uint32_t)p->arity };
			each = suggest_node_rate(&r->node, &f);
			*rate += each > 0 ? each : 0;
			if (each > highest) {
				highest = each;
				most = f;
			}
		}
	}
	if (*rate < FRAMEWORK_RATE)
		return KP_OK;
	best->calls = (uint64_t)(highest * 2);
	return kp_call_fn_put(r->node.stack_names, kp_span_of(most.mod),
	    kp_span_of(most.fun), most.arity, &best->fn, &added);
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

/* In the call tree; the best first. */
static void
entries_find(struct suggest_run *r)
{
	r->looped = false;
	r->guess = SUGGEST_NO_GUESS;
	r->nentries = suggest_entries(r->all.tree, r->all.fns, r->entries);
	if (r->nentries > 0)
		prefer_framework(r);
}

static int
from_samples(struct suggest_run *r)
{
	struct suggest_entry framework = { .framework = true };
	double rate;
	enum kp_err e = framework_find(r, &framework, &rate);

	if (e != KP_OK)
		suggest_node_no_memory(&r->node);
	else
		e = suggest_node_tree(&r->node, &r->all);
	if (e != KP_OK)
		return suggest_failed(r, e);
	entries_find(r);
	if (rate >= FRAMEWORK_RATE)
		entry_first(r, framework);
	return OPTS_GO_ON;
}

/* The entry was found to be a loop: what it is around may be one. */
static int
from_samples_again(struct suggest_run *r)
{
	enum kp_err e;

	suggest_progress(r, "'%s': looking inside that loop", r->a->target);
	e = suggest_node_tree(&r->node, &r->all);
	if (e != KP_OK)
		return suggest_failed(r, e);
	entries_find(r);
	return OPTS_GO_ON;
}

/*
 * What samples made us guess, if a trace of all processes makes us guess nothing: behind
 * its entries.  The arrays by function have room for one more.
 */
static enum kp_err
guess_keep(struct suggest_run *r, const struct kp_call_fn *f)
{
	size_t at = r->nentries < SUGGEST_ENTRIES_MAX ? r->nentries++ : r->nentries - 1;
	bool added;

	r->entries[at] = (struct suggest_entry){ .callback = false };
	r->guess = at;
	return kp_call_fn_put(r->all.names, kp_span_of(f->mod), kp_span_of(f->fun),
	    f->arity, &r->entries[at].fn, &added);
}

/* The last resort; made again without functions that were found to be loops. */
static int
from_trace(struct suggest_run *r)
{
	struct suggest_calls before = r->all;
	const struct kp_call_fn *guess = r->guess != SUGGEST_NO_GUESS ?
	    &before.names->fns[r->entries[r->guess].fn] : NULL;
	char x[TEXT_MAX];
	enum kp_err e;

	if (r->traced)
		suggest_progress(r, "'%s': once more, without that loop", r->a->target);
	else
		suggest_progress(r, "'%s': requests are too short, or too few, to be "
		    "seen in %llu samples: tracing all processes for %s, %u events "
		    "at most", r->a->target,
		    (unsigned long long)r->node.stacks.samples,
		    text_span(x, SUGGEST_ALL_SPAN), SUGGEST_ALL_EVENTS);
	r->nentries = 0;
	e = suggest_node_trace(&r->node, NULL, -1, r->traced ? before.tree : NULL,
	    &r->all);
	r->traced = true;
	if (e == KP_OK)
		entries_find(r);
	if (e == KP_OK && guess != NULL && guess_keep(r, guess) != KP_OK)
		e = suggest_node_no_memory(&r->node);
	suggest_calls_free(&before);
	return e == KP_OK ? OPTS_GO_ON : suggest_failed(r, e);
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
	if (facts_apps(&r->node.facts, &app, 1) == 0 &&
	    !has_modules(&r->node.facts)) {
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

/*
 * Do the samples show this entry?  Requests may be too short for that, or too few.
 * Where what is around it was not seen it has to be the work of many modules.  Of a
 * loop's own module a trace shows more: samples lack who made a tail call.
 */
static bool
is_sampled(const struct suggest_run *r, const struct suggest_entry *e)
{
	if (r->loop != 0 && suggest_same_module(r->all.names, e->fn, r->loop))
		return false;
	return e->framework || (!e->callback && e->calls >= CALLS_LEAST &&
	    (!e->cut || e->modules >= CUT_MODULES) &&
	    (!e->waits || e->modules > 0) && e->samples >= SAMPLES_LEAST);
}

/* Tries the best ones, up to a loop.  EXIT_DONE: none of them is good. */
static int
entries_try(struct suggest_run *r)
{
	char name[FN_NAME_MAX];
	size_t tries = 0;
	int st;

	for (r->chosen = 0; r->chosen < r->nentries && tries < TRIES && !r->looped;
	     r->chosen++) {
		if (!r->traced && !is_sampled(r, &r->entries[r->chosen]))
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

/* The best one with its doubts is more than nothing. */
static int
guess(struct suggest_run *r)
{
	char name[FN_NAME_MAX];
	int st;

	r->chosen = r->guess;
	r->asked = r->guessed = true;
	suggest_progress(r, "'%s': nothing convinces; with %s, as a guess",
	    r->a->target, suggest_entry_name(r, r->chosen, name));
	st = suggest_entry_try(r);
	r->asked = false;
	return st;
}

static int
propose(struct suggest_run *r)
{
	int st = entries_try(r);

	for (int i = 0; i < LOOPS && st == EXIT_DONE && r->looped; i++) {
		st = from_samples_again(r);
		if (st == OPTS_GO_ON)
			st = entries_try(r);
	}
	for (int i = 0; i < TRACES && st == EXIT_DONE && (!r->traced || r->looped);
	     i++) {
		st = from_trace(r);
		if (st == OPTS_GO_ON)
			st = r->nentries == 0 ? nothing(r, "no function was "
			    "called that returned") : entries_try(r);
	}
	if (st == EXIT_DONE && r->guess != SUGGEST_NO_GUESS)
		st = guess(r);
	if (st != EXIT_DONE)
		return st;
	say("'%s': no function was found that begins requests: %s",
	    r->a->target, r->not_good);
	known(r);
	return EXIT_FAILED;
}

/* ---- what the file begins with ---- */

/* Further examples for Phoenix have the name of an application's endpoint in them. */
static void
put_endpoints(const struct facts *f, struct kp_buf *b)
{
	static const char prefix[] = "Elixir.", suffix[] = ".Endpoint";
	size_t before = sizeof(prefix) - 1, behind = sizeof(suffix) - 1, n;

	for (size_t i = 0; i < f->n; i++) {
		n = strlen(f->v[i].name);
		if (f->v[i].platform || f->apps[f->v[i].app].needed ||
		    n <= before + behind || strncmp(f->v[i].name, prefix, before) != 0 ||
		    strcmp(f->v[i].name + n - behind, suffix) != 0)
			continue;
		kp_buf_str(b, "Whole requests, with slow clients and static files, or by "
		    "status: sed s/MyAppWeb/");
		text_put_n(b, f->v[i].name + before, n - before - behind);
		kp_buf_str(b, "/ phoenix_endpoint.conf, or phoenix_status.conf.\n");
	}
}

static void
put_frameworks(struct suggest_run *r, struct kp_buf *b)
{
	const struct suggest_framework *k;

	for (k = suggest_frameworks; k < suggest_frameworks + suggest_nframeworks; k++) {
		if (facts_find(&r->node.facts, k->module) == NULL)
			continue;
		kp_buf_printf(b, "%s %s", k->name, k->does);
		if (k->example != NULL)
			kp_buf_printf(b, ": priv/examples/%s is written for "
			    "that", k->example);
		kp_buf_str(b, ".\n");
		if (k == suggest_frameworks)	/* Phoenix is the first */
			put_endpoints(&r->node.facts, b);
	}
}

/* Processes of OTP's modules may be of an application; then it is theirs. */
static bool
is_platform(const void *facts, const char *app, const char *mod)
{
	const struct facts_module *m = mod == NULL || app[0] != '\0' ? NULL :
	    facts_find(facts, mod);

	return facts_is_platform(facts, app) || (m != NULL && m->platform);
}

/* Reports what the figures leave out, or count elsewhere, since it came past a limit. */
static void
put_over(const struct suggest_run *r, struct kp_buf *b)
{
	const struct suggest_tree *all = r->all.tree, *own = r->requests.tree;
	const struct {
		uint64_t n;
		const char *what, *text;
	} over[] = {
		{ r->node.modules_over, "module", "Not looked at" },
		{ r->node.stacks.overflow, "stack sample", "Left out" },
		{ r->node.pools.over, "pool item", "Left out" },
		{ (all != NULL ? all->overflow : 0) +
		    (own != NULL ? own->overflow : 0), "call path",
		    "Counted as their callers" },
	};
	char n[TEXT_MAX];

	for (size_t i = 0; i < sizeof(over) / sizeof(over[0]); i++)
		if (over[i].n > 0)
			kp_buf_printf(b, "%s, since there are too many: %s.\n",
			    over[i].text, text_counted(n, over[i].n,
			    over[i].what));
}

void
suggest_about(struct suggest_run *r)
{
	const char *apps[APPS_NAMED + 1];
	size_t n = facts_apps(&r->node.facts, apps, APPS_NAMED + 1);
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
	put_frameworks(r, b);
	suggest_pools_about(&r->node.pools, r->node.pooled, is_platform,
	    &r->node.facts, b);
	kp_buf_printf(b, "%s for %s, which took %s of processor time",
	    text_counted(x, r->node.stacks.samples, "stack sample"),
	    text_span(y, r->node.span), text_dur(z, r->node.cost.sampling));
	kp_buf_printf(b, "; %s counted for %s", text_counted(x,
	    r->node.functions, "function"), text_span(y, r->node.short_span));
	kp_buf_printf(b, "; %s traced.\n", text_counted(x, r->node.events,
	    "event"));
	kp_buf_str(b, r->entries[r->chosen].framework ? "What begins requests is "
	    "known of it; only requests were traced.\n" : r->traced ?
	    "Samples showed no requests: these were found in a trace of all "
	    "processes, for a second at most.\n" : "Samples showed which "
	    "functions begin requests; only requests were traced.\n");
	if (r->guessed)
		kp_buf_printf(b, "THIS IS A GUESS: no function was found that surely "
		    "begins requests. Of this one, %s.\n", r->doubt);
	if (r->node.nhot > 0)
		kp_buf_printf(b, "Not traced, since they are called more than "
		    "%s times a second: %s.\n", text_count(y,
		    (uint64_t)r->node.hot), text_counted(x, r->node.nhot,
		    "function"));
	if (r->node.nleft > 0)
		kp_buf_printf(b, "Not traced, since there would be too many events: %s "
		    "that their modules do not export, or of libraries.\n", text_counted(x,
		    r->node.nleft, "function"));
	put_over(r, b);
}

/* ---- the result ---- */

/* Never over a file that is there. */
static int
write_new(const char *path, const struct kp_buf *text)
{
	char why[FILE_WHY_MAX];
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
	if (good)
		return EXIT_DONE;
	say("cannot write '%s': %s", path, file_why(why, path, errno));
	return EXIT_FAILED;
}

static void
say_cost(const struct suggest_run *r)
{
	struct suggest_cost c = r->node.cost;
	struct kp_buf b;

	c.asked.questions = r->node.facts.questions;
	kp_buf_init(&b, 1024);
	suggest_write_cost(&c, kp_mono_now() - r->begun, r->traced, &b);
	suggest_progress(r, "'%s': %s", r->a->target, kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* Says what is proposed; file: where it is, or "". */
static void
summary(const struct suggest_run *r, const char *file)
{
	const struct suggest_tiers *t = &r->tiers;
	char name[FN_NAME_MAX], x[TEXT_MAX], y[TEXT_MAX];
	kp_dur_ns named = 0;

	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i].entry)
			named += t->v[i].own - t->v[i].elsewhere;
	if (r->stock != NULL) {
		suggest_progress(r, "'%s': requests are those of priv/examples/%s, "
		    "with %s of the application's own modules%s%s%s", r->a->target,
		    r->stock->of->example, text_counted(x, t->n, "tier"), t->n > 0 ||
		    !r->stock->of->layers ? "" : " below its controllers, in which 10 % "
		    "of the requests' time passes", file[0] != '\0' ? ": " : "", file);
		return;
	}
	suggest_entry_name(r, r->chosen, name);
	if (r->guessed)
		say("warning: this is a guess, since no function was found that surely "
		    "begins requests: of %s, %s", name, r->doubt);
	if (r->entries[r->chosen].callback)
		say("warning: %s is a server's callback, for want of a better "
		    "entry", name);
	suggest_progress(r, "'%s': requests are calls of %s; %s, in which %s "
	    "of their time passes%s%s", r->a->target, name, text_counted(x,
	    t->n, "tier"), text_share(y, t->total > 0 ?
	    (double)named / (double)t->total : 0), file[0] != '\0' ? ": " :
	    "", file);
}

/* ---- keys ---- */

/*
 * Asks, and waits for a key that says something; 'q' after a signal, or at the end of
 * input.  Keys from before the question are no answer to it.
 */
static char
read_key(const struct suggest_run *r)
{
	char keys[8 + SUGGEST_ENTRIES_MAX + 1] = "yY\r\nqQ\x03\x04", key;
	char name[FN_NAME_MAX];
	size_t n = 8;

	if (!terminal_take(TERMINAL_QUESTION))
		return 'q';
	summary(r, "");
	for (size_t i = 0; i < r->nentries; i++) {
		fprintf(stderr, "%c %zu  %s\n", i == r->chosen ? '*' : ' ',
		    i + 1, suggest_entry_name(r, i, name));
		if (i != r->chosen)
			keys[n++] = (char)('1' + i);
	}
	fprintf(stderr, "y: write '%s'; 1 to %zu: another entry; q: quit ",
	    r->a->file, r->nentries);
	fflush(stderr);
	key = terminal_key(keys, r->node.talk.wake);
	terminal_give_back();
	return key != '\0' ? key : 'q';
}

/*
 * Repeats all steps from its requests on.  If it is not an entry, the last proposal
 * stays.
 * OPTS_GO_ON; or failed.
 */
static int
take_entry(struct suggest_run *r, size_t entry)
{
	char *text = strdup(kp_buf_cstr(&r->text)), name[FN_NAME_MAX];
	const struct suggest_stock *stock = r->stock;
	struct suggest_tiers tiers = r->tiers;
	size_t before = r->chosen;
	bool guessed = r->guessed;
	int st;

	if (text == NULL) {
		say("out of memory");
		return EXIT_FAILED;
	}
	r->chosen = entry;
	r->asked = true;
	r->guessed = false;
	st = suggest_entry_try(r);
	if (st == EXIT_DONE) {
		say("'%s': not %s: %s", r->a->target, suggest_entry_name(r,
		    entry, name), r->not_good);
		r->chosen = before;
		r->guessed = guessed;
		r->stock = stock;
		r->tiers = tiers;
		kp_buf_reset(&r->text);
		kp_buf_str(&r->text, text);
		st = OPTS_GO_ON;
	}
	free(text);
	return st;
}

/*
 * On a terminal, a key takes the proposal, or another entry.  OPTS_GO_ON: it is taken.
 * EXIT_DONE: it is not, which is said.
 */
static int
keys(struct suggest_run *r)
{
	int st = OPTS_GO_ON;
	char key;

	if (r->a->file == NULL || r->a->quiet || !isatty(STDIN_FILENO) ||
	    !isatty(STDERR_FILENO))
		return OPTS_GO_ON;
	while (st == OPTS_GO_ON) {
		key = read_key(r);
		fputc('\n', stderr);
		if (key == 'y' || key == 'Y' || key == '\r' || key == '\n')
			return OPTS_GO_ON;
		if (key == 'q' || key == 'Q' || key == CTRL_C ||
		    key == CTRL_D) {
			say("nothing is written");
			return EXIT_DONE;
		}
		st = take_entry(r, (size_t)(key - '1'));
	}
	return st;
}

/* ---- all of it ---- */

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
	summary(r, r->a->file != NULL ? r->a->file : "");
	return EXIT_DONE;
}

static int
suggest(const struct suggest_args *a)
{
	struct suggest_run r = { .a = a, .begun = kp_mono_now(),
		.node = { .talk = { .target = a->target, .reach = &a->reach },
		    .span = a->span,
		    .short_span = a->span < SHORT_SPAN ? a->span : SHORT_SPAN },
		.not_good = "none was called often enough",
		.guess = SUGGEST_NO_GUESS };
	const struct {
		struct kp_buf *b;
		size_t max;
	} bufs[] = { { &r.about, SUGGEST_FILE_MAX },
		{ &r.identity, SUGGEST_CLAUSE_MAX },
		{ &r.identity_why, SUGGEST_CLAUSE_MAX },
		{ &r.text, SUGGEST_FILE_MAX }, { &r.verdict, SUGGEST_FILE_MAX },
		{ &r.check_out, SAID_MAX }, { &r.check_log, SAID_MAX } };
	const size_t nbufs = sizeof(bufs) / sizeof(bufs[0]);
	int st = EXIT_FAILED;

	r.node.talk.wake = signals_catch();
	for (size_t i = 0; i < nbufs; i++)
		kp_buf_init(bufs[i].b, bufs[i].max);
	if (r.node.talk.wake >= 0)
		st = look(&r);
	if (st == OPTS_GO_ON)
		st = propose(&r);
	if (st == OPTS_GO_ON)
		st = keys(&r);
	if (st == OPTS_GO_ON)
		st = finish(&r);
	suggest_calls_free(&r.requests);
	suggest_calls_free(&r.all);
	suggest_node_free(&r.node);
	for (size_t i = 0; i < nbufs; i++)
		kp_buf_free(bufs[i].b);
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
		{ "for", "TIME", "sample stacks, and trace requests, for this time "
		    "(default 5s); the other steps take 2s each, at most",
		    opt_text, &a.duration, NULL },
		{ "o", "FILE", "write it there, unless there is such a file "
		    "(default: standard output)", opt_text, &a.file, NULL },
		{ "values", NULL, "show small values of a request's arguments, "
		    "not only their types", opt_flag, &a.values, NULL },
		{ "probe-library", "FILE", "where the node finds the native "
		    "probe's library (kprofd(8))", opt_text, &a.library, NULL },
		{ "probe-send", NULL, "send that library to a node that does not "
		    "find it", opt_flag, &a.send, NULL },
		{ "quiet", NULL, "print no progress", opt_flag, &a.quiet,
		    NULL },
		REACH_OPTIONS_OF(a.reach),
	};
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	if (st == OPTS_GO_ON)
		st = check_args(cmd, &a);
	return st == OPTS_GO_ON ? suggest(&a) : st;
}
