/*
 * trace_roots.h - adds up similar processes as one root: those registered by the
 * same name, or else those that began with the same function.
 *
 * That is the function they were spawned with; under proc_lib, or for a fun, the
 * first function called in them; for processes older than the trace, the
 * outermost function that is known.
 */
#ifndef KPROFD_PROFILE_REPORT_TRACE_ROOTS_H
#define KPROFD_PROFILE_REPORT_TRACE_ROOTS_H

#include "trace_report.h"

/* By process number. */
struct trace_root {
	uint32_t first;		/* first process of the same root */
	uint32_t fn;		/* it began with this function; 0: unknown */
	uint32_t n;		/* for the first process: how many there are */
};

struct trace_roots {
	struct trace_root *v;
	struct kp_calls_sum sum;	/* a root's rows are its first process's */
};

/*
 * Makes the view, and the slices, show roots; the view then needs r.  After
 * KP_ENOMEM neither can be shown.  Free r in any case.
 */
enum kp_err trace_roots_make(struct trace_roots *r, struct trace_view *v,
    struct trace_slice *slices, size_t n);
void trace_roots_free(struct trace_roots *r);

#endif
