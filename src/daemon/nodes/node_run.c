/*
 * node_run.c - adds each request that closes to the figures of its window, closes
 * windows, and switches between two configurations; copies slow requests with their
 * calls, and the waits of their messages added up by process, for the store.
 *
 * The requests know a node by its slot, which another node may have later.  Names of
 * nodes are kept for good, because trees with calls on a node may wait for the store
 * long after the node has gone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "daemon/daemon.h"
#include "daemon/nodes/node_run.h"
#include "daemon/nodes/target.h"

struct node_runs {
	struct kp_store *store;
	struct conf_run *now, *next;	/* next: during a reload */
	struct node_run *runs[KP_NODES_MAX];	/* all, in no order */
	unsigned n;
	bool stacks;		/* some node has samples of stacks */
	char **names;		/* of all nodes since the start */
	size_t nnames;
};

/* ---- waits of messages ---- */

/* The processes that messages waited for longest, in that order. */
struct wait_sums {
	uint32_t n;
	struct {
		struct kp_wait of;	/* any one of them */
		uint64_t messages, away;
		kp_dur_ns wait, max;
	} v[KP_TREE_WAITS];
};

static int
by_proc(const void *pa, const void *pb)
{
	const struct kp_wait *a = pa, *b = pb;

	return (a->proc > b->proc) - (a->proc < b->proc);
}

/* Adds up the waits of one process, from w on; returns the first of the next. */
static const struct kp_wait *
sum_one(const struct kp_wait *w, const struct kp_wait *end,
    struct wait_sums *out)
{
	const struct kp_wait *first = w;
	uint64_t away = 0;
	kp_dur_ns wait = 0, max = 0;
	uint32_t i;

	for (; w < end && w->proc == first->proc; w++) {
		away += w->node != w->from;
		wait = sat_add(wait, w->wait);
		max = w->wait > max ? w->wait : max;
	}
	for (i = out->n; i > 0 && out->v[i - 1].wait < wait; i--)
		if (i < KP_TREE_WAITS)
			out->v[i] = out->v[i - 1];
	if (i == KP_TREE_WAITS)
		return w;
	out->n += out->n < KP_TREE_WAITS;
	out->v[i].of = *first;
	out->v[i].messages = (uint64_t)(w - first);
	out->v[i].away = away;
	out->v[i].wait = wait;
	out->v[i].max = max;
	return w;
}

/* By process, the longest waits first. */
static void
sum_waits(const struct kp_wait *w, uint32_t n, struct wait_sums *out)
{
	struct kp_wait *v = malloc((n > 0 ? n : 1) * sizeof(*v));
	const struct kp_wait *at = v, *end = v + n;

	out->n = 0;
	if (v == NULL || n == 0) {
		free(v);
		return;
	}
	memcpy(v, w, n * sizeof(*v));
	qsort(v, n, sizeof(*v), by_proc);
	while (at < end)
		at = sum_one(at, end, out);
	free(v);
}

/* ---- trees ---- */

const char *
node_run_tier(const struct kp_conf *conf, const struct kp_fn *fn)
{
	for (size_t i = 0; i < conf->ntiers; i++)
		if ((fn->tiers >> i & 1) != 0)
			return conf->tiers[i].name;
	return "";
}

static void
tree_call(const struct conf_run *cr, const struct kp_request *rq,
    uint32_t i, kp_dur_ns self, const struct kp_call_pauses *pauses,
    struct kp_tree_call *out)
{
	const struct kp_call *c = &rq->calls[i];
	const struct kp_fn *fn = kp_requests_fn(cr->rs, c->fn);
	const struct kp_stats *stats = cr->stats[c->node];
	bool timed = kp_outcome_timed(c->outcome);
	/* of weight 0: what its tiers took of it was not traced */
	bool has_self = rq->weight > 0 && self >= 0;

	*out = (struct kp_tree_call){ .fn = fn->text,
		.tier = node_run_tier(cr->conf, fn),
		.start = c->start - rq->start,
		.total = timed ? c->end - c->start : -1,
		.self = has_self ? self : -1, .parent = c->parent,
		.pauses = { .out = has_self && cr->conf->scheduling ?
		    pauses->out : -1, .gc = has_self && stats != NULL &&
		    kp_stats_has_gc(stats) ? pauses->gc : -1 },
		.outcome = c->outcome, .async = c->async,
		.outlasts = c->outlasts != 0,
		.node = cr->names[c->node] };
	kp_proc_text(c->proc, out->pid, sizeof(out->pid));
}

/* They lie in the memory behind the calls; that in a queue is the last. */
static void
tree_waits(const struct conf_run *cr, const struct kp_request *rq,
    const struct wait_sums *sums, struct kp_tree *tree)
{
	struct kp_tree_wait *w = (struct kp_tree_wait *)(void *)
	    &tree->calls[tree->ncalls];

	tree->waits = w;
	tree->nwaits = sums->n;
	for (uint32_t i = 0; i < sums->n; i++, w++) {
		*w = (struct kp_tree_wait){ .wait = sums->v[i].wait,
			.messages = sums->v[i].messages,
			.away = sums->v[i].away, .max = sums->v[i].max,
			.node = cr->names[sums->v[i].of.node],
			.receiver = kp_requests_receiver(cr->rs,
			    sums->v[i].of.receiver) };
		kp_proc_text(sums->v[i].of.proc, w->pid, sizeof(w->pid));
	}
	if (!rq->was_queued)
		return;
	*w = (struct kp_tree_wait){ .wait = rq->queued, .max = rq->queued,
		.messages = 1, .node = cr->names[rq->node], .receiver = KP_QUEUE };
	kp_proc_text(rq->calls[0].proc, w->pid, sizeof(w->pid));
	tree->nwaits++;
}

/*
 * A time by the clock of the windows: the target's own may differ, and a VM goes
 * on with the time that it began with when the clock is set.  Until the offset is
 * known, or where the sum overflows, the target's own wall time.
 */
static kp_wall_ns
wall_time(const struct node_run *r, kp_target_ns t)
{
	kp_dur_ns by = r->window_began.wall - r->window_began.mono;
	kp_wall_ns at;

	if (!r->timed || __builtin_add_overflow(r->offset, by, &by) ||
	    __builtin_add_overflow(t, by, &at))
		return t + r->time_offset;
	return at;
}

/* tree->calls has room for all calls. */
static enum kp_err
tree_calls(const struct conf_run *cr, const struct kp_request *rq,
    struct kp_tree *tree)
{
	kp_dur_ns *self = malloc(rq->ncalls * sizeof(*self));
	struct kp_call_pauses *pauses = malloc(rq->ncalls * sizeof(*pauses));
	enum kp_err e = self != NULL && pauses != NULL ?
	    kp_request_self(rq, self) : KP_ENOMEM;

	if (e == KP_OK)
		e = kp_request_pauses(rq, self, pauses);
	for (uint32_t i = 0; e == KP_OK && i < rq->ncalls; i++)
		tree_call(cr, rq, i, self[i], &pauses[i], &tree->calls[i]);
	free(self);
	free(pauses);
	return e;
}

/*
 * For the store, which frees it.  It borrows the names that windows borrow.  NULL when
 * out of memory.
 */
static struct kp_tree *
tree_make(const struct node_run *r, const struct kp_request *rq)
{
	struct wait_sums sums;
	const struct kp_wait *waits;
	struct kp_tree *tree;
	uint32_t n;

	waits = kp_requests_waits(r->conf_run->rs, &n);
	sum_waits(waits, rq->weight > 0 ? n : 0, &sums);
	tree = malloc(sizeof(*tree) + rq->ncalls * sizeof(tree->calls[0]) +
	    (sums.n + 1) * sizeof(tree->waits[0]));
	if (tree == NULL)
		return NULL;
	*tree = (struct kp_tree){ .node = r->node, .label = rq->label,
		.identity = kp_requests_identity(r->conf_run->rs, rq->identity),
		.parent_label = rq->parent_label, .weight = rq->weight,
		.start = wall_time(r, rq->start),
		.total = rq->end - rq->start, .outcome = rq->outcome,
		.ncalls = rq->ncalls };
	memcpy(tree->traceparent, rq->traceparent, sizeof(tree->traceparent));
	if (tree_calls(r->conf_run, rq, tree) != KP_OK) {
		free(tree);
		return NULL;
	}
	tree_waits(r->conf_run, rq, &sums, tree);
	return tree;
}

/* ---- what kp_requests hands over ---- */

/*
 * Slow requests, and some whose caller sampled their trace, go to the store at once, the
 * slowest when the window closes.
 */
static void
keep_tree(struct node_run *r, const struct kp_request *rq)
{
	kp_dur_ns total = rq->end - rq->start;
	bool slow = total >= r->conf_run->conf->slow, sampled = !slow && rq->weight > 0 &&
	    r->trees_sampled < r->conf_run->conf->keep_sampled &&
	    kp_traceparent_sampled(rq->traceparent);
	struct kp_tree *tree;

	/* Those without tiers leave room for the others. */
	if ((slow || sampled) && r->trees < NODE_RUN_TREES_MAX / (rq->weight > 0 ? 1 : 2) &&
	    (tree = tree_make(r, rq)) != NULL) {
		r->trees++;
		r->trees_sampled += sampled;
		kp_store_tree(r->all->store, tree);
		if (rq->weight > 0)
			kp_tail_put(&r->tail, rq->identity, total, rq->ncalls, NULL);
		return;
	}
	tree = rq->weight > 0 && kp_tail_wants(&r->tail, rq->identity, total, rq->ncalls) ?
	    tree_make(r, rq) : NULL;
	if (tree != NULL)
		kp_tail_put(&r->tail, rq->identity, total, rq->ncalls, tree);
	r->trees_lost += slow;
}

static void
store_tree(void *ctx, void *tree)
{
	struct node_run *r = ctx;

	/* keep_tree() has counted it */
	if (((struct kp_tree *)tree)->total >= r->conf_run->conf->slow && r->trees_lost > 0)
		r->trees_lost--;
	kp_store_tree(r->all->store, tree);
}

static struct stack_scope
stack_scope(const struct conf_run *cr, uint32_t node)
{
	return (struct stack_scope){ cr->conf, cr->rs, node };
}

/* Samples of any node may be of its processes, also where it has no calls. */
static void
join_stacks(const struct conf_run *cr, const struct kp_request *rq)
{
	struct stack_scope s;

	for (uint32_t i = 0; i < KP_NODES_MAX; i++) {
		if (cr->runs[i] == NULL || cr->runs[i]->stacks == NULL)
			continue;
		s = stack_scope(cr, i);
		stack_join_request(cr->runs[i]->stacks, &s, rq);
	}
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct conf_run *cr = ctx;
	struct node_run *r = cr->runs[rq->node];

	if (rq->weight == 0) {
		if (cr->all->store != NULL && rq->end - rq->start >= cr->conf->slow)
			keep_tree(r, rq);
		return;
	}
	r->requests_ever++;
	r->ended_ever += rq->outcome != KP_UNFINISHED;
	kp_stats_request(r->stats, rq);
	kp_stats_waits(r->stats, rq);
	if (cr->all->stacks)
		join_stacks(cr, rq);
	if (cr->all->store != NULL)
		keep_tree(r, rq);
	daemon_on_request(r->target, rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	struct conf_run *cr = ctx;

	/* a call that is lost may be of a node that has gone */
	if (cr->stats[c->node] != NULL)
		kp_stats_late(cr->stats[c->node], c);
}

/* ---- what one configuration has ---- */

static void
requests_free(struct conf_run *cr)
{
	if (cr == NULL)
		return;
	kp_requests_free(cr->rs);
	free(cr);
}

static struct conf_run *
requests_new(struct node_runs *all, const struct kp_conf *conf)
{
	struct conf_run *cr = calloc(1, sizeof(*cr));
	struct kp_requests_opts ro = { .conf = conf, .on_request = on_request,
		.on_late = on_late, .on_runaway = target_on_runaway,
		.on_unbounded = target_on_unbounded,
		.on_receiver = mailboxes_add,
		.on_crossed = servers_add_crossed, .ctx = cr };

	if (cr == NULL)
		return NULL;
	cr->all = all;
	cr->conf = conf;
	cr->rs = kp_requests_new(&ro);
	if (cr->rs == NULL) {
		free(cr);
		return NULL;
	}
	return cr;
}

/* Passes on what is known of the node. */
static void
slot_update(const struct node_run *r, struct kp_requests *rs, uint32_t i)
{
	if (i == KP_NONE)
		return;
	if (r->otp != 0)
		kp_requests_set_otp(rs, i, r->otp);
	if (r->native)
		kp_requests_native(rs, i, r->all_exact);
	if (r->timed)
		kp_requests_offset(rs, i, r->offset, r->error);
}

/* Returns its slot; KP_NONE: there is none, and nothing has changed. */
static uint32_t
slot_take(struct conf_run *cr, struct node_run *r,
    struct kp_stats *stats)
{
	uint32_t i = kp_requests_node(cr->rs, r->node);

	if (i == KP_NONE)
		return KP_NONE;
	cr->runs[i] = r;
	cr->stats[i] = stats;
	cr->names[i] = r->node;
	slot_update(r, cr->rs, i);
	if (r->otp != 0)
		kp_stats_set_gc(stats, r->gc_shared);
	return i;
}

static void
slot_leave(struct node_run *r, enum kp_loss cause)
{
	if (r->slot == KP_NONE)
		return;
	kp_requests_remove(r->conf_run->rs, r->slot, cause);
	r->conf_run->runs[r->slot] = NULL;
	r->conf_run->stats[r->slot] = NULL;
}

static struct kp_stats *
stats_new(const struct conf_run *cr, const char *node)
{
	struct kp_stats *st = kp_stats_new(cr->conf, node);

	if (st == NULL)
		return NULL;
	kp_stats_names(st, cr->rs);
	kp_stats_peers(st, cr->stats);
	return st;
}

/* ---- beginning and end ---- */

struct node_runs *
node_runs_new(struct kp_store *store, const struct kp_conf *conf)
{
	struct node_runs *all = calloc(1, sizeof(*all));

	if (all == NULL)
		return NULL;
	all->store = store;
	all->now = requests_new(all, conf);
	if (all->now == NULL) {
		free(all);
		return NULL;
	}
	return all;
}

void
node_runs_free(struct node_runs *all)
{
	if (all == NULL)
		return;
	requests_free(all->now);
	requests_free(all->next);
	for (size_t i = 0; i < all->nnames; i++)
		free(all->names[i]);
	free(all->names);
	free(all);
}

/* NULL: out of memory. */
static const char *
name_keep(struct node_runs *all, const char *node)
{
	char **v;

	for (size_t i = 0; i < all->nnames; i++)
		if (strcmp(all->names[i], node) == 0)
			return all->names[i];
	v = realloc(all->names, (all->nnames + 1) * sizeof(*v));
	if (v == NULL)
		return NULL;
	all->names = v;
	v[all->nnames] = strdup(node);
	return v[all->nnames] != NULL ? v[all->nnames++] : NULL;
}

enum kp_err
node_run_begin(struct node_run *r, struct node_runs *all,
    const char *node, struct target *target)
{
	*r = (struct node_run){ .all = all, .target = target, .conf_run = all->now,
		.slot = KP_NONE, .next.slot = KP_NONE,
		.window_began = kp_moment_now() };
	if (all->n == KP_NODES_MAX || (r->node = name_keep(all, node)) == NULL ||
	    (r->stats = stats_new(all->now, r->node)) == NULL)
		return KP_ENOMEM;
	r->tail.per_identity = all->store != NULL ? all->now->conf->keep_slowest :
	    0;
	all->runs[all->n++] = r;
	node_run_join(r);
	return KP_OK;
}

bool
node_run_join(struct node_run *r)
{
	if (r->slot == KP_NONE)
		r->slot = slot_take(r->conf_run, r, r->stats);
	return r->slot != KP_NONE;
}

void
node_run_rename(struct node_run *r, const char *node,
    struct kp_losses *lost)
{
	const char *name;

	if (strcmp(r->node, node) == 0 || r->next.stats != NULL ||
	    (name = name_keep(r->all, node)) == NULL)
		return;
	if (r->slot != KP_NONE)
		kp_requests_losses_take(r->conf_run->rs, r->slot, lost);
	slot_leave(r, KP_LOSS_DISCONNECTED);
	node_run_stacks_drop(r);
	r->slot = KP_NONE;
	r->node = name;
	kp_stats_rename(r->stats, name);
	node_run_join(r);
}

/* Keeps the index: the last window asks for what was lost there. */
void
node_run_leave(struct node_run *r, enum kp_loss cause)
{
	struct node_runs *all = r->all;

	slot_leave(r, cause);
	node_run_stacks_drop(r);
	for (unsigned i = 0; i < all->n; i++)
		if (all->runs[i] == r)
			all->runs[i] = all->runs[--all->n];
}

void
node_run_end(struct node_run *r)
{
	kp_tail_free(&r->tail);
	stack_join_free(r->stacks);
	kp_stats_free(r->next.stats);
	kp_stats_free(r->stats);
}

/* ---- events in ---- */

void
node_run_probe(struct node_run *r, int otp, bool gc_shared, bool native,
    bool all_exact)
{
	r->otp = otp;
	r->gc_shared = gc_shared;
	r->native = native;
	r->all_exact = all_exact;
	kp_stats_set_gc(r->stats, gc_shared);
	slot_update(r, r->conf_run->rs, r->slot);
}

void
node_run_offset(struct node_run *r, kp_dur_ns offset, kp_dur_ns error)
{
	r->timed = true;
	r->offset = offset;
	r->error = error;
	if (r->slot != KP_NONE)
		kp_requests_offset(r->conf_run->rs, r->slot, offset, error);
}

size_t
node_run_oldest(const struct node_run *r, struct kp_flight *v, size_t max)
{
	kp_target_ns now = r->timed ? kp_mono_now() - r->offset : INT64_MIN;

	return kp_requests_oldest(r->conf_run->rs, r->slot, now, v, max);
}

enum kp_err
node_run_stacks(struct node_run *r, struct kp_span message,
    struct kp_usage **usage)
{
	struct stack_scope s = stack_scope(r->conf_run, r->slot);

	*usage = NULL;
	if (r->slot == KP_NONE)
		return KP_OK;
	if (r->stacks == NULL && (r->stacks = stack_join_new()) == NULL)
		return KP_OK;
	r->all->stacks = true;
	return stack_join_message(r->stacks, &s, message.p, message.n, usage);
}

void
node_run_stacks_expire(struct node_run *r, kp_target_ns now)
{
	struct stack_scope s = stack_scope(r->conf_run, r->slot);

	if (r->stacks != NULL && r->slot != KP_NONE)
		stack_join_expire(r->stacks, &s, now);
}

void
node_run_stacks_drop(struct node_run *r)
{
	if (r->stacks != NULL)
		stack_join_drop(r->stacks);
}

void
node_run_stacks_restart(struct node_run *r)
{
	if (r->stacks != NULL)
		stack_join_restart(r->stacks);
}

struct stack_totals
node_run_stacks_totals(const struct node_run *r)
{
	return r->stacks != NULL ? stack_join_totals(r->stacks) :
	    (struct stack_totals){ .waiting = 0 };
}

static kp_wall_ns
window_end(const struct node_run *r, struct kp_moment at)
{
	return kp_wall_end(r->window_began.wall, at.mono - r->window_began.mono, at.wall);
}

struct kp_window *
node_run_copy(const struct node_run *r, struct kp_moment at)
{
	struct stack_scope s = stack_scope(r->conf_run, r->slot);
	struct kp_window *w = at.mono < r->window_began.mono ? NULL :
	    kp_stats_copy(r->stats, r->window_began.wall, window_end(r, at));

	if (w == NULL)
		return NULL;
	if (r->stacks != NULL && !stack_join_copy(r->stacks, &s, w)) {
		kp_window_free(w);
		return NULL;
	}
	if (r->slot != KP_NONE)
		kp_requests_losses_add(r->conf_run->rs, r->slot, &w->losses);
	w->losses.n[KP_LOSS_TREE] += r->trees_lost;
	w->otp = r->otp;
	return w;
}

struct kp_window *
node_run_rotate(struct node_run *r, struct kp_moment at)
{
	struct stack_scope s = stack_scope(r->conf_run, r->slot);
	struct kp_window *w = at.mono < r->window_began.mono ? NULL :
	    kp_stats_rotate(r->stats, r->window_began.wall, window_end(r, at));

	if (w == NULL)
		return NULL;
	/* without memory the samples wait for the next window */
	if (r->stacks != NULL)
		stack_join_rotate(r->stacks, &s, w);
	if (r->slot != KP_NONE)
		kp_requests_losses_take(r->conf_run->rs, r->slot, &w->losses);
	kp_tail_take(&r->tail, store_tree, r);
	w->losses.n[KP_LOSS_TREE] += r->trees_lost;
	w->otp = r->otp;
	r->trees_lost = 0;
	r->trees = r->trees_sampled = 0;
	r->window_began = at;
	return w;
}

/* ---- another configuration ---- */

static bool
run_prepare(struct node_run *r, struct conf_run *next)
{
	r->next.stats = stats_new(next, r->node);
	if (r->next.stats == NULL)
		return false;
	r->next.slot = slot_take(next, r, r->next.stats);
	return r->next.slot != KP_NONE;
}

/* Everything that may fail is done here: what is armed cannot be taken back. */
enum kp_err
node_runs_prepare(struct node_runs *all, const struct kp_conf *conf)
{
	all->next = requests_new(all, conf);
	if (all->next == NULL)
		return KP_ENOMEM;
	for (unsigned i = 0; i < all->n; i++)
		if (!run_prepare(all->runs[i], all->next)) {
			node_runs_discard(all);
			return KP_ENOMEM;
		}
	return KP_OK;
}

void
node_runs_discard(struct node_runs *all)
{
	for (unsigned i = 0; i < all->n; i++) {
		kp_stats_free(all->runs[i]->next.stats);
		all->runs[i]->next.stats = NULL;
		all->runs[i]->next.slot = KP_NONE;
	}
	requests_free(all->next);
	all->next = NULL;
}

void
node_run_switch(struct node_run *r)
{
	slot_leave(r, KP_LOSS_RELOADED);
	if (r->stacks != NULL)
		stack_join_reset(r->stacks);
	kp_stats_free(r->stats);
	r->conf_run = r->all->next;
	r->slot = r->next.slot;
	r->stats = r->next.stats;
	r->next.slot = KP_NONE;
	r->next.stats = NULL;
	slot_update(r, r->conf_run->rs, r->slot);
	r->tail.per_identity = r->all->store != NULL ?
	    r->conf_run->conf->keep_slowest : 0;
}

struct kp_requests *
node_runs_switch(struct node_runs *all)
{
	struct kp_requests *old = all->now->rs;

	free(all->now);
	all->now = all->next;
	all->next = NULL;
	return old;
}
