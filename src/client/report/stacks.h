/* stacks.h - kprof report -stacks. */
#ifndef KPROFD_CLIENT_REPORT_STACKS_H
#define KPROFD_CLIENT_REPORT_STACKS_H

#include "client/client.h"

struct stacks_args {
	int form;		/* index into the choices below; -1: not given */
	const char *tier;
	size_t rows;		/* STACKS_ROWS_UNSET: not given */
};

#define STACKS_ROWS_UNSET SIZE_MAX
#define STACKS_ARGS { .form = -1, .rows = STACKS_ROWS_UNSET }

#define OPTS_STACKS(a) \
	{ "form", "FORM", "-stacks: tree (default), folded or speedscope, " \
	    "for flame graphs", opt_choice, &(a).form, \
	    "tree,folded,speedscope" }, \
	{ "tier", "NAME", "-stacks: only what is in this tier", opt_text, \
	    &(a).tier, NULL }, \
	{ "n", "N", "-stacks: functions of a tier, and request types " \
	    "(default 3; 0: all)", opt_number, &(a).rows, NULL }

/* Returns OPTS_GO_ON, or EXIT_USAGE with a message. */
int stacks_check(const struct cmd *cmd, const struct stacks_args *a,
    bool stacks, bool json);
/* Prints the report; returns the exit status. */
int stacks_show(const struct cmd *cmd, const struct stacks_args *a,
    const struct place *place, const struct kp_query_range *range, bool json);

#endif
