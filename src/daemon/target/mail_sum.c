/*
 * mail_sum.c - sorts the waits of a request by process, and adds up those of
 * each.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/target/mail_sum.h"
#include "base/sat.h"

static int
by_proc(const void *pa, const void *pb)
{
	const struct kp_wait *a = pa, *b = pb;

	return (a->proc > b->proc) - (a->proc < b->proc);
}

/* Those of one process, from w on; returns the next one's. */
static const struct kp_wait *
sum_one(const struct kp_wait *w, const struct kp_wait *end,
    struct mail_sums *out)
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

void
mail_sum(const struct kp_wait *w, uint32_t n, struct mail_sums *out)
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
