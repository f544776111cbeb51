/* functions.h - what commands share that look at a node's functions. */
#ifndef KPROFD_PROFILE_COMMAND_FUNCTIONS_H
#define KPROFD_PROFILE_COMMAND_FUNCTIONS_H

#include "client/client.h"
#include "profile/target/injected.h"

#define MB (1024u * 1024u)

/* Options, as they are given; zeroed, but for the limits. */
struct functions_args {
	struct opt_list patterns, exclude;
	const char *duration;
	kp_dur_ns limit;	/* 0: until interrupted */
	size_t functions, processes, memory;
	bool not_spawned;
};

#define FUNCTIONS_LIMITS \
	.functions = 10000, .processes = 100000, .memory = 128
#define OPTS_FUNCTIONS(a, o) \
	OPT_ARGUMENTS((a).patterns), \
	{ "exclude", "FUNCTION", "not this one; may be given several " \
	    "times", OPT_LIST, &(a).exclude, NULL }, \
	{ "processes", "LIST", "all (default), existing, new, or PID, " \
	    "NAME, application:NAME, supervisor:NAME, children:NAME, " \
	    "with commas", OPT_TEXT, &(o).processes, NULL }, \
	{ "not-spawned", NULL, "without the processes that these " \
	    "spawn", OPT_FLAG, &(a).not_spawned, NULL }, \
	{ "max-functions", "N", "refuse more (default 10000)", \
	    OPT_COUNT, &(a).functions, NULL }, \
	{ "max-processes", "N", "refuse more (default 100000)", \
	    OPT_COUNT, &(a).processes, NULL }, \
	{ "max-memory", "N", "end when the node, without processes, " \
	    "tables and binaries, has grown by so many MiB (default 128)", \
	    OPT_COUNT, &(a).memory, NULL }, \
	{ "name", "NAME", "our node name", OPT_TEXT, &(o).talk.name, NULL }, \
	{ "cookie-file", "FILE", "where the cookie is", OPT_TEXT, \
	    &(o).talk.cookie_file, NULL }

/*
 * Checks the options and completes o.  OPTS_GO_ON, or the status to exit with,
 * which was said; functions_free() in any case.
 */
int functions_check(const struct cmd *cmd, struct functions_args *a,
    struct injected_opts *o);
void functions_free(struct injected_opts *o);

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
/* Whether there was one; the next signal is another one. */
bool signals_drain(void);

#endif
