/* table.h - how the decoder enters functions into a table of stacks. */
#ifndef KPROFD_STACKS_TABLE_H
#define KPROFD_STACKS_TABLE_H

#include <stdbool.h>

#include "kprofd/stacks.h"

#define STACK_NO_FN UINT32_MAX

/* Returns the function's number; STACK_NO_FN past a cap or without memory. */
uint32_t stack_fn_put(struct kp_stack_table *t, const char *mod,
    const char *fun, uint32_t arity);
/* Is one of its caps half used up? */
bool stack_table_fills(const struct kp_stack_table *t);
/* Counts a stack that cannot be kept; returns KP_STACK_OTHER. */
uint32_t stack_put_other(struct kp_stack_table *t);

#endif
