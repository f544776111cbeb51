/*
 * report_db.c - queries the tiers, nodes and sums of a range, or adds up running
 * windows, and copies them into a report.
 */
#include <string.h>

#include "report_db.h"
#include "source.h"

static bool
has_cells(const struct kp_query_sum *s, const char *tier)
{
	for (size_t i = 0; i < s->ncells; i++) {
		if (strcmp(s->cells[i].tier, tier) == 0)
			return true;
	}
	return false;
}

/* Drops tiers that tiers.conf no longer has and that have no figures. */
static void
drop_old(struct kp_query_tiers *t, const struct kp_query_sum *s)
{
	size_t n = t->current;

	for (size_t i = t->current; i < t->n; i++) {
		if (has_cells(s, t->v[i]))
			t->v[n++] = t->v[i];
	}
	t->n = n;
}

/* Copies what is known of the range as a whole. */
static void
take_sum(struct report *to, const struct kp_query_sum *sum)
{
	to->start = sum->start;
	to->end = sum->end;
	to->windows = sum->windows;
	to->covered = sum->covered;
	to->entry_calls = sum->entry_calls;
	to->sampled = sum->sampled;
	to->uncounted = sum->uncounted;
	to->losses = sum->losses;
}

/* Makes the report of a sum; tiers loses those that it does not name. */
static enum kp_err
make(const struct kp_query_range *r, struct kp_query_tiers *tiers,
    const char *const *nodes, size_t nnodes, const struct kp_query_sum *sum,
    struct report **out)
{
	struct report_source s = { .identity = r->identity_glob,
		.nodes = nodes, .nnodes = nnodes,
		.cells = sum->cells, .ncells = sum->ncells,
		.traced_call = sum->traced_call,
		.traced_caller = sum->traced_caller };
	enum kp_err err;

	drop_old(tiers, sum);
	s.tiers = tiers->v;
	s.ntiers = tiers->n;
	err = report_make(&s, out);
	if (err == KP_OK)
		take_sum(*out, sum);
	return err;
}

enum kp_err
report_from_db(struct kp_query *q, const struct kp_query_range *r, bool hints,
    struct report **out)
{
	struct kp_query_range all = *r;
	struct kp_query_tiers tiers = { 0 };
	struct kp_query_nodes nodes = { 0 };
	struct kp_query_sum sum = { 0 };
	enum kp_err err;

	all.identity_glob = NULL;	/* report_make() filters and adds up */
	err = kp_query_tiers(q, &tiers);
	if (err == KP_OK)
		err = kp_query_nodes(q, &all, &nodes);
	if (err == KP_OK)
		err = kp_query_sum(q, &all, &sum);
	if (err == KP_OK)
		err = make(r, &tiers, nodes.v, nodes.n, &sum, out);
	if (err == KP_OK && hints)
		report_hints(q, &all, &sum, *out);
	kp_query_tiers_free(&tiers);
	kp_query_nodes_free(&nodes);
	kp_query_sum_free(&sum);
	return err;
}

void
report_apart(const struct kp_query_range *r, const struct report *now,
    struct kp_query_range *then)
{
	if (then->until <= r->since && now->start > then->since &&
	    now->start < then->until)
		then->until = now->start;
	else if (then->since >= r->until && now->end < then->until &&
	    now->end > then->since)
		then->since = now->end;
}

enum kp_err
report_from_running(struct kp_query *q, const struct kp_query_range *r,
    const struct running *running, bool hints, struct report **out)
{
	struct kp_query_range all = *r;
	struct kp_query_tiers tiers = { 0 };
	struct kp_query_sum sum = { 0 };
	const char *nodes[RUNNING_MAX];
	enum kp_err err;
	size_t n;

	all.identity_glob = NULL;
	for (n = 0; n < running->n && n < RUNNING_MAX; n++)
		nodes[n] = running->v[n].node;
	err = kp_query_tiers(q, &tiers);
	if (err == KP_OK)
		err = running_sum(running, &tiers, &sum);
	if (err == KP_OK)
		err = make(r, &tiers, nodes, n, &sum, out);
	if (err == KP_OK) {
		(*out)->running = true;
		(*out)->left = running->left;
		if (hints)
			report_hints(q, &all, &sum, *out);
	}
	kp_query_tiers_free(&tiers);
	kp_query_sum_free(&sum);
	return err;
}
