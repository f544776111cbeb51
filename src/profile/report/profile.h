/*
 * profile.h - writes a profile of counters as a table, as JSON and as CSV.
 */
#ifndef KPROFD_PROFILE_REPORT_PROFILE_H
#define KPROFD_PROFILE_REPORT_PROFILE_H

#include "kprofd/profile.h"

/* Names for options, in this order; count has the first four. */
enum profile_sort {
	PROFILE_BY_FUNCTION,
	PROFILE_BY_PROCESS,
	PROFILE_BY_CALLS,
	PROFILE_BY_SHARE,
	PROFILE_BY_VALUE,	/* time or words */
	PROFILE_BY_PER_CALL
};
#define PROFILE_SORT_COUNT "function,process,calls,share"
#define PROFILE_SORT_TIME PROFILE_SORT_COUNT ",time,per-call"
#define PROFILE_SORT_MEMORY PROFILE_SORT_COUNT ",words,per-call"

/* Whose calls, and where, are in it; all borrowed. */
struct profile_limit {
	const char *const *entries;	/* what begins requests: M:F/A */
	size_t nentries;
	bool attached;		/* requests that a kprofd marks */
	const char *identity, *tier;	/* NULL: any */
};
/* In a line: "only in requests that web:handle/2 begins". */
void profile_limit_put(struct kp_buf *b, const struct profile_limit *l);

/* How it is shown, and what is to be said of it; texts are borrowed. */
struct profile_view {
	enum profile_sort sort;
	bool reverse;		/* least figures first, or names from the end */
	bool by_process;
	size_t top;		/* rows to show; 0: all */
	const char *target;
	int otp;
	uint64_t functions, processes;	/* counted */
	uint64_t skipped;	/* processes that another tool traces */
	const char *ended;	/* why, where it ended by itself; or NULL */
	bool paused;
	const char *value;	/* of an expression; or NULL */
	const struct profile_limit *limit;	/* NULL: not by request */
};

/* width: columns of the terminal; 0: no limit.  Errors stick in b. */
void profile_table(struct kp_buf *b, const struct kp_profile *p,
    const struct profile_view *v, unsigned width);
void profile_json(struct kp_buf *b, const struct kp_profile *p,
    const struct profile_view *v);
void profile_csv(struct kp_buf *b, const struct kp_profile *p,
    const struct profile_view *v);

#endif
