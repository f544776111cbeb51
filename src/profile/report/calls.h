/*
 * calls.h - writes the sums of a full trace in the forms that people and their
 * tools read.  Errors stick in the buffer.
 */
#ifndef KPROFD_PROFILE_REPORT_CALLS_H
#define KPROFD_PROFILE_REPORT_CALLS_H

#include "kprofd/calls_file.h"
#include "kprofd/calls_sum.h"
#include "kprofd/calls_critical_path.h"

#define CALLS_COLS 80		/* of fprof's form, where nothing is said */

struct calls_roots;

/* What is shown, and how; all borrowed. */
struct calls_view {
	const struct kp_call_names *names;
	const struct kp_calls_sum *sum;	/* of remarks alone it may be NULL */
	const struct kp_calls_info *info;
	/* Of several nodes: events that were put in order, by so much. */
	uint64_t moved;
	kp_dur_ns moved_most;
	bool queue_most;	/* no longer queue could be allowed */
	/* of fprof's form: */
	bool no_callers, totals, no_details;
	bool by_own;		/* in order of own time, not accumulated */
	unsigned cols;
	const struct kp_critical_path *critical;	/* of requests; else NULL */
	const struct calls_roots *roots;	/* NULL: each process is one */
	/* of trees: */
	double least;		/* a part of all the time, 0 to 1 */
	size_t rows;		/* at most; 0: all */
	unsigned width;		/* columns of the terminal; 0: no limit */
};

/* fprof's analysis: terms that file:consult/1 reads; times in ms. */
void calls_analysis(struct kp_buf *b, const struct calls_view *v);
/* Call trees for people, processes by their time. */
void calls_tree(struct kp_buf *b, const struct calls_view *v);
/* Requests across processes, with their critical paths. */
void calls_requests(struct kp_buf *b, const struct calls_view *v);
/* A line a path, "process;function;function us", for flame graphs. */
void calls_folded(struct kp_buf *b, const struct calls_view *v);
/* For callgrind_annotate and KCachegrind; processes are objects. */
void calls_callgrind(struct kp_buf *b, const struct calls_view *v);

/* A stretch of time that a process spent in one place. */
struct calls_slice {
	uint32_t proc, path;
	kp_target_ns from, to;
};

/*
 * For speedscope, a profile for each process, in the order of time; in that
 * order slices are put.
 */
void calls_speedscope(struct kp_buf *b, const struct calls_view *v,
    struct calls_slice *slices, size_t n);

/* An event as a line of text. */
void calls_dump(struct kp_buf *b, const struct kp_call_names *names,
    const struct kp_call_event *ev);

/* What is to be said beside the figures: why it ended, what is missing. */
void calls_remarks(struct kp_buf *b, const struct calls_view *v);

#endif
