/* state.h - what a process did, as its status and its innermost frames show. */
#ifndef KPROFD_STACKS_STATE_H
#define KPROFD_STACKS_STATE_H

#include "kprofd/stacks.h"
#include "kprofd/term.h"

/* One frame of a message. */
struct stack_frame_term {
	struct kp_span mod, fun;
	uint32_t arity, line;
};

/* frames: n of them, innermost first. */
enum kp_stack_state stack_state(struct kp_span status,
    const struct stack_frame_term *frames, uint32_t n);

#endif
