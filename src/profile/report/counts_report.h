/*
 * counts_report.h - writes the figures of kprof count, time and memory as a
 * table, as JSON and as CSV.
 */
#ifndef KPROFD_PROFILE_REPORT_COUNTS_REPORT_H
#define KPROFD_PROFILE_REPORT_COUNTS_REPORT_H

#include "kprofd/instructions.h"
#include "calls/counts.h"

/* Named by the options below, in this order; count has the first four. */
enum counts_sort {
	COUNTS_BY_FUNCTION,
	COUNTS_BY_PROCESS,
	COUNTS_BY_CALLS,
	COUNTS_BY_SHARE,
	COUNTS_BY_VALUE,	/* time or words */
	COUNTS_BY_PER_CALL
};
#define COUNTS_SORT_CALLS "function,process,calls,share"
#define COUNTS_SORT_TIME COUNTS_SORT_CALLS ",time,per-call"
#define COUNTS_SORT_MEMORY COUNTS_SORT_CALLS ",words,per-call"

/* Which requests were counted, and which calls in them; all borrowed. */
struct counts_limit {
	const char *const *entries;	/* functions that begin requests: M:F/A */
	size_t nentries;
	bool attached;		/* the requests that a kprofd marks */
	const char *identity, *tier;	/* NULL: any */
};
/* One line: "only in requests that web:handle/2 begins". */
void counts_limit_put(struct kp_buf *b, const struct counts_limit *l);

/* How to show the figures, and the notes below them; texts are borrowed. */
struct counts_view {
	enum counts_sort sort;
	bool reverse;
	size_t top;		/* rows to show; 0: all */
	const char *target;
	int otp;
	uint64_t functions, processes;	/* counted */
	uint64_t skipped;	/* processes that another tool traces */
	const char *ended;	/* why counting ended by itself; or NULL */
	bool paused;
	bool own_calls;		/* calls by kprof in the node are counted too */
	const char *value;	/* of the expression; or NULL */
	const struct counts_limit *limit;	/* NULL: not by request */
	struct kp_instructions unseen;	/* chosen, whose calls are instructions */
};

/* width: columns of the terminal; 0: no limit.  Errors stick in b. */
void counts_table(struct kp_buf *b, const struct kp_counts *p,
    const struct counts_view *v, unsigned width);
void counts_json(struct kp_buf *b, const struct kp_counts *p,
    const struct counts_view *v);
void counts_csv(struct kp_buf *b, const struct kp_counts *p,
    const struct counts_view *v);

#endif
