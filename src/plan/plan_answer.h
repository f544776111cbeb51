/*
 * plan_answer.h - decodes a target's answer about the modules of tiers.conf.
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
 * Reads the whole answer.  Spans point into the bytes of r.  KP_EFORMAT,
 * KP_ELIMIT if it is too long, KP_ENOMEM.  Free it after errors too.
 */
enum kp_err answer_read(struct kp_term *r, struct answer *a);
void answer_free(struct answer *a);
/* NULL: the answer lacks the module. */
const struct answer_module *answer_find(const struct answer *a,
    const char *name);

/*
 * Returns the behaviour for which the function is a callback that returns its
 * process's state, or NULL.  behaviours: the raw list of its module's.
 */
const char *plan_state_callback(struct kp_span behaviours, struct kp_span fun,
    uint32_t arity, bool exported);

#endif
