/*
 * agent_check.c - checks another tiers.conf on a target that is being profiled:
 * which of its functions exist, and how often they are called.  The agent that is
 * there counts; what is armed, and how it is counted, stays as it is.
 *
 * The agent has one set of counters for such questions, so a check and a reload
 * (agent_reload.c) exclude each other: a check waits for a recheck to end, and
 * the others wait for the check.
 */
#include <string.h>

#include "agent/agent_internal.h"

static void
forget(struct agent *a)
{
	kp_plan_free(&a->check.plan);
	kp_diags_free(&a->check.diags);
	a->check.step = CHECK_NONE;
	a->check.conf = NULL;
}

/* The owner may end the check in its callback. */
static void
looked(struct agent *a, struct agent_checked *c)
{
	a->check.step = c->how == AGENT_CHECKED_DONE ? CHECK_LOOKED : CHECK_DONE;
	c->diags = &a->check.diags;
	a->ops->on_looked(a->owner, c, &a->check.plan);
}

static void
counted(struct agent *a, struct agent_checked *c)
{
	a->check.step = CHECK_DONE;
	c->diags = &a->check.diags;
	a->ops->on_counted(a->owner, c, &a->check.plan);
}

/* Answers the question that is open; without one, the next will be answered. */
static void
answer(struct agent *a, struct agent_checked *c)
{
	switch (a->check.step) {
	case CHECK_NONE:
	case CHECK_DONE:
		break;
	case CHECK_LOOKED:
		a->check.step = CHECK_DONE;
		break;
	case CHECK_WAITING:
	case CHECK_LOOKING:
		looked(a, c);
		break;
	case CHECK_COUNTING:
		counted(a, c);
		break;
	}
}

static void
refuse(struct agent *a, const char *why)
{
	answer(a, &(struct agent_checked){ .how = AGENT_CHECKED_REFUSED,
	    .why = why });
}

static void
question_begin(struct agent *a, struct kp_buf *b)
{
	a->check.waited = 0;
	agent_aside_begin(a, b, CHECK_REFS + ++a->checks);
}

/* ---- questions ---- */

static void
look(struct agent *a)
{
	struct kp_buf b;

	a->check.step = CHECK_LOOKING;
	question_begin(a, &b);
	msg_modules(&b, a->check.conf, "check");
	agent_command_end(a, &b);
}

static void
judge(struct agent *a)
{
	struct agent_checked done = { .how = AGENT_CHECKED_DONE };

	kp_plan_heat(&a->check.plan, a->check.conf, true, &a->check.diags);
	kp_plan_judge(&a->check.plan, &a->check.diags);
	counted(a, &done);
}

void
agent_check_count(struct agent *a, kp_dur_ns time)
{
	/* All are measured, as if nothing was armed. */
	const struct kp_plan none = { 0 };
	struct kp_buf b;

	kp_diags_free(&a->check.diags);
	if (a->check.step != CHECK_LOOKED) {
		counted(a, &(struct agent_checked){
		    .how = AGENT_CHECKED_AWAY });
		return;
	}
	kp_plan_exact(&a->check.plan, &none);
	if (kp_plan_probe(&a->check.plan, &none, true) == 0) {
		judge(a);
		return;
	}
	a->check.step = CHECK_COUNTING;
	a->check.time = time;
	question_begin(a, &b);
	msg_rates(&b, &a->check.plan, (unsigned)(time / KP_NS_PER_MS), true);
	agent_command_end(a, &b);
}

/* ---- answers ---- */

static void
answer_look(struct agent *a, struct kp_term *r)
{
	struct agent_checked done = { .how = AGENT_CHECKED_DONE };
	enum kp_err e;

	e = kp_plan_make(&a->check.plan, a->check.conf, a->hello.node,
	    a->native, r, &a->check.diags);
	if (e != KP_OK)
		refuse(a, e == KP_ENOMEM ? kp_err_str(e) :
		    "the agent's answer makes no sense");
	else
		looked(a, &done);
}

static void
answer_rates(struct agent *a, struct kp_term *r)
{
	if (msg_read_rates(r, &a->check.plan) == KP_OK)
		judge(a);
	else
		refuse(a, "the agent's answer makes no sense");
}

void
agent_check_answer(struct agent *a, uint64_t ref, struct kp_term *r)
{
	if (ref != CHECK_REFS + a->checks)
		return;
	if (a->check.step == CHECK_LOOKING)
		answer_look(a, r);
	else if (a->check.step == CHECK_COUNTING)
		answer_rates(a, r);
}

/* ---- beginning and end ---- */

bool
agent_check_runs(const struct agent *a)
{
	return a->check.step != CHECK_NONE;
}

static bool
is_away(const struct agent *a)
{
	switch (a->state) {
	case AGENT_CHECKING:
	case AGENT_RATING:
	case AGENT_ARMING:
	case AGENT_ARMED:
	case AGENT_PAUSING:
	case AGENT_PAUSED:
	case AGENT_TRIPPED:
		return a->stopping;
	case AGENT_CONNECTING:
	case AGENT_LOOKING:
	case AGENT_STARTING:
	case AGENT_STOPPING:
	case AGENT_LOST:
	case AGENT_ENDED:
		break;
	}
	return true;
}

void
agent_check_state(struct agent *a)
{
	if (is_away(a))
		answer(a, &(struct agent_checked){
		    .how = AGENT_CHECKED_AWAY });
	else if (a->check.step == CHECK_WAITING && agent_state_lasts(a) &&
	    a->reload.step == RELOAD_NONE)
		look(a);
}

/* Seconds are counted, not timed, as leases are. */
void
agent_check_tick(struct agent *a)
{
	unsigned ms = STEP_MS + (unsigned)a->check.plan.n * STEP_EACH_MS;

	if (a->check.step == CHECK_COUNTING)
		ms += (unsigned)(a->check.time / KP_NS_PER_MS);
	if (a->check.step == CHECK_WAITING)
		agent_check_state(a);
	else if ((a->check.step == CHECK_LOOKING ||
	    a->check.step == CHECK_COUNTING) &&
	    ++a->check.waited > ms / 1000)
		refuse(a, "no answer from the target in time");	/* the profile goes on */
}

void
agent_check(struct agent *a, const struct kp_conf *conf)
{
	agent_check_end(a);
	a->check.conf = conf;
	a->check.step = CHECK_WAITING;
	agent_check_state(a);
}

/* A question takes the place of the one before it, counters included. */
void
agent_check_end(struct agent *a)
{
	bool counts = a->check.step == CHECK_COUNTING;
	const struct kp_plan none = { 0 };
	struct kp_buf b;

	if (a->check.step == CHECK_NONE)
		return;
	forget(a);
	if (counts) {
		question_begin(a, &b);
		msg_rates(&b, &none, 1, true);
		agent_command_end(a, &b);
	}
	a->checks++;		/* ignores an answer that is on its way */
	agent_reload_next(a);
}
