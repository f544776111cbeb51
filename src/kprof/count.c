/*
 * count.c - kprof count, time and memory: counters in a node, for a while.
 *
 * What is counted stays in the node until it is read, at the end or now and
 * then.  The first ^C (or SIGTERM, SIGHUP) ends the counting, the second one the reading.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "functions.h"
#include "kprofd/dur.h"
#include "report/profile.h"
#include "target/counters.h"

#define TOP 30
#define FOR_MAX (24 * 3600 * KP_NS_PER_S)
/* To read counters stops all schedulers, once for each function. */
#define EVERY_MIN (500 * KP_NS_PER_MS)

struct args {
	struct counters_opts o;
	struct functions_args f;
	const char *interval;
	const char *keep;	/* a file for CSV, or NULL */
	kp_dur_ns every;	/* 0: only at the end */
	size_t rows, top;
	int by, sort;
	bool reverse, json, csv;
};

/* ---- what is asked for ---- */

static int
check_args(const struct cmd *cmd, struct args *a)
{
	struct counters_opts *o = &a->o;

	if (a->interval != NULL && (!kp_dur_parse(a->interval, &a->every) ||
	    a->every < EVERY_MIN || a->every > FOR_MAX))
		return opts_wrong(cmd, "-every '%s': give a time such as 2s, "
		    "at least half a second", a->interval);
	if (a->json && a->csv)
		return opts_wrong(cmd, "-json and -csv: choose one");
	o->by_process = a->by == 1;
	if (a->sort == PROFILE_BY_PROCESS && !o->by_process)
		return opts_wrong(cmd, "-sort process goes with -by process");
	o->max_rows = a->rows;
	if (a->top == 0 && !a->json && !a->csv)
		a->top = TOP;
	return functions_check(cmd, &a->f, &o->g);
}

/* ---- counting ---- */

static void
ended_text(enum counters_end end, const char *said, const struct args *a,
    char *text, size_t n)
{
	switch (end) {
	case COUNTERS_RAISED:
		snprintf(text, n, "the call raised %s", said);
		break;
	case COUNTERS_OVERRAN:
		snprintf(text, n, "the call was stopped after %lld ms, without "
		    "an end (see -for); processes that it started were not",
		    (long long)(a->o.g.apply_limit / KP_NS_PER_MS));
		break;
	case COUNTERS_EXITED:
		snprintf(text, n, "the call's process exited: %s", said);
		break;
	case COUNTERS_MEMORY:
		snprintf(text, n, "ended early: the node had grown by more "
		    "than %zu MiB (see -max-memory)", a->f.memory);
		break;
	default:
		text[0] = '\0';
	}
}

/*
 * Until that time (OPTS_GO_ON), or the end: a signal, or it ended by itself
 * (EXIT_DONE, and why in `ended`), or there is no way on.
 */
static int
wait_until(struct counters *c, const struct args *a, kp_mono_ns until,
    char *ended, size_t n)
{
	enum counters_end end = COUNTERS_NOT;
	char text[GUEST_TEXT_MAX] = "";
	enum kp_err e;

	e = counters_wait(c, until, &end, text, sizeof(text));
	if (e == KP_ETIMEOUT)
		return OPTS_GO_ON;
	if (e == KP_END) {
		signals_drain();
		return EXIT_DONE;
	}
	if (e == KP_OK && end == COUNTERS_GONE) {
		counters_gone_text(a->o.g.talk.target, text, ended, n);
		say("%s", ended);
		return EXIT_FAILED;
	}
	if (e != KP_OK) {
		say("%s", text);
		return EXIT_FAILED;
	}
	ended_text(end, text, a, ended, n);
	return EXIT_DONE;
}

static struct profile_view
view_of(const struct args *a, const struct guest_hello *h,
    const char *ended)
{
	return (struct profile_view){ .sort = (enum profile_sort)a->sort,
		.reverse = a->reverse, .by_process = a->o.by_process,
		.top = a->top, .target = a->o.g.talk.target, .otp = h->otp,
		.functions = h->functions, .processes = h->processes,
		.skipped = h->skipped,
		.ended = ended[0] != '\0' ? ended : NULL };
}

static int
print(const struct args *a, const struct kp_profile *p,
    const struct profile_view *v)
{
	struct kp_buf b;

	kp_buf_init(&b, OUTPUT_MAX);
	if (a->json)
		profile_json(&b, p, v);
	else if (a->csv)
		profile_csv(&b, p, v);
	else
		profile_table(&b, p, v, screen_width());
	return show(&b);
}

/* All rows, for kprof diff. */
static int
keep(const struct args *a, const struct kp_profile *p, struct profile_view v)
{
	bool good = false;
	struct kp_buf b;
	FILE *f;

	v.top = 0;
	kp_buf_init(&b, OUTPUT_MAX);
	profile_csv(&b, p, &v);
	f = b.err == KP_OK ? fopen(a->keep, "we") : NULL;
	if (f != NULL) {
		good = fwrite(b.p, 1, b.len, f) == b.len;
		good = fclose(f) == 0 && good;
	}
	if (!good)
		say("cannot write '%s': %s", a->keep, b.err != KP_OK ?
		    kp_err_str(b.err) : strerror(errno));
	kp_buf_free(&b);
	return good ? EXIT_DONE : EXIT_FAILED;
}

/* last: nothing is counted any more; else OPTS_GO_ON: that is wanted now. */
static int
read_and_print(struct counters *c, const struct args *a,
    const struct guest_hello *h, bool last, const char *ended)
{
	struct kp_profile p = { .type = a->o.type };
	struct profile_view v = view_of(a, h, ended);
	char why[GUEST_TEXT_MAX + 64];
	int st = EXIT_FAILED;
	enum kp_err e;

	e = counters_read(c, last, &p, why, sizeof(why));
	if (e == KP_END && !last) {
		signals_drain();
		st = OPTS_GO_ON;
	} else if (e != KP_OK) {
		say("%s", why);
	} else {
		/* On a terminal each table is in place of the one before. */
		if (a->every > 0 && isatty(STDOUT_FILENO))
			printf("\x1b[H\x1b[2J");
		else if (a->every > 0 && !last && !a->json)
			printf("\n");
		st = print(a, &p, &v);
		if (last && a->keep != NULL && keep(a, &p, v) != EXIT_DONE)
			st = EXIT_FAILED;
	}
	kp_profile_free(&p);
	return st;
}

static int
count_until_end(struct counters *c, const struct args *a,
    const struct guest_hello *h, char *ended, size_t n)
{
	kp_mono_ns end = a->f.limit > 0 && a->o.g.apply[0] == '\0' ?
	    kp_mono_now() + a->f.limit : INT64_MAX;
	kp_mono_ns until;
	int st;

	for (;;) {
		until = a->every > 0 ? kp_mono_now() + a->every : end;
		if (until > end)
			until = end;
		st = wait_until(c, a, until, ended, n);
		if (st != OPTS_GO_ON)
			return st;
		if (kp_mono_now() >= end)
			return EXIT_DONE;
		st = read_and_print(c, a, h, false, "");
		if (st != EXIT_DONE)
			return st == OPTS_GO_ON ? EXIT_DONE : st;
	}
}

static int
count_with(struct counters *c, const struct args *a,
    const struct guest_hello *h)
{
	char ended[GUEST_TEXT_MAX + 64] = "";
	int st;

	if (a->f.limit == 0 && a->o.g.apply[0] == '\0')
		say("counting in '%s'; Ctrl-C ends it and shows the figures",
		    a->o.g.talk.target);
	if (a->o.g.apply[0] != '\0' && counters_go(c) != KP_OK) {
		say("'%s': the connection is over", a->o.g.talk.target);
		return EXIT_FAILED;
	}
	st = count_until_end(c, a, h, ended, sizeof(ended));
	if (st == EXIT_DONE)
		st = read_and_print(c, a, h, true, ended);
	/* The figures are there; what was asked for is not. */
	return st == EXIT_DONE && ended[0] != '\0' ? EXIT_FAILED : st;
}

static int
count(const struct args *a)
{
	char why[GUEST_TEXT_MAX + 512] = "";
	struct guest_hello h;
	struct counters *c;
	enum kp_err e;
	int st;

	e = counters_start(&c, &a->o, &h, why, sizeof(why));
	if (e != KP_OK) {
		say("%s", e == KP_END ? "interrupted" : why);
		return EXIT_FAILED;
	}
	st = count_with(c, a, &h);
	counters_stop(c);
	return st;
}

static const struct {
	const char *name, *sorts;
	enum kp_profile_type type;
	enum profile_sort sort;
} kinds[] = {
	{ "count", PROFILE_SORT_COUNT, KP_PROFILE_COUNT, PROFILE_BY_CALLS },
	{ "time", PROFILE_SORT_TIME, KP_PROFILE_TIME, PROFILE_BY_VALUE },
	{ "memory", PROFILE_SORT_MEMORY, KP_PROFILE_MEMORY, PROFILE_BY_VALUE },
};

int
cmd_count(const struct cmd *cmd, int argc, char **argv)
{
	size_t k = strcmp(cmd->name, "time") == 0 ? 1 :
	    strcmp(cmd->name, "memory") == 0 ? 2 : 0;
	struct args a = { .o = { .type = kinds[k].type, .g = {
		.processes = "", .apply = "", .talk = { .wake = -1 } } },
		.f = { FUNCTIONS_LIMITS },
		.rows = 100000,
		.sort = (int)kinds[k].sort };
	const struct opt opts[] = {
		{ "target", "NODE", "the node to count in (needed)", OPT_TEXT,
		    &a.o.g.talk.target, NULL },
		{ "for", "TIME", "count so long (10s); with -apply: stop the "
		    "call then (60s)", OPT_TEXT, &a.f.duration, NULL },
		{ "every", "TIME", "show what was counted so far, again and "
		    "again: 2s", OPT_TEXT, &a.interval, NULL },
		{ "apply", "CALL", "count what this call does: "
		    "'lists:seq(1, 10)'", OPT_TEXT, &a.o.g.apply, NULL },
		{ "by", "KEY", "a row for a function in total (default), or "
		    "for each process", OPT_CHOICE, &a.by, "total,process" },
		{ "sort", "KEY", "in order of what", OPT_CHOICE, &a.sort,
		    kinds[k].sorts },
		{ "reverse", NULL, "in the other order", OPT_FLAG, &a.reverse,
		    NULL },
		{ "n", "N", "so many rows (default 30; -json and -csv: all)",
		    OPT_COUNT, &a.top, NULL },
		OPT_JSON(a.json),
		{ "csv", NULL, "print CSV", OPT_FLAG, &a.csv, NULL },
		{ "o", "FILE", "keep all rows there, as CSV (kprof diff)",
		    OPT_TEXT, &a.keep, NULL },
		{ "max-rows", "N", "with -by process: add up the rest "
		    "(default 100000)", OPT_COUNT, &a.rows, NULL },
		OPTS_FUNCTIONS(a.f, a.o.g),
	};
	int st;

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st == OPTS_GO_ON)
		st = check_args(cmd, &a);
	if (st == OPTS_GO_ON)
		a.o.g.talk.wake = signals_catch();
	if (st == OPTS_GO_ON)
		st = a.o.g.talk.wake >= 0 ? count(&a) : EXIT_FAILED;
	functions_free(&a.o.g);
	return st;
}
