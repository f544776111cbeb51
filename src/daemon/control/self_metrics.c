/*
 * self_metrics.c - a table of metrics with the function that reads each from a
 * target, and what writes them with the store's.
 */
#include "export/health.h"
#include "daemon/otlp_health.h"
#include "daemon/control/self_metrics.h"

#define SECONDS(ns) ((double)(ns) / (double)KP_NS_PER_S)

static double
armed(const struct target *t)
{
	return !t->in_set.over && agent_state(t->agent) == AGENT_ARMED;
}

static double
failed(const struct target *t)
{
	return t->in_set.failed;
}

static double
events(const struct target *t)
{
	return (double)t->events;
}

static double
batches(const struct target *t)
{
	return (double)t->batches;
}

static double
queue(const struct target *t)
{
	return (double)t->status.queue;
}

static double
agent_memory(const struct target *t)
{
	return (double)t->status.memory;
}

static double
requests(const struct target *t)
{
	return (double)t->part.requests_ever;
}

static double
in_flight(const struct target *t)
{
	return (double)kp_requests_running(t->part.in->rs,
	    t->part.index);
}

static double
one_in(const struct target *t)
{
	return (double)t->sampler.one_in;
}

static double
lag(const struct target *t)
{
	return SECONDS(t->overload.load.lag);
}

static double
trips(const struct target *t)
{
	return (double)t->overload.guard.trips;
}

static double
resting(const struct target *t)
{
	return t->overload.guard.resting;
}

static double
cost(const struct target *t)
{
	return overhead_percent(&t->overhead,
	    kp_cost_total(&t->overhead.last)) / 100;
}

/* Less than 0: it was not measured, and is left out. */
static double
traced_call(const struct target *t)
{
	return t->tracing_cost.call > 0 ? SECONDS(t->tracing_cost.call) : -1;
}

static double
clock_error(const struct target *t)
{
	return SECONDS(t->part.error);
}

static const struct {
	enum health which;
	double (*get)(const struct target *t);
} of_target[] = {
	{ HEALTH_ARMED, armed }, { HEALTH_FAILED, failed },
	{ HEALTH_EVENTS, events }, { HEALTH_BATCHES, batches },
	{ HEALTH_QUEUE, queue }, { HEALTH_AGENT_MEMORY, agent_memory },
	{ HEALTH_REQUESTS, requests }, { HEALTH_IN_FLIGHT, in_flight },
	{ HEALTH_ONE_IN, one_in }, { HEALTH_LAG, lag },
	{ HEALTH_TRIPS, trips }, { HEALTH_RESTING, resting },
	{ HEALTH_COST, cost },
	{ HEALTH_TRACED_CALL, traced_call }, { HEALTH_CLOCK_ERROR, clock_error },
};

static void
put_store(struct kp_buf *b, struct kp_store *s)
{
	struct kp_store_status st;

	kp_store_status(s, &st);
	health_put(b, HEALTH_DB_BYTES, "", "", (double)st.file_bytes);
	health_put(b, HEALTH_DB_MAX, "", "", (double)st.max_bytes);
	health_put(b, HEALTH_DB_STUCK, "", "", st.stuck);
	health_put(b, HEALTH_DB_AGES, "", "", st.ages_percent / 100.0);
	health_put(b, HEALTH_DB_WINDOWS, "", "", (double)st.windows);
	health_put(b, HEALTH_DB_WAITING, "", "", (double)st.bytes);
	for (int i = 0; i < KP_STORE_CAUSES; i++)
		health_put(b, HEALTH_DB_DROPPED, "",
		    kp_store_cause_name((enum kp_store_cause)i),
		    (double)st.dropped[i]);
}

void
self_metrics_text(struct kp_buf *b, const struct status *s)
{
	const struct target *t;
	double v;

	health_put(b, HEALTH_UPTIME, "", "", SECONDS(s->up));
	health_put(b, HEALTH_TARGETS, "", "", targets_count(s->targets));
	health_put(b, HEALTH_NO_ROOM, "", "",
	    (double)targets_more(s->targets));
	put_store(b, s->store);
	otlp_put_metrics(b, s->otlp);
	for (size_t f = 0; f < sizeof(of_target) / sizeof(of_target[0]); f++)
		for (unsigned i = 0; i < targets_count(s->targets); i++) {
			t = targets_at(s->targets, i);
			v = of_target[f].get(t);
			if (v >= 0)
				health_put(b, of_target[f].which, t->node, "",
				    v);
		}
}
