/*
 * agent_reload.c - another plan for a target that has one: of another
 * tiers.conf, or of the same where code was changed.  Checked there, probed
 * where it is new, compared with what is armed, and the difference sent.
 *
 * It goes beside the steps of the connection's life: the target stays armed,
 * paused or tripped, and events go on, until the agent says that it is done.
 * The agent takes commands in order, so that a pause may come in between.
 * Where the connection is lost meanwhile nothing is armed any more, and the
 * file is what is armed when it is back.
 *
 * One at a time: what is asked for meanwhile waits.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "target/agent_internal.h"

static void reload_next(struct agent *a);

/* What is wrong with it, or else only noteworthy; NULL: nothing. */
static const struct kp_diags *
reload_diags(const struct agent_reloaded *r, const struct kp_diags *d)
{
	switch (r->how) {
	case AGENT_RELOAD_DONE:
		return d->n > 0 ? d : NULL;
	case AGENT_RELOAD_REFUSED:
		return d->errors > 0 ? d : NULL;
	default:
		return NULL;
	}
}

/* Ends it; conf and plan of `how` are in force, or the old ones still. */
static void
reload_end(struct agent *a, struct agent_reloaded *r)
{
	const struct kp_conf *conf = a->reload.conf;
	struct kp_diags diags = a->reload.diags;

	kp_plan_free(&a->reload.plan);
	a->reload.diags = (struct kp_diags){ 0 };
	a->reload.step = RELOAD_NONE;
	a->reload.conf = NULL;
	if (r->how != AGENT_RELOAD_REFUSED)
		a->o.conf = conf;
	r->diags = reload_diags(r, &diags);
	if (!a->reload.look) {
		a->look_again = true;	/* other modules are to be watched */
		a->ops->on_reloaded(a->ctx, r);
	} else if (r->diags != NULL) {
		a->ops->on_diags(a->ctx, r->diags);
	}
	kp_diags_free(&diags);
	reload_next(a);
}

static void
reload_refuse(struct agent *a, const char *why)
{
	struct agent_reloaded r = { .how = AGENT_RELOAD_REFUSED, .why = why };
	char text[700];

	if (a->reload.look) {
		snprintf(text, sizeof(text), "functions of the new code are "
		    "not armed: %s", why);
		a->ops->on_notice(a->ctx, "code", text);
	}
	reload_end(a, &r);
}

static void
reload_check(struct agent *a)
{
	struct kp_buf b;

	a->reload.step = RELOAD_CHECKING;
	agent_aside_begin(a, &b, RELOAD_REFS + ++a->reloads);
	msg_modules(&b, a->reload.conf, a->reload.look ? "look" : "check");
	agent_command_end(a, &b);
}

static void
reload_apply(struct agent *a)
{
	struct agent_reloaded same = { .how = AGENT_RELOAD_KEPT };
	struct kp_plan_change *n = &a->reload.n;
	struct kp_buf b;
	enum kp_err e;

	/* What was taken back, and disarmed for good, while it was probed. */
	kp_plan_carry(&a->reload.plan, &a->plan);
	e = kp_plan_diff(&a->reload.plan, a->reload.conf, &a->plan, a->o.conf,
	    &a->params, n);
	if (e == KP_OK && a->reload.look &&
	    n->added + n->changed + n->removed == 0) {
		reload_end(a, &same);
		return;
	}
	agent_aside_begin(a, &b, RELOAD_REFS + ++a->reloads);
	if (e == KP_OK)
		e = msg_change(&b, a->reload.conf, &a->reload.plan, &a->plan,
		    &a->params);
	if (e != KP_OK) {
		kp_buf_free(&b);
		reload_refuse(a, e == KP_ENOMEM ? "out of memory" :
		    "it cannot be expressed as match specs: too large");
		return;
	}
	a->reload.step = RELOAD_APPLYING;
	a->reload.one_in = a->params.one_in;
	agent_command_end(a, &b);
}

/* What is not armed yet; after a change of code all of 'exact' again. */
static void
reload_probe(struct agent *a)
{
	struct kp_plan *plan = &a->reload.plan;
	struct kp_buf b;

	kp_plan_carry(plan, &a->plan);
	if (a->reload.look && kp_plan_keep(plan, &a->plan) != KP_OK) {
		reload_refuse(a, kp_err_str(KP_ENOMEM));
		return;
	}
	if (kp_plan_probe(plan, &a->plan, a->reload.look) == 0) {
		reload_apply(a);
		return;
	}
	a->reload.step = RELOAD_RATING;
	agent_aside_begin(a, &b, RELOAD_REFS + ++a->reloads);
	msg_rates(&b, plan);
	agent_command_end(a, &b);
}

static void
answer_check(struct agent *a, struct kp_term *r)
{
	struct kp_diags *diags = &a->reload.diags;
	enum kp_err e = kp_plan_make(&a->reload.plan, a->reload.conf,
	    a->hello.node, r, diags);

	if (e != KP_OK)
		reload_refuse(a, kp_err_str(e));
	else if (diags->errors > 0 && !a->reload.look)
		reload_refuse(a, "it names what the target does not have");
	else
		reload_probe(a);
}

static void
answer_rates(struct agent *a, struct kp_term *r)
{
	enum kp_err e = msg_read_rates(r, &a->reload.plan);

	if (e == KP_OK)
		e = kp_plan_judge(&a->reload.plan, &a->reload.diags);
	if (e != KP_OK)
		reload_refuse(a, kp_err_str(e));
	else
		reload_apply(a);
}

static void
answer_change(struct agent *a, struct kp_term *r)
{
	struct agent_reloaded done = { .how = AGENT_RELOAD_DONE,
		.n = a->reload.n };
	char text[400], why[600];
	struct kp_term at = *r;
	uint32_t one_in = a->params.one_in;

	if (!kp_span_is(kp_term_atom(&at), "ok")) {
		msg_text(r, text, sizeof(text));
		snprintf(why, sizeof(why), "the target cannot be armed so: "
		    "%s", text);
		reload_refuse(a, why);
		return;
	}
	/* What was disarmed for good while this was under way. */
	kp_plan_carry(&a->reload.plan, &a->plan);
	kp_plan_free(&a->plan);
	a->plan = a->reload.plan;
	a->reload.plan = (struct kp_plan){ 0 };
	a->o.conf = a->reload.conf;
	a->reload.step = RELOAD_NONE;
	/* Another rate was asked for meanwhile, and the owner may know better. */
	a->params.one_in = a->reload.one_in;
	agent_sample(a, one_in);
	reload_end(a, &done);
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
	else if (a->reload.step == RELOAD_APPLYING)
		answer_change(a, r);
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
	struct agent_reloaded kept = { .how = AGENT_RELOAD_KEPT };

	if (a->reload.step == RELOAD_NONE) {
		reload_next(a);
		return;
	}
	switch (a->state) {
	case AGENT_STOPPING:
	case AGENT_ENDED:
		if (a->reload.look)
			reload_end(a, &kept);
		else
			reload_refuse(a, "kprofd is ending");
		break;
	case AGENT_CONNECTING:
	case AGENT_LOOKING:
	case AGENT_STARTING:
	case AGENT_LOST:
		/* Nothing of the file is in the target yet, or any more. */
		reload_end(a, &kept);
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

enum kp_err
agent_reload(struct agent *a, const struct kp_conf *conf)
{
	if (a->stopping || a->state == AGENT_ENDED)
		return KP_ESTATE;
	a->reload.wanted = conf;
	reload_next(a);
	return KP_OK;
}

void
agent_look_anew(struct agent *a)
{
	a->look_again = true;
	reload_next(a);
}
