/*
 * agent_reload.c - gives a target that has a plan another one: that of another
 * tiers.conf, when the owner asks for it, or a new one of the same file where
 * code was changed (a look).  The plan is checked on the target, probed where
 * it is new, and compared with the one that is armed; only the difference is
 * sent.
 *
 * It runs beside the steps of the connection's life: the target stays armed,
 * paused or tripped, and events go on, until the agent reports that it is done.
 * The agent takes commands in order, so that a pause may come in between.
 * Where the connection is lost meanwhile nothing is armed any more, and the new
 * file is armed when the connection is back.
 *
 * There is one at a time: a reload that is asked for meanwhile waits.  Others
 * wait for this one, so its questions have the time limit of all steps.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "target/agent_internal.h"

static void reload_next(struct agent *a);

static void
reload_forget(struct agent *a)
{
	kp_plan_free(&a->reload.plan);
	kp_diags_free(&a->reload.diags);
	a->reload.planned = false;
	a->reload.step = RELOAD_NONE;
	a->reload.conf = NULL;
	a->reload.look = false;
}

/* What a look found is armed, or was no news. */
static void
look_end(struct agent *a, bool news)
{
	if (news && a->reload.diags.n > 0)
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
	a->look_again = true;	/* other modules are to be watched */
	a->ops->on_reloaded(a->owner, r);
	reload_next(a);
}

/* What it says, in answer to agent_reload(). */
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

	if (a->reload.look) {
		snprintf(text, sizeof(text), "functions of the new code are "
		    "not traced: %s", why);
		a->ops->on_notice(a->owner, "code", text);
		look_end(a, false);
		return;
	}
	a->reload.planned = false;
	reload_checked(a, &c);
}

/* The next question; from now on only its answer is one. */
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
	msg_modules(&b, a->reload.conf, a->reload.look ? "look" : "check");
	agent_command_end(a, &b);
}

/* Another tiers.conf, which may want what was too hot for the one of now. */
static bool
is_other(const struct agent *a)
{
	return a->reload.conf != a->o.conf;
}

/* The difference to what is armed now, as a message. */
static enum kp_err
difference(struct agent *a, struct kp_buf *b)
{
	enum kp_err e;

	kp_plan_carry(&a->reload.plan, &a->plan, is_other(a));
	e = kp_plan_diff(&a->reload.plan, a->reload.conf, &a->plan, a->o.conf,
	    &a->params, &a->reload.n);
	return e != KP_OK ? e : msg_change(b, a->reload.conf, &a->reload.plan,
	    &a->plan, &a->params);
}

/* All that can be known before anything is changed. */
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

/* Nobody needs to be asked: it is the tiers.conf that is in force. */
static void
look_apply(struct agent *a)
{
	const struct kp_plan_change *n = &a->reload.n;
	struct kp_buf b;

	question_begin(a, &b);
	if (difference(a, &b) != KP_OK) {
		kp_buf_free(&b);
		reload_refuse(a, "it cannot be expressed as match specs");
	} else if (n->added + n->changed + n->removed == 0) {
		kp_buf_free(&b);
		look_end(a, false);
	} else {
		send_change(a, &b);
	}
}

static void
reload_probed(struct agent *a)
{
	if (a->reload.look)
		look_apply(a);
	else
		reload_ask(a);
}

/* What is not armed yet; after a change of code all of 'exact' again. */
static void
reload_probe(struct agent *a)
{
	struct kp_plan *plan = &a->reload.plan;
	struct kp_buf b;

	kp_plan_carry(plan, &a->plan, is_other(a));
	if (a->reload.look && kp_plan_keep(plan, &a->plan) != KP_OK) {
		reload_refuse(a, kp_err_str(KP_ENOMEM));
		return;
	}
	agent_probe_plan(a, plan, &a->plan);
	if (kp_plan_probe(plan, &a->plan, a->reload.look) == 0) {
		reload_probed(a);
		return;
	}
	a->reload.step = RELOAD_RATING;
	question_begin(a, &b);
	msg_rates(&b, plan);
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

	if (e == KP_OK)
		e = kp_plan_heat(&a->reload.plan, a->reload.conf, false,
		    &a->reload.diags);
	if (e == KP_OK)
		e = kp_plan_judge(&a->reload.plan, &a->reload.diags);
	if (e != KP_OK)
		reload_refuse(a, kp_err_str(e));
	else if (!kp_plan_has_entry(&a->reload.plan))
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

/* Where it is not attached, or not for long enough to be told. */
static void
reload_keep(struct agent *a)
{
	struct agent_reloaded kept = { .how = AGENT_RELOAD_KEPT };

	reload_end(a, &kept);
}

/* Somebody else came between the question and this: it is tried again. */
static void
change_failed(struct agent *a, struct kp_term *r)
{
	char text[400], why[600];

	msg_text(r, text, sizeof(text));
	if (a->reload.look) {
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
	/* What was disarmed for good while this was under way. */
	kp_plan_carry(&a->reload.plan, &a->plan, is_other(a));
	kp_plan_free(&a->plan);
	a->plan = a->reload.plan;
	a->reload.plan = (struct kp_plan){ 0 };
	a->o.conf = a->reload.conf;
	a->reload.step = RELOAD_NONE;
	/* Another rate was asked for meanwhile, and the owner may know better. */
	a->params.one_in = a->reload.one_in;
	agent_sample(a, one_in);
	if (!a->reload.look) {
		reload_end(a, &done);
		return;
	}
	if (a->native)
		a->ops->on_looked(a->owner);
	look_end(a, true);
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

/* Nothing of the file is in the target yet, or any more. */
static void
reload_away(struct agent *a)
{
	struct agent_checked away = { .how = AGENT_CHECKED_AWAY };

	if (a->reload.look)
		look_end(a, false);
	else if (a->reload.step == RELOAD_APPLYING)
		reload_keep(a);
	else if (a->reload.step != RELOAD_CHECKED)
		reload_checked(a, &away);
}

/* ---- beginning ---- */

static bool
state_lasts(const struct agent *a)
{
	return a->state == AGENT_ARMED || a->state == AGENT_PAUSED ||
	    a->state == AGENT_TRIPPED;
}

static void
reload_begin(struct agent *a, const struct kp_conf *conf, bool look)
{
	a->reload.conf = conf;
	a->reload.look = look;
	a->reload.planned = false;
	a->reload.step = RELOAD_WAITING;
	agent_reload_state(a);
}

/* A look need not wait where there is no plan: its making looks as well. */
static void
reload_next(struct agent *a)
{
	const struct kp_conf *conf = a->reload.wanted;

	if (a->reload.step != RELOAD_NONE)
		return;
	if (conf != NULL) {
		a->reload.wanted = NULL;
		reload_begin(a, conf, false);
	} else if (a->look_again && state_lasts(a)) {
		a->look_again = false;
		reload_begin(a, a->o.conf, true);
	}
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

/* Counted, not timed, as leases are. */
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
	a->look_again = true;
	reload_next(a);
}

void
agent_reload_apply(struct agent *a)
{
	/* It came back meanwhile, and is being armed with the other one. */
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
	if (a->reload.step == RELOAD_NONE || a->reload.look)
		return;
	a->reloads++;		/* an answer that is on its way is none */
	reload_forget(a);
	agent_recheck(a);
}
