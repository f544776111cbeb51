/*
 * self_metrics.c - writes the metrics of the daemon, of its outputs and of its
 * targets, those of one name together.
 */
#include <string.h>

#include "export/health.h"
#include "daemon/otlp_health.h"
#include "daemon/control/status.h"
#include "daemon/store_health.h"
#include "daemon/nodes/targets.h"

#define SECONDS(ns) ((double)(ns) / (double)KP_NS_PER_S)

struct figure {
	enum health which;
	double value;		/* less than 0: not measured, and left out */
};

#define TARGET_METRICS 18

static void
target_metrics(const struct target *t, struct figure v[TARGET_METRICS])
{
	const struct kp_guard *guard = &t->overload.guard;
	const bool stacks = t->part.stacks != NULL;
	const struct kp_stack_counts c = assembly_stacks_totals(&t->part).
	    sampler;
	const struct figure all[TARGET_METRICS] = {
		{ HEALTH_ARMED, !t->in_set.over &&
		    agent_state(t->agent) == AGENT_ARMED },
		{ HEALTH_FAILED, t->in_set.failed },
		{ HEALTH_EVENTS, (double)t->events },
		{ HEALTH_BATCHES, (double)t->batches },
		{ HEALTH_QUEUE, (double)t->status.queue },
		{ HEALTH_AGENT_MEMORY, (double)t->status.memory },
		{ HEALTH_REQUESTS, (double)t->part.requests_ever },
		{ HEALTH_IN_FLIGHT, (double)kp_requests_running(
		    t->part.in->rs, t->part.index) },
		{ HEALTH_ONE_IN, t->sampler.one_in },
		{ HEALTH_LAG, SECONDS(t->overload.load.lag) },
		{ HEALTH_TRIPS, (double)guard->trips },
		{ HEALTH_RESTING, guard->resting },
		{ HEALTH_COST, overhead_percent(&t->overhead,
		    kp_cost_total(&t->overhead.last)) / 100 },
		{ HEALTH_TRACED_CALL, t->tracing_cost.call > 0 ?
		    SECONDS(t->tracing_cost.call) : -1 },
		{ HEALTH_CLOCK_ERROR, SECONDS(t->part.error) },
		{ HEALTH_STACKS, stacks ? (double)c.taken : -1 },
		{ HEALTH_STACKS_NOT_SEEN, stacks ? (double)c.not_seen : -1 },
		{ HEALTH_STACKS_BUSY, stacks ? SECONDS(c.busy) : -1 },
	};

	memcpy(v, all, sizeof(all));
}

void
self_metrics_text(struct kp_buf *b, const struct parts *p)
{
	const struct targets *ts = p->targets;
	unsigned n = targets_count(ts);
	struct figure v[TARGETS_MAX][TARGET_METRICS];

	/* Once for each target: the requests in flight take a walk. */
	for (unsigned i = 0; i < n; i++)
		target_metrics(targets_at(ts, i), v[i]);
	health_put(b, HEALTH_UPTIME, "", "",
	    SECONDS(kp_mono_now() - p->started));
	health_put(b, HEALTH_TARGETS, "", "", n);
	health_put(b, HEALTH_NO_ROOM, "", "", (double)targets_more(ts));
	store_put_metrics(b, p->store);
	otlp_put_metrics(b, p->otlp);
	for (int m = 0; m < TARGET_METRICS; m++)
		for (unsigned i = 0; i < n; i++)
			if (v[i][m].value >= 0)
				health_put(b, v[i][m].which,
				    targets_at(ts, i)->node, "",
				    v[i][m].value);
}
