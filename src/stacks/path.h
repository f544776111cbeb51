/* path.h - which call a sample belongs to, and its path of tiers. */
#ifndef KPROFD_STACKS_PATH_H
#define KPROFD_STACKS_PATH_H

#include "stacks/join.h"

/* How a sample belongs to a request that closes. */
enum stack_belongs {
	STACK_IDLE,	/* its process did nothing for the request */
	STACK_INSIDE,
	STACK_AFTER	/* after the request's end */
};

/*
 * Sets *call to the call it belongs to, or KP_NONE; *own: it is of the sample's
 * process.
 */
enum stack_belongs stack_find_call(const struct stack_scope *s,
    const struct kp_request *rq, const struct kp_stack_sample *sample,
    uint32_t *call, bool *own);
/*
 * A process that runs shows its stack when it is next scheduled out or receives.
 * Is that of another time, since this call has ended and is not on it?
 */
bool stack_is_late(const struct stack_scope *s, const struct kp_request *rq,
    const struct kp_stack_table *t, const struct kp_stack_sample *sample,
    uint32_t call);
/* Does a process in this state work, though no call shows it? */
bool stack_works(uint8_t state, bool after);
/* Writes the path of a call, or of KP_NONE; after: with "_after". */
void stack_put_path(struct kp_buf *b, const struct stack_scope *s,
    const struct kp_request *rq, uint32_t call, bool after);

#endif
