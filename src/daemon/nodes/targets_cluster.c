/*
 * targets_cluster.c - adds the nodes of a cluster whose names match, and removes
 * those that have left it.
 *
 * Every attached target is asked once a second, so no single node is needed.
 * The seed has a connection of its own only while it is not a target itself.
 * nodes(visible) leaves hidden nodes out, so kprofd never finds itself.
 */
#include <string.h>

#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/nodes/targets_internal.h"

#define NODES_MAX 5000		/* read of one answer */
#define AWAY (3 * KP_NS_PER_S)	/* the cluster is asked every second */

static bool
matches(const struct targets *ts, const char *typed)
{
	char name[KP_NODE_NAME_MAX + 1];

	kp_node_bare(typed, name);
	for (unsigned i = 0; i < ts->p->o->nmatches; i++)
		if (kp_glob(ts->p->o->matches[i], name))
			return true;
	return false;
}

/* A node that was away has been restarted, perhaps with what it lacked. */
static void
seen(struct target *t)
{
	kp_mono_ns now = kp_mono_now();

	if (now - t->in_set.seen > AWAY)
		t->in_set.failed = false;
	t->in_set.seen = now;
}

/*
 * Takes a node that matches.  False: there is no room.  No node knows the port of
 * another one, so the seed keeps the port that was typed.
 */
static bool
take_node(struct targets *ts, const char *name)
{
	struct target *t = targets_find(ts, name);
	const char *seed = ts->p->o->seed;

	if (t != NULL)
		seen(t);
	if (ts->frozen || ts->stopping || ts->over)
		return true;		/* the cluster is asked again in a second */
	/* One that is being removed is added again when it has ended. */
	return targets_join(ts, kp_node_same(name, seed) ? seed : name,
	    BY_CLUSTER, "it is in the cluster");
}

/* False: it matches, but there is no room. */
static bool
take_atom(struct targets *ts, struct kp_span atom)
{
	char name[KP_NODE_NAME_MAX + 1];

	if (!kp_node_name_ok((const char *)atom.p, atom.n))
		return true;
	memcpy(name, atom.p, atom.n);
	name[atom.n] = '\0';
	return !matches(ts, name) || take_node(ts, name);
}

/* list: of atoms.  more: nodes that had no room already. */
static void
take_answer(struct targets *ts, const struct kp_term *list, size_t more)
{
	struct kp_term r = *list;
	uint32_t n = kp_term_list(&r);
	struct kp_span atom;

	for (uint32_t i = 0; i < n && i < NODES_MAX; i++) {
		atom = kp_term_atom(&r);
		if (r.err != KP_OK)
			break;
		more += !take_atom(ts, atom);
	}
	if (r.err != KP_OK)
		return;
	ts->cluster.answered = kp_mono_now();
	ts->cluster.failed = false;
	ts->seed_lost = false;
	/* Nodes see different parts of the cluster, so the number changes. */
	if (more > 0 && !ts->no_room)
		targets_report_no_room(ts, more);
	ts->no_room |= more > 0;
	ts->more_cluster = more;
	/* Without targets there is nothing to wait for: kprofd is ready. */
	if (ts->n == 0 && !ts->ready) {
		ts->waits = true;
		notify_ready();
	}
	ts->ready = true;
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

void
targets_on_nodes(struct target *t, const struct kp_term *list)
{
	struct targets *ts = t->set;

	if (ts->p->o->seed != NULL && !ts->stopping)
		take_answer(ts, list, 0);
}

/* ---- the seed, where it is not a target ---- */

static void
on_seed_nodes(void *ctx, const struct kp_term *list)
{
	struct targets *ts = ctx;
	char seed[KP_NODE_NAME_MAX + 1];

	kp_node_bare(ts->p->o->seed, seed);
	take_answer(ts, list, !take_atom(ts, (struct kp_span){
	    (const uint8_t *)seed, (uint32_t)strlen(seed) }));
}

static void
on_seed_lost(void *ctx, const char *why)
{
	struct targets *ts = ctx;

	ts->cluster.failed = true;
	/* Only at the start; a seed that has answered once is asked again. */
	if (ts->n == 0 && !ts->armed_ever && ts->cluster.answered == 0) {
		log_error("failed", ts->p->o->seed, "%s", why);
		targets_end(ts, 1);
		return;
	}
	if (!ts->seed_lost)
		log_warn("cluster", ts->p->o->seed, "the seed cannot be asked "
		    "for the nodes of its cluster: %s; trying again", why);
	ts->seed_lost = true;
	event_active(ts->sweep, EV_TIMEOUT, 0);
}

static const struct discovery_ops discovery_ops = { on_seed_nodes,
	on_seed_lost };

/* Opens or closes the connection to the seed; not to be called by the above. */
static void
ask_seed(struct targets *ts, bool wanted)
{
	const struct node_opts o = { .target = ts->p->o->seed,
		.reach = &ts->p->o->reach, .cookie = ts->p->cookie,
		.limit = CONNECT_LIMIT };

	if (wanted && ts->cluster.seed == NULL) {
		ts->cluster.seed = discovery_new(ts->base, &o, &discovery_ops,
		    ts);
	} else if (!wanted && ts->cluster.seed != NULL) {
		discovery_free(ts->cluster.seed);
		ts->cluster.seed = NULL;
		ts->cluster.failed = false;
	}
}

/* A seed that is a target is asked on the target's connection. */
static bool
must_ask_seed(const struct targets *ts)
{
	const struct target *seed = targets_find(ts, ts->p->o->seed);

	return !ts->over && !ts->stopping && (seed == NULL ||
	    seed->in_set.over) && (!ts->p->o->check ||
	    ts->cluster.answered == 0);
}

/* ---- start, and every second ---- */

void
targets_cluster_start(struct targets *ts)
{
	const struct options *o = ts->p->o;

	/* The seed counts as named: it is never forgotten. */
	if (o->check || !matches(ts, o->seed))
		ask_seed(ts, true);
	else if (!targets_add(ts, o->seed, BY_NAME))
		targets_report_no_room(ts, 1);
}

/* Removes nodes that no attached node has seen for -forget. */
static void
forget(struct targets *ts)
{
	struct target *t;

	for (unsigned i = 0; i < ts->n; i++) {
		t = ts->v[i];
		if ((t->in_set.sources & BY_CLUSTER) != 0 &&
		    ts->cluster.answered - t->in_set.seen > ts->p->o->forget)
			targets_leave(ts, t, BY_CLUSTER,
			    "it has left the cluster");
	}
}

void
targets_cluster_tick(struct targets *ts)
{
	if (!ts->frozen && !ts->stopping)
		forget(ts);
	ask_seed(ts, must_ask_seed(ts));
	if (ts->p->o->check && ts->n == 0 && !ts->over &&
	    ts->cluster.answered != 0) {
		log_error("failed", ts->p->o->seed, "no node that is visible in "
		    "the cluster of '%s' matches", ts->p->o->seed);
		targets_end(ts, 1);
	}
}
