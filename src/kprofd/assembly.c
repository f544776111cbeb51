/* assembly.c - see the header. */
#include <stdlib.h>
#include <string.h>

#include "kprofd/assembly.h"

/* As kp_requests_new() has them without being told. */
#define REQUESTS_MAX 100000
#define CALLS_MAX 4000000
#define IDENTITIES_MAX 1000

/* ---- trees ---- */

static bool
self_room(struct assembly *a, uint32_t n)
{
	kp_dur_ns *v;

	if (n <= a->selfcap)
		return true;
	v = realloc(a->self, n * sizeof(*v));
	if (v == NULL)
		return false;
	a->self = v;
	a->selfcap = n;
	return true;
}

static const char *
first_tier(const struct assembly *a, const struct kp_fn *fn)
{
	for (size_t i = 0; i < a->conf->ntiers; i++)
		if ((fn->tiers >> i & 1) != 0)
			return a->conf->tiers[i].name;
	return "";
}

static void
tree_call(const struct assembly *a, const struct kp_request *rq, uint32_t i,
    struct kp_tree_call *out)
{
	const struct kp_call *c = &rq->calls[i];
	const struct kp_fn *fn = kp_requests_fn(a->requests, c->fn);
	bool timed = c->outcome == KP_RETURNED || c->outcome == KP_RAISED;

	*out = (struct kp_tree_call){ .fn = fn->text,
		.tier = first_tier(a, fn), .start = c->start - rq->start,
		.total = timed ? c->end - c->start : -1, .self = a->self[i],
		.parent = c->parent, .outcome = c->outcome,
		.async = c->async };
	kp_proc_text(c->proc, out->pid, sizeof(out->pid));
}

/* NULL: out of memory. */
static struct kp_tree *
make_tree(struct assembly *a, const struct kp_request *rq)
{
	struct kp_tree *tree;

	if (!self_room(a, rq->ncalls) ||
	    kp_request_self(rq, a->self) != KP_OK ||
	    (tree = malloc(sizeof(*tree) +
	    rq->ncalls * sizeof(tree->calls[0]))) == NULL)
		return NULL;
	*tree = (struct kp_tree){ .node = a->p.node, .label = rq->label,
		.identity = kp_requests_identity(a->requests, rq->identity),
		.parent_label = rq->parent_label, .weight = rq->weight,
		.start = rq->start + a->time_offset,
		.total = rq->end - rq->start, .outcome = rq->outcome,
		.ncalls = rq->ncalls };
	for (uint32_t i = 0; i < rq->ncalls; i++)
		tree_call(a, rq, i, &tree->calls[i]);
	return tree;
}

/* Slow ones go to the store at once, and the slowest when the window closes. */
static void
keep_tree(struct assembly *a, const struct kp_request *rq)
{
	kp_dur_ns total = rq->end - rq->start;
	bool slow = total >= a->conf->slow;
	struct kp_tree *tree;

	if (slow && a->trees < ASSEMBLY_TREES_MAX &&
	    (tree = make_tree(a, rq)) != NULL) {
		a->trees++;
		kp_store_tree(a->p.store, tree);
		kp_tail_put(&a->tail, rq->identity, total, rq->ncalls, NULL);
		return;
	}
	tree = kp_tail_wants(&a->tail, rq->identity, total, rq->ncalls) ?
	    make_tree(a, rq) : NULL;
	if (tree != NULL)
		kp_tail_put(&a->tail, rq->identity, total, rq->ncalls, tree);
	a->trees_lost += slow;
}

static void
store_tree(void *ctx, void *tree)
{
	struct assembly *a = ctx;

	kp_store_tree(a->p.store, tree);
}

/* ---- requests out ---- */

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct assembly *a = ctx;

	a->requests_ever++;
	kp_stats_request(a->stats, rq);
	if (a->p.store != NULL)
		keep_tree(a, rq);
	a->p.ops->on_request(a->p.ctx, rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	struct assembly *a = ctx;

	kp_stats_late(a->stats, c);
}

static void
on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn)
{
	struct assembly *a = ctx;

	(void)node;
	a->p.ops->on_runaway(a->p.ctx, fn);
}

static void
on_unbounded(void *ctx, uint32_t line)
{
	struct assembly *a = ctx;

	a->p.ops->on_unbounded(a->p.ctx, line);
}

/* ---- beginning, another configuration, end ---- */

static unsigned
part(unsigned shares, unsigned least)
{
	unsigned n = 1;

	while (n < shares && n < least)
		n *= 2;
	return n;
}

static struct kp_requests *
requests_new(struct assembly *a, const struct kp_conf *conf, unsigned shares)
{
	unsigned n = part(shares, ASSEMBLY_SHARES_MAX);
	struct kp_requests_opts ro = { .conf = conf,
		.max_requests = REQUESTS_MAX / n,
		.max_calls_in_flight = CALLS_MAX / n,
		.max_identities = IDENTITIES_MAX /
		    part(shares, ASSEMBLY_NAMES_SHARES_MAX),
		.on_request = on_request, .on_late = on_late,
		.on_runaway = on_runaway, .on_unbounded = on_unbounded,
		.ctx = a };
	struct kp_requests *rs = kp_requests_new(&ro);

	if (rs != NULL &&
	    kp_requests_node(rs, a->p.node) != ASSEMBLY_NODE) {
		kp_requests_free(rs);
		return NULL;
	}
	return rs;
}

static void
in_force(struct assembly *a)
{
	a->conf = a->next.conf;
	a->requests = a->next.requests;
	a->stats = a->next.stats;
	a->next.conf = NULL;
	a->next.requests = NULL;
	a->next.stats = NULL;
	kp_stats_names(a->stats, a->requests);
	if (a->otp != 0)
		kp_requests_release(a->requests, ASSEMBLY_NODE, a->otp);
	a->tail.per_identity = a->p.store != NULL ? a->conf->keep_slowest : 0;
}

enum kp_err
assembly_init(struct assembly *a, const struct kp_conf *conf,
    const struct assembly_parts *parts, unsigned shares)
{
	*a = (struct assembly){ .p = *parts, .window_start = kp_wall_now() };
	if (assembly_prepare(a, conf, shares) != KP_OK)
		return KP_ENOMEM;
	in_force(a);
	return KP_OK;
}

void
assembly_free(struct assembly *a)
{
	kp_tail_free(&a->tail);
	assembly_discard(a);
	kp_stats_free(a->stats);
	kp_requests_free(a->requests);
	free(a->self);
}

void
assembly_release(struct assembly *a, int otp)
{
	a->otp = otp;
	kp_requests_release(a->requests, ASSEMBLY_NODE, otp);
}

struct kp_window *
assembly_rotate(struct assembly *a, kp_wall_ns now)
{
	struct kp_window *w = kp_stats_rotate(a->stats, a->window_start, now);

	if (w == NULL)
		return NULL;
	kp_requests_losses(a->requests, ASSEMBLY_NODE, &w->losses);
	w->losses.n[KP_LOSS_TREE] += a->trees_lost;
	a->trees_lost = 0;
	a->trees = 0;
	a->window_start = now;
	kp_tail_take(&a->tail, store_tree, a);
	return w;
}

/* First what may fail: once it is armed there is no way back. */
enum kp_err
assembly_prepare(struct assembly *a, const struct kp_conf *conf,
    unsigned shares)
{
	a->next.conf = conf;
	a->next.requests = requests_new(a, conf, shares);
	a->next.stats = kp_stats_new(conf, a->p.node);
	if (a->next.requests != NULL && a->next.stats != NULL)
		return KP_OK;
	assembly_discard(a);
	return KP_ENOMEM;
}

void
assembly_discard(struct assembly *a)
{
	kp_stats_free(a->next.stats);
	kp_requests_free(a->next.requests);
	a->next.stats = NULL;
	a->next.requests = NULL;
	a->next.conf = NULL;
}

struct kp_requests *
assembly_switch(struct assembly *a)
{
	struct kp_requests *old = a->requests;

	kp_stats_free(a->stats);
	in_force(a);
	return old;
}
