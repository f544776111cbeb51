/*
 * advice.h - the hints of a report: what is wrong with it if it is empty or odd, and what
 * to do, in the words that kprofd's log has for it, too.
 */
#ifndef KPROFD_REPORT_ADVICE_H
#define KPROFD_REPORT_ADVICE_H

#include "report.h"

#define ADVICE_MAX 1600	/* bytes of a sentence; most are far shorter */

/* Facts that are not in the report.  All borrowed; texts may be "". */
struct advice {
	kp_wall_ns first, last;		/* of all windows; 0: there is none */
	bool run;			/* a kprofd has written here, */
	bool attached;			/* and was attached to a target */
	const char *failed;		/* why the last did not start */
	const char *absent;		/* why targets are not attached */
	const char *overload;		/* why tracing was paused last */
	bool paused;			/* by kprof pause, after that */
	const char *asked;		/* the glob of nodes; "": all */
	const struct kp_query_nodes *nodes;	/* of that time, of any name */
	const char *entries;		/* "entry a:b/1": advice_entries() */
	bool named;			/* tiers.conf names request types */
	kp_wall_ns changed;		/* it is in force since then; 0: always */
};

/*
 * Adds to the report's hints what its range's events and figures say: clauses of the
 * identity fun that name nothing, entries that never end, why it is empty or odd.  If
 * something cannot be read there are none, and hinted stays false.
 */
void report_hints(struct kp_query *q, const struct kp_query_range *range,
    struct report *report);

/* Sampled requests that are enough to say that a clause never matched. */
#define HINT_REQUESTS 100

/* Adds whatever applies; report_hints() calls it. */
void report_advise(struct report *r, const struct advice *a);

/* Writes the entries of a tiers.conf, three at most by name. */
void advice_entries(char *text, size_t n, const struct kp_conf *c);
/* node: for the example of a command; "": any. */
void advice_absent(char *text, size_t n);
void advice_uncalled(char *text, size_t n, const char *entries,
    const char *node);
void advice_endless(char *text, size_t n, uint64_t calls, const char *entries);

#endif
