/*
 * agent_plan.c - decides what is armed on a target, and changes it.
 *
 * A run finds out which functions of a tiers.conf the target has and how often they
 * are called, and judges them.  There are three, with the same questions:
 *
 *   now    at attaching; what is armed, in the end
 *   next   of another tiers.conf, when the owner asks for it (a reload), or of the same
 *          where code was changed (a recheck).  Only the difference to what is armed is
 *          sent.  It runs beside the states of the connection: the target stays armed,
 *          paused or tripped, and events go on.  If the connection is lost meanwhile,
 *          the new plan is armed when it is back.
 *   trial  of a check: what is armed, and how it is counted, stays as it is
 *
 * The agent has one set of counters for such questions, so `next` and `trial` exclude
 * each other: a check waits for a recheck to end, and the others wait for the check.
 * The agent takes commands in order, so a pause may come in between.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/etf.h"
#include "agent/agent_internal.h"

#define STEP_EACH_MS 100	/* longer for each function of a busy node; */
#define STEP_FLAGS (20 * KP_NS_PER_S)	/* and for flags of processes: see FLAGS_MS */
#define PROBE_TIME (200 * KP_NS_PER_MS)	/* how long calls are counted for a rate */

static const char no_sense[] = "the agent's answer makes no sense";

/* ---- questions of a run ---- */

static agent_answer_fn run_answer;

/* Nobody waits for the answer that is on its way. */
static void
run_forget(struct plan_run *run)
{
	if (run->asked != 0)
		agent_forget(run->a, run->asked);
	run->asked = 0;
}

/* more: how long it may take beside the usual. */
static void
run_ask(struct plan_run *run, enum run_step step, struct kp_buf *b, kp_dur_ns more)
{
	kp_dur_ns ms = STEP_MS + (kp_dur_ns)run->plan.n * STEP_EACH_MS;

	run_forget(run);
	run->step = step;
	run->asked = agent_ask_own(run->a, b, run_answer, run,
	    ms * KP_NS_PER_MS + more);
}

static void
run_ask_atom(struct plan_run *run, enum run_step step, const char *command,
    kp_dur_ns more)
{
	struct kp_buf b;

	agent_ask_begin(run->a, &b);
	kp_etf_atom(&b, command);
	run_ask(run, step, &b, more);
}

/* Only `check` has modules loaded, those that tiers.conf names. */
static void
run_look(struct plan_run *run, const char *command)
{
	struct kp_buf b;

	agent_ask_begin(run->a, &b);
	msg_modules(&b, run->conf, command);
	run_ask(run, RUN_LOOKING, &b, 0);
}

/* It measures all functions, as if nothing was armed. */
static bool
is_check(const struct plan_run *run)
{
	return run == &run->a->trial ||
	    (run == &run->a->now && run->a->o.check_only);
}

/* ---- now: arms ---- */

static void
report_diags(struct agent *a)
{
	if (a->now.diags.n > 0)
		agent_emit(a, (struct agent_event){ .kind = AGENT_ON_DIAGS,
		    .diags = &a->now.diags });
	kp_diags_free(&a->now.diags);
}

static void
arm(struct agent *a)
{
	struct kp_buf b;
	enum kp_err e;

	agent_set_state(a, AGENT_ARMING, "");
	a->label = label_epochs_take(a->o.labels, a->label);
	a->params.label_const = (uint64_t)a->label << KP_LABEL_CONST_SHIFT;
	a->params.watch = false;
	agent_ask_begin(a, &b);
	a->tiers_give = a->params.gives_tokens;
	e = msg_arm(&b, a->now.conf, &a->now.plan, &a->params);
	if (e == KP_OK && b.err == KP_OK) {
		run_ask(&a->now, RUN_APPLYING, &b, STEP_FLAGS);
		return;
	}
	kp_buf_free(&b);
	agent_fail_or_retry(a, "cannot express tiers.conf as match specs: "
	    "too large");
}

/* All rates that are needed were measured. */
static void
now_rated(struct agent *a)
{
	report_diags(a);
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_PLAN });
	if (a->stopping)
		return;		/* by the owner of a check */
	if (!kp_plan_too_hot(&a->now.plan))
		arm(a);
	else
		agent_fail_or_retry(a, "every entry is too hot to trace: nothing "
		    "is traced");
}

/* The agent keeps the match specs of entries until it arms them. */
static void
entries_respec(struct agent *a)
{
	const struct kp_plan_item *p = a->now.plan.v, *end = p + a->now.plan.n;

	a->params.watch = false;
	for (; p < end; p++)
		if (p->entry && !p->disarmed)
			agent_entry_respec(a, p);
}

static void
resume_tracing(struct agent *a)
{
	agent_set_state(a, AGENT_ARMING, "");
	if (a->params.watch)
		entries_respec(a);
	run_ask_atom(&a->now, RUN_APPLYING, a->params.sliced ? "wait" : "resume",
	    STEP_FLAGS);
}

/* In a state that lasts: starts to change to the one that the user wants. */
static void
settle(struct agent *a)
{
	if (a->user_paused && (a->state == AGENT_ARMED ||
	    a->state == AGENT_TRIPPED)) {
		agent_set_state(a, AGENT_PAUSING, "");
		run_ask_atom(&a->now, RUN_PAUSING, "pause", 0);
	} else if (!a->user_paused && a->state == AGENT_PAUSED) {
		resume_tracing(a);
	}
}

static void
arm_failed(struct agent *a, struct kp_term *r)
{
	char text[400], why[600];

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
answer_arm(struct agent *a, struct kp_term *r)
{
	struct kp_term at = *r;

	if (kp_span_is(kp_term_atom(&at), "ok")) {
		a->attached_once = true;
		a->slice = AGENT_SLICE_REST;
		kp_backoff_works(&a->backoff, kp_mono_now());
		agent_set_state(a, AGENT_ARMED, "");
		settle(a);
		return;
	}
	arm_failed(a, r);
}

/* ---- pauses ---- */

void
agent_set_pause(struct agent *a, kp_dur_ns pause, const char *text)
{
	run_forget(&a->now);
	agent_set_state(a, AGENT_TRIPPED, text);
	agent_timer(a, (unsigned)(pause / KP_NS_PER_MS));
}

void
agent_pause_over(struct agent *a)
{
	kp_dur_ns more = agent_emit(a, (struct agent_event){ .kind = AGENT_ON_PAUSE_OVER });

	if (more > 0)
		agent_timer(a, (unsigned)(more / KP_NS_PER_MS));
	else
		resume_tracing(a);
}

void
agent_pause(struct agent *a)
{
	a->user_paused = true;
	if (!a->stopping)
		settle(a);
}

void
agent_resume(struct agent *a)
{
	a->user_paused = false;
	if (a->state == AGENT_TRIPPED && !a->stopping)
		resume_tracing(a);		/* the user ends the pause */
	else if (!a->stopping)
		settle(a);
}

void
agent_pause_for(struct agent *a, kp_dur_ns pause, const char *text)
{
	struct kp_buf b;

	if (a->state != AGENT_ARMED || a->user_paused || a->stopping)
		return;
	/* No step waits for the answer: the pause is longer. */
	agent_ask_begin(a, &b);
	kp_etf_atom(&b, "pause");
	agent_tell(a, &b);
	agent_set_pause(a, pause, text);
	agent_plan_turn(a);
}

/* ---- slices of time ---- */

void
agent_sliced(struct agent *a, bool sliced)
{
	a->params.sliced = sliced;
}

/*
 * Tokens of earlier slices may still be in processes, so each slice has a constant of
 * its own.
 */
static void
slice_open(struct agent *a, uint32_t one_in)
{
	a->label = label_epochs_take(a->o.labels, a->label);
	a->params.label_const = (uint64_t)a->label << KP_LABEL_CONST_SHIFT;
	a->params.one_in = one_in;
	entries_respec(a);
}

/* If their match specs are too large, entries are not timed. */
static void
slice_close(struct agent *a, struct kp_buf *b)
{
	a->params.watch = a->now.conf->slow_always;
	agent_ask_begin(a, b);
	if (msg_close(b, a->now.conf, &a->now.plan, &a->params) == KP_OK)
		return;
	kp_buf_free(b);
	a->params.watch = false;
	agent_ask_begin(a, b);
	msg_close(b, a->now.conf, &a->now.plan, &a->params);
}

/* Are functions being counted, whose counters a slice would take? */
bool
agent_counts(const struct agent *a)
{
	return a->trial.step == RUN_RATING || a->next.step == RUN_RATING;
}

static bool
is_in_slice(const struct agent *a)
{
	return a->state == AGENT_ARMED && a->params.sliced &&
	    (a->slice != AGENT_SLICE_REST || a->now.asked != 0);
}

bool
agent_slice(struct agent *a, enum agent_slice step, uint32_t one_in)
{
	static const char *const names[] = { "ready", "open", "close", "rest" };
	struct kp_buf b;

	if (a->state != AGENT_ARMED || a->stopping ||
	    (a->now.asked != 0 && a->now.step != RUN_SLICING) ||
	    (step == AGENT_SLICE_READY && (a->next.step == RUN_APPLYING ||
	    agent_counts(a))))
		return false;
	if (step == AGENT_SLICE_OPEN)
		slice_open(a, one_in);
	a->slice = step;
	if (step == AGENT_SLICE_CLOSE) {
		slice_close(a, &b);
		run_ask(&a->now, RUN_SLICING, &b, 0);
	} else {
		run_ask_atom(&a->now, RUN_SLICING, step == AGENT_SLICE_REST &&
		    a->params.watch ? "watch" : names[step],
		    step == AGENT_SLICE_READY ? STEP_FLAGS : 0);
	}
	return true;
}

static void
answer_slice(struct agent *a, struct kp_term *r)
{
	struct kp_term at = *r;

	if (kp_span_is(kp_term_atom(&at), "ok"))
		agent_emit(a, (struct agent_event){ .kind = AGENT_ON_SLICE,
		    .slice = a->slice });
	else
		arm_failed(a, r);
	agent_plan_turn(a);
}

/* ---- next: changes what is armed ---- */

static void
next_forget(struct agent *a)
{
	run_forget(&a->next);
	kp_plan_free(&a->next.plan);
	kp_diags_free(&a->next.diags);
	a->next.step = RUN_NONE;
	a->next.conf = NULL;
	a->reload.planned = a->reload.recheck = false;
}

/* Ends a recheck; changed: functions were armed or disarmed. */
static void
recheck_end(struct agent *a, bool changed)
{
	if (changed && a->next.diags.n > 0)
		agent_emit(a, (struct agent_event){ .kind = AGENT_ON_DIAGS,
		    .diags = &a->next.diags });
	next_forget(a);
	agent_plan_turn(a);
}

/* Ends a reload: the new configuration is in force, there or when it is back. */
static void
reload_end(struct agent *a, const struct agent_reloaded *r)
{
	const struct kp_conf *conf = a->next.conf;

	next_forget(a);
	a->now.conf = conf;
	a->recheck_due = true;	/* other modules are to be watched */
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_RELOADED, .reloaded = r });
	agent_plan_turn(a);
}

/* It is not attached, or was lost before it could be changed. */
static void
reload_keep(struct agent *a)
{
	reload_end(a, &(struct agent_reloaded){ .how = AGENT_RELOAD_KEPT });
}

/* Answers agent_reload(). */
static void
reload_checked(struct agent *a, enum agent_checked_how how, const char *why)
{
	const struct agent_checked c = { how, &a->next.plan, &a->next.diags, why };

	a->next.step = RUN_CHECKED;
	a->reload.checked(a->owner, &c);
}

static void
next_refuse(struct agent *a, const char *why)
{
	char text[700];

	if (a->reload.recheck) {
		snprintf(text, sizeof(text), "functions of the new code are "
		    "not traced: %s", why);
		agent_report(a, "code", text);
		recheck_end(a, false);
		return;
	}
	a->reload.planned = false;
	reload_checked(a, AGENT_CHECKED_REFUSED, why);
}

/* Another tiers.conf may allow what is too hot for the one in force. */
static bool
conf_differs(const struct agent *a)
{
	return a->next.conf != a->now.conf;
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
	kp_plan_carry(&a->next.plan, &a->now.plan, conf_differs(a));
	e = kp_plan_diff(&a->next.plan, a->next.conf, &a->now.plan, a->now.conf,
	    &a->params, &a->reload.n);
	return e != KP_OK ? e : msg_change(b, a->next.conf, &a->next.plan,
	    &a->now.plan, &a->params);
}

static void
send_change(struct agent *a, struct kp_buf *b)
{
	a->reload.one_in = a->params.one_in;
	run_ask(&a->next, RUN_APPLYING, b, STEP_FLAGS);
}

/* A recheck is sent without asking: its tiers.conf is in force. */
static void
recheck_apply(struct agent *a)
{
	const struct kp_plan_change *n = &a->reload.n;
	bool gave = a->params.gives_tokens;
	struct kp_buf b;

	agent_ask_begin(a, &b);
	if (difference(a, &b) != KP_OK) {
		kp_buf_free(&b);
		next_refuse(a, "it cannot be expressed as match specs");
	} else if (n->added + n->changed + n->removed == 0) {
		a->params.gives_tokens = gave;
		kp_buf_free(&b);
		recheck_end(a, false);
	} else {
		send_change(a, &b);
	}
}

/* Asks whether it can be armed, before anything is changed. */
static void
reload_may(struct agent *a)
{
	struct kp_buf b;
	enum kp_err e;

	kp_buf_init(&b, MESSAGE_MAX);
	e = difference(a, &b);
	kp_buf_free(&b);
	if (e != KP_OK) {
		next_refuse(a, e == KP_ENOMEM ? "out of memory" :
		    "it cannot be expressed as match specs: too large");
		return;
	}
	agent_ask_begin(a, &b);
	msg_may(&b, &a->next.plan);
	run_ask(&a->next, RUN_ASKING, &b, 0);
}

static void
answer_may(struct agent *a, struct kp_term *r)
{
	char text[400], why[600];
	struct kp_term at = *r;

	if (kp_span_is(kp_term_atom(&at), "ok")) {
		a->reload.planned = true;
		reload_checked(a, AGENT_CHECKED_DONE, NULL);
		return;
	}
	msg_text(r, text, sizeof(text));
	snprintf(why, sizeof(why), "the target refuses these functions: %s",
	    text);
	next_refuse(a, why);
}

/* measured: rates were needed, and are known. */
static void
next_rated(struct agent *a, bool measured)
{
	if (measured && kp_plan_too_hot(&a->next.plan))
		next_refuse(a, "every entry is too hot to trace");
	else if (a->reload.recheck)
		recheck_apply(a);
	else
		reload_may(a);
}

/* Something has changed since it was asked: attaches again. */
static void
change_failed(struct agent *a, struct kp_term *r)
{
	char text[400], why[600];

	msg_text(r, text, sizeof(text));
	if (a->reload.recheck) {
		next_refuse(a, text);
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
	uint32_t one_in = a->params.one_in;
	struct kp_term at = *r;

	if (!kp_span_is(kp_term_atom(&at), "ok")) {
		change_failed(a, r);
		return;
	}
	/* Functions may have been disarmed for good meanwhile. */
	kp_plan_carry(&a->next.plan, &a->now.plan, conf_differs(a));
	kp_plan_free(&a->now.plan);
	a->now.plan = a->next.plan;
	a->next.plan = (struct kp_plan){ 0 };
	a->now.conf = a->next.conf;
	a->next.step = RUN_NONE;
	/* The owner may have asked for another rate meanwhile. */
	a->params.one_in = a->reload.one_in;
	agent_sample(a, one_in);
	if (!a->reload.recheck) {
		reload_end(a, &(struct agent_reloaded){
		    .how = AGENT_RELOAD_DONE, .n = a->reload.n });
		return;
	}
	if (a->native)
		agent_emit(a, (struct agent_event){ .kind = AGENT_ON_REPLANNED });
	recheck_end(a, true);
}

/* ---- trial: checks, and changes nothing ---- */

/* The owner may end the check, or ask the next question, in its callback. */
static void
check_answer(struct agent *a, enum run_step step, enum agent_checked_how how,
    const char *why)
{
	const struct agent_checked c = { how, &a->trial.plan, &a->trial.diags,
		why };

	a->trial.step = step;
	a->check_answer(a->owner, &c);
}

/* Answers the question that is open; without one, the next will be answered. */
static void
check_over(struct agent *a, enum agent_checked_how how, const char *why)
{
	enum run_step was = a->trial.step;

	run_forget(&a->trial);
	if (was == RUN_WAITING || was == RUN_LOOKING || was == RUN_RESTING ||
	    was == RUN_RATING)
		check_answer(a, RUN_OVER, how, why);
	else if (was == RUN_LOOKED)
		a->trial.step = RUN_OVER;
}

/* ---- all runs: look, rate, judge ---- */

/* It cannot be gone on with. */
static void
run_fail(struct plan_run *run, const char *why)
{
	struct agent *a = run->a;

	if (run == &a->now)
		agent_lost(a, why);
	else if (run == &a->next)
		next_refuse(a, why);
	else
		check_over(a, AGENT_CHECKED_REFUSED, why);
}

static void
run_judge(struct plan_run *run, bool measured)
{
	struct agent *a = run->a;

	if (measured || run != &a->next) {
		kp_plan_heat(&run->plan, run->conf, is_check(run), &run->diags);
		kp_plan_judge(&run->plan, &run->diags);
	}
	if (run == &a->now)
		now_rated(a);
	else if (run == &a->next)
		next_rated(a, measured);
	else
		check_over(a, AGENT_CHECKED_DONE, NULL);
}

/* Measures call rates, where some are not known. */
static void
run_rate(struct plan_run *run)
{
	struct agent *a = run->a;
	kp_dur_ns time = run == &a->trial ? a->check_time : is_check(run) ?
	    a->o.check_time : PROBE_TIME;
	struct kp_buf b;

	if (run->unrated == 0) {
		run_judge(run, false);
		return;
	}
	/* Counters of what a slice arms come and go with it. */
	if (run != &a->now && is_in_slice(a)) {
		run->step = RUN_RESTING;
		return;
	}
	if (run == &a->now)
		agent_set_state(a, AGENT_RATING, "");
	agent_ask_begin(a, &b);
	msg_rates(&b, &run->plan, (unsigned)(time / KP_NS_PER_MS),
	    is_check(run));
	run_ask(run, RUN_RATING, &b, time);
}

/* Whether to go on although the target lacks functions; of `now`. */
static void
judged(struct agent *a, enum agent_verdict v)
{
	char why[600];

	if (v == AGENT_WAIT)
		return;		/* the owner has no time limit */
	if (v == AGENT_GO_ON)
		kp_diags_excuse(&a->now.diags);
	report_diags(a);
	if (v == AGENT_REFUSE) {
		snprintf(why, sizeof(why), "'%s' names what the target does "
		    "not have: nothing is traced", a->o.conf_path);
		agent_fail(a, AGENT_FAILED, why);
	} else if (a->now.plan.n == 0) {
		agent_fail(a, AGENT_FAILED, "the target has none of the "
		    "functions that tiers.conf names");
	} else {
		run_rate(&a->now);
	}
}

void
agent_judge(struct agent *a, enum agent_verdict v)
{
	if (a->state == AGENT_CHECKING && !a->attached_once)
		judged(a, v);
	agent_plan_turn(a);
}

/*
 * The functions of the plan, and which of them are to be measured, in comparison to
 * what is armed, or was.  After a lost connection, and a change of code, functions
 * that were measured may be others.
 */
static enum kp_err
run_plan(struct plan_run *run, struct kp_term *r)
{
	struct agent *a = run->a;
	const struct kp_plan none = { 0 };
	struct kp_plan before = run->plan;
	const struct kp_plan *armed = run == &a->now ? &before :
	    run == &a->next ? &a->now.plan : &none;
	bool again = run != &a->next || a->reload.recheck;
	enum kp_err e;

	kp_diags_free(&run->diags);
	e = kp_plan_make(&run->plan, run->conf, a->hello.node, a->native, r,
	    &run->diags);
	/*
	 * Where no entry was left the last time, all rates are measured again:
	 * the load may have been unusual then.
	 */
	kp_plan_carry(&run->plan, armed, run == &a->now ?
	    armed->n == 0 || kp_plan_too_hot(armed) : conf_differs(a));
	if (e == KP_OK && run == &a->next && a->reload.recheck)
		e = kp_plan_keep(&run->plan, armed);
	kp_plan_exact(&run->plan, armed);
	run->unrated = kp_plan_probe(&run->plan, armed, again);
	kp_plan_free(&before);
	return e;
}

static void
answer_look(struct plan_run *run, struct kp_term *r)
{
	enum kp_err e = run_plan(run, r);
	struct agent *a = run->a;

	if (run == &a->now && (e != KP_OK || a->attached_once))
		report_diags(a);
	if (e != KP_OK)
		run_fail(run, e == KP_ENOMEM ? kp_err_str(e) : no_sense);
	else if (run == &a->trial)
		check_answer(a, RUN_LOOKED, AGENT_CHECKED_DONE, NULL);
	else if (run == &a->next || a->attached_once)
		run_rate(run);
	else
		judged(a, (enum agent_verdict)agent_emit(a, (struct agent_event){
		    .kind = AGENT_ON_MISSING, .diags = &run->diags }));
}

static void
run_answer(void *ctx, uint64_t number, struct kp_term *r)
{
	struct plan_run *run = ctx;
	struct agent *a = run->a;

	(void)number;
	run->asked = 0;
	if (!agent_attached(a))
		return;		/* agent_plan_turn() follows */
	/* Other targets wait for a reload of this one; a profile goes on beside a check. */
	if (r == NULL) {
		if (run == &a->trial)
			run_fail(run, "no answer from the target in time");
		else
			agent_lost(a, "no answer from the target");
		return;
	}
	switch (run->step) {
	case RUN_LOOKING:
		answer_look(run, r);
		break;
	case RUN_RATING:
		if (msg_read_rates(r, &run->plan) == KP_OK)
			run_judge(run, true);
		else
			run_fail(run, no_sense);
		break;
	case RUN_ASKING:
		answer_may(a, r);
		break;
	case RUN_APPLYING:
		if (run == &a->now)
			answer_arm(a, r);
		else
			answer_change(a, r);
		break;
	case RUN_PAUSING:
		agent_set_state(a, AGENT_PAUSED, "");
		settle(a);
		break;
	case RUN_SLICING:
		answer_slice(a, r);
		break;
	case RUN_NONE:
	case RUN_WAITING:
	case RUN_LOOKED:
	case RUN_RESTING:
	case RUN_CHECKED:
	case RUN_OVER:
		break;
	}
}

/* ---- beginning and end ---- */

void
agent_plan_start(struct agent *a)
{
	agent_set_state(a, AGENT_CHECKING, "");
	a->recheck_due = false;
	run_look(&a->now, "check");
}

/* True: armed, paused or tripped, which only an event ends. */
static bool
state_lasts(const struct agent *a)
{
	return a->state == AGENT_ARMED || a->state == AGENT_PAUSED ||
	    a->state == AGENT_TRIPPED;
}

static void
next_begin(struct agent *a, const struct kp_conf *conf, bool recheck)
{
	a->next.conf = conf;
	a->next.step = RUN_WAITING;
	a->reload.recheck = recheck;
	a->reload.planned = false;
}

/* The target is not attached, or is ending. */
static void
next_away(struct agent *a)
{
	if (a->reload.recheck)
		recheck_end(a, false);
	else if (a->next.step == RUN_APPLYING)
		reload_keep(a);
	else if (a->next.step != RUN_CHECKED)
		reload_checked(a, AGENT_CHECKED_AWAY, NULL);
}

void
agent_plan_turn(struct agent *a)
{
	const struct kp_conf *wanted;

	if (!agent_attached(a))
		check_over(a, AGENT_CHECKED_AWAY, NULL);
	else if (a->trial.step == RUN_WAITING && state_lasts(a) &&
	    a->next.step == RUN_NONE)
		run_look(&a->trial, "check");
	else if (a->trial.step == RUN_RESTING)
		run_rate(&a->trial);
	if (a->next.step == RUN_NONE && a->trial.step == RUN_NONE) {
		wanted = a->reload.wanted;
		if (wanted != NULL) {
			a->reload.wanted = NULL;
			next_begin(a, wanted, false);
		} else if (a->recheck_due && state_lasts(a)) {
			a->recheck_due = false;
			next_begin(a, a->now.conf, true);
		}
	}
	if (a->next.step == RUN_NONE)
		return;
	if (!agent_attached(a))
		next_away(a);
	else if (a->next.step == RUN_WAITING && state_lasts(a))
		run_look(&a->next, a->reload.recheck ? "look" : "check");
	else if (a->next.step == RUN_RESTING)
		run_rate(&a->next);
}

void
agent_reload(struct agent *a, const struct kp_conf *conf,
    agent_checked_fn *checked)
{
	a->reload.wanted = conf;
	a->reload.checked = checked;
	agent_plan_turn(a);
}

void
agent_reload_apply(struct agent *a)
{
	/* It was attached again meanwhile, and is being armed with the old one. */
	bool stale = !a->reload.planned && agent_attached(a);
	struct kp_buf b;

	if (!a->reload.planned || a->stopping) {
		reload_keep(a);
		if (stale)
			agent_lost(a, "tiers.conf was changed while it was "
			    "put in force");
	} else {
		agent_ask_begin(a, &b);
		if (difference(a, &b) == KP_OK) {
			send_change(a, &b);
			return;
		}
		kp_buf_free(&b);
		reload_keep(a);
		agent_lost(a, "cannot express tiers.conf as match specs");
	}
	agent_plan_turn(a);
}

void
agent_reload_cancel(struct agent *a)
{
	a->reload.wanted = NULL;
	if (a->next.step == RUN_NONE || a->reload.recheck)
		return;
	next_forget(a);
	a->recheck_due = true;
	agent_plan_turn(a);
}

void
agent_check(struct agent *a, const struct kp_conf *conf, agent_checked_fn *looked)
{
	agent_check_end(a);
	a->trial.conf = conf;
	a->trial.step = RUN_WAITING;
	a->check_answer = looked;
	agent_plan_turn(a);
}

void
agent_check_count(struct agent *a, kp_dur_ns time, agent_checked_fn *counted)
{
	kp_diags_free(&a->trial.diags);
	a->check_answer = counted;
	a->check_time = time;
	if (a->trial.step != RUN_LOOKED) {
		check_answer(a, RUN_OVER, AGENT_CHECKED_AWAY, NULL);
		return;
	}
	run_rate(&a->trial);
}

/* A question takes the place of the one before it, counters included. */
void
agent_check_end(struct agent *a)
{
	bool counts = a->trial.step == RUN_RATING;
	const struct kp_plan none = { 0 };
	struct kp_buf b;

	if (a->trial.step == RUN_NONE)
		return;
	run_forget(&a->trial);
	kp_plan_free(&a->trial.plan);
	kp_diags_free(&a->trial.diags);
	a->trial.step = RUN_NONE;
	a->trial.conf = NULL;
	if (counts) {
		agent_ask_begin(a, &b);
		msg_rates(&b, &none, 1, true);
		agent_tell(a, &b);
	}
	agent_plan_turn(a);
}
