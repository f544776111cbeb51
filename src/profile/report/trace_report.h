/*
 * trace_report.h - writes a full trace, added up, in the forms that people and tools
 * read.  Errors stick in the buffer.
 */
#ifndef KPROFD_PROFILE_REPORT_TRACE_REPORT_H
#define KPROFD_PROFILE_REPORT_TRACE_REPORT_H

#include "calls/trace_file.h"
#include "calls/call_sum.h"
#include "calls/critical_path.h"
#include "text/flame_tree.h"

#define TRACE_COLS 80		/* default width of fprof's form */

/*
 * Similar processes are added up as one root: those registered by the same name, or
 * else those that began with the same function.  That is the function they were
 * spawned with; under proc_lib, or for a fun, the first function called in them; for
 * processes older than the trace, the outermost function that is known.
 */
struct trace_root {
	uint32_t first;		/* first process of the same root */
	uint32_t fn;		/* it began with this function; 0: unknown */
	uint32_t n;		/* for the first process: how many there are */
};

struct trace_roots {
	struct trace_root *v;	/* by process number */
	struct kp_calls_sum sum;	/* a root's clocks are its first process's */
};

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
	bool reverse;		/* the smallest first */
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
/* For pprof: calls and own times, a sample for each path. */
void trace_pprof(struct kp_buf *b, const struct trace_view *v);
/* For flame graphs: a line "process;function;function us" for each path. */
void trace_folded(struct kp_buf *b, const struct trace_view *v);
/* For programs: functions with their sums, and the call tree (kprof.1, JSON). */
void trace_json(struct kp_buf *b, const struct trace_view *v);
/* For callgrind_annotate and KCachegrind; processes are objects. */
void trace_callgrind(struct kp_buf *b, const struct trace_view *v);

/* A stretch of time that a process spent in one place. */
struct trace_slice {
	uint32_t proc, path;
	kp_target_ns from, to;
};

/*
 * Makes the view show roots; it then needs r.  KP_ENOMEM leaves it as it was.
 * Free r in any case.
 */
enum kp_err trace_roots_make(struct trace_roots *r, struct trace_view *v);
void trace_roots_free(struct trace_roots *r);

/*
 * For speedscope a profile, for Chrome a thread of each process, in the order of time.
 * Sorts the slices, and sets their processes to those of their roots.
 */
void trace_viewer(struct kp_buf *b, const struct trace_view *v,
    struct trace_slice *slices, size_t n, enum flame_viewer form);

/* ---- text; names are cleaned, as by text_put() ---- */

/* lists:seq/2, suspend; people: as fn_read_put() has it, else as a command takes it. */
void trace_put_fn(struct kp_buf *b, const struct kp_call_names *t,
    uint32_t fn, bool people);
/*
 * <0.81.0>, or "server <0.81.0>".  Where there are several nodes, a process is
 * written with its node before it.
 */
void trace_put_proc(struct kp_buf *b, const struct kp_call_names *t,
    uint32_t proc);
/* The same, or several as one: "server (3 processes)", "m:f/1 (17 934 ...)" */
void trace_put_root(struct kp_buf *b, const struct trace_view *v,
    uint32_t proc);
/* "app@host", or "app@host, db@host" */
void trace_put_targets(struct kp_buf *b, const struct trace_view *v);
/* " (1, {a,b})", or nothing */
void trace_put_args(struct kp_buf *b, struct kp_span args);
void trace_put_pid(struct kp_buf *b, const struct kp_call_names *t,
    uint32_t proc);
/* <0.81.0>, without the node */
void trace_put_number(struct kp_buf *b, const struct kp_call_proc *p);
/* Appends an event as a line of text. */
void trace_put_event(struct kp_buf *b, const struct kp_call_names *names,
    const struct kp_call_event *ev);
/* Appends why the trace ended, and what is missing in it, in lines. */
void trace_remarks(struct kp_buf *b, const struct trace_view *v);

#endif
