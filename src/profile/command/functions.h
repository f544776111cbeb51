/*
 * functions.h - options, signals and -list of the commands that profile a
 * node's functions.
 */
#ifndef KPROFD_PROFILE_COMMAND_FUNCTIONS_H
#define KPROFD_PROFILE_COMMAND_FUNCTIONS_H

#include "client/client.h"
#include "profile/target/injected.h"

#define MB (1024u * 1024u)
/* Where nobody says how long to wait for requests, and no call is made. */
#define REQUESTS_LIMIT (5 * 60 * KP_NS_PER_S)
#define REQUESTS_LIMIT_TEXT "5m"

/* Options, as they are given; zeroed, but for the limits. */
struct functions_args {
	struct opt_list patterns, exclude;
	const char *duration;
	kp_dur_ns limit;	/* 0: until interrupted */
	size_t functions, processes, memory;
	bool not_spawned;
	bool quiet;		/* no word of what goes well */
	bool list;		/* print which, and trace none */
	char value[INJECTED_VALUE_MAX + 1];	/* of -apply; "": none came */
};

#define FUNCTIONS_LIMITS \
	.functions = 100000, .processes = 100000, .memory = 128
#define OPTS_FUNCTIONS(a, o) \
	OPT_ARGUMENTS((a).patterns), \
	{ "exclude", "FUNCTION", "not this one; may be given several " \
	    "times", opt_list, &(a).exclude, NULL }, \
	{ "list", NULL, "print which functions these are, and end", \
	    opt_flag, &(a).list, NULL }, \
	{ "processes", "LIST", "all (default), existing, new, or PID, " \
	    "NAME, application:NAME, supervisor:NAME, children:NAME, " \
	    "descendants:NAME, caller (of -apply), with commas", opt_text, &(o).processes, NULL }, \
	{ "not-spawned", NULL, "without the processes that these " \
	    "spawn meanwhile", opt_flag, &(a).not_spawned, NULL }, \
	{ "quiet", NULL, "no progress; with -o or -db no figures; reasons " \
	    "for an early end are on stderr all the same", opt_flag, \
	    &(a).quiet, NULL }, \
	{ "max-functions", "N", "refuse more than N functions (default " \
	    "100000)", opt_count, &(a).functions, NULL }, \
	{ "max-processes", "N", "refuse more than N processes (default " \
	    "100000)", opt_count, &(a).processes, NULL }, \
	{ "max-memory", "N", "refuse, or end, when the node would grow by " \
	    "more than N MiB, without processes, tables and binaries " \
	    "(default 128)", opt_count, &(a).memory, NULL }, \
	{ "name", "NAME", "our node name", opt_text, &(o).talk.name, NULL }, \
	{ "cookie-file", "FILE", "where the cookie is", opt_text, \
	    &(o).talk.cookie_file, NULL }

/*
 * Checks the options and completes o.  OPTS_GO_ON, or the status to exit with,
 * which was said; functions_free() in any case.
 */
int functions_check(const struct cmd *cmd, struct functions_args *a,
    struct injected_opts *o);
void functions_free(struct injected_opts *o);
/* Prints which functions these are, for -list; returns the status. */
int functions_list(const struct injected_opts *o);

/* After the figures: what the expression gave, and how. */
void functions_say_value(const struct functions_args *a,
    const struct injected_hello *h);

/* One function pattern, to be freed with kp_mfa_pat_free(); as above. */
int functions_pattern(const struct cmd *cmd, const char *s, bool any,
    struct kp_mfa_pat *out);

/*
 * What begins a request: one function, to be freed likewise, and how many of
 * them, in which 0 becomes 1; text NULL: not by request.  As above.
 */
int functions_entry(const struct cmd *cmd, const char *text,
    struct kp_mfa_pat *entry, size_t *requests);

/*
 * From now on ^C, SIGTERM and SIGHUP make what is returned readable; less than
 * 0: it cannot be, which was said.
 */
int signals_catch(void);
/* Before there was anything to show; returns EXIT_FAILED. */
int interrupted(const char *target, const char *what);
/* Whether there was one; the next signal is another one. */
bool signals_drain(void);

#endif
