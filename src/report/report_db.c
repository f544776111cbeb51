/*
 * report_db.c - queries the tiers, nodes and sums of a range, and copies them
 * into a report.
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

enum kp_err
report_from_db(struct kp_query *q, const struct kp_query_range *r, bool hints,
    struct report **out)
{
	struct kp_query_range all = *r;
	struct kp_query_tiers tiers = { 0 };
	struct kp_query_nodes nodes = { 0 };
	struct kp_query_sum sum = { 0 };
	struct report_source s = { .identity = r->identity_glob };
	enum kp_err err;

	all.identity_glob = NULL;	/* report_make() filters and adds up */
	err = kp_query_tiers(q, &tiers);
	if (err == KP_OK)
		err = kp_query_nodes(q, &all, &nodes);
	if (err == KP_OK)
		err = kp_query_sum(q, &all, &sum);
	if (err != KP_OK)
		goto out;
	drop_old(&tiers, &sum);
	s.nodes = nodes.v;
	s.nnodes = nodes.n;
	s.tiers = tiers.v;
	s.ntiers = tiers.n;
	s.cells = sum.cells;
	s.ncells = sum.ncells;
	s.traced_call = sum.traced_call;
	s.traced_caller = sum.traced_caller;
	err = report_make(&s, out);
	if (err != KP_OK)
		goto out;
	(*out)->since = r->since;
	(*out)->until = r->until;
	(*out)->start = sum.start;
	(*out)->end = sum.end;
	(*out)->windows = sum.windows;
	(*out)->covered = sum.covered;
	(*out)->entry_calls = sum.entry_calls;
	(*out)->sampled = sum.sampled;
	(*out)->uncounted = sum.uncounted;
	(*out)->losses = sum.losses;
	if (hints)
		report_hints(q, &all, &sum, *out);
out:
	kp_query_tiers_free(&tiers);
	kp_query_nodes_free(&nodes);
	kp_query_sum_free(&sum);
	return err;
}
