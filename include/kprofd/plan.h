/*
 * plan.h - decides which functions to arm on one target.  Pure.
 *
 * tiers.conf names functions by patterns; the target lists its modules and
 * their functions; the plan lists the concrete functions, each with its role,
 * and comes with messages about patterns that do not match.
 */
#ifndef KPROFD_PLAN_H
#define KPROFD_PLAN_H

#include "kprofd/config.h"
#include "kprofd/term.h"

/* Every armed function costs the target memory and time to arm. */
#define KP_PLAN_MAX 2000
/* Calls a second of a function above which its values are not copied. */
#define KP_EXACT_RATE_MAX 5000

/* The change of a function, set by kp_plan_diff(). */
enum kp_plan_op {
	KP_PLAN_KEEP,	/* armed alike in both, or disarmed for good */
	KP_PLAN_PUT,	/* arm it: it is armed differently, or not at all */
	KP_PLAN_TAKE	/* disarm it */
};

struct kp_plan_item {
	char *mod, *fun;	/* owned */
	uint32_t arity;
	bool entry;		/* else only a tier or a finish */
	bool clears;		/* KP_MARK_CLEAR, armed with entries of kprof */
	bool optional;		/* in all places of the file that name it */
	bool exact;
	bool exact_forced;	/* {exact, force} */
	bool exact_refused;	/* at first or later: it stays without */
	struct kp_pos exact_pos;	/* where the file asks for it */
	struct kp_pos pos;	/* where the file names it first */
	bool probe;		/* measure its rate before it is armed */
	bool loop;		/* a process was in it for the whole probe */
	bool recursive;		/* it was on a stack more than once */
	bool disarmed;		/* for good: never armed again */
	bool hot;		/* disarmed, but another tiers.conf may arm it */
	uint64_t tiers;		/* bit t: conf->tiers[t] */
	int64_t rate;		/* calls a second; -1: not measured */
	enum kp_plan_op op;
};

struct kp_plan {
	struct kp_plan_item *v;
	size_t n, cap;
	bool native;		/* it is for the native probe */
};

/* Writes the list of modules that the configuration names, as a term. */
enum kp_err kp_plan_modules(const struct kp_conf *c, struct kp_buf *out);

/*
 * Makes the plan from the agent's answer to {check, Modules}:
 *   [{Mod, ok, Exports, Functions, Behaviours} |
 *    {Mod, error, Why, LoadedModules}]
 * node: the target's own name, for entries meant for some nodes only. native:
 * the target has the native probe, whose 'exact' copies nothing.  Initialises
 * diags, which the caller frees, with messages about modules and functions that
 * the target lacks, and near names; not about optional ones, unless no entry is
 * left.  A missing module is an error only if no
 * entry would be left, as it may be loaded later.  With errors the plan still
 * holds what can be armed.  KP_EFORMAT: the answer is malformed.
 */
enum kp_err kp_plan_make(struct kp_plan *plan, const struct kp_conf *c,
    const char *node, bool native, struct kp_term *answer,
    struct kp_diags *diags);
/*
 * Marks functions to be measured before they are armed, and returns their
 * number: those that are not in the armed plan, and those whose 'exact' is new,
 * or, with `again`, all 'exact' ones, since code may have changed.
 */
size_t kp_plan_probe(struct kp_plan *plan, const struct kp_plan *armed,
    bool again);
/*
 * Removes 'exact' from functions whose measured rate is high, because values
 * would be copied, and from server loops.  With the native probe, which copies
 * nothing, it removes it only from loops, and warns only if the file asks for
 * it.  (kp_plan_make() removes it from callbacks that return a process's
 * state.) Adds to *diags.
 */
void kp_plan_judge(struct kp_plan *plan, struct kp_diags *diags);
/*
 * Disarms functions that by their measured rate would each cost more than
 * hot_share, and warns if all would cost more than the budget.  Adds to
 * *diags: errors in a check, else warnings.  Call it before kp_plan_judge(),
 * which ignores what is disarmed.
 */
void kp_plan_heat(struct kp_plan *plan, const struct kp_conf *c, bool check,
    struct kp_diags *diags);
/* Are all entries disarmed?  Not where there is none: other nodes have them. */
bool kp_plan_too_hot(const struct kp_plan *plan);
/*
 * With the native probe, makes all outcomes exact, without copying, except for
 * functions that were loops in the plan before and lack {exact, force}.
 * Changes nothing with the relay.  Call it after kp_plan_carry() and before
 * kp_plan_probe().
 */
void kp_plan_exact(struct kp_plan *plan, const struct kp_plan *before);
/*
 * Copies to a later plan which functions were disarmed or lost 'exact'.  retry:
 * not those that were too hot, since the plan is of another tiers.conf, or had
 * no entry left.
 */
void kp_plan_carry(struct kp_plan *to, const struct kp_plan *from, bool retry);
/*
 * Adds functions of the old plan that the new one lacks, while there is room,
 * since their code may be loaded again.  KP_ENOMEM.
 */
enum kp_err kp_plan_keep(struct kp_plan *to, const struct kp_plan *from);
/* NULL: the plan does not have the function. */
struct kp_plan_item *kp_plan_find(const struct kp_plan *plan,
    struct kp_span mod, struct kp_span fun, int64_t arity);
struct kp_plan_item *kp_plan_find_like(const struct kp_plan *plan,
    const struct kp_plan_item *like);
/* Makes room for one more item, which n does not count yet; NULL: no memory. */
struct kp_plan_item *kp_plan_room(struct kp_plan *plan);
void kp_plan_free(struct kp_plan *plan);

/* Writes {Mod, Fun, Arity} for the agent. */
void kp_plan_put_mfa(struct kp_buf *b, const struct kp_plan_item *i);
/*
 * Writes {MFA, Kind, Spec, Fallback} for the agent, which uses the fallback if
 * 'exact' is too expensive.  KP_ELIMIT: a match spec is too large.
 */
enum kp_err kp_plan_put_item(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan_item *i, struct kp_spec_params p);

/* Counts of functions by their change. */
struct kp_plan_change {
	size_t kept, changed, added, removed;
};

/*
 * Compares the wanted plan with the armed one, each with its own configuration,
 * and sets every item's op.  Returns the errors of kp_plan_put_item().
 */
enum kp_err kp_plan_diff(struct kp_plan *want,
    const struct kp_conf *want_conf, struct kp_plan *armed,
    const struct kp_conf *armed_conf, const struct kp_spec_params *params,
    struct kp_plan_change *n);

#endif
