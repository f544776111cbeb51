/* state.c - begins and ends the statistics of a node, and names what they borrow. */
#include <stdlib.h>

#include "state.h"

struct kp_stats *
kp_stats_new(const struct kp_conf *conf, const char *node)
{
	struct kp_stats *st = calloc(1, sizeof(*st));

	if (st == NULL)
		return NULL;
	st->conf = conf;
	st->node = node;
	st->has_gc = conf->gc;
	return st;
}

void
kp_stats_release(struct kp_stats *st, bool gc_shared)
{
	st->has_gc = kp_conf_gc(st->conf, gc_shared);
}

void
kp_stats_free(struct kp_stats *st)
{
	if (st == NULL)
		return;
	cells_free(&st->cells);
	waits_free(&st->waits);
	free(st->self);
	free(st->reach);
	free(st->made);
	free(st->up);
	free(st->sums);
	pause_sums_free(&st->pauses);
	insides_free(&st->insides);
	free(st);
}

void
kp_stats_names(struct kp_stats *st, const struct kp_requests *rs)
{
	st->rs = rs;
}

void
kp_stats_rename(struct kp_stats *st, const char *node)
{
	st->node = node;
}

void
kp_stats_peers(struct kp_stats *st, struct kp_stats *const *by_node)
{
	st->peers = by_node;
}
