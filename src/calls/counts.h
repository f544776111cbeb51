/*
 * counts.h - the counters read from a target: calls of functions, and their
 * time or memory, in total or by process.  Pure.
 *
 * One reading of kprof_counters.erl is any number of
 * {kprof_rows, Ref, [{M, F, Arity, Calls, Value, [{Pid | others, Calls,
 * Value}]}]} and then {kprof_reply, Ref, #{elapsed, gone, deleted, merged, names, came,
 * missed, ahead, stretch}}.
 */
#ifndef KPROFD_CALLS_COUNTS_H
#define KPROFD_CALLS_COUNTS_H

#include "calls/call_trace.h"

#define KP_COUNTS_ROWS_MAX 2000000u

enum kp_counts_type { KP_COUNTS_CALLS, KP_COUNTS_TIME, KP_COUNTS_MEMORY };
/* "count", "time", "memory": as options, messages and files name them. */
extern const char *const kp_counts_types[];

#define KP_PROC_ALL UINT32_MAX		/* in total, not by process */
#define KP_PROC_OTHERS (UINT32_MAX - 1)	/* processes that were too many */

struct kp_counts_row {
	uint32_t fn, proc;	/* numbers of the names, or KP_PROC_ALL, _OTHERS */
	uint64_t calls;
	uint64_t value;		/* microseconds, or words */
};

/* Zeroed, and then type, by_process and names set, is empty. */
struct kp_counts {
	enum kp_counts_type type;
	bool by_process;	/* a row for each process of a function */
	struct kp_call_names *names;	/* the caller's; readings may share them */
	struct kp_counts_row *rows;
	size_t nrows, room;
	kp_dur_ns elapsed;	/* counting time, by the target's clock */
	uint64_t gone;		/* functions whose counters were lost, */
	uint64_t deleted;	/* and of these, of modules that are deleted */
	uint64_t merged;	/* rows of processes that are added up in "others" */
	/* Modules loaded meanwhile, and counted from their first call, or not. */
	uint64_t came, missed;
	enum kp_counts_ahead {
		KP_COUNTS_AHEAD,	/* missed: past -max-functions */
		KP_COUNTS_OTHERS,	/* missed: another tool has the setting */
		KP_COUNTS_EXCLUDE	/* missed: with -exclude none is counted */
	} ahead;
	uint64_t stretch;	/* last stretch of counting in it; from 1 */
};

/* Leaves it empty, of the same type and names. */
void kp_counts_free(struct kp_counts *p);

/*
 * Adds the rows of the list behind {kprof_rows, Ref.  After an error the rows
 * added before it stay.
 */
enum kp_err kp_counts_rows(struct kp_counts *p, struct kp_term *r);
/* Reads the map behind {kprof_reply, Ref. */
enum kp_err kp_counts_end(struct kp_counts *p, struct kp_term *r);

/* Adds one row.  KP_ELIMIT and KP_ENOMEM leave p as it was. */
enum kp_err kp_counts_put(struct kp_counts *p, const struct kp_counts_row *row);
/* Adds up rows of the same function and process. */
void kp_counts_merge(struct kp_counts *p);
/*
 * Adds an earlier reading of the same type, target and names.  A stretch that
 * both have read is counted once, as `before` has it.  After KP_ENOMEM or
 * KP_ELIMIT p can only be freed.
 */
enum kp_err kp_counts_add(struct kp_counts *p, const struct kp_counts *before);

#endif
