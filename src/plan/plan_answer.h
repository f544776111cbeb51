/*
 * plan_answer.h - a target's answer about the modules that it was asked for.
 * Pure.
 */
#ifndef KPROFD_PLAN_PLAN_ANSWER_H
#define KPROFD_PLAN_PLAN_ANSWER_H

#include "kprofd/err.h"
#include "kprofd/term.h"

struct answer_fn {
	struct kp_span name;
	uint32_t arity;
	bool exported;
};

/* One module's part of the answer; spans point into it. */
struct answer_module {
	struct kp_span name;
	bool loaded;
	struct kp_span why;	/* raw term, when not loaded */
	struct answer_fn *fns;
	uint32_t nfns;
	struct kp_span behaviours;	/* raw list of their names */
	struct kp_span others;	/* raw list of module names, when not loaded */
};

struct answer {
	struct answer_module *v;
	uint32_t n;
};

/*
 * Reads all of it.  Spans point into what r reads.  To be freed whatever comes
 * out: KP_EFORMAT, KP_ELIMIT where it is longer than any answer, KP_ENOMEM.
 */
enum kp_err answer_read(struct kp_term *r, struct answer *a);
void answer_free(struct answer *a);
/* NULL: it says nothing of such a module. */
const struct answer_module *answer_find(const struct answer *a,
    const char *name);

/*
 * The behaviour for which a function is a callback that returns its process's
 * state, or NULL.  behaviours: the raw list of those that its module names.
 */
const char *plan_state_callback(struct kp_span behaviours, struct kp_span fun,
    uint32_t arity, bool exported);

#endif
