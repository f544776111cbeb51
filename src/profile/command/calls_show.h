/* calls_show.h - a kept trace is added up and shown: kprof trace, analyse. */
#ifndef KPROFD_PROFILE_COMMAND_CALLS_SHOW_H
#define KPROFD_PROFILE_COMMAND_CALLS_SHOW_H

#include "client/client.h"

/* Zeroed is the default. */
struct calls_args {
	int form, sort;
	bool no_callers, totals, no_details, cpu;
	size_t cols;
	size_t least;		/* hundredths of a percent */
	const char *db;		/* a database to be made, in place of a form */
};

#define OPTS_CALLS(a) \
	{ "form", "FORM", "tree (default), analysis (fprof's), callgrind, " \
	    "folded, speedscope, requests (of -entry), or events", \
	    OPT_CHOICE, &(a).form, \
	    "tree,analysis,callgrind,folded,speedscope,events,requests" }, \
	{ "db", "FILE", "make an SQLite database of it, and show nothing", \
	    OPT_TEXT, &(a).db, NULL }, \
	{ "cpu", NULL, "without the time that processes were scheduled out", \
	    OPT_FLAG, &(a).cpu, NULL }, \
	{ "least", "N", "tree: leave out what has less than so many " \
	    "hundredths of a percent of the time (default 10)", OPT_COUNT, \
	    &(a).least, NULL }, \
	{ "totals", NULL, "analysis: all processes together, too", OPT_FLAG, \
	    &(a).totals, NULL }, \
	{ "no-details", NULL, "analysis: not each process", OPT_FLAG, \
	    &(a).no_details, NULL }, \
	{ "no-callers", NULL, "analysis: without callers and callees", \
	    OPT_FLAG, &(a).no_callers, NULL }, \
	{ "sort", "KEY", "analysis: by accumulated time (default) or own", \
	    OPT_CHOICE, &(a).sort, "acc,own" }, \
	{ "cols", "N", "analysis: so wide (default 80)", OPT_COUNT, \
	    &(a).cols, NULL }

/* Whether arguments of calls are in what these show. */
bool calls_has_args(const struct calls_args *a);
/* The file's content; name: of the file, for what is said.  Exit status. */
int calls_show(const struct calls_args *a, const void *p, size_t n,
    const char *name);

#endif
