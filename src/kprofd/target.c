/*
 * target.c - wires the stages of one target together; see the header.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/log.h"
#include "kprofd/target.h"
#include "kprofd/trace.h"

static void
happened(struct target *t, const char *kind, const char *text)
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

static void
keep_tree(struct target *t, const struct kp_request *rq)
{
	struct kp_tree *tree;

	if (t->trees == TARGET_TREES_MAX || !self_room(t, rq->ncalls) ||
	    kp_request_self(rq, t->self) != KP_OK ||
	    (tree = malloc(sizeof(*tree) +
	    rq->ncalls * sizeof(tree->calls[0]))) == NULL) {
		t->lost.n[KP_LOSS_TREE]++;
		return;
	}
	*tree = (struct kp_tree){ .node = t->node, .label = rq->label,
		.identity = kp_requests_identity(t->requests, rq->identity),
		.parent_label = rq->parent_label, .weight = rq->weight,
		.start = rq->start + t->hello.time_offset,
		.total = rq->end - rq->start, .outcome = rq->outcome,
		.ncalls = rq->ncalls };
	for (uint32_t i = 0; i < rq->ncalls; i++)
		tree_call(t, rq, i, &tree->calls[i]);
	t->trees++;
	kp_store_tree(t->store, tree);
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct target *t = ctx;

	t->requests_ever++;
	kp_stats_request(t->stats, rq);
	if (t->store != NULL && rq->end - rq->start >= t->conf->slow)
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
	happened(t, "runaway", text);
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
	happened(t, "identity", text);
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
	while ((e = kp_batch_next(&b, &ev)) != KP_END) {
		if (e == KP_OK) {
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
	ledger_restart(&t->ledger, kp_requests_entries(t->requests));
	kp_requests_release(t->requests, h->otp);
	snprintf(text, sizeof(text), "attached to '%s' (OTP %d, %s)", h->node,
	    h->otp, h->session ? "a trace session of our own" :
	    "the node's one tracer");
	log_put(&e, "%s", text);
	happened(t, "attach", text);
}

static void
sample(struct target *t, const struct agent_status *st)
{
	kp_dur_ns over = st->now - t->status.now;

	if (t->status.now == 0 || st->entry_calls < t->status.entry_calls ||
	    !kp_sampler_rate(&t->sampler,
	    st->entry_calls - t->status.entry_calls, over))
		return;
	log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
	    .event = "sampling", .target = t->opts.target,
	    .fields = { { .key = "one_in", .number = t->sampler.one_in } } },
	    "%s: sampling one request in %u", t->opts.target,
	    t->sampler.one_in);
	agent_sample(t->agent, t->sampler.one_in);
}

static void
on_status(void *ctx, const struct agent_status *st, bool last)
{
	struct target *t = ctx;

	t->hello.time_offset = st->time_offset;
	t->ledger.sampling |= t->sampler.one_in > 1;
	ledger_status(&t->ledger, st, kp_requests_entries(t->requests), last);
	if (!last)
		sample(t, st);
	t->status = *st;
	t->status_at = kp_mono_now();
	kp_requests_expire(t->requests, st->now);
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
	happened(t, "lost", text);
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
		ledger_armed(&t->ledger, kp_mono_now());
		t->lost_text[0] = '\0';
		log_info("armed", t->opts.target, "profiling '%s'",
		    t->opts.target);
		happened(t, "armed", "");
		break;
	case AGENT_PAUSED:
		ledger_unarmed(&t->ledger, kp_mono_now());
		happened(t, "paused", "");
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

static void
on_notice(void *ctx, const char *kind, const char *text)
{
	struct target *t = ctx;

	log_warn(kind, t->opts.target, "'%s': %s: %s", t->opts.target, kind,
	    text);
	happened(t, kind, text);
}

/* The probe of call rates says how to begin sampling. */
static void
on_plan(void *ctx, const struct kp_plan *plan)
{
	struct target *t = ctx;
	uint64_t rate = 0;
	bool measured = false;

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
on_failed(void *ctx, enum agent_failure f, const char *why)
{
	struct target *t = ctx;

	ledger_lost(&t->ledger, kp_requests_entries(t->requests));
	kp_requests_abandon(t->requests, KP_LOSS_DISCONNECTED);
	happened(t, "failed", why);
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
	happened(t, "detach", t->state_text);
	t->ops->on_stopped(t->ctx, t);
}

static const struct agent_ops agent_ops = {
	.on_state = on_state,
	.on_hello = on_hello,
	.on_plan = on_plan,
	.on_batch = on_batch,
	.on_status = on_status,
	.on_notice = on_notice,
	.on_diags = on_diags,
	.on_cleared = on_cleared,
	.on_failed = on_failed,
	.on_stopped = on_stopped,
};

struct target *
target_new(struct event_base *base, const struct agent_opts *o,
    struct kp_store *store, const struct target_ops *ops, void *ctx)
{
	struct target *t = calloc(1, sizeof(*t));
	struct kp_requests_opts ro = { .conf = o->conf,
		.on_request = on_request, .on_late = on_late,
		.on_runaway = on_runaway, .on_unbounded = on_unbounded,
		.ctx = t };

	if (t == NULL)
		return NULL;
	t->opts = *o;
	t->conf = o->conf;
	t->store = store;
	t->ops = ops;
	t->ctx = ctx;
	kp_sampler_init(&t->sampler, &o->conf->sampling);
	t->window_start = kp_wall_now();
	t->node = strdup(o->target);
	t->requests = kp_requests_new(&ro);
	if (t->node == NULL || t->requests == NULL ||
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
	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		w->losses.n[i] += t->lost.n[i];
		t->lost_ever.n[i] += w->losses.n[i];
	}
	t->lost = (struct kp_losses){ 0 };
	t->window_start = now;
	t->trees = 0;
	t->windows++;
	t->ops->on_window(t->ctx, t, w);
	if (t->store != NULL)
		kp_store_window(t->store, w);
	else
		kp_window_free(w);
}
