/*
 * agent.c - the state machine of one target; see the header.
 *
 * Until the agent runs, questions go to the target's rex, one at a time;
 * from then on to the agent's pid only.  Every step has a time limit, so a
 * target that hangs is a lost connection like any other.  A connection that
 * is lost after the first successful attach is made anew, with backoff; one
 * that never came about is a failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent_beam.h"
#include "kprofd/etf.h"
#include "target/agent_msg.h"
#include "target/connect.h"
#include "target/link.h"

#define LEASE_MS 1000
#define STEP_MS 10000		/* the longest wait for an answer */
#define LEFTOVER_MS 200		/* an agent is just being purged: look again */
#define LEFTOVER_TRIES 20
#define BACKOFF_MIN_MS 500
#define BACKOFF_MAX_MS 30000
#define SILENT_MAX 5		/* leases renewed without a word from it */
#define STOP_MS 3000		/* the agent has this long to say goodbye */
#define MESSAGE_MAX (8u << 20)	/* bytes of one message to the target */

struct agent {
	struct event_base *base;
	struct agent_opts o;
	const struct agent_ops *ops;
	void *ctx;
	enum agent_state state;
	struct connect *connect;
	struct link *link;
	struct agent_ids ids;
	struct agent_hello hello;
	struct kp_plan plan;
	struct kp_spec_params params;
	struct event *lease;	/* every second while attached */
	struct event *timer;	/* limit of the step, rest, or backoff */
	uint64_t ref;		/* of the command waited for */
	unsigned leftover_tries;
	unsigned silent;	/* leases sent since the last frame came */
	unsigned backoff_ms;
	bool looked_for_process;
	bool attached_once, user_paused, stopping;
	char node[NODE_NAME_MAX + 1];	/* our own name */
};

static void agent_lost(struct agent *a, const char *why);

const char *
agent_state_name(enum agent_state s)
{
	static const char *const names[] = { "connecting", "looking",
		"loading", "starting", "checking", "measuring call rates",
		"arming", "armed", "paused", "tripped", "stopping", "lost",
		"ended" };

	return names[s];
}

enum agent_state
agent_state(const struct agent *a)
{
	return a->state;
}

static void
arm_timer(struct agent *a, unsigned ms)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	event_add(a->timer, &tv);
}

static void
set_state(struct agent *a, enum agent_state s, const char *text)
{
	a->state = s;
	event_del(a->timer);
	a->ops->on_state(a->ctx, s, text);
}

/* A step that waits for an answer of the target. */
static void
set_step(struct agent *a, enum agent_state s)
{
	set_state(a, s, "");
	arm_timer(a, STEP_MS);
}

static void
drop_connection(struct agent *a)
{
	connect_free(a->connect);
	a->connect = NULL;
	link_free(a->link);
	a->link = NULL;
	event_del(a->lease);
}

static void
agent_fail(struct agent *a, const char *why)
{
	drop_connection(a);
	set_state(a, AGENT_ENDED, why);
	a->ops->on_failed(a->ctx, why);
}

/* ---- sending ---- */

static void
send_to(struct agent *a, struct kp_buf *payload, bool to_rex)
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
		    (struct kp_span){ a->ids.agent.p,
			(uint32_t)a->ids.agent.len }, payload->p, payload->len);
	link_send(a->link, &frame);
	kp_buf_free(&frame);
}

/* mod:fun(Atom, ...), atoms being all that most questions need. */
static void
rex_ask(struct agent *a, const char *mod, const char *fun, const char *arg)
{
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	msg_rex_begin(&b, &a->ids, mod, fun);
	if (arg != NULL) {
		kp_etf_list(&b, 1);
		kp_etf_atom(&b, arg);
	}
	kp_etf_nil(&b);
	msg_rex_end(&b);
	send_to(a, &b, true);
	kp_buf_free(&b);
}

static void
command_begin(struct agent *a, struct kp_buf *b)
{
	kp_buf_init(b, MESSAGE_MAX);
	msg_command(b, &a->ids, ++a->ref);
}

static void
command_end(struct agent *a, struct kp_buf *b)
{
	send_to(a, b, false);
	kp_buf_free(b);
}

static void
command_atom(struct agent *a, const char *cmd)
{
	struct kp_buf b;

	command_begin(a, &b);
	kp_etf_atom(&b, cmd);
	command_end(a, &b);
}

/* ---- the steps, in order ---- */

static void
step_look(struct agent *a)
{
	a->looked_for_process = false;
	set_step(a, AGENT_LOOKING);
	rex_ask(a, "erlang", "whereis", "kprof_agent");
}

static void
step_load(struct agent *a)
{
	struct kp_buf b;

	set_step(a, AGENT_LOADING);
	kp_buf_init(&b, MESSAGE_MAX);
	msg_rex_begin(&b, &a->ids, "code", "load_binary");
	kp_etf_list(&b, 3);
	kp_etf_atom(&b, "kprof_agent");
	kp_etf_string(&b, "kprof_agent.beam", strlen("kprof_agent.beam"));
	kp_etf_binary(&b, kp_agent_beam, kp_agent_beam_len);
	kp_etf_nil(&b);
	msg_rex_end(&b);
	send_to(a, &b, true);
	kp_buf_free(&b);
}

static void
step_start(struct agent *a)
{
	char who[NODE_NAME_MAX + 64];
	struct kp_buf b;

	set_step(a, AGENT_STARTING);
	snprintf(who, sizeof(who), "%s (process %ld)", a->node,
	    (long)getpid());
	kp_buf_init(&b, MESSAGE_MAX);
	msg_rex_begin(&b, &a->ids, "kprof_agent", "start");
	msg_start_args(&b, &a->ids, who, &a->o.conf->overload);
	msg_rex_end(&b);
	send_to(a, &b, true);
	kp_buf_free(&b);
}

static void
step_check(struct agent *a)
{
	struct kp_buf b;

	set_step(a, AGENT_CHECKING);
	command_begin(a, &b);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "check");
	if (kp_plan_modules(a->o.conf, &b) != KP_OK && b.err == KP_OK)
		b.err = KP_ENOMEM;
	command_end(a, &b);
}

static void
step_rate(struct agent *a)
{
	struct kp_buf b;

	set_step(a, AGENT_RATING);
	command_begin(a, &b);
	msg_rates(&b, &a->plan);
	command_end(a, &b);
}

/* Labels of this arming differ from most others', and are never 0. */
static uint64_t
label_const(void)
{
	uint32_t r = 0;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		r = (uint32_t)kp_wall_now();
	return (uint64_t)(1 + r % 0x3FF) << 48;
}

static void
step_arm(struct agent *a)
{
	struct kp_buf b;
	enum kp_err e;

	set_step(a, AGENT_ARMING);
	a->params.label_const = label_const();
	command_begin(a, &b);
	e = msg_arm(&b, a->o.conf, &a->plan, &a->params);
	if (e != KP_OK && b.err == KP_OK)
		b.err = e;
	if (b.err != KP_OK) {
		kp_buf_free(&b);
		agent_fail(a, "cannot express tiers.conf as match specs: too "
		    "large");
		return;
	}
	command_end(a, &b);
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
		arm_timer(a, LEFTOVER_MS);
		return;
	}
	if (kp_term_peek(r) == KP_TERM_ATOM &&
	    !kp_span_is(kp_term_atom(&at), "timeout")) {
		step_load(a);
		return;
	}
	msg_text(r, who, sizeof(who));
	snprintf(why, sizeof(why), "'%s' is being profiled already: %s "
	    "(kprof_agent:stop() there ends it)", a->o.target, who);
	agent_lost(a, why);
}

static void
answer_load(struct agent *a, struct kp_term *r)
{
	char text[300], why[500];
	struct kp_term at = *r;

	if (kp_term_peek(r) == KP_TERM_TUPLE && kp_term_tuple(&at) == 2 &&
	    kp_span_is(kp_term_atom(&at), "module")) {
		step_start(a);
		return;
	}
	msg_text(r, text, sizeof(text));
	snprintf(why, sizeof(why), "'%s' does not load the agent: %s (OTP 25 "
	    "or later is needed)", a->o.target, text);
	agent_fail(a, why);
}

static void
answer_start(struct agent *a, struct kp_term *r)
{
	struct timeval second = { LEASE_MS / 1000, 0 };
	char text[300], why[600];
	struct kp_term at = *r;

	if (msg_read_hello(&at, &a->ids, &a->hello) != KP_OK) {
		msg_text(r, text, sizeof(text));
		if (strcmp(text, "{error,disabled}") == 0)
			snprintf(why, sizeof(why), "'%s' keeps kprofd out: "
			    "{kprof, [{disabled, true}]} is in its "
			    "configuration", a->o.target);
		else
			snprintf(why, sizeof(why), "the agent does not start "
			    "in '%s': %s", a->o.target, text);
		agent_fail(a, why);
		return;
	}
	a->silent = 0;
	event_add(a->lease, &second);
	a->ops->on_hello(a->ctx, &a->hello);
	step_check(a);
}

static void
answer_check(struct agent *a, struct kp_term *r)
{
	struct kp_diags diags;
	enum kp_err e;
	size_t errors;

	kp_plan_free(&a->plan);
	e = kp_plan_make(&a->plan, a->o.conf, a->hello.node, r, &diags);
	if (diags.n > 0)
		a->ops->on_diags(a->ctx, &diags);
	errors = diags.errors;
	kp_diags_free(&diags);
	if (e != KP_OK) {
		agent_lost(a, kp_err_str(e));
	} else if (errors > 0 && !a->attached_once) {
		agent_fail(a, "tiers.conf names what the target does not "
		    "have: nothing was armed");
	} else if (a->attached_once) {
		a->ops->on_plan(a->ctx, &a->plan);
		step_arm(a);
	} else {
		step_rate(a);
	}
}

static void
answer_rates(struct agent *a, struct kp_term *r)
{
	if (msg_read_rates(r, &a->plan) != KP_OK) {
		agent_lost(a, "the agent's answer makes no sense");
		return;
	}
	a->ops->on_plan(a->ctx, &a->plan);
	if (a->o.check_only)
		agent_stop(a);
	else
		step_arm(a);
}

static void
answer_arm(struct agent *a, struct kp_term *r)
{
	char text[400], why[600];
	struct kp_term at = *r;

	if (kp_span_is(kp_term_atom(&at), "ok")) {
		a->attached_once = true;
		a->backoff_ms = BACKOFF_MIN_MS;
		set_state(a, AGENT_ARMED, "");
		if (a->user_paused)
			agent_pause(a);
		return;
	}
	msg_text(r, text, sizeof(text));
	snprintf(why, sizeof(why), "'%s' cannot be armed: %s", a->o.target,
	    text);
	if (strstr(text, "traced_by_others") != NULL)
		snprintf(why, sizeof(why), "'%s': somebody else traces or "
		    "counts functions of tiers.conf there: %s", a->o.target,
		    text);
	agent_fail(a, why);
}

/* {rex, Answer} */
static void
on_rex(struct agent *a, struct kp_term *r)
{
	switch (a->state) {
	case AGENT_LOOKING:
		answer_look(a, r);
		break;
	case AGENT_LOADING:
		answer_load(a, r);
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
	if ((uint64_t)kp_term_int(r) != a->ref)
		return;
	switch (a->state) {
	case AGENT_CHECKING:
		answer_check(a, r);
		break;
	case AGENT_RATING:
		answer_rates(a, r);
		break;
	case AGENT_ARMING:
		answer_arm(a, r);
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

	if (msg_read_status(r, &st, &name, reason, sizeof(reason)) != KP_OK)
		return;
	a->ops->on_status(a->ctx, &st);
	if (!bye)
		return;
	if (a->stopping) {
		drop_connection(a);
		set_state(a, AGENT_ENDED, "");
		a->ops->on_stopped(a->ctx);
	} else if (strcmp(reason, "stopped_by_operator") == 0) {
		agent_fail(a, "the agent was stopped in the target");
	} else {
		snprintf(text, sizeof(text), "the agent has gone: %s", reason);
		agent_lost(a, text);
	}
}

/* {kprof_notice, trip, Reason, Queue} | {kprof_notice, unexact, MFA, Bytes} */
static void
on_notice(struct agent *a, struct kp_term *r)
{
	struct kp_span kind = kp_term_atom(r);
	char what[200], text[400];
	int64_t n;

	msg_text(r, what, sizeof(what));
	n = kp_term_int(r);
	if (r->err != KP_OK)
		return;
	if (kp_span_is(kind, "trip")) {
		snprintf(text, sizeof(text), "%s over its limit, queue %lld",
		    what, (long long)n);
		a->ops->on_notice(a->ctx, "trip", text);
		if (a->user_paused || a->stopping)
			return;	/* it was late: nothing is to be resumed */
		set_state(a, AGENT_TRIPPED, text);
		arm_timer(a, (unsigned)(a->o.conf->overload.pause /
		    KP_NS_PER_MS));
	} else if (kp_span_is(kind, "unexact")) {
		snprintf(text, sizeof(text), "'exact' taken back from %s: its "
		    "values are %lld bytes on average", what, (long long)n);
		a->ops->on_notice(a->ctx, "unexact", text);
	}
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

static void
on_frame(void *ctx, const struct kp_frame *f)
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
		return;
	if (kp_span_is(tag, "kprof_events"))
		a->ops->on_batch(a->ctx, f->payload.p, f->payload.n);
	else if (kp_span_is(tag, "kprof_status"))
		on_status(a, &r, false);
	else if (kp_span_is(tag, "kprof_bye"))
		on_status(a, &r, true);
	else if (kp_span_is(tag, "kprof_reply"))
		on_reply(a, &r);
	else if (kp_span_is(tag, "kprof_notice"))
		on_notice(a, &r);
	else if (kp_span_is(tag, "rex"))
		on_rex(a, &r);
}

/* ---- connections come and go ---- */

static void
on_down(void *ctx, const char *why)
{
	agent_lost(ctx, why);
}

static const struct link_ops link_ops = { on_frame, on_down };

static void
on_connected(void *ctx, enum kp_err e, const struct node_conn *conn,
    const char *why)
{
	struct agent *a = ctx;
	int fd = e == KP_OK ? conn->fd : -1;

	if (e != KP_OK) {
		agent_lost(a, why);
		return;
	}
	snprintf(a->node, sizeof(a->node), "%s", conn->name);
	kp_buf_reset(&a->ids.self);
	kp_etf_pid(&a->ids.self, conn->name, 1, 0, conn->creation);
	connect_free(a->connect);
	a->connect = NULL;
	a->link = link_new(a->base, fd, &link_ops, a);
	if (a->link == NULL) {
		agent_lost(a, "out of memory");
		return;
	}
	a->leftover_tries = 0;
	step_look(a);
}

static void
step_connect(struct agent *a)
{
	struct node_opts o = { .target = a->o.target, .name = a->o.name,
		.cookie = a->o.cookie, .limit = a->o.connect_limit };

	set_state(a, AGENT_CONNECTING, "");
	a->connect = connect_start(a->base, &o, on_connected, a);
	if (a->connect == NULL)
		agent_lost(a, "cannot start a thread to connect");
}

static void
agent_lost(struct agent *a, const char *why)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s", why);
	if (a->stopping) {
		drop_connection(a);
		set_state(a, AGENT_ENDED, text);
		a->ops->on_stopped(a->ctx);
		return;
	}
	if (!a->attached_once) {
		agent_fail(a, text);
		return;
	}
	drop_connection(a);
	set_state(a, AGENT_LOST, text);
	arm_timer(a, a->backoff_ms);
	a->backoff_ms *= 2;
	if (a->backoff_ms > BACKOFF_MAX_MS)
		a->backoff_ms = BACKOFF_MAX_MS;
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct agent *a = ctx;

	(void)fd, (void)what;
	switch (a->state) {
	case AGENT_LOST:
		step_connect(a);
		break;
	case AGENT_TRIPPED:
		agent_resume(a);
		break;
	case AGENT_LOOKING:
		if (a->leftover_tries > 0 && a->looked_for_process) {
			step_look(a);
			break;
		}
		/* fallthrough */
	default:
		agent_lost(a, "no answer from the target");
	}
}

static void
on_lease(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	/* Its own reference: the one waited for must stay. */
	struct agent *a = ctx;
	struct kp_buf b;

	kp_buf_init(&b, MESSAGE_MAX);
	msg_command(&b, &a->ids, 0);
	kp_etf_atom(&b, "lease");
	send_to(a, &b, false);
	kp_buf_free(&b);
	/*
	 * The agent answers each.  One that was killed does not, and a C node
	 * has no monitor to hear of it.  Counted, not timed: we may have been
	 * stopped for a while ourselves.
	 */
	if (++a->silent > SILENT_MAX)
		agent_lost(a, "the agent does not answer");
}

struct agent *
agent_new(struct event_base *base, const struct agent_opts *o,
    const struct agent_ops *ops, void *ctx)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->base = base;
	a->o = *o;
	a->ops = ops;
	a->ctx = ctx;
	a->backoff_ms = BACKOFF_MIN_MS;
	a->params.one_in = o->conf->sampling.kind == KP_SAMPLE_ONE_IN ?
	    o->conf->sampling.n : 1;
	kp_buf_init(&a->ids.self, 1024);
	kp_buf_init(&a->ids.agent, 1024);
	a->lease = event_new(base, -1, EV_PERSIST, on_lease, a);
	a->timer = event_new(base, -1, 0, on_timer, a);
	if (a->lease == NULL || a->timer == NULL) {
		agent_free(a);
		return NULL;
	}
	step_connect(a);
	return a;
}

void
agent_free(struct agent *a)
{
	if (a == NULL)
		return;
	if (a->lease != NULL && a->timer != NULL)
		drop_connection(a);
	if (a->lease != NULL)
		event_free(a->lease);
	if (a->timer != NULL)
		event_free(a->timer);
	kp_buf_free(&a->ids.self);
	kp_buf_free(&a->ids.agent);
	kp_plan_free(&a->plan);
	free(a);
}

/* ---- what the owner asks for ---- */

void
agent_stop(struct agent *a)
{
	if (a->state == AGENT_ENDED)
		return;
	a->stopping = true;
	/* Before the agent runs there is nothing to take back. */
	if (a->link == NULL || a->state < AGENT_CHECKING) {
		agent_lost(a, "");
		return;
	}
	set_state(a, AGENT_STOPPING, "");
	arm_timer(a, STOP_MS);
	command_atom(a, "stop");
}

enum kp_err
agent_pause(struct agent *a)
{
	if (a->state != AGENT_ARMED && a->state != AGENT_TRIPPED)
		return a->state == AGENT_PAUSED ? KP_OK : KP_ESTATE;
	a->user_paused = true;
	command_atom(a, "pause");
	set_state(a, AGENT_PAUSED, "");
	return KP_OK;
}

enum kp_err
agent_resume(struct agent *a)
{
	if (a->state != AGENT_PAUSED && a->state != AGENT_TRIPPED)
		return a->state == AGENT_ARMED ? KP_OK : KP_ESTATE;
	a->user_paused = false;
	set_step(a, AGENT_ARMING);
	command_atom(a, "resume");
	return KP_OK;
}

enum kp_err
agent_clear_tokens(struct agent *a)
{
	if (a->state != AGENT_ARMED && a->state != AGENT_PAUSED &&
	    a->state != AGENT_TRIPPED)
		return KP_ESTATE;
	command_atom(a, "clear_tokens");
	return KP_OK;
}

static void
send_spec(struct agent *a, const struct kp_plan_item *item,
    const struct kp_buf *spec)
{
	struct kp_buf b;

	command_begin(a, &b);
	msg_spec(&b, item, spec);
	command_end(a, &b);
}

enum kp_err
agent_sample(struct agent *a, uint32_t one_in)
{
	struct kp_buf spec;
	struct kp_mfa mfa;
	struct kp_plan_item *p;
	enum kp_err e = KP_OK;

	if (one_in == a->params.one_in)
		return KP_OK;
	a->params.one_in = one_in;
	if (a->state != AGENT_ARMED)
		return KP_OK;	/* the next arming uses it */
	kp_buf_init(&spec, MESSAGE_MAX);
	for (p = a->plan.v; p < a->plan.v + a->plan.n && e == KP_OK; p++) {
		if (!p->entry)
			continue;
		mfa = (struct kp_mfa){ p->mod, p->fun, p->arity };
		a->params.exact = p->exact;
		kp_buf_reset(&spec);
		e = kp_spec_entry(a->o.conf, &mfa, &a->params, &spec);
		if (e == KP_OK)
			send_spec(a, p, &spec);
	}
	kp_buf_free(&spec);
	return e;
}

enum kp_err
agent_disarm(struct agent *a, const char *text)
{
	char name[600];

	for (size_t i = 0; i < a->plan.n; i++) {
		snprintf(name, sizeof(name), "%s:%s/%u", a->plan.v[i].mod,
		    a->plan.v[i].fun, a->plan.v[i].arity);
		if (strcmp(name, text) == 0 && a->state == AGENT_ARMED) {
			send_spec(a, &a->plan.v[i], NULL);
			return KP_OK;
		}
	}
	return KP_ENOENT;
}
