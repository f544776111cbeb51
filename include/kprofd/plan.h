/*
 * plan.h - decides which functions to arm on one target.  Pure.
 *
 * tiers.conf names functions by patterns; the target lists its modules and
 * their functions; the plan is the list of concrete functions, each with its
 * job, and messages about patterns that do not fit.
 */
#ifndef KPROFD_PLAN_H
#define KPROFD_PLAN_H

#include "kprofd/config.h"
#include "kprofd/term.h"

/* Every armed function costs the target memory and time to arm. */
#define KP_PLAN_MAX 2000
/* Calls a second of a function above which its values are not copied. */
#define KP_EXACT_RATE_MAX 5000

/* What kp_plan_diff() says is to be done with a function. */
enum kp_plan_op {
	KP_PLAN_KEEP,	/* armed alike in both, or disarmed for good */
	KP_PLAN_PUT,	/* wanted: armed otherwise until now, or not at all */
	KP_PLAN_TAKE	/* armed: not wanted any more */
};

struct kp_plan_item {
	char *mod, *fun;	/* owned */
	uint32_t arity;
	bool entry;		/* else a tier or a finish only */
	bool clears;		/* KP_MARK_CLEAR, armed with entries of kprof */
	bool exact;
	bool exact_forced;	/* {exact, force} */
	bool exact_refused;	/* or taken back: not armed with it again */
	struct kp_pos exact_pos;	/* who asks for it */
	struct kp_pos pos;	/* who names it first */
	bool probe;		/* its rate is to be measured */
	bool loop;		/* a process was in it for the whole probe */
	bool disarmed;		/* taken back for good: never armed again */
	bool hot;		/* disarmed, but another tiers.conf may have it */
	uint64_t tiers;		/* bit t: conf->tiers[t] */
	int64_t rate;		/* calls a second; -1: not measured */
	enum kp_plan_op op;
};

struct kp_plan {
	struct kp_plan_item *v;
	size_t n, cap;
	bool native;		/* the probe that it was made for */
};

/* Writes the list of modules that the configuration names, as a term. */
enum kp_err kp_plan_modules(const struct kp_conf *c, struct kp_buf *out);

/*
 * Makes the plan from the agent's answer to {check, Modules}:
 *   [{Mod, ok, Exports, Functions, Behaviours} |
 *    {Mod, error, Why, LoadedModules}]
 * node: the target's own name, for entries meant for some nodes only.
 * native: its probe, with which 'exact' copies nothing.
 * Diags (initialised here, freed by the caller) say where tiers.conf names
 * what is not there, with near names.  A module that is not there is an error
 * only where no entry would be left: it may be loaded later.  With errors the
 * plan is still what can be armed.  KP_EFORMAT when the answer makes no
 * sense.
 */
enum kp_err kp_plan_make(struct kp_plan *plan, const struct kp_conf *c,
    const char *node, bool native, struct kp_term *answer,
    struct kp_diags *diags);
/*
 * Marks what is to be measured before it is armed, and returns how many: what
 * is not in the plan that is armed, and 'exact' where it is new, or again where
 * code may have changed.
 */
size_t kp_plan_probe(struct kp_plan *plan, const struct kp_plan *armed,
    bool again);
/*
 * Where 'exact' would copy too much (the native probe copies nothing: only loops
 * cannot have it, which is not told where nobody asked for it): functions that
 * are called very often, and server loops, by what was measured.  (Callbacks
 * that return a process's state are known by kp_plan_make, and are traced
 * without it, too.)  Adds to *diags.
 */
enum kp_err kp_plan_judge(struct kp_plan *plan, struct kp_diags *diags);
/*
 * Disarms functions that by their measured rate of calls would each cost
 * more than hot_share; and warns where all would cost more than the budget.
 * Adds to *diags: errors where it is only to be checked, else warnings.  Before
 * kp_plan_judge(), which has nothing to say of what is not armed.
 */
enum kp_err kp_plan_heat(struct kp_plan *plan, const struct kp_conf *c,
    bool check, struct kp_diags *diags);
/* Is there an entry that may be armed? */
bool kp_plan_has_entry(const struct kp_plan *plan);
/*
 * With the native probe outcomes are exact without copying: of all but what
 * was found to be a loop in the plan of before, unless {exact, force} insists.
 * What was not exact in a plan for the relay may be: that copied.  After
 * kp_plan_carry, before kp_plan_probe, which asks for loops.
 */
void kp_plan_exact(struct kp_plan *plan, const struct kp_plan *before);
/*
 * What was taken back in one plan is taken back in another, made later.
 * retry: but for what was too hot, since it is of another tiers.conf, or had
 * no entry left.
 */
void kp_plan_carry(struct kp_plan *to, const struct kp_plan *from, bool retry);
/*
 * Functions of one plan that the other does not have stay in that, too, as far
 * as there is room: their code may come back.  KP_ENOMEM.
 */
enum kp_err kp_plan_keep(struct kp_plan *to, const struct kp_plan *from);
/* Room for one more item, which n does not count yet; NULL: no memory. */
struct kp_plan_item *kp_plan_room(struct kp_plan *plan);
void kp_plan_free(struct kp_plan *plan);

/* For the agent: {Mod, Fun, Arity}. */
void kp_plan_put_mfa(struct kp_buf *b, const struct kp_plan_item *i);
/*
 * For the agent: {MFA, Kind, Spec, Fallback}, the fallback being for when
 * 'exact' is too dear.  KP_ELIMIT where a match spec is too large.
 */
enum kp_err kp_plan_put_item(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan_item *i, struct kp_spec_params p);

/* Functions, by what a change means for them. */
struct kp_plan_change {
	size_t kept, changed, added, removed;
};

/*
 * Compares what is wanted with what is armed, each by its own configuration,
 * and sets every item's op.  Errors as of kp_plan_put_item().
 */
enum kp_err kp_plan_diff(struct kp_plan *want,
    const struct kp_conf *want_conf, struct kp_plan *armed,
    const struct kp_conf *armed_conf, const struct kp_spec_params *params,
    struct kp_plan_change *n);

#endif
