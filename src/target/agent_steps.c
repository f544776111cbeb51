/*
 * agent_steps.c - leads from a fresh connection to an armed target, question by
 * question, and hands what the agent sends from then on to its receiver.
 *
 * Until the agent runs, questions go to the target's rex, one at a time: only
 * the state shows which question an answer belongs to.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent_beam.h"
#include "kprofd/etf.h"
#include "kprofd/label.h"
#include "target/agent_internal.h"

#define LEFTOVER_MS 200		/* an agent is just being purged: look again */
#define LEFTOVER_TRIES 20

/* ---- sending ---- */

/* payload: an external term; to the target's rex, or to the agent. */
static void
agent_send(struct agent *a, const struct kp_buf *payload, bool to_rex)
{
	struct kp_buf frame;

	if (a->link == NULL)
		return;
	kp_buf_init(&frame, MESSAGE_MAX + 4096);
	if (payload->err != KP_OK)
		frame.err = payload->err;
	else if (to_rex)
		kp_frame_reg_send(&frame,
		    (struct kp_span){ a->ids.self.p, (uint32_t)a->ids.self.len },
		    "rex", payload->p, payload->len);
	else
		kp_frame_send(&frame,
		    (struct kp_span){ a->ids.peer.p,
			(uint32_t)a->ids.peer.len }, payload->p, payload->len);
	dist_conn_send(a->link, &frame);
	kp_buf_free(&frame);
}

/* mod:fun(Atom, ...), atoms being all that most questions need. */
static void
rex_ask(struct agent *a, const char *mod, const char *fun, const char *arg)
{
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	rex_begin(&b, &a->ids, mod, fun);
	if (arg != NULL) {
		kp_etf_list(&b, 1);
		kp_etf_atom(&b, arg);
	}
	kp_etf_nil(&b);
	rex_end(&b);
	agent_send(a, &b, true);
	kp_buf_free(&b);
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

/* A step that waits for an answer of the target. */
void
agent_set_step(struct agent *a, enum agent_state s)
{
	unsigned ms = STEP_MS;

	if (s == AGENT_ARMING || s == AGENT_PAUSING)
		ms += (unsigned)a->plan.n * STEP_EACH_MS;
	if (s == AGENT_ARMING)
		ms += STEP_FLAGS_MS;
	agent_set_state(a, s, "");
	agent_timer(a, ms);
}

/* ---- the steps, in order ---- */

void
agent_step_look(struct agent *a)
{
	a->looked_for_process = false;
	agent_set_step(a, AGENT_LOOKING);
	rex_ask(a, "erlang", "whereis", "kprof_agent");
}

/* Loaded and started by one call, since between two of them we may be killed. */
static void
step_start(struct agent *a)
{
	const struct kp_span load = { kp_agent_load, kp_agent_load_len };
	const struct kp_span beam = { kp_agent_beam, kp_agent_beam_len };
	char who[NODE_NAME_MAX + 64];
	struct kp_buf b;

	agent_set_step(a, AGENT_STARTING);
	snprintf(who, sizeof(who), "%s (process %ld)", a->node,
	    (long)getpid());
	kp_buf_init(&b, MESSAGE_MAX);
	msg_load_begin(&b, &a->ids, load, beam);
	msg_start_bindings(&b, &a->ids, who, &a->o.conf->overload,
	    label_epochs_word(a->o.labels, kp_mono_now()));
	msg_load_end(&b);
	agent_send(a, &b, true);
	kp_buf_free(&b);
}

void
agent_step_check(struct agent *a)
{
	struct kp_buf b;

	agent_set_step(a, AGENT_CHECKING);
	a->look_again = false;
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
	msg_rates(&b, &a->plan);
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
	e = msg_arm(&b, a->o.conf, &a->plan, &a->params);
	if (e != KP_OK && b.err == KP_OK)
		b.err = e;
	if (b.err != KP_OK) {
		kp_buf_free(&b);
		agent_hopeless(a, "cannot express tiers.conf as match specs: "
		    "too large");
		return;
	}
	agent_command_end(a, &b);
}

/* ---- answers ---- */

/* An agent that is about to go: its module is loaded, or it went just now. */
static bool
is_leftover(const struct kp_term *answer)
{
	struct kp_term r = *answer;
	struct kp_span s;

	if (kp_term_peek(&r) == KP_TERM_TUPLE)
		kp_term_tuple(&r);	/* {badrpc, _}: purged meanwhile */
	s = kp_term_atom(&r);
	return kp_span_is(s, "true") || kp_span_is(s, "not_attached") ||
	    kp_span_is(s, "badrpc");
}

/*
 * Who attached and when, of kprof_agent:status(): its list of functions may be
 * long.  Any other answer as it is.
 */
static void
occupant(struct kp_term *r, char *text, size_t n)
{
	struct kp_span who = { NULL, 0 };
	char since[64] = "?";
	struct kp_span key;
	struct kp_term map = *r;
	uint32_t pairs;

	pairs = kp_term_peek(&map) == KP_TERM_MAP ? kp_term_map(&map) : 0;
	for (uint32_t i = 0; i < pairs && map.err == KP_OK; i++) {
		key = kp_term_atom(&map);
		if (kp_span_is(key, "who"))
			who = kp_term_binary(&map);
		else if (kp_span_is(key, "since"))
			since[kp_term_string(&map, since,
			    sizeof(since) - 1)] = '\0';
		else
			kp_term_skip(&map);
	}
	if (map.err == KP_OK && who.n > 0)
		snprintf(text, n, "by %.*s since %s", (int)who.n,
		    (const char *)who.p, since);
	else
		msg_text(r, text, n);
}

static void
answer_look(struct agent *a, struct kp_term *r)
{
	char who[400], why[600];
	struct kp_term at = *r;

	if (!a->looked_for_process) {
		a->looked_for_process = true;
		/* Who is it?  The answer comes in this state too. */
		if (kp_term_peek(r) == KP_TERM_PID)
			rex_ask(a, "kprof_agent", "status", NULL);
		else
			rex_ask(a, "erlang", "module_loaded", "kprof_agent");
		return;
	}
	if (is_leftover(r) && a->leftover_tries < LEFTOVER_TRIES) {
		a->leftover_tries++;
		agent_timer(a, LEFTOVER_MS);
		return;
	}
	if (kp_term_peek(r) == KP_TERM_ATOM &&
	    !kp_span_is(kp_term_atom(&at), "timeout")) {
		step_start(a);
		return;
	}
	occupant(r, who, sizeof(who));
	snprintf(why, sizeof(why), "'%s' is being profiled already: %s "
	    "(kprof_agent:stop() there ends it)", a->o.target, who);
	agent_lost(a, why);
}

/*
 * The agent is the one that we brought, unless its module was in place of
 * ours: then it is another version's.
 */
static void
other_protocol(struct agent *a, long long protocol)
{
	char why[600];

	snprintf(why, sizeof(why), "the agent in '%s' speaks protocol %lld, "
	    "not %d: it is of another version than this kprofd (install one "
	    "version, and take kprof_agent out of the node's code path)",
	    a->o.target, protocol, AGENT_PROTOCOL);
	agent_fail(a, AGENT_FAILED, why);
}

/* Anything else than {ok, Pid, Hello}. */
static void
start_refused(struct agent *a, const char *text)
{
	bool disabled = strcmp(text, "{error,disabled}") == 0;
	char why[600], who[200];
	long long protocol;

	if (sscanf(text, "{error,{protocol,%lld}}", &protocol) == 1) {
		other_protocol(a, protocol);
		return;
	}

	/* Another kprofd was quicker: the look says which. */
	if (strcmp(text, "{error,already}") == 0 &&
	    a->leftover_tries++ < LEFTOVER_TRIES && !a->stopping) {
		agent_step_look(a);
		return;
	}
	if (disabled)
		snprintf(why, sizeof(why), "'%s' keeps kprofd out: {kprof, "
		    "[{disabled, true}]} is in its configuration",
		    a->o.target);
	else if (strstr(text, "not_loaded") != NULL)
		snprintf(why, sizeof(why), "'%s' does not load the agent: %s "
		    "(OTP 25 or later is needed)", a->o.target, text);
	else if (sscanf(text, "{error,{new_processes_traced_by,%199[^}]", who)
	    == 1)
		snprintf(why, sizeof(why), "new processes in '%s' are traced "
		    "by %s already, and before OTP 27 a process has one tracer "
		    "(kprof time or trace: try again when it has ended)",
		    a->o.target, who);
	else
		snprintf(why, sizeof(why), "the agent does not start in '%s': "
		    "%s", a->o.target, text);
	/* One that is just starting may come to it. */
	if (disabled)
		agent_fail(a, AGENT_KEPT_OUT, why);
	else if (strstr(text, "not_loaded") != NULL)
		agent_hopeless(a, why);
	else
		agent_lost(a, why);
}

static void
answer_start(struct agent *a, struct kp_term *r)
{
	struct kp_term at = *r;
	char text[300];

	if (msg_read_hello(&at, &a->ids, &a->hello) != KP_OK) {
		msg_text(r, text, sizeof(text));
		start_refused(a, text);
		return;
	}
	agent_lease_start(a);
	/* It left if ours was not its own; nor do we talk to a stranger. */
	if (a->hello.protocol != AGENT_PROTOCOL) {
		other_protocol(a, (long long)a->hello.protocol);
		return;
	}
	a->params.gc_shared = a->hello.gc_shared;
	a->ops->on_hello(a->owner, &a->hello);
	if (a->o.conf->gc && !kp_conf_gc(a->o.conf, a->hello.gc_shared))
		a->ops->on_notice(a->owner, "gc", "garbage collection is not "
		    "measured here: from OTP 27 on the VM crashes where "
		    "another tool traces that as well, in the same process "
		    "(erlang/otp#11624; {gc, force} insists)");
	if (a->stopping)
		agent_stop(a);
	else
		agent_step_probe(a);
}

static void
tell_diags(struct agent *a)
{
	if (a->diags.n > 0)
		a->ops->on_diags(a->owner, &a->diags);
	kp_diags_free(&a->diags);
}

static bool
to_be_probed(const struct kp_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->v[i].probe)
			return true;
	return false;
}

/* What there is to be probed was. */
static void
plan_made(struct agent *a)
{
	struct kp_diags diags = { 0 };
	bool errors;

	kp_plan_heat(&a->plan, a->o.conf, a->o.check_only, &diags);
	kp_plan_judge(&a->plan, &diags);
	errors = diags.errors > 0;
	if (diags.n > 0)
		a->ops->on_diags(a->owner, &diags);
	kp_diags_free(&diags);
	a->ops->on_plan(a->owner, &a->plan);
	if (a->o.check_only && errors)
		agent_fail(a, AGENT_FAILED, "tiers.conf names functions that "
		    "are too hot to trace");
	else if (a->o.check_only)
		agent_stop(a);
	else if (kp_plan_has_entry(&a->plan))
		step_arm(a);
	else
		agent_hopeless(a, "every entry is too hot to trace: nothing "
		    "is traced");
}

static void
probe(struct agent *a)
{
	if (to_be_probed(&a->plan))
		step_rate(a);
	else
		plan_made(a);
}

static void
judged(struct agent *a, enum agent_verdict v)
{
	if (v == AGENT_WAIT) {
		event_del(a->timer);	/* the owner's time, not the target's */
		return;
	}
	if (v == AGENT_GO_ON)
		kp_diags_excuse(&a->diags);
	tell_diags(a);
	if (v == AGENT_REFUSE)
		agent_fail(a, AGENT_FAILED, "tiers.conf names what the target "
		    "does not have: nothing is traced");
	else if (a->plan.n == 0)
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
	 * Where no entry was left the last time all is measured again: it may
	 * have been busy as never since.
	 */
	kp_plan_carry(&a->plan, &before, !kp_plan_has_entry(&before));
	agent_probe_plan(a, &a->plan, &before);
	/* After a lost connection its code may be another. */
	kp_plan_probe(&a->plan, &before, true);
	kp_plan_free(&before);
	if (e != KP_OK) {
		tell_diags(a);
		agent_lost(a, e == KP_ENOMEM ? kp_err_str(e) :
		    "the agent's answer makes no sense");
	} else if (a->attached_once) {
		tell_diags(a);
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
	if (strstr(text, "traced_by_others") != NULL)
		snprintf(why, sizeof(why), "'%s': another tool traces or "
		    "counts functions of tiers.conf there: %s", a->o.target,
		    text);
	/* Once attached: it may have other code now, and is checked again. */
	agent_lost(a, why);
}

/* {rex, Answer} */
static void
on_rex(struct agent *a, struct kp_term *r)
{
	switch (a->state) {
	case AGENT_LOOKING:
		answer_look(a, r);
		break;
	case AGENT_STARTING:
		answer_start(a, r);
		break;
	default:
		break;	/* an answer that is no longer waited for */
	}
}

/* {kprof_reply, Ref, Result} */
static void
on_reply(struct agent *a, struct kp_term *r)
{
	uint64_t ref = (uint64_t)kp_term_int(r);

	if (r->err == KP_OK && ref > CLEAR_REFS &&
	    ref <= CLEAR_REFS + a->clears)
		a->ops->on_cleared(a->owner, ref - CLEAR_REFS);
	if (ref > RELOAD_REFS)
		agent_reload_answer(a, ref, r);
	if (r->err == KP_OK && ref == NODES_REF)
		a->ops->on_nodes(a->owner, r);
	if (r->err == KP_OK && ref == NAMES_REF)
		a->ops->on_names(a->owner, r);
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

/* {kprof_moved, Pid}: another process goes on with the agent's work. */
static void
on_moved(struct agent *a, struct kp_term *r)
{
	struct kp_span pid = kp_term_raw(r);
	struct kp_term check;

	kp_term_begin_raw(&check, pid.p, pid.n);
	kp_term_pid(&check);
	if (r->err != KP_OK || kp_term_finish(&check) != KP_OK) {
		agent_nonsense(a, "a process");
		return;
	}
	kp_buf_reset(&a->ids.peer);
	kp_buf_put(&a->ids.peer, pid.p, pid.n);
}

/*
 * An agent of our last life sends to the pid we had then.  The name is the
 * same; number and creation, the last twelve bytes, are not.
 */
static bool
is_for_us(const struct agent *a, struct kp_span to)
{
	return to.n > 12 && a->ids.self.len > 12 && memcmp(to.p + to.n - 12,
	    a->ids.self.p + a->ids.self.len - 12, 12) == 0;
}

void
agent_on_frame(void *ctx, const struct kp_frame *f)
{
	struct agent *a = ctx;
	struct kp_term r;
	struct kp_span tag;

	if (f->kind != KP_FRAME_SEND || !is_for_us(a, f->to))
		return;
	a->silent = 0;
	kp_term_begin(&r, f->payload.p, f->payload.n);
	kp_term_tuple(&r);
	tag = kp_term_atom(&r);
	if (r.err != KP_OK)
		agent_nonsense(a, "a message");
	else if (kp_span_is(tag, "rex"))
		on_rex(a, &r);
	else if (a->state < AGENT_CHECKING)
		return;		/* nobody there has been started by us */
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
}

