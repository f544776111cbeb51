/* state_name.c - the names of what a process did when it was sampled. */
#include "kprofd/stacks.h"

static const char *const names[KP_STACK_STATES] = {
	[KP_STACK_RUNNING] = "running",
	[KP_STACK_RUNNABLE] = "runnable",
	[KP_STACK_GC] = "collecting",
	[KP_STACK_CALL] = "in a call",
	[KP_STACK_PORT] = "on a port",
	[KP_STACK_WAIT] = "waiting",
	[KP_STACK_NOT_SEEN] = "not seen",
};

const char *
kp_stack_state_name(enum kp_stack_state s)
{
	return names[s];
}
