/*
 * target.c - wires the stages of one target together; see the header.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/log.h"
#include "kprofd/target.h"
#include "kprofd/native.h"

void
target_happened(struct target *t, const char *kind, const char *text)
{
	struct kp_happening h = { .at = kp_wall_now(), .node = t->node,
		.kind = kind };

	snprintf(h.text, sizeof(h.text), "%s", text);
	if (t->store != NULL)
		kp_store_happening(t->store, &h);
}

/* ---- requests out ---- */

static bool
self_room(struct target *t, uint32_t n)
{
	kp_dur_ns *v;

	if (n <= t->selfcap)
		return true;
	v = realloc(t->self, n * sizeof(*v));
	if (v == NULL)
		return false;
	t->self = v;
	t->selfcap = n;
	return true;
}

static const char *
first_tier(const struct target *t, const struct kp_fn *fn)
{
	for (size_t i = 0; i < t->conf->ntiers; i++)
		if ((fn->tiers >> i & 1) != 0)
			return t->conf->tiers[i].name;
	return "";
}

static void
tree_call(const struct target *t, const struct kp_request *rq, uint32_t i,
    struct kp_tree_call *out)
{
	const struct kp_call *c = &rq->calls[i];
	const struct kp_fn *fn = kp_requests_fn(t->requests, c->fn);
	bool timed = c->outcome == KP_RETURNED || c->outcome == KP_RAISED;

	*out = (struct kp_tree_call){ .fn = fn->text,
		.tier = first_tier(t, fn), .start = c->start - rq->start,
		.total = timed ? c->end - c->start : -1, .self = t->self[i],
		.parent = c->parent, .outcome = c->outcome,
		.async = c->async };
	kp_proc_text(c->proc, out->pid, sizeof(out->pid));
}

/* NULL: out of memory. */
static struct kp_tree *
make_tree(struct target *t, const struct kp_request *rq)
{
	struct kp_tree *tree;

	if (!self_room(t, rq->ncalls) ||
	    kp_request_self(rq, t->self) != KP_OK ||
	    (tree = malloc(sizeof(*tree) +
	    rq->ncalls * sizeof(tree->calls[0]))) == NULL)
		return NULL;
	*tree = (struct kp_tree){ .node = t->node, .label = rq->label,
		.identity = kp_requests_identity(t->requests, rq->identity),
		.parent_label = rq->parent_label, .weight = rq->weight,
		.start = rq->start + t->hello.time_offset,
		.total = rq->end - rq->start, .outcome = rq->outcome,
		.ncalls = rq->ncalls };
	for (uint32_t i = 0; i < rq->ncalls; i++)
		tree_call(t, rq, i, &tree->calls[i]);
	return tree;
}

/* Slow ones go to the store at once, and the slowest when the window closes. */
static void
keep_tree(struct target *t, const struct kp_request *rq)
{
	kp_dur_ns total = rq->end - rq->start;
	bool slow = total >= t->conf->slow;
	struct kp_tree *tree;

	if (slow && t->trees < TARGET_TREES_MAX &&
	    (tree = make_tree(t, rq)) != NULL) {
		t->trees++;
		kp_store_tree(t->store, tree);
		kp_tail_put(&t->tail, rq->identity, total, rq->ncalls, NULL);
		return;
	}
	tree = kp_tail_wants(&t->tail, rq->identity, total, rq->ncalls) ?
	    make_tree(t, rq) : NULL;
	if (tree != NULL)
		kp_tail_put(&t->tail, rq->identity, total, rq->ncalls, tree);
	t->lost.n[KP_LOSS_TREE] += slow;
}

static void
store_tree(void *ctx, void *tree)
{
	struct target *t = ctx;

	kp_store_tree(t->store, tree);
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct target *t = ctx;

	t->requests_ever++;
	kp_stats_request(t->stats, rq);
	spending_request(&t->spending, rq);
	if (t->store != NULL)
		keep_tree(t, rq);
	t->ops->on_request(t->ctx, t, rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	struct target *t = ctx;

	kp_stats_late(t->stats, c);
}

static void
on_runaway(void *ctx, const struct kp_fn *fn)
{
	struct target *t = ctx;
	char text[400];

	snprintf(text, sizeof(text), "%s never returns (a server loop?): "
	    "disarmed", fn->text);
	log_warn("runaway", t->opts.target, "%s: %s", t->opts.target, text);
	target_happened(t, "runaway", text);
	agent_disarm(t->agent, fn->text);
}

static void
on_unbounded(void *ctx, uint32_t line)
{
	struct target *t = ctx;
	char text[200];

	snprintf(text, sizeof(text), "requests are named _other by the clause "
	    "on line %" PRIu32 " of tiers.conf: its answer is longer than %d "
	    "bytes, or nothing to name them by", line, KP_IDENT_BYTES_MAX);
	log_warn("identity", t->opts.target, "%s: %s", t->opts.target, text);
	target_happened(t, "identity", text);
}

/* ---- sampling, and what is too much ---- */

static void
on_notice(void *ctx, const char *kind, const char *text)
{
	struct target *t = ctx;

	log_warn(kind, t->opts.target, "'%s': %s: %s", t->opts.target, kind,
	    text);
	target_happened(t, kind, text);
}

/* Its rate has changed. */
static void
resample(struct target *t)
{
	log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
	    .event = "sampling", .target = t->opts.target,
	    .fields = { { .key = "one_in", .number = t->sampler.one_in } } },
	    "%s: sampling one request in %u", t->opts.target,
	    t->sampler.one_in);
	t->ledger.sampling |= t->sampler.one_in > 1;
	agent_sample(t->agent, t->sampler.one_in);
}

/* Whoever is over a limit: returns for how long to rest. */
static kp_dur_ns
trip(struct target *t, enum kp_trip cause, const char *why)
{
	kp_dur_ns rest = watch_trip(&t->watch, cause, &t->status,
	    kp_requests_in_flight(t->requests), kp_mono_now());
	char text[256];

	if (kp_sampler_cut(&t->sampler, t->watch.guard.cut))
		resample(t);
	snprintf(text, sizeof(text), "%s; rests for %.0f s, then samples one "
	    "request in %u", why, (double)rest / (double)KP_NS_PER_S,
	    t->sampler.one_in);
	on_notice(t, "trip", text);
	return rest;
}

/* Is kprofd itself over a limit, with what was sent then? */
static void
look_out(struct target *t, kp_target_ns sent)
{
	enum kp_trip cause = watch_look(&t->watch, t->store, sent,
	    kp_mono_now());
	char why[200];

	if (cause == KP_TRIP_NONE || agent_state(t->agent) != AGENT_ARMED)
		return;
	watch_words(&t->watch, cause, why, sizeof(why));
	agent_rest(t->agent, trip(t, cause, why), why);
}

static kp_dur_ns
on_trip(void *ctx, const char *text)
{
	return trip(ctx, KP_TRIP_AGENT, text);
}

static kp_dur_ns
on_rested(void *ctx)
{
	struct target *t = ctx;
	kp_dur_ns more = watch_rested(&t->watch, t->store, kp_mono_now());
	char why[200], text[256];

	if (more == 0)
		return 0;
	watch_words(&t->watch, t->watch.guard.cause, why, sizeof(why));
	snprintf(text, sizeof(text), "for %.0f s more: %s",
	    (double)more / (double)KP_NS_PER_S, why);
	on_notice(t, "rest", text);
	return more;
}

/* A status came while armed: time for what was cut to grow. */
static void
recover(struct target *t, const struct agent_status *st)
{
	kp_mono_ns now = kp_mono_now();
	char text[200];

	if (watch_after(&t->watch, st, now, text, sizeof(text))) {
		log_info("resume", t->opts.target, "'%s' is profiled again %s",
		    t->opts.target, text);
		target_happened(t, "resume", text);
	}
	if (kp_guard_tick(&t->watch.guard, now) &&
	    kp_sampler_cut(&t->sampler, t->watch.guard.cut))
		resample(t);
}

/* ---- the agent's callbacks ---- */

static void
on_batch(void *ctx, const uint8_t *p, size_t n)
{
	struct target *t = ctx;
	struct kp_batch b;
	struct kp_event ev;
	enum kp_err e;

	if (kp_batch_begin(&b, p, n) != KP_OK) {
		t->lost.n[KP_LOSS_GAP]++;
		return;
	}
	ledger_batch(&t->ledger, b.seq);
	t->batches++;
	while ((e = kp_native_next(t->names, &b, &ev)) != KP_END) {
		if (e == KP_OK) {
			if (ev.kind == KP_EV_ENTRY)
				kp_sampler_seen(&t->sampler, ev.weight);
			kp_requests_event(t->requests, &ev);
			t->events++;
		} else if (e == KP_ENOENT) {
			t->lost.n[KP_LOSS_BAD_EVENT]++;
		} else {
			t->lost.n[KP_LOSS_BAD_EVENT] += b.left + 1;
			break;
		}
	}
	kp_requests_expire(t->requests, b.sent_at);
	if (kp_sampler_quick(&t->sampler, b.sent_at))
		resample(t);
	look_out(t, b.sent_at);
}

/* What its events can tell of: of all that is armed, or will be. */
static void
set_told(struct target *t)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	bool all_exact = true;

	t->spending.native = t->native;
	kp_requests_release(t->requests, t->hello.otp);
	for (size_t i = 0; i < plan->n; i++)
		all_exact &= plan->v[i].exact;
	if (t->native)
		kp_requests_native(t->requests, all_exact);
}

static void
on_probe(void *ctx, bool native, const char *why)
{
	struct target *t = ctx;
	char text[1200];

	t->native = native;
	set_told(t);
	if (native)
		snprintf(text, sizeof(text), "native");
	else
		snprintf(text, sizeof(text), "relay: %s", why);
	log_info("probe", t->opts.target, "probe of '%s': %s", t->opts.target,
	    text);
	target_happened(t, "probe", text);
}

static void
on_hello(void *ctx, const struct agent_hello *h)
{
	struct target *t = ctx;
	const struct log_entry e = { .level = LOG_LEVEL_INFO,
		.event = "attach", .target = t->opts.target,
		.fields = { { .key = "otp", .number = h->otp },
			{ .key = "session", .number = h->session } } };
	char text[400];

	t->hello = *h;
	t->status = (struct agent_status){ 0 };	/* its counters start anew */
	watch_forget(&t->watch);
	ledger_restart(&t->ledger, kp_requests_entries(t->requests));
	t->native = false;
	kp_native_restart(t->names, h->node);
	set_told(t);
	snprintf(text, sizeof(text), "attached to '%s' (OTP %d, %s)", h->node,
	    h->otp, h->session ? "a trace session of our own" :
	    "the node's one tracer");
	log_put(&e, "%s", text);
	target_happened(t, "attach", text);
}

static void
sample(struct target *t, const struct agent_status *st)
{
	kp_dur_ns over = st->now - t->status.now;

	const struct spending *s = &t->spending;
	uint32_t was = t->sampler.one_in;

	if (t->status.now == 0 || st->entry_calls < t->status.entry_calls)
		return;
	kp_sampler_rate(&t->sampler, st->entry_calls - t->status.entry_calls,
	    over);
	kp_sampler_spent(&t->sampler,
	    spending_percent(s, kp_cost_total(&s->last)),
	    spending_percent(s, kp_cost_fixed(&s->last)), t->conf->budget);
	if (t->sampler.one_in != was)
		resample(t);
}

static void
on_status(void *ctx, const struct agent_status *st, bool last)
{
	struct target *t = ctx;

	t->hello.time_offset = st->time_offset;
	t->ledger.sampling |= t->sampler.one_in > 1;
	ledger_status(&t->ledger, st, kp_requests_entries(t->requests), last);
	spending_status(&t->spending, &t->status, st);
	if (!last)
		sample(t, st);
	if (agent_state(t->agent) == AGENT_ARMED)
		recover(t, st);
	t->status = *st;
	t->status_at = kp_mono_now();
	kp_requests_expire(t->requests, st->now);
	look_out(t, st->now);
}

/* A target that is down for a night has one line and one event, not many. */
static void
tell_lost(struct target *t, const char *text)
{
	if (strncmp(text, t->lost_text, sizeof(t->lost_text) - 1) == 0)
		return;
	snprintf(t->lost_text, sizeof(t->lost_text), "%s", text);
	log_put(&(struct log_entry){ .level = LOG_LEVEL_WARNING,
	    .event = "lost", .target = t->opts.target,
	    .fields = { { .key = "cause", .text = text } } },
	    "lost '%s': %s; trying again", t->opts.target, text);
	target_happened(t, "lost", text);
}

static void
on_state(void *ctx, enum agent_state s, const char *text)
{
	struct target *t = ctx;

	snprintf(t->state_text, sizeof(t->state_text), "%s", text);
	log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
	    .event = "state", .target = t->opts.target,
	    .fields = { { .key = "state", .text = agent_state_name(s) } } },
	    "%s: %s %s", t->opts.target, agent_state_name(s), text);
	switch (s) {
	case AGENT_ARMED:
		kp_guard_resumed(&t->watch.guard, kp_mono_now());
		ledger_armed(&t->ledger, kp_mono_now());
		t->lost_text[0] = '\0';
		log_info("armed", t->opts.target, "profiling '%s'",
		    t->opts.target);
		target_happened(t, "armed", "");
		break;
	case AGENT_PAUSED:
		ledger_unarmed(&t->ledger, kp_mono_now());
		target_happened(t, "paused", "");
		kp_requests_abandon(t->requests, KP_LOSS_TRIPPED);
		break;
	case AGENT_TRIPPED:
		ledger_unarmed(&t->ledger, kp_mono_now());
		kp_requests_abandon(t->requests, KP_LOSS_TRIPPED);
		break;
	case AGENT_LOST:
		tell_lost(t, text);
		if (t->status_at != 0)
			ledger_unarmed(&t->ledger, t->status_at);
		ledger_lost(&t->ledger, kp_requests_entries(t->requests));
		kp_requests_abandon(t->requests, KP_LOSS_DISCONNECTED);
		break;
	default:
		break;
	}
	t->ops->on_state(t->ctx, s, text);
}

/* The probe of call rates says how to begin sampling. */
static void
on_plan(void *ctx, const struct kp_plan *plan)
{
	struct target *t = ctx;
	uint64_t rate = 0;
	bool measured = false;

	set_told(t);
	for (size_t i = 0; i < plan->n; i++)
		if (plan->v[i].entry && plan->v[i].rate >= 0) {
			rate += (uint64_t)plan->v[i].rate;
			measured = true;
		}
	/* Not after a connection was lost: the rate of before is right. */
	if (measured && kp_sampler_rate(&t->sampler, rate, KP_NS_PER_S))
		agent_sample(t->agent, t->sampler.one_in);
	t->ops->on_plan(t->ctx, t, plan);
}

static void
on_diags(void *ctx, const struct kp_diags *diags)
{
	struct target *t = ctx;

	t->ops->on_diags(t->ctx, diags);
}

static void
on_cleared(void *ctx, uint64_t number)
{
	struct target *t = ctx;

	t->ops->on_cleared(t->ctx, number);
}

static void
next_free(struct target *t)
{
	kp_stats_free(t->next.stats);
	kp_requests_free(t->next.requests);
	t->next.stats = NULL;
	t->next.requests = NULL;
	t->next.conf = NULL;
}

static void
on_reloaded(void *ctx, const struct agent_reloaded *r)
{
	struct target *t = ctx;

	if (r->how == AGENT_RELOAD_REFUSED)
		next_free(t);
	else
		set_told(t);
	t->ops->on_reloaded(t->ctx, t, r);
}

static void
on_failed(void *ctx, enum agent_failure f, const char *why)
{
	struct target *t = ctx;

	ledger_lost(&t->ledger, kp_requests_entries(t->requests));
	kp_requests_abandon(t->requests, KP_LOSS_DISCONNECTED);
	target_happened(t, "failed", why);
	t->ops->on_failed(t->ctx, t, f, why);
}

static void
on_stopped(void *ctx)
{
	struct target *t = ctx;

	ledger_lost(&t->ledger, kp_requests_entries(t->requests));
	/* Without a goodbye there is a reason, which on_state() was told. */
	if (t->state_text[0] != '\0' && t->hello.otp != 0)
		log_put(&(struct log_entry){ .level = LOG_LEVEL_WARNING,
		    .event = "detach", .target = t->opts.target,
		    .fields = { { .key = "cause", .text = t->state_text } } },
		    "'%s' did not say goodbye: %s (its agent leaves by "
		    "itself within 5 s)", t->opts.target, t->state_text);
	target_happened(t, "detach", t->state_text);
	t->ops->on_stopped(t->ctx, t);
}

static const struct agent_ops agent_ops = {
	.on_state = on_state,
	.on_hello = on_hello,
	.on_probe = on_probe,
	.on_plan = on_plan,
	.on_batch = on_batch,
	.on_status = on_status,
	.on_notice = on_notice,
	.on_trip = on_trip,
	.on_rested = on_rested,
	.on_diags = on_diags,
	.on_cleared = on_cleared,
	.on_reloaded = on_reloaded,
	.on_failed = on_failed,
	.on_stopped = on_stopped,
};

static struct kp_requests *
requests_new(struct target *t, const struct kp_conf *conf)
{
	struct kp_requests_opts ro = { .conf = conf,
		.on_request = on_request, .on_late = on_late,
		.on_runaway = on_runaway, .on_unbounded = on_unbounded,
		.ctx = t };

	return kp_requests_new(&ro);
}

struct target *
target_new(struct event_base *base, const struct agent_opts *o,
    struct kp_store *store, const struct target_ops *ops, void *ctx)
{
	struct target *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->opts = *o;
	t->conf = o->conf;
	t->store = store;
	t->ops = ops;
	t->ctx = ctx;
	kp_sampler_init(&t->sampler, &o->conf->sampling);
	watch_init(&t->watch, &o->conf->overload);
	t->tail.per_identity = store != NULL ? o->conf->keep_slowest : 0;
	t->window_start = kp_wall_now();
	t->node = strdup(o->target);
	t->requests = requests_new(t, o->conf);
	t->names = kp_native_new();
	if (t->node == NULL || t->requests == NULL || t->names == NULL ||
	    (t->stats = kp_stats_new(o->conf, t->node)) == NULL ||
	    (t->agent = agent_new(base, o, &agent_ops, t)) == NULL) {
		target_free(t);
		return NULL;
	}
	kp_stats_names(t->stats, t->requests);
	return t;
}

void
target_free(struct target *t)
{
	if (t == NULL)
		return;
	agent_free(t->agent);
	kp_native_free(t->names);
	kp_tail_free(&t->tail);
	next_free(t);
	kp_stats_free(t->stats);
	kp_requests_free(t->requests);
	free(t->self);
	free(t->node);
	free(t);
}

void
target_stop(struct target *t)
{
	agent_stop(t->agent);
}

void
target_drain(struct target *t, enum kp_loss cause)
{
	kp_requests_abandon(t->requests, cause);
}

void
target_rotate(struct target *t, kp_wall_ns now)
{
	struct kp_window *w = kp_stats_rotate(t->stats, t->window_start, now);

	if (w == NULL)
		return;	/* no memory: the window goes on */
	kp_requests_losses(t->requests, &w->losses);
	ledger_take(&t->ledger, kp_mono_now(), &w->entry_calls, &w->losses);
	w->cost = spending_take(&t->spending);
	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		w->losses.n[i] += t->lost.n[i];
		t->lost_ever.n[i] += w->losses.n[i];
	}
	t->lost = (struct kp_losses){ 0 };
	t->window_start = now;
	t->trees = 0;
	kp_tail_take(&t->tail, store_tree, t);
	t->windows++;
	t->ops->on_window(t->ctx, t, w);
	if (t->store != NULL)
		kp_store_window(t->store, w);
	else
		kp_window_free(w);
}

enum kp_err
target_reload(struct target *t, const struct kp_conf *conf)
{
	enum kp_err e = KP_ENOMEM;

	if (conf == t->conf)
		return agent_reload(t->agent, conf);
	/* First what may fail: once it is armed there is no way back. */
	t->next.conf = conf;
	t->next.requests = requests_new(t, conf);
	t->next.stats = kp_stats_new(conf, t->node);
	if (t->next.requests != NULL && t->next.stats != NULL)
		e = agent_reload(t->agent, conf);
	if (e != KP_OK)
		next_free(t);
	return e;
}

/* The rate that was found to be right stays, where the rule is the same. */
static void
sampling_switch(struct target *t, const struct kp_sampling *now)
{
	const struct kp_sampling *was = &t->sampler.conf;

	if (was->kind == now->kind && was->n == now->n)
		return;
	kp_sampler_init(&t->sampler, now);
	kp_sampler_cut(&t->sampler, t->watch.guard.cut);
	agent_sample(t->agent, t->sampler.one_in);
}

struct kp_requests *
target_switch(struct target *t)
{
	struct kp_requests *old = t->requests;

	kp_requests_abandon(old, KP_LOSS_RELOADED);
	target_rotate(t, kp_wall_now());
	ledger_recount(&t->ledger, kp_requests_entries(old));
	kp_stats_free(t->stats);
	t->conf = t->next.conf;
	t->requests = t->next.requests;
	t->stats = t->next.stats;
	t->next.requests = NULL;
	t->next.stats = NULL;
	t->next.conf = NULL;
	kp_stats_names(t->stats, t->requests);
	if (t->hello.otp != 0)
		set_told(t);
	sampling_switch(t, &t->conf->sampling);
	t->watch.guard.limits = t->conf->overload;
	t->tail.per_identity = t->store != NULL ? t->conf->keep_slowest : 0;
	return old;
}
