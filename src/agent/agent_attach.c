/*
 * agent_attach.c - gets from a new connection to an agent that runs, with its probe:
 * looks whether one is there already and whether the node has room, loads ours and
 * starts it, and has it load the native probe.
 *
 * Questions go to the target's rex, one at a time: only the state shows which
 * question an answer belongs to.
 *
 * The agent starts with the relay.  kprofd sends it the native probe's module and the
 * name of the library, which must be on the target's host: on this machine it is our
 * own.  Where the target cannot load that, and the user lets us, kprofd sends the library
 * itself, once the agent has said that it takes one of this kind
 * (kprof_agent_library.erl).
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent_beam.h"
#include "kprofd/etf.h"
#include "probe_beam.h"
#include "agent/agent_internal.h"
#include "agent/probe_file.h"

#define LEFTOVER_MS 200		/* an agent is just being purged: look again */
#define LEFTOVER_TRIES 20

/* ---- which probe ---- */

static agent_answer_fn answer_probe;

static void
ask_probe(struct agent *a, struct kp_buf *b)
{
	agent_ask_own(a, b, answer_probe, a, STEP_MS * KP_NS_PER_MS);
}

/* {probe, Beam, Library, MaxBytes}; the caller writes Library, and ends it. */
static void
probe_begin(struct agent *a, struct kp_buf *b)
{
	agent_ask_begin(a, b);
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "probe");
	kp_etf_binary(b, kp_probe_beam, kp_probe_beam_len);
}

static void
probe_end(struct agent *a, struct kp_buf *b)
{
	kp_etf_int(b, (int64_t)a->now.conf->overload.max_memory / 2);
	ask_probe(a, b);
}

static void
step_probe(struct agent *a)
{
	struct kp_buf b;

	a->native = false;
	a->probe_why[0] = '\0';
	if (a->o.probe == AGENT_RELAY) {
		agent_plan_start(a);
		return;
	}
	agent_set_state(a, AGENT_CHECKING, "");
	a->probing = PROBE_FILE;
	probe_begin(a, &b);
	probe_file_put(&b, a->o.probe_library);
	probe_end(a, &b);
}

/* Appends to the reasons. */
static void
add_why(struct agent *a, const char *what, const char *text)
{
	size_t n = strlen(a->probe_why);

	snprintf(a->probe_why + n, sizeof(a->probe_why) - n, "%s%s", what,
	    text);
}

/* It is known which probe is used. */
static void
decided(struct agent *a, bool native)
{
	const char *why = a->probe_why;

	a->native = native;
	if (!native)
		add_why(a, " (-probe-library says where the target has the "
		    "library", a->o.probe_send == NULL ?
		    ", -probe-send sends it)" : ")");
	if (!native && a->o.probe == AGENT_NATIVE) {
		agent_lost(a, why);
		return;
	}
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_PROBE, .native = native,
	    .text = why[0] == '\0' ? NULL : why });
	agent_plan_start(a);
}

/* The library, and the machine that it is for; false: it was decided without it. */
static bool
library(struct agent *a, struct kp_buf *bytes, const char **machine)
{
	char text[300];

	kp_buf_init(bytes, PROBE_FILE_MAX);
	if (probe_file_read(bytes, machine, a->o.probe_send, text, sizeof(text)))
		return true;
	kp_buf_free(bytes);
	add_why(a, "; nor can kprofd send '", a->o.probe_send);
	add_why(a, "': ", text);
	decided(a, false);
	return false;
}

/* {accepts, Machine} */
static void
ask_accepts(struct agent *a)
{
	const char *machine;
	struct kp_buf b;

	if (!library(a, &b, &machine))
		return;
	kp_buf_free(&b);
	a->probing = PROBE_ACCEPTS;
	agent_ask_begin(a, &b);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "accepts");
	kp_etf_binary(&b, machine, strlen(machine));
	ask_probe(a, &b);
}

/* Library is {sent, Bytes}. */
static void
send_library(struct agent *a)
{
	const char *machine;
	struct kp_buf bytes, b;

	if (!library(a, &bytes, &machine))
		return;
	a->probing = PROBE_SENT;
	probe_begin(a, &b);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "sent");
	kp_etf_binary(&b, bytes.p, bytes.len);
	probe_end(a, &b);
	kp_buf_free(&bytes);
}

/* Text without what is around it; a long one has lost its end. */
static bool
unwrap(char *text, const char *before, const char *after)
{
	size_t len = strlen(text), b = strlen(before), e = strlen(after);

	if (len < b + e || strncmp(text, before, b) != 0)
		return false;
	len -= b;
	memmove(text, text + b, len + 1);
	if (strcmp(text + len - e, after) == 0)
		text[len - e] = '\0';
	return true;
}

/* The agent's <<"one">>, or the {load_failed,"one"} of the VM, as text. */
static void
reason(struct kp_term *r, char *text, size_t n)
{
	msg_text(r, text, n);
	if (!unwrap(text, "<<\"", "\">>"))
		unwrap(text, "{load_failed,\"", "\"}");
}

/* ok or {ok, Info}: true; else the reason, of {error, Why}. */
static bool
answered_ok(struct kp_term *r, char *text, size_t n)
{
	struct kp_term at = *r;

	text[0] = '\0';
	if (kp_term_peek(&at) == KP_TERM_TUPLE)
		kp_term_tuple(&at);
	if (kp_span_is(kp_term_atom(&at), "ok"))
		return true;
	reason(at.err == KP_OK ? &at : r, text, n);
	return false;
}

static void
answer_probe(void *ctx, uint64_t number, struct kp_term *r)
{
	struct agent *a = ctx;
	char text[600];

	(void)number;
	if (!agent_attached(a))
		return;
	if (r == NULL) {
		agent_lost(a, "no answer from the target");
	} else if (answered_ok(r, text, sizeof(text))) {
		if (a->probing == PROBE_ACCEPTS)
			send_library(a);
		else
			decided(a, true);
	} else if (a->probing == PROBE_FILE) {
		snprintf(a->probe_why, sizeof(a->probe_why), "'%s' cannot load "
		    "'%s': %s", a->o.target, a->o.probe_library, text);
		if (a->o.probe_send != NULL)
			ask_accepts(a);
		else
			decided(a, false);
	} else {
		add_why(a, a->probing == PROBE_ACCEPTS ? "; nor is one sent: " :
		    "; nor the one that was sent: ", text);
		decided(a, false);
	}
}

/* ---- the agent ---- */

/* A step that waits for an answer of the target's rex. */
static void
set_step(struct agent *a, enum agent_state s)
{
	agent_set_state(a, s, "");
	agent_timer(a, STEP_MS);
}

/* Calls mod:fun(), or mod:fun(arg) with an atom. */
static void
rex_ask(struct agent *a, const char *mod, const char *fun, const char *arg)
{
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	rpc_begin(&b, &a->ids, mod, fun);
	if (arg != NULL) {
		kp_etf_list(&b, 1);
		kp_etf_atom(&b, arg);
	}
	kp_etf_nil(&b);
	rpc_end(&b);
	agent_send(a, &b, true);
	kp_buf_free(&b);
}

void
agent_look(struct agent *a)
{
	a->asked_whereis = false;
	a->asking_room = false;
	set_step(a, AGENT_LOOKING);
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

	set_step(a, AGENT_STARTING);
	snprintf(who, sizeof(who), "%s (process %ld)", a->node,
	    (long)getpid());
	kp_buf_init(&b, MESSAGE_MAX);
	msg_load_begin(&b, &a->ids, load, beam);
	msg_start_bindings(&b, &a->ids, who, &a->now.conf->overload,
	    label_epochs_word(a->o.labels, kp_mono_now()));
	msg_eval_end(&b);
	agent_send(a, &b, true);
	kp_buf_free(&b);
}

/* Asks what the target has left, before anything is loaded there. */
static void
step_room(struct agent *a)
{
	char why[600];
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	if (headroom_ask(&a->room, &b, &a->ids))
		agent_send(a, &b, true);
	else if (headroom_refuses(&a->room, a->o.target,
	    a->now.conf->overload.max_memory, why, sizeof(why)))
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
		set_step(a, AGENT_LOOKING);
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
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_HELLO, .hello = &a->hello });
	if (a->now.conf->gc && !kp_conf_gc(a->now.conf, a->hello.gc_shared))
		agent_report(a, "gc", "garbage collection is not "
		    "measured here: from OTP 27 on the VM crashes where "
		    "another tool traces that as well, in the same process "
		    "(erlang/otp#11624; {gc, force} insists)");
	if (a->stopping) {
		agent_set_state(a, AGENT_CHECKING, "");
		agent_leave(a);
	} else {
		step_probe(a);
	}
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
