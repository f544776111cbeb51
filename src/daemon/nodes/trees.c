/*
 * trees.c - copies a slow request with its calls, and the waits of its messages
 * added up by process.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "daemon/nodes/trees.h"

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

struct kp_tree *
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
