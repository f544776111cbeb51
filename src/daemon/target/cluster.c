/*
 * cluster.c - matches the names in each node's answer, and starts or stops the
 * connection to the seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/target/cluster.h"
#include "kprofd/nodes.h"
#include "dist/discovery.h"

struct cluster {
	struct event_base *base;
	struct cluster_parts p;
	const struct cluster_ops *ops;
	void *ctx;
	struct discovery *seed;	/* NULL: the seed is a target, or not needed */
	kp_mono_ns answered;
	bool failed;
};

bool
cluster_matches(const struct cluster *c, const char *name)
{
	for (unsigned i = 0; i < c->p.nmatches; i++)
		if (kp_glob(c->p.matches[i], name))
			return true;
	return false;
}

/* False: it matches, but there is no room. */
static bool
see(struct cluster *c, struct kp_span atom)
{
	char name[KP_NODE_NAME_MAX + 1];

	if (!kp_node_name_ok((const char *)atom.p, atom.n))
		return true;
	memcpy(name, atom.p, atom.n);
	name[atom.n] = '\0';
	return !cluster_matches(c, name) || c->ops->on_seen(c->ctx, name);
}

static void
take_answer(struct cluster *c, const struct kp_term *list, size_t more)
{
	struct kp_term r = *list;
	uint32_t n = kp_term_list(&r);
	struct kp_span atom;

	for (uint32_t i = 0; i < n && i < CLUSTER_NODES_MAX; i++) {
		atom = kp_term_atom(&r);
		if (r.err != KP_OK)
			break;
		more += !see(c, atom);
	}
	if (r.err != KP_OK)
		return;
	c->answered = kp_mono_now();
	c->failed = false;
	c->ops->on_answer(c->ctx, more);
}

void
cluster_answer(struct cluster *c, const struct kp_term *list)
{
	take_answer(c, list, 0);
}

/* ---- the seed, where it is not a target ---- */

static void
on_nodes(void *ctx, const struct kp_term *list)
{
	struct cluster *c = ctx;
	const char *seed = c->p.seed.target;

	take_answer(c, list, !see(c, (struct kp_span){ (const uint8_t *)seed,
	    (uint32_t)strlen(seed) }));
}

static void
on_lost(void *ctx, const char *why)
{
	struct cluster *c = ctx;

	c->failed = true;
	c->ops->on_lost(c->ctx, why);
}

static const struct discovery_ops discovery_ops = { on_nodes, on_lost };

void
cluster_ask_seed(struct cluster *c, bool wanted)
{
	if (wanted && c->seed == NULL) {
		c->seed = discovery_new(c->base, &c->p.seed, &discovery_ops, c);
	} else if (!wanted && c->seed != NULL) {
		discovery_free(c->seed);
		c->seed = NULL;
		c->failed = false;
	}
}

kp_mono_ns
cluster_answered(const struct cluster *c)
{
	return c->answered;
}

bool
cluster_failed(const struct cluster *c)
{
	return c->failed;
}

struct cluster *
cluster_new(struct event_base *base, const struct cluster_parts *parts,
    const struct cluster_ops *ops, void *ctx)
{
	struct cluster *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->base = base;
	c->p = *parts;
	c->ops = ops;
	c->ctx = ctx;
	return c;
}

void
cluster_free(struct cluster *c)
{
	if (c == NULL)
		return;
	discovery_free(c->seed);
	free(c);
}
