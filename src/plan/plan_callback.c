/*
 * plan_callback.c - a table of the callbacks of OTP behaviours that return a
 * state, and its look-up.
 */
#include <string.h>

#include "plan/plan_callback.h"

/*
 * Functions that give a process's state back: its whole value would be copied
 * with every message.  fun NULL: any that is exported, as states of a
 * gen_statem are.
 */
static const struct {
	const char *behaviour, *fun;
	uint32_t arity;
} returns_state[] = {
	{ "gen_server", "init", 1 }, { "gen_server", "handle_call", 3 },
	{ "gen_server", "handle_cast", 2 }, { "gen_server", "handle_info", 2 },
	{ "gen_server", "handle_continue", 2 },
	{ "gen_server", "code_change", 3 },
	{ "gen_statem", "init", 1 }, { "gen_statem", "handle_event", 4 },
	{ "gen_statem", "code_change", 4 }, { "gen_statem", NULL, 3 },
	{ "gen_event", "init", 1 }, { "gen_event", "handle_event", 2 },
	{ "gen_event", "handle_call", 2 }, { "gen_event", "handle_info", 2 },
	{ "gen_event", "code_change", 3 },
};

/* Others that have a gen_server's callbacks. */
static bool
behaviour_is(struct kp_span s, const char *name)
{
	return kp_span_is(s, name) || (strcmp(name, "gen_server") == 0 &&
	    (kp_span_is(s, "gen_server2") ||
	    kp_span_is(s, "Elixir.GenServer")));
}

const char *
plan_state_callback(struct kp_span behaviours, struct kp_span fun,
    uint32_t arity, bool exported)
{
	size_t rows = sizeof(returns_state) / sizeof(returns_state[0]);
	struct kp_span name;
	struct kp_term r;
	uint32_t n;

	kp_term_begin_raw(&r, behaviours.p, behaviours.n);
	n = kp_term_list(&r);
	for (uint32_t i = 0; i < n && r.err == KP_OK; i++) {
		name = kp_term_atom(&r);
		for (size_t k = 0; r.err == KP_OK && k < rows; k++)
			if (behaviour_is(name, returns_state[k].behaviour) &&
			    returns_state[k].arity == arity &&
			    (returns_state[k].fun == NULL ? exported :
			    kp_span_is(fun, returns_state[k].fun)))
				return returns_state[k].behaviour;
	}
	return NULL;
}
