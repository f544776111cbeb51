/* calls_show.h - adds a kept trace up and shows it: kprof trace, analyse. */
#ifndef KPROFD_PROFILE_COMMAND_CALLS_SHOW_H
#define KPROFD_PROFILE_COMMAND_CALLS_SHOW_H

#include "client/client.h"

#define CALLS_LEAST 10u

/* Zeroed but for `least` is the default. */
struct calls_args {
	int form, sort, by;
	bool no_callers, totals, no_details, cpu, relative;
	size_t cols, rows;
	bool queue_most;	/* the trace could not have had a longer one */
	size_t least;		/* hundredths of a percent: CALLS_LEAST */
	const char *db;		/* a database to be made, in place of a form */
};

#define OPTS_CALLS(a) \
	{ "form", "FORM", "tree (default), analysis (fprof's), callgrind, " \
	    "folded, speedscope, requests (of -entry), or events", \
	    opt_choice, &(a).form, \
	    "tree,analysis,callgrind,folded,speedscope,events,requests" }, \
	{ "by", "KEY", "a root for all processes of one name, or that began " \
	    "with one function (default), or for each process: tree, folded, " \
	    "speedscope, callgrind", opt_choice, &(a).by, "name,process" }, \
	{ "db", "FILE", "make an SQLite database of it, and show nothing", \
	    opt_text, &(a).db, NULL }, \
	{ "cpu", NULL, "without the time that processes were scheduled out", \
	    opt_flag, &(a).cpu, NULL }, \
	{ "least", "N", "tree: leave out what has less than N " \
	    "hundredths of a percent of the time (default 10; 0: nothing)", \
	    opt_number, &(a).least, NULL }, \
	{ "n", "N", "tree: print N rows (default all)", opt_count, \
	    &(a).rows, NULL }, \
	{ "totals", NULL, "analysis: all processes together, too", opt_flag, \
	    &(a).totals, NULL }, \
	{ "no-details", NULL, "analysis: not each process", opt_flag, \
	    &(a).no_details, NULL }, \
	{ "no-callers", NULL, "analysis: without callers and callees", \
	    opt_flag, &(a).no_callers, NULL }, \
	{ "sort", "KEY", "analysis: by accumulated time (default) or own", \
	    opt_choice, &(a).sort, "acc,own" }, \
	{ "cols", "N", "analysis: N columns wide (default 80)", opt_count, \
	    &(a).cols, NULL }, \
	{ "relative", NULL, "events: times since the first of them", \
	    opt_flag, &(a).relative, NULL }

/* Whether arguments of calls are in what these show. */
bool calls_has_args(const struct calls_args *a);
/* On stderr: why it ended, what is missing. */
struct calls_view;
void calls_say_remarks(const struct calls_view *v);
/* The file's content; name: of the file, for what is said.  Exit status. */
int calls_show(const struct calls_args *a, const void *p, size_t n,
    const char *name);

#endif
