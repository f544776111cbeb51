/*
 * fn_command.h - what the commands that profile functions share (functions_*):
 * options, signals, the start and the end, and -list.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_FN_COMMAND_H
#define KPROFD_CLIENT_FUNCTIONS_FN_COMMAND_H

#include "client/client.h"
#include "profile/node/tracers.h"

#define MB (1024u * 1024u)
#define MAX_EVENTS 1000000
#define MAX_QUEUE 200000	/* events that wait in the node to be sent */
/* How long to wait for requests if -for does not say. */
#define REQUESTS_LIMIT (5 * 60 * KP_NS_PER_S)
#define REQUESTS_LIMIT_TEXT "5m"
/* After "3 requests may lack calls: ". */
#define FUNCTIONS_UNSURE_TEXT "a message without a token took theirs (from " \
	"what began before, or is in no request; up to OTP 26 also that a " \
	"process has ended)"

/* Options as they are given; zeroed except for the limits. */
struct functions_args {
	struct opt_list patterns, exclude;
	const char *duration;
	kp_dur_ns limit;	/* 0: until interrupted */
	size_t functions, processes, memory;
	bool not_spawned;
	bool quiet;		/* print no progress */
	bool list;		/* print the functions, and end */
	char value[INJECTED_VALUE_MAX + 1];	/* of -apply; "": none came */
};

#define FUNCTIONS_LIMITS \
	.functions = 100000, .processes = 100000, .memory = 128
/* verb: what is done to functions, such as "count". */
#define OPTS_RUN(a, o, verb) \
	{ "for", "TIME", verb " for this time: 10s (default: until " \
	    "Ctrl-C); with -apply: stop the call then (default 60s)", \
	    opt_text, &(a).duration, NULL }, \
	{ "apply", "EXPR", verb " what this does there, and " \
	    "show its value: 'lists:seq(1, 10)'", opt_text, &(o).apply, NULL }
#define OPTS_FUNCTIONS(a, o) \
	OPT_ARGUMENTS((a).patterns), \
	OPT_GROUP("Which functions and processes"), \
	{ "exclude", "FUNCTION", "not this one; may be given several " \
	    "times", opt_list, &(a).exclude, NULL }, \
	{ "list", NULL, "print which functions these are, and end", \
	    opt_flag, &(a).list, NULL }, \
	{ "processes", "LIST", "all (default), existing, new, or PID, " \
	    "NAME, application:NAME, supervisor:NAME, children:NAME, " \
	    "descendants:NAME, caller (of -apply), with commas", opt_commas, \
	    &(o).processes, NULL }, \
	{ "not-spawned", NULL, "without the processes that these " \
	    "spawn meanwhile", opt_flag, &(a).not_spawned, NULL }, \
	OPT_GROUP("Limits"), \
	{ "max-functions", "N", "refuse more than N functions (default " \
	    "100000)", opt_count, &(a).functions, NULL }, \
	{ "max-processes", "N", "refuse more than N processes (default " \
	    "100000)", opt_count, &(a).processes, NULL }, \
	{ "max-memory", "N", "refuse, or end, when the node would grow by " \
	    "more than N MiB, without processes, tables and binaries " \
	    "(default 128)", opt_count, &(a).memory, NULL }, \
	OPT_GROUP("General"), \
	{ "quiet", NULL, "no progress; with -o or -db no figures; reasons " \
	    "for an early end are on stderr all the same", opt_flag, \
	    &(a).quiet, NULL }, \
	REACH_OPTIONS_OF((o).reach)

/*
 * The functions that return a status return OPTS_GO_ON, or the status to exit
 * with after they have printed why.
 */

/* Checks -target and REACH_OPTIONS(o->reach), which o->talk then points to. */
int functions_reach(const struct cmd *cmd, struct injected_opts *o);
/* Parse -for and -every; text NULL: it is not given, and *t stays. */
int functions_for(const struct cmd *cmd, const char *text, kp_dur_ns *t);
int functions_every(const struct cmd *cmd, const char *text, kp_dur_ns *t);
/* Checks the options and completes o.  Call functions_free() in any case. */
int functions_check(const struct cmd *cmd, struct functions_args *a,
    struct injected_opts *o);
void functions_free(struct injected_opts *o);

/*
 * Parses -entry, the one function that begins requests, and sets a number of
 * requests that is 0 to 1.  text NULL: not by request.  Free the entry with
 * kp_mfa_pat_free().
 */
int functions_entry(const struct cmd *cmd, const char *text,
    struct kp_mfa_pat *entry, size_t *requests);

/* Runs -list; returns the exit status. */
int functions_list(const struct injected_opts *o);

/*
 * From now on Ctrl-C, SIGTERM and SIGHUP make the descriptor that this returns
 * readable; -1 after printing why that failed.
 */
int signals_catch(void);
/* Makes it wait for the next signal; true if there was one. */
bool signals_drain(void);

/*
 * Prints why there is nothing to show: `why`, or for KP_END that a signal came
 * before anything was `done` ("counted").  Returns EXIT_FAILED.
 */
int functions_failed(const char *target, enum kp_err e, const char *why,
    const char *done);
/*
 * Takes events until the trace ends, until the deadline or a signal, and then
 * what is still under way.  KP_OK, or what the sink returned.
 */
enum kp_err functions_take(struct tracers *ts, kp_mono_ns deadline,
    const struct tracers_sink *sink);
/* Prints lines on stderr, if there are any, and frees b. */
void functions_say_lines(struct kp_buf *b);
/* Prints what of the node is not verified, if TLS is used without that. */
void functions_say_doubt(const char *target, const struct injected_hello *h);
/* Prints that a node still takes back what was set there. */
void functions_say_late(const char *target);
/* After the figures: prints the value of the expression of -apply. */
void functions_say_value(const struct functions_args *a,
    const struct injected_hello *h);

#endif
