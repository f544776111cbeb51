/*
 * assembly.c - holds the requests of each configuration and the statistics of
 * each part, and switches between two configurations;
 * copies slow requests with their calls, and the waits of their messages added up by
 * process, for the store.
 *
 * The requests know a part by an index, which another node may have later.
 * Names of nodes are kept for good, because trees with calls on a node may wait
 * for the store long after the node has gone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "daemon/daemon.h"
#include "daemon/nodes/target.h"

struct assembly {
	struct kp_store *store;
	struct assembly_requests *now, *next;	/* next: during a reload */
	struct assembly_part *parts[KP_NODES_MAX];	/* all, in no order */
	unsigned n;
	bool stacks;		/* some part has samples of stacks */
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
assembly_tier(const struct kp_conf *conf, const struct kp_fn *fn)
{
	for (size_t i = 0; i < conf->ntiers; i++)
		if ((fn->tiers >> i & 1) != 0)
			return conf->tiers[i].name;
	return "";
}

static void
tree_call(const struct assembly_requests *in, const struct kp_request *rq,
    uint32_t i, kp_dur_ns self, struct kp_tree_call *out)
{
	const struct kp_call *c = &rq->calls[i];
	const struct kp_fn *fn = kp_requests_fn(in->rs, c->fn);
	bool timed = kp_outcome_timed(c->outcome);

	*out = (struct kp_tree_call){ .fn = fn->text,
		.tier = assembly_tier(in->conf, fn),
		.start = c->start - rq->start,
		.total = timed ? c->end - c->start : -1,
		.self = self, .parent = c->parent,
		.outcome = c->outcome, .async = c->async,
		.outlasts = c->outlasts != 0,
		.node = in->names[c->node] };
	kp_proc_text(c->proc, out->pid, sizeof(out->pid));
}

/* They lie in the memory behind the calls. */
static void
tree_waits(const struct assembly_requests *in, const struct wait_sums *sums,
    struct kp_tree *tree)
{
	struct kp_tree_wait *w = (struct kp_tree_wait *)(void *)
	    &tree->calls[tree->ncalls];

	tree->waits = w;
	tree->nwaits = sums->n;
	for (uint32_t i = 0; i < sums->n; i++, w++) {
		*w = (struct kp_tree_wait){ .wait = sums->v[i].wait,
			.messages = sums->v[i].messages,
			.away = sums->v[i].away, .max = sums->v[i].max,
			.node = in->names[sums->v[i].of.node],
			.receiver = kp_requests_receiver(in->rs,
			    sums->v[i].of.receiver) };
		kp_proc_text(sums->v[i].of.proc, w->pid, sizeof(w->pid));
	}
}

/*
 * A time by the clock of the windows: the target's own may differ, and a VM goes
 * on with the time that it began with when the clock is set.  Until the offset is
 * known, or where the sum overflows, the target's own wall time.
 */
static kp_wall_ns
wall_time(const struct assembly_part *p, kp_target_ns t)
{
	kp_dur_ns by = p->window.wall - p->window.mono;
	kp_wall_ns at;

	if (!p->timed || __builtin_add_overflow(p->offset, by, &by) ||
	    __builtin_add_overflow(t, by, &at))
		return t + p->time_offset;
	return at;
}

/* tree->calls has room for all calls. */
static enum kp_err
tree_calls(const struct assembly_requests *in, const struct kp_request *rq,
    struct kp_tree *tree)
{
	kp_dur_ns *self = malloc(rq->ncalls * sizeof(*self));
	enum kp_err e = self != NULL ? kp_request_self(rq, self) : KP_ENOMEM;

	for (uint32_t i = 0; e == KP_OK && i < rq->ncalls; i++)
		tree_call(in, rq, i, self[i], &tree->calls[i]);
	free(self);
	return e;
}

/*
 * For the store, which frees it.  It borrows the names that windows borrow.  NULL when
 * out of memory.
 */
static struct kp_tree *
tree_make(const struct assembly_part *p, const struct kp_request *rq)
{
	struct wait_sums sums;
	const struct kp_wait *waits;
	struct kp_tree *tree;
	uint32_t n;

	waits = kp_requests_waits(p->in->rs, &n);
	sum_waits(waits, n, &sums);
	tree = malloc(sizeof(*tree) + rq->ncalls * sizeof(tree->calls[0]) +
	    sums.n * sizeof(tree->waits[0]));
	if (tree == NULL)
		return NULL;
	*tree = (struct kp_tree){ .node = p->node, .label = rq->label,
		.identity = kp_requests_identity(p->in->rs, rq->identity),
		.parent_label = rq->parent_label, .weight = rq->weight,
		.start = wall_time(p, rq->start),
		.total = rq->end - rq->start, .outcome = rq->outcome,
		.ncalls = rq->ncalls };
	if (tree_calls(p->in, rq, tree) != KP_OK) {
		free(tree);
		return NULL;
	}
	tree_waits(p->in, &sums, tree);
	return tree;
}

/* ---- what kp_requests hands over ---- */

/* Slow requests go to the store at once, the slowest when the window closes. */
static void
keep_tree(struct assembly_part *p, const struct kp_request *rq)
{
	kp_dur_ns total = rq->end - rq->start;
	bool slow = total >= p->in->conf->slow;
	struct kp_tree *tree;

	if (slow && p->trees < ASSEMBLY_TREES_MAX &&
	    (tree = tree_make(p, rq)) != NULL) {
		p->trees++;
		kp_store_tree(p->a->store, tree);
		kp_tail_put(&p->tail, rq->identity, total, rq->ncalls, NULL);
		return;
	}
	tree = kp_tail_wants(&p->tail, rq->identity, total, rq->ncalls) ?
	    tree_make(p, rq) : NULL;
	if (tree != NULL)
		kp_tail_put(&p->tail, rq->identity, total, rq->ncalls, tree);
	p->trees_lost += slow;
}

static void
store_tree(void *ctx, void *tree)
{
	struct assembly *a = ctx;

	kp_store_tree(a->store, tree);
}

static struct stack_scope
stack_scope(const struct assembly_requests *in, uint32_t node)
{
	return (struct stack_scope){ in->conf, in->rs, node };
}

/* Samples of any node may be of its processes, also where it has no calls. */
static void
join_stacks(const struct assembly_requests *in, const struct kp_request *rq)
{
	struct stack_scope s;

	for (uint32_t i = 0; i < KP_NODES_MAX; i++) {
		if (in->parts[i] == NULL || in->parts[i]->stacks == NULL)
			continue;
		s = stack_scope(in, i);
		stack_join_request(in->parts[i]->stacks, &s, rq);
	}
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct assembly_requests *in = ctx;
	struct assembly_part *p = in->parts[rq->node];

	p->requests_ever++;
	p->ended_ever += rq->outcome != KP_UNFINISHED;
	kp_stats_request(p->stats, rq);
	if (in->conf->messages)
		kp_stats_waits(p->stats, rq);
	if (in->a->stacks)
		join_stacks(in, rq);
	if (in->a->store != NULL)
		keep_tree(p, rq);
	daemon_on_request(p->target, rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	struct assembly_requests *in = ctx;

	kp_stats_late(in->stats[c->node], c);
}

/* ---- what one configuration has ---- */

static void
requests_free(struct assembly_requests *in)
{
	if (in == NULL)
		return;
	kp_requests_free(in->rs);
	free(in);
}

static struct assembly_requests *
requests_new(struct assembly *a, const struct kp_conf *conf)
{
	struct assembly_requests *in = calloc(1, sizeof(*in));
	struct kp_requests_opts ro = { .conf = conf, .on_request = on_request,
		.on_late = on_late, .on_runaway = target_on_runaway,
		.on_unbounded = target_on_unbounded,
		.on_receiver = messages_on_receiver,
		.on_crossed = waits_on_crossed, .ctx = in };

	if (in == NULL)
		return NULL;
	in->a = a;
	in->conf = conf;
	in->rs = kp_requests_new(&ro);
	if (in->rs == NULL) {
		free(in);
		return NULL;
	}
	return in;
}

/* Passes on what is known of the node. */
static void
place_update(const struct assembly_part *p, struct kp_requests *rs, uint32_t i)
{
	if (i == KP_NONE)
		return;
	if (p->otp != 0)
		kp_requests_release(rs, i, p->otp);
	if (p->native)
		kp_requests_native(rs, i, p->all_exact);
	if (p->timed)
		kp_requests_offset(rs, i, p->offset, p->error);
}

/* Returns its place; KP_NONE: there is none, and nothing has changed. */
static uint32_t
place_take(struct assembly_requests *in, struct assembly_part *p,
    struct kp_stats *stats)
{
	uint32_t i = kp_requests_node(in->rs, p->node);

	if (i == KP_NONE)
		return KP_NONE;
	in->parts[i] = p;
	in->stats[i] = stats;
	in->names[i] = p->node;
	place_update(p, in->rs, i);
	if (p->otp != 0)
		kp_stats_release(stats, p->gc_shared);
	return i;
}

static void
place_leave(struct assembly_part *p, enum kp_loss cause)
{
	if (p->index == KP_NONE)
		return;
	kp_requests_remove(p->in->rs, p->index, cause);
	p->in->parts[p->index] = NULL;
	p->in->stats[p->index] = NULL;
}

static struct kp_stats *
stats_new(const struct assembly_requests *in, const char *node)
{
	struct kp_stats *st = kp_stats_new(in->conf, node);

	if (st == NULL)
		return NULL;
	kp_stats_names(st, in->rs);
	kp_stats_peers(st, in->stats);
	return st;
}

/* ---- beginning and end ---- */

struct assembly *
assembly_new(struct kp_store *store, const struct kp_conf *conf)
{
	struct assembly *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->store = store;
	a->now = requests_new(a, conf);
	if (a->now == NULL) {
		free(a);
		return NULL;
	}
	return a;
}

void
assembly_free(struct assembly *a)
{
	if (a == NULL)
		return;
	requests_free(a->now);
	requests_free(a->next);
	for (size_t i = 0; i < a->nnames; i++)
		free(a->names[i]);
	free(a->names);
	free(a);
}

/* NULL: out of memory. */
static const char *
name_keep(struct assembly *a, const char *node)
{
	char **v;

	for (size_t i = 0; i < a->nnames; i++)
		if (strcmp(a->names[i], node) == 0)
			return a->names[i];
	v = realloc(a->names, (a->nnames + 1) * sizeof(*v));
	if (v == NULL)
		return NULL;
	a->names = v;
	v[a->nnames] = strdup(node);
	return v[a->nnames] != NULL ? v[a->nnames++] : NULL;
}

enum kp_err
assembly_part_begin(struct assembly_part *p, struct assembly *a,
    const char *node, struct target *target)
{
	*p = (struct assembly_part){ .a = a, .target = target, .in = a->now,
		.index = KP_NONE, .next.index = KP_NONE,
		.window = kp_moment_now() };
	if (a->n == KP_NODES_MAX || (p->node = name_keep(a, node)) == NULL ||
	    (p->stats = stats_new(a->now, p->node)) == NULL)
		return KP_ENOMEM;
	p->tail.per_identity = a->store != NULL ? a->now->conf->keep_slowest :
	    0;
	a->parts[a->n++] = p;
	assembly_join(p);
	return KP_OK;
}

bool
assembly_join(struct assembly_part *p)
{
	if (p->index == KP_NONE)
		p->index = place_take(p->in, p, p->stats);
	return p->index != KP_NONE;
}

void
assembly_part_rename(struct assembly_part *p, const char *node,
    struct kp_losses *lost)
{
	const char *name;

	if (strcmp(p->node, node) == 0 || p->next.stats != NULL ||
	    (name = name_keep(p->a, node)) == NULL)
		return;
	if (p->index != KP_NONE)
		kp_requests_losses(p->in->rs, p->index, lost);
	place_leave(p, KP_LOSS_DISCONNECTED);
	assembly_stacks_drop(p);
	p->index = KP_NONE;
	p->node = name;
	kp_stats_rename(p->stats, name);
	assembly_join(p);
}

/* Keeps the index: the last window asks for what was lost there. */
void
assembly_part_leave(struct assembly_part *p, enum kp_loss cause)
{
	struct assembly *a = p->a;

	place_leave(p, cause);
	assembly_stacks_drop(p);
	for (unsigned i = 0; i < a->n; i++)
		if (a->parts[i] == p)
			a->parts[i] = a->parts[--a->n];
}

void
assembly_part_end(struct assembly_part *p)
{
	kp_tail_free(&p->tail);
	stack_join_free(p->stacks);
	kp_stats_free(p->next.stats);
	kp_stats_free(p->stats);
}

/* ---- events in ---- */

void
assembly_set_probe(struct assembly_part *p, int otp, bool gc_shared, bool native,
    bool all_exact)
{
	p->otp = otp;
	p->gc_shared = gc_shared;
	p->native = native;
	p->all_exact = all_exact;
	kp_stats_release(p->stats, gc_shared);
	place_update(p, p->in->rs, p->index);
}

void
assembly_offset(struct assembly_part *p, kp_dur_ns offset, kp_dur_ns error)
{
	p->timed = true;
	p->offset = offset;
	p->error = error;
	if (p->index != KP_NONE)
		kp_requests_offset(p->in->rs, p->index, offset, error);
}

size_t
assembly_oldest(const struct assembly_part *p, struct kp_flight *v, size_t max)
{
	kp_target_ns now = p->timed ? kp_mono_now() - p->offset : INT64_MIN;

	return kp_requests_oldest(p->in->rs, p->index, now, v, max);
}

enum kp_err
assembly_stacks(struct assembly_part *p, struct kp_span message)
{
	struct stack_scope s = stack_scope(p->in, p->index);

	if (p->index == KP_NONE)
		return KP_OK;
	if (p->stacks == NULL && (p->stacks = stack_join_new()) == NULL)
		return KP_OK;
	p->a->stacks = true;
	return stack_join_message(p->stacks, &s, message.p, message.n);
}

void
assembly_stacks_expire(struct assembly_part *p, kp_target_ns now)
{
	struct stack_scope s = stack_scope(p->in, p->index);

	if (p->stacks != NULL && p->index != KP_NONE)
		stack_join_expire(p->stacks, &s, now);
}

void
assembly_stacks_drop(struct assembly_part *p)
{
	if (p->stacks != NULL)
		stack_join_drop(p->stacks);
}

void
assembly_stacks_restart(struct assembly_part *p)
{
	if (p->stacks != NULL)
		stack_join_restart(p->stacks);
}

struct stack_totals
assembly_stacks_totals(const struct assembly_part *p)
{
	return p->stacks != NULL ? stack_join_totals(p->stacks) :
	    (struct stack_totals){ .waiting = 0 };
}

static kp_wall_ns
window_end(const struct assembly_part *p, struct kp_moment at)
{
	return kp_wall_end(p->window.wall, at.mono - p->window.mono, at.wall);
}

struct kp_window *
assembly_running(const struct assembly_part *p, struct kp_moment at)
{
	struct stack_scope s = stack_scope(p->in, p->index);
	struct kp_window *w = at.mono < p->window.mono ? NULL :
	    kp_stats_copy(p->stats, p->window.wall, window_end(p, at));

	if (w == NULL)
		return NULL;
	if (p->stacks != NULL && !stack_join_copy(p->stacks, &s, w)) {
		kp_window_free(w);
		return NULL;
	}
	if (p->index != KP_NONE)
		kp_requests_lost(p->in->rs, p->index, &w->losses);
	w->losses.n[KP_LOSS_TREE] += p->trees_lost;
	return w;
}

struct kp_window *
assembly_rotate(struct assembly_part *p, struct kp_moment at)
{
	struct stack_scope s = stack_scope(p->in, p->index);
	struct kp_window *w = at.mono < p->window.mono ? NULL :
	    kp_stats_rotate(p->stats, p->window.wall, window_end(p, at));

	if (w == NULL)
		return NULL;
	/* without memory the samples wait for the next window */
	if (p->stacks != NULL)
		stack_join_rotate(p->stacks, &s, w);
	if (p->index != KP_NONE)
		kp_requests_losses(p->in->rs, p->index, &w->losses);
	w->losses.n[KP_LOSS_TREE] += p->trees_lost;
	p->trees_lost = 0;
	p->trees = 0;
	p->window = at;
	kp_tail_take(&p->tail, store_tree, p->a);
	return w;
}

/* ---- another configuration ---- */

static bool
part_prepare(struct assembly_part *p, struct assembly_requests *next)
{
	p->next.stats = stats_new(next, p->node);
	if (p->next.stats == NULL)
		return false;
	p->next.index = place_take(next, p, p->next.stats);
	return p->next.index != KP_NONE;
}

/* Everything that may fail is done here: what is armed cannot be taken back. */
enum kp_err
assembly_prepare(struct assembly *a, const struct kp_conf *conf)
{
	a->next = requests_new(a, conf);
	if (a->next == NULL)
		return KP_ENOMEM;
	for (unsigned i = 0; i < a->n; i++)
		if (!part_prepare(a->parts[i], a->next)) {
			assembly_discard(a);
			return KP_ENOMEM;
		}
	return KP_OK;
}

void
assembly_discard(struct assembly *a)
{
	for (unsigned i = 0; i < a->n; i++) {
		kp_stats_free(a->parts[i]->next.stats);
		a->parts[i]->next.stats = NULL;
		a->parts[i]->next.index = KP_NONE;
	}
	requests_free(a->next);
	a->next = NULL;
}

void
assembly_part_switch(struct assembly_part *p)
{
	place_leave(p, KP_LOSS_RELOADED);
	if (p->stacks != NULL)
		stack_join_reset(p->stacks);
	kp_stats_free(p->stats);
	p->in = p->a->next;
	p->index = p->next.index;
	p->stats = p->next.stats;
	p->next.index = KP_NONE;
	p->next.stats = NULL;
	place_update(p, p->in->rs, p->index);
	p->tail.per_identity = p->a->store != NULL ?
	    p->in->conf->keep_slowest : 0;
}

struct kp_requests *
assembly_switch(struct assembly *a)
{
	struct kp_requests *old = a->now->rs;

	free(a->now);
	a->now = a->next;
	a->next = NULL;
	return old;
}
