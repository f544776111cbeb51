/* path.h - which call a sample belongs to, and its path of tiers. */
#ifndef KP_STACKS_PATH_H
#define KP_STACKS_PATH_H

#include "stacks/join.h"

/* How a sample belongs to a request that closes. */
enum stack_belongs {
	STACK_IDLE,	/* its process did nothing for the request */
	STACK_INSIDE,
	STACK_AFTER	/* after the request's end */
};

/*
 * How late the time of a sample may be: a process that has not answered after
 * 5 ms is not seen, and whoever asked may wait as long for a scheduler.
 */
#define STACK_LATE_MAX (10 * KP_NS_PER_MS)

/* Sets *call to the call it belongs to, or KP_NONE.  t: of its stack. */
enum stack_belongs stack_find_call(const struct stack_scope *s,
    const struct kp_request *rq, const struct kp_stack_table *t,
    const struct kp_stack_sample *sample, uint32_t *call);
/* Does a process in this state work, though no call shows it? */
bool stack_works(uint8_t state, bool after);
/* Writes the path of a call, or of KP_NONE; after: with "_after". */
void stack_put_path(struct kp_buf *b, const struct stack_scope *s,
    const struct kp_request *rq, uint32_t call, bool after);

#endif
