/* stacks_internal.h - what the forms of stacks.h share. */
#ifndef KPROFD_STACKS_STORED_STACKS_INTERNAL_H
#define KPROFD_STACKS_STORED_STACKS_INTERNAL_H

#include "stacks.h"

struct stacks_type {
	const char *identity;	/* borrowed */
	kp_dur_ns time;		/* of its rows */
};

/* The request types, the longest time first; free() it.  NULL: no memory. */
struct stacks_type *stacks_types(const struct stacks *s, size_t *n);

/* How people read a function, and a tier: "(not seen)" for "". */
const char *stacks_fn_name(const char *fn);
const char *stacks_tier_name(const char *tier);

#endif
