/* analyse.h - adds up a kept trace and shows it: kprof trace and analyse. */
#ifndef KPROFD_CLIENT_FUNCTIONS_ANALYSE_H
#define KPROFD_CLIENT_FUNCTIONS_ANALYSE_H

#include "client/client.h"
#include "profile/report/trace_report.h"

#define ANALYSE_LEAST 10u

/* Zeroed, and then least set to ANALYSE_LEAST, has the defaults. */
struct analyse_args {
	int form, sort, by;
	bool no_callers, totals, no_details, cpu, relative;
	size_t cols, rows;
	bool queue_most;	/* -max-queue had its greatest value */
	size_t least;		/* hundredths of a percent */
	const char *db;		/* make this database, and show nothing */
};

#define OPTS_ANALYSE(a) \
	OPT_GROUP("What is shown"), \
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

/* True if the form shows arguments of calls. */
bool analyse_has_args(const struct analyse_args *a);
/* Prints on stderr why the trace ended, and what is missing in it. */
void analyse_say_remarks(const struct trace_view *v);
/* Shows the file, or stores it in the database; returns the exit status. */
int analyse_show(const struct analyse_args *a, int fd, const char *name);

#endif
