/*
 * agent_reload.c - another tiers.conf for a target: checked there, compared
 * with what is armed, and the difference sent.
 *
 * It goes beside the steps of the connection's life: the target stays armed,
 * paused or tripped, and events go on, until the agent says that it is done.
 * The agent takes commands in order, so that a pause may come in between.
 * Where the connection is lost meanwhile nothing is armed any more, and the
 * file is what is armed when it is back.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "target/agent_internal.h"

/* Ends it; conf and plan of `how` are in force, or the old ones still. */
static void
reload_end(struct agent *a, struct agent_reloaded *r)
{
	const struct kp_conf *conf = a->reload.conf;

	kp_plan_free(&a->reload.plan);
	a->reload.step = RELOAD_NONE;
	a->reload.conf = NULL;
	if (r->how != AGENT_RELOAD_REFUSED)
		a->o.conf = conf;
	a->ops->on_reloaded(a->ctx, r);
	agent_look_anew(a);	/* other modules are to be watched */
}

static void
reload_refuse(struct agent *a, const struct kp_diags *diags, const char *why)
{
	struct agent_reloaded r = { .how = AGENT_RELOAD_REFUSED,
		.diags = diags, .why = why };

	reload_end(a, &r);
}

static void
reload_check(struct agent *a)
{
	struct kp_buf b;

	a->reload.step = RELOAD_CHECKING;
	agent_aside_begin(a, &b, RELOAD_REFS + ++a->reloads);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "check");
	if (kp_plan_modules(a->reload.conf, &b) != KP_OK && b.err == KP_OK)
		b.err = KP_ENOMEM;
	agent_command_end(a, &b);
}

static void
reload_apply(struct agent *a)
{
	struct kp_buf b;
	enum kp_err e;

	kp_plan_carry(&a->reload.plan, &a->plan);
	agent_probe_plan(a, &a->reload.plan, &a->plan);
	e = kp_plan_diff(&a->reload.plan, a->reload.conf, &a->plan, a->o.conf,
	    &a->params, &a->reload.n);
	agent_aside_begin(a, &b, RELOAD_REFS + ++a->reloads);
	if (e == KP_OK)
		e = msg_change(&b, a->reload.conf, &a->reload.plan, &a->plan,
		    &a->params);
	if (e != KP_OK) {
		kp_buf_free(&b);
		reload_refuse(a, NULL, e == KP_ENOMEM ? "out of memory" :
		    "it cannot be expressed as match specs: too large");
		return;
	}
	a->reload.step = RELOAD_APPLYING;
	a->reload.one_in = a->params.one_in;
	agent_command_end(a, &b);
}

static void
answer_check(struct agent *a, struct kp_term *r)
{
	struct kp_diags diags;
	enum kp_err e = kp_plan_make(&a->reload.plan, a->reload.conf,
	    a->hello.node, a->native, r, &diags);

	if (e != KP_OK)
		reload_refuse(a, NULL, kp_err_str(e));
	else if (diags.errors > 0)
		reload_refuse(a, &diags, "it names what the target does not "
		    "have");
	else
		reload_apply(a);
	kp_diags_free(&diags);
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
		reload_refuse(a, NULL, why);
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
	else if (a->reload.step == RELOAD_APPLYING)
		answer_change(a, r);
}

void
agent_reload_state(struct agent *a)
{
	struct agent_reloaded kept = { .how = AGENT_RELOAD_KEPT };

	if (a->reload.step == RELOAD_NONE)
		return;
	switch (a->state) {
	case AGENT_STOPPING:
	case AGENT_ENDED:
		reload_refuse(a, NULL, "kprofd is ending");
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
	a->reload.conf = conf;
	a->reload.step = RELOAD_WAITING;
	agent_reload_state(a);
	return KP_OK;
}
