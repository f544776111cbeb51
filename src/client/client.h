/*
 * client.h - the commands of kprof, and what they share.
 *
 * A command returns its exit status.  It writes its output into a kp_buf and
 * prints it at the end, so that a failure half way prints no half table.
 */
#ifndef KPROFD_CLIENT_CLIENT_H
#define KPROFD_CLIENT_CLIENT_H

#include "text/options.h"
#include "client/ctl_socket.h"
#include "client/terminal.h"
#include "kprofd/buf.h"
#include "report/report.h"
#include "store/query.h"

#define OUTPUT_MAX (256u << 20)		/* bytes of one command's output */

#define EXIT_DONE 0
#define EXIT_FAILED 1
#define EXIT_USAGE 2

/* ---- commands ---- */

struct cmd {
	const char *name;
	const char *arg;	/* the argument it takes ("FILE"), or NULL */
	const char *help;	/* one line */
	const char *more;	/* paragraphs shown by -h, or "" */
	const char *example;
	int (*run)(const struct cmd *cmd, int argc, char **argv);
};

int cmd_analyse(const struct cmd *cmd, int argc, char **argv);
int cmd_check(const struct cmd *cmd, int argc, char **argv);
int cmd_clear_tokens(const struct cmd *cmd, int argc, char **argv);
/* count, time, memory */
int cmd_count(const struct cmd *cmd, int argc, char **argv);
/* flight, dump, pause, resume, reload: sent to the daemon */
int cmd_ctl(const struct cmd *cmd, int argc, char **argv);
int cmd_diff(const struct cmd *cmd, int argc, char **argv);
int cmd_merge(const struct cmd *cmd, int argc, char **argv);
int cmd_report(const struct cmd *cmd, int argc, char **argv);
int cmd_slow(const struct cmd *cmd, int argc, char **argv);
int cmd_stacks(const struct cmd *cmd, int argc, char **argv);
int cmd_status(const struct cmd *cmd, int argc, char **argv);
int cmd_suggest(const struct cmd *cmd, int argc, char **argv);
int cmd_top(const struct cmd *cmd, int argc, char **argv);
int cmd_trace(const struct cmd *cmd, int argc, char **argv);
int cmd_tree(const struct cmd *cmd, int argc, char **argv);
int cmd_web(const struct cmd *cmd, int argc, char **argv);

/* ---- options ---- */

/* A table and its length, for opts_parse(). */
#define OPTS(table) (table), sizeof(table) / sizeof((table)[0])

/* For opts_parse(): go on with the command. */
#define OPTS_GO_ON (-1)

/*
 * Options and arguments may come in any order; "--" ends the options.  Returns
 * OPTS_GO_ON, or the status to exit with: help was printed, or an error was.
 * *arg is the argument, where cmd takes one.
 */
int opts_parse(const struct cmd *cmd, const struct opt *opts, size_t n,
    int argc, char **argv, const char **arg);
/* The same for a command with OPTS_RANGE(*r) and no argument. */
int opts_parse_range(const struct cmd *cmd, const struct opt *opts, size_t n,
    int argc, char **argv, const struct kp_query_range *r);
/* Prints what is wrong with the usage of a command; returns EXIT_USAGE. */
int opts_wrong(const struct cmd *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Converters of the commands' own: see text/timefmt.h. */
bool opt_since(struct opt_parser *p);	/* struct kp_query_range */
bool opt_until(struct opt_parser *p);	/* likewise */
bool opt_range(struct opt_parser *p);	/* struct timefmt_range */
bool opt_took(struct opt_parser *p);	/* struct kp_query_range */
/*
 * const char *; a node with a port, as for -target, stands for its name.
 * Several times: one text with blanks between them (kp_globs()).
 */
bool opt_node_glob(struct opt_parser *p);

#define NEAR_RULE ((struct near_rule){ .edits = 2, .kept = 1 })

/* Where databases and their daemons are. */
struct place {
	struct opt_list dbs;	/* none: $KPROF_DB, else DB_DEFAULT */
	const char *control;	/* NULL: the database's path + .sock */
};

#define DB_DEFAULT "kprofd.db"
#define DB_TEXT "default $KPROF_DB, else " DB_DEFAULT
#define OPT_DB(place) \
	{ "db", "FILE", "the database (" DB_TEXT "); several are read as " \
	    "one", opt_list, &(place).dbs, NULL }
#define OPT_DB_ONE(place) \
	{ "db", "FILE", "the database (" DB_TEXT ")", opt_list, \
	    &(place).dbs, NULL }
/* For commands that ask the daemon of each database. */
#define OPT_DB_EACH(place) \
	{ "db", "FILE", "the database (" DB_TEXT "); several: one after " \
	    "the other", opt_list, &(place).dbs, NULL }
#define OPT_CONTROL(place) \
	{ "control", "SOCKET", "the daemon's socket (default: the " \
	    "database's path + .sock)", opt_text, &(place).control, NULL }
#define OPT_NODE(glob) \
	{ "node", "GLOB", "only these targets: 'web@*'; may be given more " \
	    "than once", opt_node_glob, \
	    &(glob), NULL }
#define OPTS_RANGE(r) \
	{ "since", "TIME", "from there on: 30m (ago), 2026-11-21T10:00, " \
	    "...Z", opt_since, &(r), NULL }, \
	{ "until", "TIME", "up to there", opt_until, &(r), NULL }, \
	{ "node", "GLOB", "only these nodes: 'web@*'; may be given more " \
	    "than once", opt_node_glob, \
	    &(r).node, NULL }, \
	{ "identity", "GLOB", "only these request types: 'GET *'", opt_text, \
	    &(r).identity_glob, NULL }
#define OPT_TOOK(of, r) \
	{ "took", "FROM,TO", of "only requests of this duration, to a power of two of " \
	    "a second: 250ms,1s; 250ms: or longer", opt_took, &(r), NULL }
#define OPT_JSON(flag) \
	{ "json", NULL, "print JSON", opt_flag, &(flag), NULL }
#define OPT_SORT(keys, order, choices) \
	{ "sort", "KEY", "in order of " keys "; -KEY: the other way round", \
	    opt_sort, &(order), choices }
/* OPT_UNSET: it is not given. */
#define OPT_UNSET SIZE_MAX
#define OPT_N(otherwise, n) \
	{ "n", "N", "print N rows (default " otherwise "; 0: all)", opt_number, \
	    &(n), NULL }
#define OPT_WHAT(what) \
	{ "what", "FIGURE", "of tiers: self (exclusive, the default), busy " \
	    "(time in tier), total (inclusive), calls, async (after the " \
	    "request), gc or out (scheduled out)", opt_choice, &(what), \
	    report_whats }
/* The arguments of a command that takes several: an option without a name. */
#define OPT_ARGUMENTS(list) { "", NULL, "", opt_list, &(list), NULL }

/* ---- output and databases ---- */

/* Prints "kprof: ..." on stderr, without terminal control characters. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* All databases, borrowed: one at least. */
struct kp_query_files place_dbs(const struct place *p);
/* The i-th database and its daemon, alone. */
struct place place_at(const struct place *p, size_t i);
/* Returns EXIT_USAGE for -control with several databases: each has a daemon. */
int place_check(const struct cmd *cmd, const struct place *p);
/* "a.db", or "a.db and 2 more", at most n bytes; returns buf. */
const char *place_name(char *buf, size_t n, const struct place *p);

/* Opens the databases, or prints why it cannot. */
enum kp_err open_db(struct kp_query **q, const struct place *p);
/* Prints why a query failed; returns EXIT_FAILED. */
int query_failed(const struct kp_query *q, enum kp_err err);

/* Writes to stdout and frees b; returns the exit status. */
int show(struct kp_buf *b);
/* As show(), or query_failed() where err is not KP_OK; frees b. */
int query_show(const struct kp_query *q, enum kp_err err, struct kp_buf *b);

/* ---- the daemon ---- */

/*
 * Makes the line for a command that takes globs of targets, with blanks between
 * them; NULL: all.  False: they are too many, which was printed.
 */
bool daemon_line(char line[CTL_LINE_MAX], const char *command,
    const char *nodes);
/*
 * Asks the daemon of the first database.  KP_OK: its answer is in `answer`;
 * KP_ESTATE: it refused, `why` holds its words; otherwise it was not reached
 * or not understood, and `why` says how.  seconds 0: waits as long as it
 * sends notes, and prints them on stderr; else at most for that time in all.
 */
enum kp_err daemon_ask(const struct place *p, const char *command,
    unsigned seconds, struct kp_buf *answer, char *why, size_t n);

/* ---- windows that still run: running.c ---- */

/*
 * Asks the daemons for their targets' first windows, which the database does not
 * have yet.  Replaces *report by theirs if it has no windows; live: also if all
 * it has are of runs that are over.  Otherwise adds a hint to such a report.
 * why, n bytes: what a daemon refused, or "".  On error kp_query_why() says what
 * happened, and *report is unchanged.
 */
enum kp_err running_report(struct kp_query *q, const struct place *p,
    const struct kp_query_range *r, bool live, struct report **report,
    char *why, size_t n);

#endif
