/*
 * stacks.c - kprof stacks: samples the stacks of a node's processes for a while,
 * without tracing and without kprofd, and shows where they work and wait.
 *
 * The first Ctrl-C (or SIGTERM, SIGHUP) ends the sampling, the second one the
 * reading of the last samples.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conn/reach.h"
#include "kprofd/nodes.h"
#include "profile/stacks/stack_report.h"
#include "profile/node/sampler.h"
#include "fn_command.h"

#define ROWS 30			/* of a table on a terminal */
#define PER_SECOND 100
#define SHARE_DEFAULT "0.5"
#define SHARE_MIN 0.01		/* percent */
#define LEAST 50u		/* hundredths of a percent */

/* In the order of the option. */
static void (*const forms[])(struct kp_buf *b, const struct stack_view *v) = {
	stack_tables, stack_tree, stack_folded, stack_speedscope,
	stack_pprof,
};
#define FORMS "table,tree,folded,speedscope,pprof"
enum { FORM_TABLE, FORM_TREE, FORM_FOLDED, FORM_SPEEDSCOPE, FORM_PPROF };

static const struct {
	const char *word;
	unsigned states;
} words[] = {
	{ "running", STACK_STATE(KP_STACK_RUNNING) },
	{ "runnable", STACK_STATE(KP_STACK_RUNNABLE) },
	{ "collecting", STACK_STATE(KP_STACK_GC) },
	{ "call", STACK_STATE(KP_STACK_CALL) },
	{ "port", STACK_STATE(KP_STACK_PORT) },
	{ "waiting", STACK_STATE(KP_STACK_WAIT) },
	{ "not-seen", STACK_STATE(KP_STACK_NOT_SEEN) },
	{ "all", STACK_ALL },
};

struct args {
	struct sampler_opts o;
	const char *duration, *interval, *share, *state_list;
	kp_dur_ns limit, every;	/* 0: until interrupted; only at the end */
	unsigned states;
	double part;		/* of one scheduler */
	size_t per_second, rows, least, processes;
	int form, by;
	bool json, quiet;
	char node[KP_NODE_NAME_MAX + 1];	/* -target, without a port */
};

struct run {
	const struct args *a;
	struct injected *sampler;
	struct injected_hello hello;
	struct kp_stack_table *table;
	struct stack_sum sum;
	struct sampler_sink sink;
	struct sampler_totals totals;
	kp_wall_ns from;
	kp_mono_ns end;		/* INT64_MAX: none */
	char ended[INJECTED_TEXT_MAX + 64];	/* why it ended by itself, or "" */
};

/* ---- options ---- */

static bool
states_parse(const char *list, unsigned *states)
{
	size_t n, i;

	for (*states = 0;; list += n + 1) {
		n = strcspn(list, ",");
		for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (strlen(words[i].word) == n &&
			    strncmp(words[i].word, list, n) == 0)
				break;
		if (i == sizeof(words) / sizeof(words[0]))
			return false;
		*states |= words[i].states;
		if (list[n] == '\0')
			return true;
	}
}

static bool
share_parse(const char *text, double *part)
{
	char *end;
	double percent = strtod(text, &end);

	*part = percent / 100;
	return end != text && (*end == '\0' || strcmp(end, "%") == 0) &&
	    percent >= SHARE_MIN && percent <= SAMPLER_PPM_MAX / 1e4;
}

static int
check_args(const struct cmd *cmd, struct args *a)
{
	int st = functions_for(cmd, a->duration, &a->limit);

	if (st == OPTS_GO_ON)
		st = functions_every(cmd, a->interval, &a->every);
	if (st == OPTS_GO_ON && a->every > 0 &&
	    (a->json || a->form > FORM_TREE))
		return opts_wrong(cmd, "-every goes with -form table or tree");
	if (st == OPTS_GO_ON)
		st = functions_reach(cmd, &a->o.g);
	if (st != OPTS_GO_ON)
		return st;
	kp_node_bare(a->o.g.talk.target, a->node);
	if (a->state_list == NULL)
		a->state_list = a->form == FORM_PPROF ? "all" :
		    "running,runnable,collecting";
	if (!states_parse(a->state_list, &a->states))
		return opts_wrong(cmd, "-states '%s': give running, runnable, "
		    "collecting, call, port, waiting and not-seen, with commas, "
		    "or all", a->state_list);
	if (!share_parse(a->share, &a->part))
		return opts_wrong(cmd, "-share '%s': give a percentage from "
		    "0.01 to 10", a->share);
	if (a->per_second > SAMPLER_PER_SECOND_MAX)
		return opts_wrong(cmd, "-per-second %zu: at most %u",
		    a->per_second, SAMPLER_PER_SECOND_MAX);
	if (a->json && a->form != FORM_TABLE)
		return opts_wrong(cmd, "-json and -form: choose one");
	if (a->rows == OPT_UNSET)
		a->rows = a->form == FORM_TABLE ? ROWS : 0;
	a->o.per_second = a->per_second;
	a->o.ppm = (uint64_t)(a->part * 1e6 + 0.5);
	a->o.g.max_processes = a->processes;
	a->o.usage = a->json || a->form == FORM_TABLE;
	return OPTS_GO_ON;
}

/* ---- showing ---- */

static struct stack_view
view_of(const struct run *r)
{
	const struct args *a = r->a;

	return (struct stack_view){ .sum = &r->sum, .states = a->states,
		.rows = a->rows, .least = (double)a->least / 10000,
		.width = screen_width(), .target = a->node,
		.otp = r->hello.otp, .depth = r->hello.depth,
		.schedulers = r->hello.schedulers, .share = a->part,
		.from = r->from, .to = r->from + r->totals.elapsed,
		.elapsed = r->totals.elapsed, .time = r->totals.time,
		.young = r->totals.young, .counts = r->sink.counts };
}

static int
show_sum(const struct run *r, bool last)
{
	bool screen = r->a->every > 0 && isatty(STDOUT_FILENO);
	struct stack_view v = view_of(r);
	struct kp_buf b;
	int st;

	kp_buf_init(&b, OUTPUT_MAX);
	/* On a terminal each table replaces the one before. */
	if (screen)
		kp_buf_str(&b, "\x1b[H\x1b[2J");
	if (r->a->json)
		stack_json(&b, &v);
	else
		forms[r->a->form](&b, &v);
	if (!last && !screen)
		kp_buf_u8(&b, '\n');
	st = show(&b);
	/* What belongs to the output for people goes to stderr beside other forms. */
	if (last && !r->a->json && r->a->form != FORM_TABLE && !r->a->quiet) {
		kp_buf_init(&b, OUTPUT_MAX);
		stack_notes(&b, &v);
		functions_say_lines(&b);
	}
	return st;
}

/* ---- sampling ---- */

/* EXIT_DONE; OPTS_GO_ON: a signal came first. */
static int
read_samples(struct run *r, bool last)
{
	enum kp_err e = sampler_read(r->sampler, last, &r->sink, &r->totals,
	    r->ended, sizeof(r->ended));

	if (e == KP_END && signals_drain())
		return OPTS_GO_ON;
	if (e == KP_OK && r->sum.err != KP_OK)
		snprintf(r->ended, sizeof(r->ended), "cannot add up the "
		    "samples: %s", kp_err_str(r->sum.err));
	if (r->ended[0] == '\0')
		return EXIT_DONE;
	say("%s", r->ended);
	return EXIT_FAILED;
}

/* Takes samples until the end; shows them now and then with -every. */
static int
take_samples(struct run *r)
{
	kp_mono_ns tick, until;
	enum kp_err e;
	int st;

	for (;;) {
		tick = r->a->every > 0 ? kp_mono_now() + r->a->every :
		    INT64_MAX;
		until = tick < r->end ? tick : r->end;
		e = sampler_take(r->sampler, until, &r->sink, r->ended,
		    sizeof(r->ended));
		if (e == KP_END && !signals_drain())
			continue;
		if (e == KP_END || (e == KP_ETIMEOUT && until == r->end))
			return EXIT_DONE;
		if (e != KP_ETIMEOUT) {
			say("%s", r->ended);
			return EXIT_FAILED;
		}
		st = read_samples(r, false);
		if (st == EXIT_DONE)
			st = show_sum(r, false);
		if (st != EXIT_DONE)
			return st == OPTS_GO_ON ? EXIT_DONE : st;
	}
}

static int
sample_with(struct run *r)
{
	const struct args *a = r->a;
	int st;

	functions_say_doubt(a->o.g.talk.target, &r->hello);
	r->from = kp_wall_now();
	r->end = a->limit > 0 ? kp_mono_now() + a->limit : INT64_MAX;
	if (a->limit == 0 && !a->quiet)
		say("sampling in '%s'; Ctrl-C ends it and shows the figures",
		    a->o.g.talk.target);
	st = take_samples(r);
	if (st != EXIT_DONE)
		return st;
	st = read_samples(r, true);
	if (st == OPTS_GO_ON)
		say("interrupted");
	/* The node is left alone while this prints. */
	injected_stop(r->sampler, 0);
	r->sampler = NULL;
	return st == EXIT_DONE ? show_sum(r, true) : EXIT_FAILED;
}

static int
sample(const struct args *a)
{
	struct run r = { .a = a, .table = kp_stack_table_new() };
	char why[INJECTED_TEXT_MAX + 512] = "out of memory";
	enum kp_err e = KP_ENOMEM;
	int st;

	if (r.table != NULL)
		e = stack_sum_init(&r.sum, r.table, (enum stack_by)a->by);
	r.sink = (struct sampler_sink){ .table = r.table, .ctx = &r.sum,
		.ops = { .on_sample = stack_sum_sample,
		.on_group = stack_sum_group, .on_usage = stack_sum_usage } };
	if (e == KP_OK)
		e = sampler_start(&r.sampler, &a->o, &r.hello, why,
		    sizeof(why));
	st = e == KP_OK ? sample_with(&r) :
	    functions_failed(a->o.g.talk.target, e, why, "sampled");
	injected_stop(r.sampler, 0);
	stack_sum_free(&r.sum);
	kp_stack_table_free(r.table);
	return st;
}

int
cmd_stacks(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .o = { .g = { .processes = "", .apply = "",
		.talk = { .wake = -1 } } }, .per_second = PER_SECOND,
		.share = SHARE_DEFAULT, .least = LEAST, .rows = OPT_UNSET, .processes = 100000 };
	const struct opt opts[] = {
		OPT_GROUP("Where, and for how long"),
		{ "target", "NODE", "the node to sample in (needed)", opt_node,
		    &a.o.g.talk.target, NULL },
		{ "for", "TIME", "sample for this time: 10s (default: until "
		    "Ctrl-C)", opt_text, &a.duration, NULL },
		{ "every", "TIME", "show what was sampled so far, again and "
		    "again: 2s", opt_text, &a.interval, NULL },
		OPT_GROUP("What is sampled"),
		{ "processes", "LIST", "all (default), or PID, NAME, "
		    "application:NAME, supervisor:NAME, children:NAME, "
		    "descendants:NAME, with commas", opt_commas,
		    &a.o.g.processes, NULL },
		{ "per-second", "N", "take N stacks a second (default 100, at "
		    "most 2000) if the share allows it", opt_count,
		    &a.per_second, NULL },
		{ "share", "PERCENT", "take at most this share of one "
		    "scheduler (default " SHARE_DEFAULT ", at most 10)",
		    opt_text, &a.share, NULL },
		{ "max-processes", "N", "with -processes: refuse more than N "
		    "processes (default 100000)", opt_count, &a.processes,
		    NULL },
		OPT_GROUP("What is shown"),
		{ "form", "FORM", "table (default), tree, folded, speedscope or "
		    "pprof", opt_choice, &a.form, FORMS },
		OPT_JSON(a.json),
		{ "by", "KEY", "a row, or a root, is a group of processes "
		    "(default), an application, one process, or none",
		    opt_choice, &a.by, "group,application,process,none" },
		{ "states", "LIST", "functions and trees of processes that "
		    "are running, runnable, collecting (default these; pprof: "
		    "all), call, port, waiting, not-seen, or all", opt_commas,
		    &a.state_list, NULL },
		{ "least", "N", "tree: leave out what has less than N "
		    "hundredths of a percent of the time (default 50; 0: "
		    "nothing)", opt_number, &a.least, NULL },
		OPT_N("30 of a table, all of a tree", a.rows),
		OPT_GROUP("General"),
		{ "quiet", NULL, "no progress, and no notes beside other forms "
		    "than the table", opt_flag, &a.quiet, NULL },
		REACH_OPTIONS_OF(a.o.g.reach),
	};
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	if (st == OPTS_GO_ON)
		st = check_args(cmd, &a);
	if (st != OPTS_GO_ON)
		return st;
	a.o.g.talk.wake = signals_catch();
	return a.o.g.talk.wake < 0 ? EXIT_FAILED : sample(&a);
}
