/* trace_internal.h - names and groups of rows, for the forms of trace_report.h. */
#ifndef KPROFD_PROFILE_REPORT_TRACE_INTERNAL_H
#define KPROFD_PROFILE_REPORT_TRACE_INTERNAL_H

#include "trace_report.h"

/* ---- trace_names.c: text is cleaned, as by text_put() ---- */

/* lists:seq/2, suspend */
void trace_put_fn(struct kp_buf *b, const struct kp_call_names *t,
    uint32_t fn);
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
/* As terms: {lists,seq,2}, suspend */
void trace_put_fn_term(struct kp_buf *b, const struct kp_call_names *t,
    uint32_t fn);
/* " (1, {a,b})", or nothing */
void trace_put_args(struct kp_buf *b, struct kp_span args);
void trace_put_pid(struct kp_buf *b, const struct kp_call_names *t,
    uint32_t proc);
/* <0.81.0>, without the node */
void trace_put_number(struct kp_buf *b, const struct kp_call_proc *p);

/* ---- trace_group.c: rows of one process or of all, by function ---- */

/* A function, and the rows about it. */
struct trace_fn {
	uint32_t fn;
	uint64_t calls;
	kp_dur_ns acc, own;
	const struct kp_calls_clock *callers, *called;
	uint32_t ncallers, ncalled;
};

/* Zeroed is empty. */
struct trace_group {
	struct kp_calls_clock *by_fn, *by_caller;
	struct trace_fn *fns;
	uint32_t nrows, nfns;
	uint64_t calls;
	kp_dur_ns own;		/* of all rows */
};

/*
 * Groups n rows, and adds up those that differ only in their process.  Functions
 * are in descending order of own or accumulated time.  KP_ENOMEM leaves g empty.
 */
enum kp_err trace_group_make(struct trace_group *g,
    const struct kp_calls_clock *rows, uint32_t n,
    const struct kp_call_names *names, bool by_own);
void trace_group_free(struct trace_group *g);

/* A copy of all rows, sorted by process; free() it. */
struct kp_calls_clock *trace_rows_by_proc(const struct kp_calls_sum *s);
/* The number of rows, from the first one on, of the same process. */
uint32_t trace_rows_of_one(const struct kp_calls_clock *rows, uint32_t n);

#endif
