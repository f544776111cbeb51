/*
 * client.h - the client's commands, and the little that they share.
 *
 * A command returns its exit status.  It writes its whole output into a
 * kp_buf and shows it at the end: a failure half way prints no half table.
 */
#ifndef KPROFD_CLIENT_CLIENT_H
#define KPROFD_CLIENT_CLIENT_H

#include "kprofd/buf.h"
#include "opts.h"
#include "report/report.h"
#include "store/read/query.h"

#define OUTPUT_MAX (256u << 20)		/* bytes of one command's output */

int cmd_analyse(const struct cmd *cmd, int argc, char **argv);
int cmd_check(const struct cmd *cmd, int argc, char **argv);
int cmd_clear_tokens(const struct cmd *cmd, int argc, char **argv);
/* count, time, memory */
int cmd_count(const struct cmd *cmd, int argc, char **argv);
int cmd_diff(const struct cmd *cmd, int argc, char **argv);
int cmd_merge(const struct cmd *cmd, int argc, char **argv);
int cmd_report(const struct cmd *cmd, int argc, char **argv);
int cmd_slow(const struct cmd *cmd, int argc, char **argv);
int cmd_status(const struct cmd *cmd, int argc, char **argv);
/* flight, dump, pause, resume, reload: what the daemon does and answers */
int cmd_tell(const struct cmd *cmd, int argc, char **argv);
int cmd_top(const struct cmd *cmd, int argc, char **argv);
int cmd_trace(const struct cmd *cmd, int argc, char **argv);
int cmd_tree(const struct cmd *cmd, int argc, char **argv);
int cmd_web(const struct cmd *cmd, int argc, char **argv);

/* Where databases and their daemons are. */
struct place {
	struct opt_list dbs;	/* none: DB_DEFAULT */
	const char *control;	/* NULL: the database's path + .sock */
};

#define DB_DEFAULT "kprofd.db"
#define OPT_DB(place) \
	{ "db", "FILE", "the database (default " DB_DEFAULT "); several " \
	    "are read as one", opt_list, &(place).dbs, NULL }
#define OPT_DB_ONE(place) \
	{ "db", "FILE", "the database (default " DB_DEFAULT ")", opt_list, \
	    &(place).dbs, NULL }
/* Each with a daemon of its own. */
#define OPT_DB_EACH(place) \
	{ "db", "FILE", "the database (default " DB_DEFAULT "); several: " \
	    "one after the other", opt_list, &(place).dbs, NULL }
#define OPT_CONTROL(place) \
	{ "control", "SOCKET", "the daemon's socket (default: the " \
	    "database's path + .sock)", opt_text, &(place).control, NULL }
#define OPT_NODE(glob) \
	{ "node", "GLOB", "only these targets: 'web@*'", opt_text, &(glob), \
	    NULL }
#define OPTS_RANGE(r) \
	{ "since", "TIME", "from there on: 30m (ago), 2026-11-21T10:00, " \
	    "...Z", opt_when, &(r).since, NULL }, \
	{ "until", "TIME", "up to there", opt_when, &(r).until, NULL }, \
	{ "node", "GLOB", "only these nodes: 'web@*'", opt_text, \
	    &(r).node, NULL }, \
	{ "identity", "GLOB", "only these request types: 'GET *'", opt_text, \
	    &(r).identity_glob, NULL }
#define OPT_JSON(flag) \
	{ "json", NULL, "print JSON", opt_flag, &(flag), NULL }

/* "kprof: ..." on stderr, cleaned of what a terminal would obey. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* All databases, borrowed: one at least. */
struct kp_query_files place_dbs(const struct place *p);
/* The i-th database and its daemon, alone. */
struct place place_at(const struct place *p, size_t i);
/* Several databases have a daemon each: -control with them is EXIT_USAGE. */
int place_check(const struct cmd *cmd, const struct place *p);
/* "a.db", or "a.db and 2 more", at most n bytes; returns buf. */
const char *place_name(char *buf, size_t n, const struct place *p);

/* Opens the databases, or says why not. */
enum kp_err open_db(struct kp_query **q, const struct place *p);
/* Says why a query failed; returns EXIT_FAILED. */
int query_failed(const struct kp_query *q, enum kp_err err);
/* Is the range one?  If not, says so and returns EXIT_USAGE. */
int range_check(const struct cmd *cmd, const struct kp_query_range *r);

/* Columns of the terminal ($COLUMNS goes first); 0 when it is none. */
unsigned screen_width(void);
/* Writes to stdout and frees b; returns the exit status. */
int show(struct kp_buf *b);

/*
 * A command for the daemon that is about some targets only; node: a glob, NULL
 * is all of them.  False: it is no such glob, which was said.
 */
bool node_command(char *line, size_t n, const char *command,
    const char *node);
/*
 * Asks the daemon of the first database.  KP_OK: its answer is in `answer`;
 * KP_ESTATE: it refused, `why` holds its words; else it was not reached or
 * not understood, and `why` says how.  Its notes go to stderr as they come.
 */
enum kp_err ask(const struct place *p, const char *command,
    struct kp_buf *answer, char *why, size_t n);
/* The same with so much patience in all, and its notes dropped. */
enum kp_err ask_soon(const struct place *p, const char *command,
    unsigned seconds, struct kp_buf *answer, char *why, size_t n);

/* cmd_explain.c: why a report is empty, and what to do. */
enum kp_err explain_empty(struct kp_buf *b, struct kp_query *q,
    const char *db, const struct kp_query_range *range,
    const struct report *r);

#endif
