/*
 * opts.h - commands and their options: tables, one parser for all.
 *
 * One dash or two, "-name value" or "-name=value", arguments and options in
 * any order; "--" ends the options.  What is wrong is said on stderr, with
 * the way out.
 */
#ifndef KPROFD_CLIENT_OPTS_H
#define KPROFD_CLIENT_OPTS_H

#include <stdbool.h>
#include <stddef.h>

enum opt_kind {
	OPT_FLAG,	/* bool */
	OPT_TEXT,	/* const char *, not empty */
	OPT_COUNT,	/* size_t, 1 .. 1000000 */
	OPT_WHEN,	/* kp_wall_ns: see text/timefmt.h */
	OPT_RANGE,	/* struct timefmt_range: the same */
	OPT_CHOICE,	/* int: which of "a,b,c" */
	OPT_LIST	/* struct opt_list: may be given several times */
};

#define OPT_LIST_MAX 256	/* of one option */

struct opt_list {
	const char *v[OPT_LIST_MAX];
	size_t n;
};

struct opt {
	const char *name, *arg, *help;
	enum opt_kind kind;
	void *to;
	const char *choices;
};

/* The arguments of a command that takes several: an option without a name. */
#define OPT_ARGUMENTS(list) { "", NULL, "", OPT_LIST, &(list), NULL }

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

/* Of n names, stride bytes apart, the one near enough to be meant; or NULL. */
const char *near_name(const char *name, const void *names, size_t n,
    size_t stride);

#endif
