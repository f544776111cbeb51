/*
 * agent_reload.c - replaces the plan of a target: by that of another tiers.conf,
 * when the owner asks for it, or by a new one of the same file where code was
 * changed (a recheck).  The plan is checked on the target, the call rates of its
 * new functions are measured ("probed"), and only the difference to what is armed
 * is sent.
 *
 * It runs beside the steps of the connection: the target stays armed, paused or
 * tripped, and events go on.  The agent takes commands in order, so a pause may
 * come in between.  If the connection is lost meanwhile, the new plan is armed
 * when the connection is back.
 *
 * There is one at a time: a reload that is asked for meanwhile waits, and all
 * wait for a check (agent_check.c), which asks the same of the target.  Other
 * targets wait for this one, so its questions have the time limit of all steps.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "agent/agent_internal.h"

static void reload_next(struct agent *a);

static void
reload_forget(struct agent *a)
{
	kp_plan_free(&a->reload.plan);
	kp_diags_free(&a->reload.diags);
	a->reload.planned = false;
	a->reload.step = RELOAD_NONE;
	a->reload.conf = NULL;
	a->reload.recheck = false;
}

/* Ends a recheck; changed: functions were armed or disarmed. */
static void
recheck_end(struct agent *a, bool changed)
{
	if (changed && a->reload.diags.n > 0)
		a->ops->on_diags(a->owner, &a->reload.diags);
	reload_forget(a);
	reload_next(a);
}

/* Ends it: the new configuration is in force. */
static void
reload_end(struct agent *a, struct agent_reloaded *r)
{
	const struct kp_conf *conf = a->reload.conf;

	reload_forget(a);
	a->o.conf = conf;
	a->recheck_due = true;	/* other modules are to be watched */
	a->ops->on_reloaded(a->owner, r);
	reload_next(a);
}

/* Answers agent_reload(). */
static void
reload_checked(struct agent *a, struct agent_checked *c)
{
	a->reload.step = RELOAD_CHECKED;
	c->diags = &a->reload.diags;
	a->ops->on_checked(a->owner, c);
}

static void
reload_refuse(struct agent *a, const char *why)
{
	struct agent_checked c = { .how = AGENT_CHECKED_REFUSED, .why = why };
	char text[700];

	if (a->reload.recheck) {
		snprintf(text, sizeof(text), "functions of the new code are "
		    "not traced: %s", why);
		a->ops->on_notice(a->owner, "code", text);
		recheck_end(a, false);
		return;
	}
	a->reload.planned = false;
	reload_checked(a, &c);
}

/* The next question: answers to earlier ones are ignored from now on. */
static void
question_begin(struct agent *a, struct kp_buf *b)
{
	a->reload.waited = 0;
	agent_aside_begin(a, b, RELOAD_REFS + ++a->reloads);
}

static void
reload_check(struct agent *a)
{
	struct kp_buf b;

	a->reload.step = RELOAD_CHECKING;
	question_begin(a, &b);
	msg_modules(&b, a->reload.conf, a->reload.recheck ? "look" : "check");
	agent_command_end(a, &b);
}

/* Another tiers.conf may allow what is too hot for the one in force. */
static bool
conf_differs(const struct agent *a)
{
	return a->reload.conf != a->o.conf;
}

/*
 * Appends the difference to what is armed, as a message.  How often new functions are
 * called outside of requests is to be seen before they give tokens.
 */
static enum kp_err
difference(struct agent *a, struct kp_buf *b)
{
	enum kp_err e;

	a->params.gives_tokens = false;
	kp_plan_carry(&a->reload.plan, &a->plan, conf_differs(a));
	e = kp_plan_diff(&a->reload.plan, a->reload.conf, &a->plan, a->o.conf,
	    &a->params, &a->reload.n);
	return e != KP_OK ? e : msg_change(b, a->reload.conf, &a->reload.plan,
	    &a->plan, &a->params);
}

/* Asks whether it can be armed, before anything is changed. */
static void
reload_ask(struct agent *a)
{
	struct kp_buf b;
	enum kp_err e;

	kp_buf_init(&b, MESSAGE_MAX);
	e = difference(a, &b);
	kp_buf_free(&b);
	if (e != KP_OK) {
		reload_refuse(a, e == KP_ENOMEM ? "out of memory" :
		    "it cannot be expressed as match specs: too large");
		return;
	}
	a->reload.step = RELOAD_ASKING;
	question_begin(a, &b);
	msg_may(&b, &a->reload.plan);
	agent_command_end(a, &b);
}

static void
send_change(struct agent *a, struct kp_buf *b)
{
	a->reload.step = RELOAD_APPLYING;
	a->reload.one_in = a->params.one_in;
	agent_command_end(a, b);
}

/* Sent without asking: the tiers.conf is in force. */
static void
recheck_apply(struct agent *a)
{
	const struct kp_plan_change *n = &a->reload.n;
	bool gave = a->params.gives_tokens;
	struct kp_buf b;

	question_begin(a, &b);
	if (difference(a, &b) != KP_OK) {
		kp_buf_free(&b);
		reload_refuse(a, "it cannot be expressed as match specs");
	} else if (n->added + n->changed + n->removed == 0) {
		a->params.gives_tokens = gave;
		kp_buf_free(&b);
		recheck_end(a, false);
	} else {
		send_change(a, &b);
	}
}

static void
reload_probed(struct agent *a)
{
	if (a->reload.recheck)
		recheck_apply(a);
	else
		reload_ask(a);
}

/* Measures what is not armed yet; after a change of code all 'exact' ones too. */
static void
reload_probe(struct agent *a)
{
	struct kp_plan *plan = &a->reload.plan;
	struct kp_buf b;

	kp_plan_carry(plan, &a->plan, conf_differs(a));
	if (a->reload.recheck && kp_plan_keep(plan, &a->plan) != KP_OK) {
		reload_refuse(a, kp_err_str(KP_ENOMEM));
		return;
	}
	kp_plan_exact(plan, &a->plan);
	if (kp_plan_probe(plan, &a->plan, a->reload.recheck) == 0) {
		reload_probed(a);
		return;
	}
	a->reload.step = RELOAD_RATING;
	question_begin(a, &b);
	msg_rates(&b, plan, PROBE_MS, false);
	agent_command_end(a, &b);
}

static void
answer_check(struct agent *a, struct kp_term *r)
{
	enum kp_err e;

	kp_plan_free(&a->reload.plan);
	kp_diags_free(&a->reload.diags);
	e = kp_plan_make(&a->reload.plan, a->reload.conf, a->hello.node,
	    a->native, r, &a->reload.diags);
	if (e != KP_OK)
		reload_refuse(a, kp_err_str(e));
	else
		reload_probe(a);
}

static void
answer_rates(struct agent *a, struct kp_term *r)
{
	enum kp_err e = msg_read_rates(r, &a->reload.plan);

	if (e != KP_OK) {
		reload_refuse(a, kp_err_str(e));
		return;
	}
	kp_plan_heat(&a->reload.plan, a->reload.conf, false, &a->reload.diags);
	kp_plan_judge(&a->reload.plan, &a->reload.diags);
	if (!kp_plan_has_entry(&a->reload.plan))
		reload_refuse(a, "every entry is too hot to trace");
	else
		reload_probed(a);
}

static void
answer_may(struct agent *a, struct kp_term *r)
{
	struct agent_checked c = { .how = AGENT_CHECKED_DONE };
	char text[400], why[600];
	struct kp_term at = *r;

	if (!kp_span_is(kp_term_atom(&at), "ok")) {
		msg_text(r, text, sizeof(text));
		snprintf(why, sizeof(why), "the target refuses these "
		    "functions: %s", text);
		reload_refuse(a, why);
		return;
	}
	a->reload.planned = true;
	reload_checked(a, &c);
}

/* It is not attached, or was lost before it could be changed. */
static void
reload_keep(struct agent *a)
{
	struct agent_reloaded kept = { .how = AGENT_RELOAD_KEPT };

	reload_end(a, &kept);
}

/* Something has changed since it was asked: attaches again. */
static void
change_failed(struct agent *a, struct kp_term *r)
{
	char text[400], why[600];

	msg_text(r, text, sizeof(text));
	if (a->reload.recheck) {
		reload_refuse(a, text);
		return;
	}
	snprintf(why, sizeof(why), "'%s' cannot be traced: %s", a->o.target,
	    text);
	reload_keep(a);
	agent_lost(a, why);
}

static void
answer_change(struct agent *a, struct kp_term *r)
{
	struct agent_reloaded done = { .how = AGENT_RELOAD_DONE,
		.n = a->reload.n };
	struct kp_term at = *r;
	uint32_t one_in = a->params.one_in;

	if (!kp_span_is(kp_term_atom(&at), "ok")) {
		change_failed(a, r);
		return;
	}
	/* Functions may have been disarmed for good meanwhile. */
	kp_plan_carry(&a->reload.plan, &a->plan, conf_differs(a));
	kp_plan_free(&a->plan);
	a->plan = a->reload.plan;
	a->reload.plan = (struct kp_plan){ 0 };
	a->o.conf = a->reload.conf;
	a->reload.step = RELOAD_NONE;
	/* The owner may have asked for another rate meanwhile. */
	a->params.one_in = a->reload.one_in;
	agent_sample(a, one_in);
	if (!a->reload.recheck) {
		reload_end(a, &done);
		return;
	}
	if (a->native)
		a->ops->on_replanned(a->owner);
	recheck_end(a, true);
}

void
agent_reload_answer(struct agent *a, uint64_t ref, struct kp_term *r)
{
	if (ref != RELOAD_REFS + a->reloads)
		return;
	if (a->reload.step == RELOAD_CHECKING)
		answer_check(a, r);
	else if (a->reload.step == RELOAD_RATING)
		answer_rates(a, r);
	else if (a->reload.step == RELOAD_ASKING)
		answer_may(a, r);
	else if (a->reload.step == RELOAD_APPLYING)
		answer_change(a, r);
}

/* The target is not attached, or is ending. */
static void
reload_away(struct agent *a)
{
	struct agent_checked away = { .how = AGENT_CHECKED_AWAY };

	if (a->reload.recheck)
		recheck_end(a, false);
	else if (a->reload.step == RELOAD_APPLYING)
		reload_keep(a);
	else if (a->reload.step != RELOAD_CHECKED)
		reload_checked(a, &away);
}

/* ---- beginning ---- */

bool
agent_state_lasts(const struct agent *a)
{
	return a->state == AGENT_ARMED || a->state == AGENT_PAUSED ||
	    a->state == AGENT_TRIPPED;
}

static void
reload_begin(struct agent *a, const struct kp_conf *conf, bool recheck)
{
	a->reload.conf = conf;
	a->reload.recheck = recheck;
	a->reload.planned = false;
	a->reload.step = RELOAD_WAITING;
	agent_reload_state(a);
}

/* Without a plan no recheck is needed: making one checks the code. */
static void
reload_next(struct agent *a)
{
	const struct kp_conf *conf = a->reload.wanted;

	if (a->reload.step != RELOAD_NONE || agent_check_runs(a))
		return;
	if (conf != NULL) {
		a->reload.wanted = NULL;
		reload_begin(a, conf, false);
	} else if (a->recheck_due && agent_state_lasts(a)) {
		a->recheck_due = false;
		reload_begin(a, a->o.conf, true);
	}
}

void
agent_reload_next(struct agent *a)
{
	reload_next(a);
}

void
agent_reload_state(struct agent *a)
{
	if (a->reload.step == RELOAD_NONE) {
		reload_next(a);
		return;
	}
	switch (a->state) {
	case AGENT_CONNECTING:
	case AGENT_LOOKING:
	case AGENT_STARTING:
	case AGENT_STOPPING:
	case AGENT_LOST:
	case AGENT_ENDED:
		reload_away(a);
		break;
	case AGENT_ARMED:
	case AGENT_PAUSED:
	case AGENT_TRIPPED:
		if (a->reload.step == RELOAD_WAITING)
			reload_check(a);
		break;
	default:
		break;
	}
}

/* Seconds are counted, not timed, as leases are. */
void
agent_reload_tick(struct agent *a)
{
	unsigned ms = STEP_MS + (unsigned)a->reload.plan.n * STEP_EACH_MS;

	if (a->reload.step == RELOAD_APPLYING)
		ms += STEP_FLAGS_MS;

	switch (a->reload.step) {
	case RELOAD_CHECKING:
	case RELOAD_RATING:
	case RELOAD_ASKING:
	case RELOAD_APPLYING:
		if (++a->reload.waited > ms / 1000)
			agent_lost(a, "no answer from the target");
		break;
	case RELOAD_NONE:
	case RELOAD_WAITING:
	case RELOAD_CHECKED:
		break;
	}
}

void
agent_reload(struct agent *a, const struct kp_conf *conf)
{
	a->reload.wanted = conf;
	reload_next(a);
}

void
agent_recheck(struct agent *a)
{
	a->recheck_due = true;
	reload_next(a);
}

void
agent_reload_apply(struct agent *a)
{
	/* It was attached again meanwhile, and is being armed with the old one. */
	bool stale = !a->reload.planned && a->link != NULL &&
	    a->state >= AGENT_CHECKING;
	struct kp_buf b;

	if (!a->reload.planned || a->stopping) {
		reload_keep(a);
		if (stale && !a->stopping)
			agent_lost(a, "tiers.conf was changed while it was "
			    "put in force");
		return;
	}
	question_begin(a, &b);
	if (difference(a, &b) != KP_OK) {
		kp_buf_free(&b);
		reload_keep(a);
		agent_lost(a, "cannot express tiers.conf as match specs");
		return;
	}
	send_change(a, &b);
}

void
agent_reload_cancel(struct agent *a)
{
	a->reload.wanted = NULL;
	if (a->reload.step == RELOAD_NONE || a->reload.recheck)
		return;
	a->reloads++;		/* ignores an answer that is on its way */
	reload_forget(a);
	agent_recheck(a);
}
