/*
 * agent_attach.c - from a new connection to an agent that runs: looks whether
 * one is there already and whether the node has room, loads ours and starts it.
 *
 * Questions go to the target's rex, one at a time: only the state shows which
 * question an answer belongs to.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent_beam.h"
#include "kprofd/etf.h"
#include "agent/agent_internal.h"

#define LEFTOVER_MS 200		/* an agent is just being purged: look again */
#define LEFTOVER_TRIES 20

/* Calls mod:fun(), or mod:fun(arg) with an atom. */
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
agent_step_look(struct agent *a)
{
	a->asked_whereis = false;
	a->asking_room = false;
	agent_set_step(a, AGENT_LOOKING);
	rex_ask(a, "erlang", "whereis", "kprof_agent");
}

/* One call loads and starts it: between two calls kprofd might be killed. */
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

/* What the target has left is asked before anything is loaded there. */
static void
step_room(struct agent *a)
{
	char why[600];
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	if (headroom_ask(&a->room, &b, &a->ids))
		agent_send(a, &b, true);
	else if (headroom_refuses(&a->room, a->o.target,
	    a->o.conf->overload.max_memory, why, sizeof(why)))
		agent_lost(a, why);
	else
		step_start(a);
	kp_buf_free(&b);
}

/* An agent that is being removed: its module is loaded, or was until now. */
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
 * Who attached and when, from kprof_agent:status(), without its long list of
 * functions.  Any other answer is printed as it is.
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
	const char *ask = a->o.occupied_hint != NULL ? a->o.occupied_hint : "";
	char who[400], why[900];
	struct kp_term at = *r;

	if (a->asking_room) {
		headroom_answer(&a->room, r);
		step_room(a);
		return;
	}
	if (!a->asked_whereis) {
		a->asked_whereis = true;
		/* The next answer comes in this state too. */
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
		a->asking_room = true;
		a->room = (struct headroom){ 0 };
		step_room(a);
		return;
	}
	occupant(r, who, sizeof(who));
	snprintf(why, sizeof(why), "'%s' is being profiled already: %s "
	    "(%s%skprof_agent:stop() there ends it)", a->o.target, who, ask,
	    *ask != '\0' ? "; " : "");
	agent_lost(a, why);
}

/*
 * The agent is ours, unless the node loaded a module of that name by itself:
 * that may be of another version.
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

/* Any answer but {ok, Pid, Hello}. */
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

	/* Another kprofd was quicker: look for its agent, but not at once. */
	if (strcmp(text, "{error,already}") == 0 &&
	    a->leftover_tries++ < LEFTOVER_TRIES && !a->stopping) {
		agent_set_step(a, AGENT_LOOKING);
		a->asked_whereis = true;
		agent_timer(a, LEFTOVER_MS);
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
	/* A node that is just starting may succeed later. */
	if (disabled)
		agent_fail(a, AGENT_KEPT_OUT, why);
	else if (strstr(text, "not_loaded") != NULL)
		agent_fail_or_retry(a, why);
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
	/* An agent of another protocol ends by itself. */
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

/* {rex, Answer} */
void
agent_on_rex(struct agent *a, struct kp_term *r)
{
	char why[600];

	if ((a->state == AGENT_LOOKING || a->state == AGENT_STARTING) &&
	    headroom_is_full(r, a->o.target, why, sizeof(why))) {
		agent_lost(a, why);
		return;
	}
	switch (a->state) {
	case AGENT_LOOKING:
		answer_look(a, r);
		break;
	case AGENT_STARTING:
		answer_start(a, r);
		break;
	default:
		break;	/* the step that waited for it is over */
	}
}
