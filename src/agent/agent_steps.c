/*
 * agent_steps.c - the steps from an agent that runs to an armed target, command
 * by command; and all messages of the agent, by their first atom.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/label.h"
#include "agent/agent_internal.h"

/* ---- sending ---- */

void
agent_send(struct agent *a, const struct kp_buf *message, bool to_rex)
{
	struct kp_buf frame;

	if (a->link == NULL)
		return;
	dist_frame(&frame, &a->ids, message, to_rex);
	dist_conn_send(a->link, &frame);
	kp_buf_free(&frame);
}

void
agent_command_begin(struct agent *a, struct kp_buf *b)
{
	kp_buf_init(b, MESSAGE_MAX);
	msg_command(b, &a->ids, ++a->ref);
}

void
agent_aside_begin(struct agent *a, struct kp_buf *b, uint64_t ref)
{
	kp_buf_init(b, MESSAGE_MAX);
	msg_command(b, &a->ids, ref);
}

void
agent_command_end(struct agent *a, struct kp_buf *b)
{
	agent_send(a, b, false);
	kp_buf_free(b);
}

void
agent_command(struct agent *a, const char *cmd)
{
	struct kp_buf b;

	agent_command_begin(a, &b);
	kp_etf_atom(&b, cmd);
	agent_command_end(a, &b);
}

/* How long calls are counted. */
static unsigned
rating_ms(const struct agent *a)
{
	return a->o.check_only ? (unsigned)(a->o.check_time / KP_NS_PER_MS) :
	    PROBE_MS;
}

/* A step that waits for an answer of the target. */
void
agent_set_step(struct agent *a, enum agent_state s)
{
	unsigned ms = STEP_MS;

	if (s == AGENT_RATING || s == AGENT_ARMING || s == AGENT_PAUSING)
		ms += (unsigned)a->plan.n * STEP_EACH_MS;
	if (s == AGENT_RATING)
		ms += rating_ms(a);
	if (s == AGENT_ARMING)
		ms += STEP_FLAGS_MS;
	agent_set_state(a, s, "");
	agent_timer(a, ms);
}

/* ---- the steps, in order: check, rate, arm ---- */

void
agent_step_check(struct agent *a)
{
	struct kp_buf b;

	agent_set_step(a, AGENT_CHECKING);
	a->recheck_due = false;
	agent_command_begin(a, &b);
	msg_modules(&b, a->o.conf, "check");
	agent_command_end(a, &b);
}

static void
step_rate(struct agent *a)
{
	struct kp_buf b;

	agent_set_step(a, AGENT_RATING);
	agent_command_begin(a, &b);
	msg_rates(&b, &a->plan, rating_ms(a), a->o.check_only);
	agent_command_end(a, &b);
}

static void
step_arm(struct agent *a)
{
	struct kp_buf b;
	enum kp_err e;

	agent_set_step(a, AGENT_ARMING);
	a->label = label_epochs_take(a->o.labels, a->label);
	a->params.label_const = (uint64_t)a->label << KP_LABEL_CONST_SHIFT;
	agent_command_begin(a, &b);
	a->tiers_give = a->params.gives_tokens;
	e = msg_arm(&b, a->o.conf, &a->plan, &a->params);
	if (e != KP_OK && b.err == KP_OK)
		b.err = e;
	if (b.err != KP_OK) {
		kp_buf_free(&b);
		agent_fail_or_retry(a, "cannot express tiers.conf as match specs: "
		    "too large");
		return;
	}
	agent_command_end(a, &b);
}

/* ---- answers ---- */

static void
report_diags(struct agent *a)
{
	if (a->diags.n > 0)
		a->ops->on_diags(a->owner, &a->diags);
	kp_diags_free(&a->diags);
}

/* Must the call rate of a function be measured?  Not about the native probe. */
static bool
needs_probe(const struct kp_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->v[i].probe)
			return true;
	return false;
}

/* All rates that are needed were measured. */
static void
plan_made(struct agent *a)
{
	struct kp_diags diags = { 0 };

	kp_plan_heat(&a->plan, a->o.conf, a->o.check_only, &diags);
	kp_plan_judge(&a->plan, &diags);
	if (diags.n > 0)
		a->ops->on_diags(a->owner, &diags);
	kp_diags_free(&diags);
	a->ops->on_plan(a->owner, &a->plan);
	if (a->stopping)
		return;		/* by the owner of a check */
	if (kp_plan_has_entry(&a->plan))
		step_arm(a);
	else
		agent_fail_or_retry(a, "every entry is too hot to trace: nothing "
		    "is traced");
}

/* Measures call rates, where some are not known. */
static void
probe(struct agent *a)
{
	if (needs_probe(&a->plan))
		step_rate(a);
	else
		plan_made(a);
}

static void
judged(struct agent *a, enum agent_verdict v)
{
	char why[600];

	if (v == AGENT_WAIT) {
		event_del(a->timer);	/* the owner has no time limit */
		return;
	}
	if (v == AGENT_GO_ON)
		kp_diags_excuse(&a->diags);
	report_diags(a);
	if (v == AGENT_REFUSE) {
		snprintf(why, sizeof(why), "'%s' names what the target does "
		    "not have: nothing is traced", a->o.conf_path);
		agent_fail(a, AGENT_FAILED, why);
	} else if (a->plan.n == 0)
		agent_fail(a, AGENT_FAILED, "the target has none of the "
		    "functions that tiers.conf names");
	else
		probe(a);
}

void
agent_judge(struct agent *a, enum agent_verdict v)
{
	if (a->state == AGENT_CHECKING && !a->attached_once)
		judged(a, v);
}

static void
answer_check(struct agent *a, struct kp_term *r)
{
	struct kp_plan before = a->plan;
	enum kp_err e;

	kp_diags_free(&a->diags);
	e = kp_plan_make(&a->plan, a->o.conf, a->hello.node, a->native, r,
	    &a->diags);
	/*
	 * Where no entry was left the last time, all rates are measured again:
	 * the load may have been unusual then.
	 */
	kp_plan_carry(&a->plan, &before, !kp_plan_has_entry(&before));
	kp_plan_exact(&a->plan, &before);
	/* After a lost connection it may have other code. */
	kp_plan_probe(&a->plan, &before, true);
	kp_plan_free(&before);
	if (e != KP_OK) {
		report_diags(a);
		agent_lost(a, e == KP_ENOMEM ? kp_err_str(e) :
		    "the agent's answer makes no sense");
	} else if (a->attached_once) {
		report_diags(a);
		probe(a);
	} else {
		judged(a, a->ops->on_missing(a->owner, &a->diags));
	}
}

static void
answer_rates(struct agent *a, struct kp_term *r)
{
	if (msg_read_rates(r, &a->plan) == KP_OK)
		plan_made(a);
	else
		agent_lost(a, "the agent's answer makes no sense");
}

static void
answer_arm(struct agent *a, struct kp_term *r)
{
	char text[400], why[600];
	struct kp_term at = *r;

	if (kp_span_is(kp_term_atom(&at), "ok")) {
		a->attached_once = true;
		kp_backoff_works(&a->backoff, kp_mono_now());
		agent_set_state(a, AGENT_ARMED, "");
		agent_settle(a);
		return;
	}
	msg_text(r, text, sizeof(text));
	snprintf(why, sizeof(why), "'%s' cannot be traced: %s", a->o.target,
	    text);
	if (strstr(text, "traced_by_others,all") != NULL)
		snprintf(why, sizeof(why), "'%s': another tool has a trace "
		    "pattern on every function there, also of modules that are "
		    "loaded later; if it has ended, this clears them, in the "
		    "node's shell: " AGENT_CLEAR_ALL, a->o.target);
	else if (strstr(text, "traced_by_others") != NULL)
		snprintf(why, sizeof(why), "'%s': another tool traces or "
		    "counts functions of tiers.conf there: %s", a->o.target,
		    text);
	/* If it was attached before, it may have other code: check again. */
	agent_lost(a, why);
}

static void
stacks_of(struct agent *a, uint64_t ref, struct kp_span message)
{
	if (message.n > 0 && ref <= STACKS_REFS + a->stack_asks &&
	    a->ops->on_stacks_of != NULL)
		a->ops->on_stacks_of(a->owner, ref - STACKS_REFS, message);
}

/* {kprof_reply, Ref, Result} */
static void
on_reply(struct agent *a, struct kp_term *r)
{
	uint64_t ref = (uint64_t)kp_term_int(r);

	if (r->err == KP_OK && ref > CLEAR_REFS &&
	    ref <= CLEAR_REFS + a->clears)
		a->ops->on_cleared(a->owner, ref - CLEAR_REFS);
	if (ref > STACKS_REFS)
		stacks_of(a, ref, kp_term_raw(r));
	else if (ref > CHECK_REFS)
		agent_check_answer(a, ref, r);
	else if (ref > RELOAD_REFS)
		agent_reload_answer(a, ref, r);
	if (r->err == KP_OK && ref == NODES_REF)
		a->ops->on_nodes(a->owner, r);
	if (r->err == KP_OK && ref == NAMES_REF)
		a->ops->on_names(a->owner, r);
	if (r->err == KP_OK && ref == WAITS_REF && a->ops->on_waits != NULL)
		a->ops->on_waits(a->owner, r);
	if (ref != a->ref)
		return;
	switch (a->state) {
	case AGENT_CHECKING:
		if (a->probing)
			agent_answer_probe(a, r);
		else
			answer_check(a, r);
		break;
	case AGENT_RATING:
		answer_rates(a, r);
		break;
	case AGENT_ARMING:
		answer_arm(a, r);
		break;
	case AGENT_PAUSING:
		agent_set_state(a, AGENT_PAUSED, "");
		agent_settle(a);
		break;
	default:
		break;
	}
}

static void
on_status(struct agent *a, struct kp_term *r, bool bye)
{
	struct agent_status st;
	struct kp_span name;
	char reason[200], text[300];

	if (msg_read_status(r, &st, &name, reason, sizeof(reason)) != KP_OK) {
		agent_lost(a, "the agent's status makes no sense");
		return;
	}
	if (!bye && agent_lease_answer(a, &st))
		return;
	a->ops->on_status(a->owner, &st, bye);
	if (!bye)
		return;
	if (a->stopping) {
		agent_gone(a, "");
	} else if (strcmp(reason, "stopped_by_operator") == 0) {
		agent_fail(a, AGENT_KEPT_OUT, "the agent was stopped in the "
		    "target");
	} else {
		snprintf(text, sizeof(text), "the agent has gone: %s",
		    strcmp(reason, "session_destroyed") == 0 ? "its trace "
		    "session was destroyed by another tool" : reason);
		agent_lost(a, text);
	}
}

/* {kprof_moved, Pid}: another process continues the agent's work. */
static void
on_moved(struct agent *a, struct kp_term *r)
{
	struct kp_span pid = kp_term_raw(r);
	struct kp_term check;

	kp_term_begin_raw(&check, pid.p, pid.n);
	kp_term_pid(&check);
	if (r->err != KP_OK || kp_term_finish(&check) != KP_OK) {
		agent_malformed(a, "a process");
		return;
	}
	kp_buf_reset(&a->ids.peer);
	kp_buf_put(&a->ids.peer, pid.p, pid.n);
}

static void
on_stacks(struct agent *a, struct kp_span message)
{
	if (a->ops->on_stacks != NULL)
		a->ops->on_stacks(a->owner, message);
}

void
agent_on_frame(void *ctx, const struct kp_frame *f)
{
	struct agent *a = ctx;
	struct kp_term r;
	struct kp_span tag;

	if (!dist_is_for_us(&a->ids, f))
		return;
	a->silent = 0;
	kp_term_begin(&r, f->payload.p, f->payload.n);
	kp_term_tuple(&r);
	tag = kp_term_atom(&r);
	if (r.err != KP_OK)
		agent_malformed(a, "a message");
	else if (kp_span_is(tag, "rex"))
		agent_on_rex(a, &r);
	else if (a->state < AGENT_CHECKING)
		return;		/* of an agent that we have not started */
	else if (kp_span_is(tag, "kprof_events"))
		a->ops->on_batch(a->owner, f->payload.p, f->payload.n);
	else if (kp_span_is(tag, "kprof_status"))
		on_status(a, &r, false);
	else if (kp_span_is(tag, "kprof_bye"))
		on_status(a, &r, true);
	else if (kp_span_is(tag, "kprof_reply"))
		on_reply(a, &r);
	else if (kp_span_is(tag, "kprof_notice"))
		agent_on_notice(a, &r);
	else if (kp_span_is(tag, "kprof_moved"))
		on_moved(a, &r);
	else if (kp_span_is(tag, "kprof_stacks") ||
	    kp_span_is(tag, "kprof_groups"))
		on_stacks(a, f->payload);
}

