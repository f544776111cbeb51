/*
 * trace_report.h - writes a full trace, added up, in the forms that people and tools
 * read.  Errors stick in the buffer.
 */
#ifndef KPROFD_PROFILE_REPORT_TRACE_REPORT_H
#define KPROFD_PROFILE_REPORT_TRACE_REPORT_H

#include "calls/trace_file.h"
#include "calls/call_sum.h"
#include "calls/critical_path.h"

#define TRACE_COLS 80		/* default width of fprof's form */

struct trace_roots;

/* What to show, and how; all borrowed. */
struct trace_view {
	const struct kp_call_names *names;
	const struct kp_calls_sum *sum;	/* may be NULL for trace_remarks() */
	const struct kp_calls_info *info;
	/* Of several nodes: events moved to after their cause, and the most. */
	uint64_t moved;
	kp_dur_ns moved_most;
	bool queue_most;	/* -max-queue cannot be greater */
	/* for fprof's form: */
	bool no_callers, totals, no_details;
	bool by_own;		/* in order of own time, not accumulated */
	unsigned cols;
	const struct kp_critical_path *critical;	/* for requests; else NULL */
	const struct trace_roots *roots;	/* NULL: each process is a root */
	/* for trees: */
	double least;		/* a part of all the time, 0 to 1 */
	size_t rows;		/* at most; 0: all */
	unsigned width;		/* columns of the terminal; 0: no limit */
};

/* fprof's analysis: terms that file:consult/1 reads; times in ms. */
void trace_fprof(struct kp_buf *b, const struct trace_view *v);
/* Call trees for people; processes in the order of their time. */
void trace_tree(struct kp_buf *b, const struct trace_view *v);
/* Requests across processes, with their critical paths. */
void trace_requests(struct kp_buf *b, const struct trace_view *v);
/* For flame graphs: a line "process;function;function us" for each path. */
void trace_folded(struct kp_buf *b, const struct trace_view *v);
/* For callgrind_annotate and KCachegrind; processes are objects. */
void trace_callgrind(struct kp_buf *b, const struct trace_view *v);

/* A stretch of time that a process spent in one place. */
struct trace_slice {
	uint32_t proc, path;
	kp_target_ns from, to;
};

/*
 * For speedscope, a profile for each process, in the order of time.  Sorts the
 * slices.
 */
void trace_speedscope(struct kp_buf *b, const struct trace_view *v,
    struct trace_slice *slices, size_t n);

/* Appends an event as a line of text. */
void trace_put_event(struct kp_buf *b, const struct kp_call_names *names,
    const struct kp_call_event *ev);

/* Appends why the trace ended, and what is missing in it, in lines. */
void trace_remarks(struct kp_buf *b, const struct trace_view *v);

#endif
