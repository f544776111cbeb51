/*
 * agent.c - the connection to one target: states, timers, leases, and the
 * owner's commands.
 *
 * Every step has a time limit, so a target that hangs is a lost connection like
 * any other.  A connection that is lost after the first successful attach is
 * made again, with backoff; when the first attempt fails, the owner decides
 * whether to try again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/nodes.h"
#include "agent/agent_internal.h"

#define LEASE_MS 1000
#define SILENT_MAX 5		/* leases in a row without an answer */
#define STOP_MS 3000		/* the longest wait for the goodbye */

/* ---- the constants in labels ---- */

/* splitmix64 */
static uint64_t
next_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void
label_epochs_init(struct label_epochs *l, uint64_t seed, kp_wall_ns wall,
    kp_mono_ns now)
{
	uint16_t swap;
	unsigned j;

	*l = (struct label_epochs){ .wall = wall - now };
	for (unsigned i = 0; i < LABEL_EPOCHS_MAX; i++)
		l->order[i] = (uint16_t)(i + 1);
	for (unsigned i = LABEL_EPOCHS_MAX - 1; i > 0; i--) {
		j = (unsigned)(next_random(&seed) % (i + 1));
		swap = l->order[i];
		l->order[i] = l->order[j];
		l->order[j] = swap;
	}
}

/* No product overflows before the year 2500. */
uint32_t
label_epochs_word(const struct label_epochs *l, kp_mono_ns now)
{
	uint64_t at = (uint64_t)(now + l->wall);

	return (at / KP_NS_PER_S * KP_WORD_HZ +
	    at % KP_NS_PER_S * KP_WORD_HZ / KP_NS_PER_S) & KP_WORD_MASK;
}

uint16_t
label_epochs_take(struct label_epochs *l, uint16_t old)
{
	uint16_t c;

	do {
		c = l->order[l->next];
		l->next = (uint16_t)((l->next + 1) % LABEL_EPOCHS_MAX);
	} while (l->held[c]);
	l->held[c] = true;
	label_epochs_give(l, old);
	return c;
}

void
label_epochs_give(struct label_epochs *l, uint16_t old)
{
	if (old != 0)
		l->held[old] = false;
}

/* ---- states ---- */

const char *
agent_state_name(enum agent_state s)
{
	static const char *const names[] = { "connecting", "looking",
		"starting", "checking", "measuring call rates", "arming",
		"armed", "pausing", "paused", "tripped", "stopping", "lost",
		"ended" };

	return names[s];
}

enum agent_state
agent_state(const struct agent *a)
{
	return a->state;
}

const struct channel *
agent_channel(const struct agent *a)
{
	return a->channel;
}

const struct kp_plan *
agent_plan(const struct agent *a)
{
	return &a->plan;
}

void
agent_timer(struct agent *a, unsigned ms)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };

	event_add(a->timer, &tv);
}

void
agent_set_state(struct agent *a, enum agent_state s, const char *text)
{
	a->state = s;
	event_del(a->timer);
	a->ops->on_state(a->owner, s, text);
	agent_check_state(a);
	agent_reload_state(a);
}

static void
drop_connection(struct agent *a)
{
	connect_free(a->connect);
	a->connect = NULL;
	dist_conn_free(a->link);
	a->link = NULL;
	a->channel = NULL;
	event_del(a->lease);
	a->reload.planned = false;
}

void
agent_gone(struct agent *a, const char *text)
{
	drop_connection(a);
	agent_set_state(a, AGENT_ENDED, text);
	a->ops->on_stopped(a->owner);
}

void
agent_fail(struct agent *a, enum agent_failure f, const char *why)
{
	if (a->stopping) {
		agent_gone(a, why);
		return;
	}
	drop_connection(a);
	agent_set_state(a, AGENT_ENDED, why);
	a->ops->on_failed(a->owner, f, why);
}

/* ---- connections come and go ---- */

static void
on_down(void *ctx, const char *why)
{
	agent_lost(ctx, why);
}

static void
on_bad_frame(void *ctx)
{
	agent_malformed(ctx, "a frame");
}

static const struct dist_conn_ops link_ops = { agent_on_frame,
	on_bad_frame, on_down };

void
agent_malformed(struct agent *a, const char *what)
{
	char text[200];

	if (a->malformed)
		return;
	a->malformed = true;
	snprintf(text, sizeof(text), "%s that makes no sense (another version "
	    "of the agent, or a fault on the way?)", what);
	a->ops->on_notice(a->owner, "nonsense", text);
}

static void
on_connected(void *ctx, enum kp_err e, const struct node_conn *conn,
    const char *why)
{
	struct agent *a = ctx;
	struct channel *channel = e == KP_OK ? conn->channel : NULL;

	/* The cookie was refused, or the node accepts no connections. */
	if (e == KP_ESTATE) {
		agent_fail_or_retry(a, why);
		return;
	}
	if (e != KP_OK) {
		agent_lost(a, why);
		return;
	}
	snprintf(a->node, sizeof(a->node), "%s", conn->name);
	kp_buf_reset(&a->ids.self);
	kp_etf_pid(&a->ids.self, conn->name, 1, 0, conn->creation);
	connect_free(a->connect);
	a->connect = NULL;
	a->link = dist_conn_new(a->base, channel, &link_ops, a);
	if (a->link == NULL) {
		agent_lost(a, "out of memory");
		return;
	}
	a->channel = channel;
	a->leftover_tries = 0;
	a->malformed = false;
	agent_step_look(a);
}

static void
step_connect(struct agent *a)
{
	struct node_opts o = { .target = a->o.target, .reach = a->o.reach,
		.cookie = a->o.cookie, .limit = a->o.connect_limit };

	agent_set_state(a, AGENT_CONNECTING, "");
	a->connect = connect_start(a->base, &o, on_connected, a);
	if (a->connect == NULL)
		agent_lost(a, "cannot start a thread to connect");
}

void
agent_lost(struct agent *a, const char *why)
{
	char text[1024], node[KP_NODE_NAME_MAX + 1];

	snprintf(text, sizeof(text), "%s", why);
	if (a->stopping) {
		agent_gone(a, text);
		return;
	}
	if (!a->attached_once &&
	    strstr(text, kp_node_bare(a->o.target, node)) == NULL)
		snprintf(text, sizeof(text), "cannot attach to '%s': %s",
		    a->o.target, why);
	if (!a->attached_once &&
	    (a->o.check_only || !a->ops->on_unreached(a->owner))) {
		agent_fail(a, AGENT_FAILED, text);
		return;
	}
	drop_connection(a);
	agent_set_state(a, AGENT_LOST, text);
	agent_timer(a, (unsigned)(kp_backoff_next(&a->backoff,
	    kp_mono_now()) / KP_NS_PER_MS));
}

void
agent_fail_or_retry(struct agent *a, const char *why)
{
	char text[1024];

	/* `why` may be freed with the connection. */
	snprintf(text, sizeof(text), "%s", why);
	if (a->attached_once)
		agent_lost(a, text);
	else
		agent_fail(a, AGENT_FAILED, text);
}

static void
step_pause(struct agent *a)
{
	agent_set_step(a, AGENT_PAUSING);
	agent_command(a, "pause");
}

static void
step_resume(struct agent *a)
{
	agent_set_step(a, AGENT_ARMING);
	agent_command(a, "resume");
}

void
agent_settle(struct agent *a)
{
	if (a->user_paused && (a->state == AGENT_ARMED ||
	    a->state == AGENT_TRIPPED))
		step_pause(a);
	else if (!a->user_paused && a->state == AGENT_PAUSED)
		step_resume(a);
}

void
agent_set_pause(struct agent *a, kp_dur_ns pause, const char *text)
{
	agent_set_state(a, AGENT_TRIPPED, text);
	agent_timer(a, (unsigned)(pause / KP_NS_PER_MS));
}

static void
on_pause_over(struct agent *a)
{
	kp_dur_ns more = a->ops->on_pause_over(a->owner);

	if (more > 0)
		agent_timer(a, (unsigned)(more / KP_NS_PER_MS));
	else
		step_resume(a);
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
		on_pause_over(a);
		break;
	case AGENT_LOOKING:
		if (a->leftover_tries > 0 && a->asked_whereis) {
			agent_step_look(a);
			break;
		}
		/* fallthrough */
	default:
		agent_lost(a, "no answer from the target");
	}
}

/* Its number is its reference, so that the status that answers it names it. */
static void
send_lease(struct agent *a)
{
	struct kp_buf b;

	agent_aside_begin(a, &b, ++a->leases);
	kp_etf_atom(&b, "lease");
	a->lease_sent[a->leases % LEASES] = kp_mono_now();
	agent_command_end(a, &b);
}

/* When it was sent; 0: never, or too long ago. */
static kp_mono_ns
lease_sent(const struct agent *a, uint64_t number)
{
	return number > 0 && number <= a->leases &&
	    a->leases - number < LEASES ? a->lease_sent[number % LEASES] : 0;
}

bool
agent_lease_answer(struct agent *a, const struct agent_status *st)
{
	kp_mono_ns sent = lease_sent(a, st->lease);

	if (sent == 0)
		return false;
	a->ops->on_clock(a->owner, sent, st->now, kp_mono_now());
	if (a->quick == 0 || a->stopping)
		return false;
	a->quick--;
	send_lease(a);
	return true;
}

/*
 * Sends the first lease at once, so that the clock is known before the first
 * event, and some more as fast as they are answered: the quickest round trip is
 * the most exact.
 */
void
agent_lease_start(struct agent *a)
{
	struct timeval every = { LEASE_MS / 1000, (LEASE_MS % 1000) * 1000 };

	a->silent = 0;
	a->quick = LEASES_QUICK;
	memset(a->lease_sent, 0, sizeof(a->lease_sent));
	event_add(a->lease, &every);
	send_lease(a);
}

static void
on_lease(evutil_socket_t fd, short what, void *ctx)
{
	struct agent *a = ctx;
	struct kp_buf b;

	(void)fd, (void)what;
	send_lease(a);
	if (a->o.nodes) {
		agent_aside_begin(a, &b, NODES_REF);
		kp_etf_atom(&b, "nodes");
		agent_command_end(a, &b);
	}
	/*
	 * The agent answers each.  One that was killed does not, and a C node
	 * cannot monitor it.  Counted, not timed: kprofd may have been stopped
	 * itself.
	 */
	if (++a->silent > SILENT_MAX)
		agent_lost(a, "the agent does not answer");
	else
		agent_check_tick(a);
	agent_reload_tick(a);
}

struct agent *
agent_new(struct event_base *base, const struct agent_opts *o,
    const struct agent_ops *ops, struct target *owner)
{
	struct agent *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->base = base;
	a->o = *o;
	a->ops = ops;
	a->owner = owner;
	a->params.one_in = o->conf->sampling.kind == KP_SAMPLE_ONE_IN ?
	    o->conf->sampling.n : 1;
	a->params.clauses = o->check_only;
	a->params.shape = o->shape;
	kp_buf_init(&a->ids.self, 1024);
	kp_buf_init(&a->ids.peer, 1024);
	a->lease = event_new(base, -1, EV_PERSIST, on_lease, a);
	a->timer = event_new(base, -1, 0, on_timer, a);
	if (a->lease == NULL || a->timer == NULL) {
		agent_free(a);
		return NULL;
	}
	return a;
}

void
agent_start(struct agent *a)
{
	step_connect(a);
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
	kp_buf_free(&a->ids.peer);
	kp_plan_free(&a->plan);
	kp_plan_free(&a->reload.plan);
	kp_diags_free(&a->diags);
	kp_diags_free(&a->reload.diags);
	kp_plan_free(&a->check.plan);
	kp_diags_free(&a->check.diags);
	label_epochs_give(a->o.labels, a->label);
	free(a);
}

/* ---- commands of the owner ---- */

void
agent_stop(struct agent *a)
{
	if (a->state == AGENT_ENDED)
		return;
	a->stopping = true;
	/* The agent has to run before it can leave. */
	if (a->state == AGENT_STARTING) {
		agent_timer(a, STOP_MS);
		return;
	}
	/* Nothing was changed in the target yet. */
	if (a->link == NULL || a->state < AGENT_CHECKING) {
		agent_lost(a, "");
		return;
	}
	agent_set_state(a, AGENT_STOPPING, "");
	agent_timer(a, STOP_MS);
	agent_command(a, "stop");
}

enum kp_err
agent_pause(struct agent *a)
{
	if (a->stopping || a->state == AGENT_ENDED)
		return KP_ESTATE;
	a->user_paused = true;
	agent_settle(a);
	return KP_OK;
}

enum kp_err
agent_resume(struct agent *a)
{
	if (a->stopping || a->state == AGENT_ENDED)
		return KP_ESTATE;
	a->user_paused = false;
	if (a->state == AGENT_TRIPPED)
		step_resume(a);		/* the user ends the pause */
	else
		agent_settle(a);
	return KP_OK;
}

enum kp_err
agent_pause_for(struct agent *a, kp_dur_ns pause, const char *text)
{
	struct kp_buf b;

	if (a->state != AGENT_ARMED || a->user_paused || a->stopping)
		return KP_ESTATE;
	/* No step waits for the answer: the pause is longer. */
	agent_aside_begin(a, &b, 0);
	kp_etf_atom(&b, "pause");
	agent_command_end(a, &b);
	agent_set_pause(a, pause, text);
	return KP_OK;
}

enum kp_err
agent_clear_tokens(struct agent *a, uint64_t *number)
{
	struct kp_buf b;

	if (a->state != AGENT_ARMED && a->state != AGENT_PAUSING &&
	    a->state != AGENT_PAUSED && a->state != AGENT_TRIPPED)
		return KP_ESTATE;
	*number = ++a->clears;
	/* A step may wait for the answer to a pause at the same time. */
	agent_aside_begin(a, &b, CLEAR_REFS + a->clears);
	kp_etf_atom(&b, "clear_tokens");
	agent_command_end(a, &b);
	return KP_OK;
}

enum kp_err
agent_ask_names(struct agent *a, const uint64_t *procs, size_t n)
{
	struct kp_buf b;

	if (a->link == NULL || a->state < AGENT_ARMED || a->stopping)
		return KP_ESTATE;
	agent_aside_begin(a, &b, NAMES_REF);
	msg_procs(&b, "names", procs, n);
	agent_command_end(a, &b);
	return KP_OK;
}

enum kp_err
agent_ask_waits(struct agent *a, const uint64_t *procs, size_t n,
    const uint64_t *servers, size_t m)
{
	struct kp_buf b;

	if (a->link == NULL || a->state < AGENT_ARMED || a->stopping)
		return KP_ESTATE;
	agent_aside_begin(a, &b, WAITS_REF);
	msg_waits(&b, procs, n, servers, m);
	agent_command_end(a, &b);
	return KP_OK;
}

enum kp_err
agent_ask_stacks(struct agent *a, const uint64_t *procs, size_t n,
    uint64_t *number)
{
	struct kp_buf b;

	if (a->link == NULL || a->state < AGENT_CHECKING || a->stopping)
		return KP_ESTATE;
	*number = ++a->stack_asks;
	agent_aside_begin(a, &b, STACKS_REFS + a->stack_asks);
	msg_procs(&b, "stacks", procs, n);
	agent_command_end(a, &b);
	return KP_OK;
}

/* True: the agent has a plan, or one is on its way to it; armed or not. */
static bool
has_plan(const struct agent *a)
{
	return a->state == AGENT_ARMING || a->state == AGENT_ARMED ||
	    a->state == AGENT_PAUSING || a->state == AGENT_PAUSED ||
	    a->state == AGENT_TRIPPED;
}

static void
send_spec(struct agent *a, const struct kp_plan_item *item,
    const struct kp_buf *spec)
{
	struct kp_buf b;

	agent_aside_begin(a, &b, 0);
	msg_spec(&b, item, spec);
	agent_command_end(a, &b);
}

enum kp_err
agent_entry_respec(struct agent *a, const struct kp_plan_item *item)
{
	struct kp_mfa mfa = { item->mod, item->fun, item->arity };
	struct kp_buf spec;
	enum kp_err e;

	kp_buf_init(&spec, MESSAGE_MAX);
	a->params.exact = item->exact;
	e = kp_spec_entry(a->o.conf, &mfa, &a->params, &spec);
	if (e == KP_OK)
		send_spec(a, item, &spec);
	kp_buf_free(&spec);
	return e;
}

enum kp_err
agent_sample(struct agent *a, uint32_t one_in)
{
	const struct kp_plan_item *p;
	enum kp_err e = KP_OK;

	if (one_in == a->params.one_in)
		return KP_OK;
	a->params.one_in = one_in;
	if (!has_plan(a))
		return KP_OK;	/* arming uses the new rate */
	if (a->reload.step == RELOAD_APPLYING)
		return KP_OK;	/* answer_change() sends it */
	for (p = a->plan.v; p < a->plan.v + a->plan.n && e == KP_OK; p++)
		if (p->entry && !p->disarmed)
			e = agent_entry_respec(a, p);
	return e;
}

bool
agent_gives_tokens(const struct agent *a)
{
	return a->params.gives_tokens;
}

void
agent_give_tokens(struct agent *a, bool give)
{
	struct kp_spec_params p = a->params;
	struct kp_buf b;

	if ((give == a->params.gives_tokens && (give || !a->tiers_give)) ||
	    a->reload.step == RELOAD_APPLYING)
		return;
	p.gives_tokens = give;
	if (has_plan(a)) {	/* otherwise arming uses it */
		agent_aside_begin(a, &b, 0);
		if (msg_tiers(&b, a->o.conf, &a->plan, &p) != KP_OK) {
			kp_buf_free(&b);
			return;
		}
		agent_command_end(a, &b);
	}
	a->params.gives_tokens = a->tiers_give = give;
}

enum kp_err
agent_disarm(struct agent *a, const char *text)
{
	char name[600];

	for (size_t i = 0; i < a->plan.n; i++) {
		snprintf(name, sizeof(name), "%s:%s/%u", a->plan.v[i].mod,
		    a->plan.v[i].fun, a->plan.v[i].arity);
		if (strcmp(name, text) == 0) {
			a->plan.v[i].disarmed = true;
			if (has_plan(a))
				send_spec(a, &a->plan.v[i], NULL);
			return KP_OK;
		}
	}
	return KP_ENOENT;
}
