/*
 * calls_roots.h - adds up processes of one kind, as one root: those registered
 * by the same name, else those that began with the same function.
 *
 * That is the function they were spawned with; under proc_lib, or for a fun,
 * the first function called in them; for processes that began before the trace,
 * the outermost function that is known.  Figures of a root are the sums of its
 * processes.
 */
#ifndef KPROFD_PROFILE_REPORT_CALLS_ROOTS_H
#define KPROFD_PROFILE_REPORT_CALLS_ROOTS_H

#include "calls.h"

/* By process; to be read. */
struct calls_root {
	uint32_t first;		/* process of this root */
	uint32_t fn;		/* that it began with; 0: not known */
	uint32_t n;		/* of the first: processes of the root */
};

struct calls_roots {
	struct calls_root *v;
	struct kp_calls_sum sum;	/* with each root as its first process */
};

/*
 * Has the view, and slices if any, show roots, as long as r is there.  On
 * KP_ENOMEM they are as they were, or of no use; free r in any case.
 */
enum kp_err calls_roots_make(struct calls_roots *r, struct calls_view *v,
    struct calls_slice *slices, size_t n);
void calls_roots_free(struct calls_roots *r);

#endif
