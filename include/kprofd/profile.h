/*
 * profile.h - the counters read from a target: calls of functions, and their
 * time or memory, in all or by process.  Pure.
 *
 * From kprof_counters.erl come, for one reading, any number of
 * {kprof_rows, Ref, [{M, F, Arity, Calls, Value, [{Pid | others, Calls,
 * Value}]}]} and then {kprof_reply, Ref, #{elapsed, gone, merged, names,
 * stretch}}.
 */
#ifndef KPROFD_PROFILE_H
#define KPROFD_PROFILE_H

#include <stdbool.h>

#include "kprofd/clock.h"
#include "kprofd/term.h"

#define KP_PROFILE_FNS_MAX 1000000u	/* functions of one profile */
#define KP_PROFILE_ROWS_MAX 2000000u	/* processes of them */
#define KP_PROFILE_NAMES_MAX 20000u	/* registered processes */

enum kp_profile_type { KP_PROFILE_COUNT, KP_PROFILE_TIME, KP_PROFILE_MEMORY };

struct kp_profile_fn {
	char *mod, *fun;	/* owned; as the target has them */
	uint32_t arity;
	uint64_t calls;
	uint64_t value;		/* microseconds, or words */
};

struct kp_profile_proc {
	uint32_t id, serial;	/* <0.id.serial> */
	bool others;		/* several that were too many: no id */
};

struct kp_profile_row {
	uint32_t fn;		/* index */
	struct kp_profile_proc proc;
	uint64_t calls, value;
};

struct kp_profile_name {
	struct kp_profile_proc proc;
	char *name;		/* owned */
};

/* Zeroed is empty. */
struct kp_profile {
	enum kp_profile_type type;
	struct kp_profile_fn *fns;
	size_t nfns, fns_room;
	struct kp_profile_row *rows;	/* none: by total */
	size_t nrows, rows_room;
	struct kp_profile_name *names;
	size_t nnames, names_room;
	kp_dur_ns elapsed;	/* while it was counted, by the target's clock */
	uint64_t gone;		/* functions whose counters were lost */
	uint64_t merged;	/* processes that are in "others" */
	uint64_t stretch;	/* the last one that is in it; from 1 */
};

void kp_profile_free(struct kp_profile *p);

/*
 * The list of functions, behind {kprof_rows, Ref; adds them.  On error what
 * was added before stays, and is to be freed like all else.
 */
enum kp_err kp_profile_rows(struct kp_profile *p, struct kp_term *r);
/* The map behind {kprof_reply, Ref. */
enum kp_err kp_profile_end(struct kp_profile *p, struct kp_term *r);

/*
 * Adds what was counted before, of the same target and type, in place of what
 * p has where that is of the same stretch; names are those of p.  KP_ENOMEM,
 * KP_ELIMIT: p is only to be freed.
 */
enum kp_err kp_profile_add(struct kp_profile *p,
    const struct kp_profile *before);

#endif
