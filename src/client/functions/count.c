/*
 * count.c - kprof count, time and memory: counts calls, their time or memory,
 * in a node for a while, or only those made during requests.
 *
 * The counters stay in the node until they are read, at the end or at
 * intervals.  The first Ctrl-C (or SIGTERM, SIGHUP) ends the counting, the
 * second one the reading.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/terminal.h"
#include "conn/reach.h"
#include "count_requests.h"
#include "fn_command.h"
#include "kprofd/nodes.h"
#include "output_file.h"
#include "profile/node/counters.h"
#include "profile/report/profile_db.h"
#include "text/file_why.h"

#define TOP 30
#define ROWS_MAX 100000	/* of processes; the rest is added up */
#define KEYS_HELP "  p pause, c continue, r restart, s show, q end\n"

struct args {
	struct counters_opts o;
	struct functions_args f;
	const char *interval;
	const char *keep;	/* a file for CSV, or NULL */
	const char *db;		/* a database, or NULL */
	kp_dur_ns every;	/* 0: only at the end */
	size_t top;
	struct opt_order sort;
	int by;
	bool json, csv;
	bool lines;		/* obey standard input */
	struct limits_args l;
	struct limits *limits;	/* by request, or NULL */
	size_t events;
	char node[KP_NODE_NAME_MAX + 1];	/* -target, without a port */
};

/* One run of a command. */
struct run {
	const struct args *a;
	struct injected *c;
	struct injected_hello hello;
	bool keys;		/* obey keys of the terminal */
	bool paused;
	kp_mono_ns end;		/* INT64_MAX: none */
	kp_dur_ns left;		/* until the end, when it was paused */
	struct kp_counts sum;	/* of all stretches up to the last pause */
	char ended[INJECTED_TEXT_MAX + 64];	/* why counting ended by itself */
};

/* ---- options ---- */

static int
check_args(const struct cmd *cmd, struct args *a)
{
	struct counters_opts *o = &a->o;
	const char *by = a->l.attached ? "-attached" : a->l.entry != NULL ?
	    "-entry" : a->l.tiers != NULL ? "-tiers" : NULL;
	int st = functions_every(cmd, a->interval, &a->every);

	if (st != OPTS_GO_ON)
		return st;
	if (a->json && a->csv)
		return opts_wrong(cmd, "-json and -csv: choose one");
	o->by_process = a->by == 1;
	if (a->sort.key == COUNTS_BY_PROCESS && !o->by_process)
		return opts_wrong(cmd, "-sort process goes with -by process");
	if (by != NULL && a->f.list)
		return opts_wrong(cmd, "-list goes without %s", by);
	if (by != NULL && o->type == KP_COUNTS_MEMORY)
		return opts_wrong(cmd, "%s: count and time can be had by "
		    "request, memory cannot", by);
	if (by != NULL && (a->every > 0 || a->lines))
		return opts_wrong(cmd, "%s goes without -every and -stdin",
		    by);
	if (a->top == OPT_UNSET)
		a->top = a->json || a->csv ? 0 : TOP;
	st = functions_check(cmd, &a->f, &o->g);
	if (st != OPTS_GO_ON)
		return st;
	kp_node_bare(o->g.talk.target, a->node);
	return limits_open(cmd, &a->l, &(struct opt_list){ .v = { a->node },
	    .n = 1 }, &a->limits);
}

/* ---- standard input ---- */

/* Lines, or as keys of a terminal their first letters. */
enum stdin_command {
	STDIN_PAUSE,
	STDIN_CONTINUE,
	STDIN_RESTART,
	STDIN_SHOW,
	STDIN_END,		/* also the end of standard input */
	STDIN_NONE		/* none has come */
};

#define LINE_MAX_BYTES 64u

static const char *const texts[] = { [STDIN_PAUSE] = "pause",
	[STDIN_CONTINUE] = "continue", [STDIN_RESTART] = "restart",
	[STDIN_SHOW] = "show", [STDIN_END] = "end" };

static struct {
	int poll;		/* epoll of `wake` and standard input */
	bool lines, listens;
	bool too_long;		/* the current line */
	bool ended;		/* standard input has */
	bool reported;		/* that, as STDIN_END */
	char typed[LINE_MAX_BYTES];
	size_t n;
} input = { .poll = -1 };

static bool
listen_to(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(input.poll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/*
 * Returns a descriptor that is readable when `wake` is, or when a command may have
 * come; -1 after printing why that failed.  lines: read lines, else keys.  The
 * terminal is restored when the program ends.
 */
static int
stdin_control_open(int wake, bool lines)
{
	input.lines = lines;
	input.poll = epoll_create1(EPOLL_CLOEXEC);
	if (input.poll < 0 || !listen_to(wake)) {
		say("cannot wait for signals: %s", strerror(errno));
		return -1;
	}
	if (!listen_to(STDIN_FILENO)) {
		say("standard input cannot be waited for (a file?): give a "
		    "pipe or a terminal");
		return -1;
	}
	input.listens = true;
	if (!lines && !terminal_take(TERMINAL_COMMAND)) {
		say("the terminal does not let us: %s", strerror(errno));
		return -1;
	}
	return input.poll;
}

/* Whether commands make that descriptor readable; else they wait. */
static void
stdin_control_listen(bool yes)
{
	if (input.poll < 0 || input.ended || input.listens == yes)
		return;
	if (yes)
		listen_to(STDIN_FILENO);
	else
		epoll_ctl(input.poll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
	input.listens = yes;
}

/* STDIN_NONE after printing that the line is not a command. */
static enum stdin_command
command_of(const char *line)
{
	for (int i = 0; i < STDIN_NONE; i++)
		if (strcmp(line, texts[i]) == 0)
			return (enum stdin_command)i;
	say("'%s' is not one of pause, continue, restart, show, end", line);
	return STDIN_NONE;
}

/* Returns the next command, or STDIN_NONE while no whole line has one. */
static enum stdin_command
take_line(void)
{
	enum stdin_command command = STDIN_NONE;
	char *end;

	while (command == STDIN_NONE &&
	    (end = memchr(input.typed, '\n', input.n)) != NULL) {
		*end++ = '\0';
		if (!input.too_long)
			command = command_of(input.typed);
		input.too_long = false;
		input.n -= (size_t)(end - input.typed);
		memmove(input.typed, end, input.n);
	}
	if (input.n == sizeof(input.typed)) {
		input.too_long = true;
		input.n = 0;
	}
	return command;
}

static enum stdin_command
take_key(void)
{
	enum stdin_command command = STDIN_NONE;

	for (; input.n > 0 && command == STDIN_NONE; input.n--) {
		for (int i = 0; i < STDIN_NONE; i++)
			if (input.typed[0] == texts[i][0])
				command = (enum stdin_command)i;
		if (input.typed[0] == 'q')
			command = STDIN_END;
		memmove(input.typed, input.typed + 1, input.n - 1);
	}
	return command;
}

/* False if no input has come. */
static bool
fill(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n;

	if (input.ended || poll(&p, 1, 0) <= 0)
		return false;
	n = read(STDIN_FILENO, input.typed + input.n,
	    sizeof(input.typed) - input.n);
	if (n > 0) {
		input.n += (size_t)n;
		return true;
	}
	if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		stdin_control_listen(false);
		input.ended = true;
	}
	return n < 0 && !input.ended;
}

/* The next command, if any. */
static enum stdin_command
stdin_control_next(void)
{
	enum stdin_command command;

	if (input.poll < 0 || input.reported)
		return STDIN_NONE;
	do {
		command = input.lines ? take_line() : take_key();
	} while (command == STDIN_NONE && fill());
	if (command == STDIN_NONE && input.ended) {
		input.reported = true;
		command = STDIN_END;
	}
	return command;
}

/* ---- counting ---- */

enum next { NEXT_TIME, NEXT_COMMAND, NEXT_END, NEXT_FAILED };

/*
 * Waits for that time, a command, or the end: a signal came, or counting ended
 * by itself (r->ended says why).  NEXT_FAILED after printing what failed.
 */
static enum next
wait_until(struct run *r, kp_mono_ns until, enum stdin_command *command)
{
	char why[INJECTED_TEXT_MAX + 64] = "";
	enum kp_err e;

	do {
		*command = stdin_control_next();
		if (*command != STDIN_NONE)
			return NEXT_COMMAND;
		stdin_control_listen(true);
		e = counters_wait(r->c, until, why, sizeof(why));
		stdin_control_listen(false);
		if (e == KP_END && signals_drain())
			return NEXT_END;
	} while (e == KP_END);
	if (e == KP_ETIMEOUT)
		return NEXT_TIME;
	if (e != KP_OK) {
		say("%s", why);
		return NEXT_FAILED;
	}
	snprintf(r->ended, sizeof(r->ended), "%s", r->c->text);
	if (r->c->end == KP_CALLS_MEMORY)
		snprintf(r->ended, sizeof(r->ended), "ended early: the node "
		    "had grown by more than %zu MiB (see -max-memory)",
		    r->a->f.memory);
	return NEXT_END;
}

static struct counts_view
view_of(const struct run *r)
{
	const struct injected_hello *h = &r->hello;
	const struct args *a = r->a;

	return (struct counts_view){ .sort = (enum counts_sort)a->sort.key,
		.reverse = a->sort.reverse, .top = a->top,
		.target = a->node, .otp = h->otp,
		.functions = h->functions, .processes = h->processes,
		.skipped = h->skipped,
		.ended = r->ended[0] != '\0' ? r->ended : NULL,
		.paused = r->paused,
		/* One counter for all processes counts ours as well. */
		.own_calls = a->o.type == KP_COUNTS_CALLS &&
		    !a->o.by_process && a->limits == NULL &&
		    a->o.g.processes[0] == '\0' && a->o.g.apply[0] == '\0',
		.value = a->f.value[0] != '\0' ? a->f.value : NULL,
		.unseen = kp_instructions(a->o.g.patterns, a->o.g.npatterns,
		    a->o.g.exclude, a->o.g.nexclude, h->otp),
		.limit = a->limits != NULL ? limits_shown(a->limits) : NULL };
}

static int
print(const struct args *a, const struct kp_counts *p,
    const struct counts_view *v)
{
	struct kp_buf b;

	kp_buf_init(&b, OUTPUT_MAX);
	if (a->json)
		counts_json(&b, p, v);
	else if (a->csv)
		counts_csv(&b, p, v);
	else
		counts_table(&b, p, v, screen_width());
	return show(&b);
}

/* Writes all rows to the file of -o, for kprof diff. */
static int
keep(const struct args *a, const struct kp_counts *p, struct counts_view v)
{
	char why[FILE_WHY_MAX];
	bool good = false;
	struct kp_buf b;
	FILE *f;

	v.top = 0;
	kp_buf_init(&b, OUTPUT_MAX);
	counts_csv(&b, p, &v);
	f = b.err == KP_OK ? fopen(a->keep, "we") : NULL;
	if (f != NULL) {
		good = fwrite(b.p, 1, b.len, f) == b.len;
		good = fclose(f) == 0 && good;
	}
	if (!good)
		say("cannot write '%s': %s", a->keep, b.err != KP_OK ?
		    kp_err_str(b.err) : file_why(why, a->keep, errno));
	kp_buf_free(&b);
	return good ? EXIT_DONE : EXIT_FAILED;
}

static int
add_to_db(const struct args *a, const struct kp_counts *p,
    const struct counts_view *v)
{
	char why[300];

	if (counts_db_add(a->db, p, v, kp_wall_now(), why, sizeof(why)) ==
	    KP_OK)
		return EXIT_DONE;
	say("cannot write '%s': %s", a->db, why);
	return EXIT_FAILED;
}

/* Prints why counting ended, unless a table on the terminal has said so. */
static void
say_ended(const struct run *r)
{
	const struct args *a = r->a;

	if (r->ended[0] != '\0' && (!isatty(STDOUT_FILENO) || a->json ||
	    a->csv || a->f.quiet))
		say("%s", r->ended);
}

static bool
is_shown(const struct args *a)
{
	return !a->f.quiet || (a->keep == NULL && a->db == NULL);
}

static int
show_profile(const struct run *r, const struct kp_counts *p, bool last)
{
	bool screen = r->a->every > 0 && isatty(STDOUT_FILENO);
	struct counts_view v = view_of(r);
	int st = EXIT_DONE;

	/* On a terminal each table replaces the one before. */
	if (screen && is_shown(r->a))
		printf("\x1b[H\x1b[2J");
	else if (!last && !r->a->json && is_shown(r->a))
		printf("\n");
	if (is_shown(r->a))
		st = print(r->a, p, &v);
	if (last)
		say_ended(r);
	if (last && !r->a->json && is_shown(r->a))
		functions_say_value(&r->a->f, &r->hello);
	if (screen && !last && r->keys && !r->a->f.quiet)
		fprintf(stderr, KEYS_HELP);
	if (last && r->a->keep != NULL && keep(r->a, p, v) != EXIT_DONE)
		st = EXIT_FAILED;
	if (last && r->a->db != NULL && add_to_db(r->a, p, &v) != EXIT_DONE)
		st = EXIT_FAILED;
	return st;
}

/*
 * Reads what was counted in all stretches; pause: and stops counting.
 * OPTS_GO_ON: a signal came first.
 */
static int
read_all(struct run *r, bool pause, struct kp_counts *p)
{
	char why[INJECTED_TEXT_MAX + 64];
	enum kp_err e;

	*p = (struct kp_counts){ .type = r->sum.type,
		.by_process = r->sum.by_process, .names = r->sum.names };
	e = counters_read(r->c, pause, p, why, sizeof(why));
	if (e == KP_END) {
		signals_drain();
		return OPTS_GO_ON;
	}
	if (e == KP_OK) {
		e = kp_counts_add(p, &r->sum);
		if (e != KP_OK)
			snprintf(why, sizeof(why), "cannot add up what was "
			    "counted: %s", kp_err_str(e));
	}
	if (e != KP_OK)
		say("%s", why);
	return e == KP_OK ? EXIT_DONE : EXIT_FAILED;
}

static int
read_and_show(struct run *r, bool last)
{
	struct kp_counts p;
	int st = read_all(r, last, &p);

	if (st == EXIT_DONE)
		st = show_profile(r, &p, last);
	kp_counts_free(&p);
	if (st != OPTS_GO_ON || !last)
		return st;
	say("interrupted");
	return EXIT_FAILED;
}

/* ---- pause, continue, restart ---- */

static int
say_gone(const struct run *r)
{
	say("'%s': the connection is over", r->a->o.g.talk.target);
	return EXIT_FAILED;
}

static int
pause_it(struct run *r)
{
	struct kp_counts p;
	int st = read_all(r, true, &p);

	if (st != EXIT_DONE) {
		kp_counts_free(&p);
		return st;
	}
	r->paused = true;
	r->left = r->end - kp_mono_now();
	kp_counts_free(&r->sum);
	r->sum = p;
	return show_profile(r, &p, false);
}

static int
go_on(struct run *r)
{
	r->paused = false;
	if (r->end != INT64_MAX)
		r->end = kp_mono_now() + r->left;
	if (counters_continue(r->c, r->end != INT64_MAX ? r->left : 0) ==
	    KP_OK)
		return EXIT_DONE;
	return say_gone(r);
}

/* EXIT_DONE, or the status to end with. */
static int
obey(struct run *r, enum stdin_command command)
{
	switch (command) {
	case STDIN_PAUSE:
		return r->paused ? EXIT_DONE : pause_it(r);
	case STDIN_CONTINUE:
		return r->paused ? go_on(r) : EXIT_DONE;
	case STDIN_RESTART:
		kp_counts_free(&r->sum);
		r->left = r->a->f.limit;
		return go_on(r);
	default:
		return read_and_show(r, false);
	}
}

/* ---- from the start to the end ---- */

static kp_mono_ns
next_time(const struct run *r)
{
	kp_mono_ns tick;

	if (r->paused)
		return INT64_MAX;
	tick = r->a->every > 0 ? kp_mono_now() + r->a->every : INT64_MAX;
	return tick < r->end ? tick : r->end;
}

static int
count_until_end(struct run *r)
{
	enum stdin_command command;
	int st = EXIT_DONE;

	while (st == EXIT_DONE) {
		switch (wait_until(r, next_time(r), &command)) {
		case NEXT_FAILED:
			return EXIT_FAILED;
		case NEXT_END:
			return EXIT_DONE;
		case NEXT_COMMAND:
			if (command == STDIN_END)
				return EXIT_DONE;
			st = obey(r, command);
			break;
		case NEXT_TIME:
			if (kp_mono_now() >= r->end)
				return EXIT_DONE;
			st = read_and_show(r, false);
			break;
		}
	}
	return st == OPTS_GO_ON ? EXIT_DONE : st;
}

static int
count_with(struct run *r)
{
	const struct args *a = r->a;
	bool call = a->o.g.apply[0] != '\0';
	int st;

	r->end = a->f.limit > 0 && !call ? kp_mono_now() + a->f.limit :
	    INT64_MAX;
	if (a->f.limit == 0 && !call && !a->f.quiet)
		say("counting in '%s'; Ctrl-C ends it and shows the figures",
		    a->o.g.talk.target);
	if (call && injected_command(r->c, "go") != KP_OK)
		return say_gone(r);
	st = count_until_end(r);
	r->paused = false;
	if (st == EXIT_DONE)
		st = read_and_show(r, true);
	return st;
}

static int
count_all(struct run *r)
{
	char why[INJECTED_TEXT_MAX + 512] = "";
	int st;
	enum kp_err e = counters_start(&r->c, &r->a->o, &r->hello, why,
	    sizeof(why));

	if (e != KP_OK)
		return functions_failed(r->a->o.g.talk.target, e, why,
		    "counted");
	functions_say_doubt(r->a->o.g.talk.target, &r->hello);
	st = count_with(r);
	if (!injected_stop(r->c, st == EXIT_DONE ? INJECTED_STOP_WAIT : 0))
		functions_say_late(r->a->o.g.talk.target);
	return st;
}

static int
count_by_request(struct run *r)
{
	const struct args *a = r->a;
	struct tracer_opts o = { .g = a->o.g, .max_events = a->events,
		.max_queue = MAX_QUEUE };
	int st = count_requests(&o, a->limits,
	    a->o.g.apply[0] == '\0' ? a->f.limit : 0, a->f.quiet, &r->hello,
	    &r->sum, r->ended, sizeof(r->ended));

	return st == EXIT_DONE ? show_profile(r, &r->sum, true) : st;
}

static int
count(struct args *a)
{
	struct run r = { .a = a, .sum = { .type = a->o.type,
		.by_process = a->o.by_process } };
	int *wake = &a->o.g.talk.wake, st;

	if ((a->keep != NULL && !output_can_be(a->keep, false)) ||
	    (a->db != NULL && !output_can_be(a->db, true)))
		return EXIT_FAILED;
	/* Keys need a terminal of which we are in the foreground. */
	r.keys = !a->lines && a->every > 0 && isatty(STDIN_FILENO) &&
	    tcgetpgrp(STDIN_FILENO) == getpgrp();
	*wake = signals_catch();
	if (*wake >= 0 && (r.keys || a->lines)) {
		*wake = stdin_control_open(*wake, a->lines);
		stdin_control_listen(false);
	}
	if (*wake < 0)
		return EXIT_FAILED;
	if (a->f.list)
		return functions_list(&a->o.g);
	r.sum.names = kp_call_names_new();
	if (r.sum.names == NULL)
		return functions_failed(NULL, KP_ENOMEM, "out of memory", "");
	st = a->limits != NULL ? count_by_request(&r) : count_all(&r);
	kp_counts_free(&r.sum);
	kp_call_names_free(r.sum.names);
	/* The counts were shown, but a run that ended early has failed. */
	return st == EXIT_DONE && r.ended[0] != '\0' ? EXIT_FAILED : st;
}

static const struct {
	const char *name, *sorts;
	enum kp_counts_type type;
	enum counts_sort sort;
} kinds[] = {
	{ "count", COUNTS_SORT_CALLS, KP_COUNTS_CALLS, COUNTS_BY_CALLS },
	{ "time", COUNTS_SORT_TIME, KP_COUNTS_TIME, COUNTS_BY_VALUE },
	{ "memory", COUNTS_SORT_MEMORY, KP_COUNTS_MEMORY, COUNTS_BY_VALUE },
};

int
cmd_count(const struct cmd *cmd, int argc, char **argv)
{
	size_t k = strcmp(cmd->name, "time") == 0 ? 1 :
	    strcmp(cmd->name, "memory") == 0 ? 2 : 0;
	struct args a = { .o = { .type = kinds[k].type, .max_rows = ROWS_MAX, .g = {
		.processes = "", .apply = "", .talk = { .wake = -1 } } },
		.f = { FUNCTIONS_LIMITS },
		.top = OPT_UNSET, .events = MAX_EVENTS,
		.sort = { .key = (int)kinds[k].sort } };
	const struct opt opts[] = {
		OPT_GROUP("Where, and for how long"),
		{ "target", "NODE", "the node to count in (needed)", opt_node,
		    &a.o.g.talk.target, NULL },
		OPTS_RUN(a.f, a.o.g, "count"),
		{ "every", "TIME", "show what was counted so far, again and "
		    "again: 2s", opt_text, &a.interval, NULL },
		{ "stdin", NULL, "obey lines on standard input: pause, "
		    "continue, restart, show, end", opt_flag, &a.lines, NULL },
		OPTS_LIMITS(a.l),
		{ "max-events", "N", "by request: end after N events (default "
		    "1000000)", opt_count, &a.events, NULL },
		OPT_GROUP("What is shown, and kept"),
		{ "by", "KEY", "a row is a function in total (default), or in "
		    "one process", opt_choice, &a.by, "total,process" },
		OPT_SORT("function, process, calls, share; time or words "
		    "(default), per-call", a.sort, kinds[k].sorts),
		OPT_N("30; -json and -csv: all", a.top),
		OPT_JSON(a.json),
		{ "csv", NULL, "print CSV", opt_flag, &a.csv, NULL },
		{ "o", "FILE", "keep all rows there, as CSV (kprof diff)",
		    opt_text, &a.keep, NULL },
		{ "db", "FILE", "add all rows to this SQLite database (kprof "
		    "diff)", opt_text, &a.db, NULL },
		OPTS_FUNCTIONS(a.f, a.o.g),
	};
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	if (st == OPTS_GO_ON)
		st = check_args(cmd, &a);
	if (st == OPTS_GO_ON)
		st = count(&a);
	limits_free(a.limits);
	functions_free(&a.o.g);
	return st;
}
