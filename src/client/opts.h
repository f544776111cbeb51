/*
 * opts.h - commands, their options and arguments, in any order; "--" ends the
 * options.  Errors go to stderr, with a hint at what to do.
 */
#ifndef KPROFD_CLIENT_OPTS_H
#define KPROFD_CLIENT_OPTS_H

#include "base/options.h"

/* Kinds of values of the commands' own: see text/timefmt.h. */
bool opt_when(struct opt_parser *p);	/* kp_wall_ns */
bool opt_range(struct opt_parser *p);	/* struct timefmt_range */

/* The arguments of a command that takes several: an option without a name. */
#define OPT_ARGUMENTS(list) { "", NULL, "", opt_list, &(list), NULL }

struct cmd {
	const char *name;
	const char *arg;	/* the one it takes ("FILE"), or NULL */
	const char *help;	/* one line */
	const char *more;	/* shown by -h, or "" */
	const char *example;
	int (*run)(const struct cmd *cmd, int argc, char **argv);
};

#define EXIT_DONE 0
#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define OPTS_GO_ON (-1)

/*
 * OPTS_GO_ON, or the status to exit with: help was printed, or something was
 * wrong and has been said.  *arg is the argument, where cmd takes one.
 */
int opts_parse(const struct cmd *cmd, const struct opt *opts, size_t n,
    int argc, char **argv, const char **arg);

/* Says what is wrong with the usage of a command; returns EXIT_USAGE. */
int opts_wrong(const struct cmd *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define NEAR_RULE ((struct near_rule){ .edits = 2, .kept = 1 })

#endif
