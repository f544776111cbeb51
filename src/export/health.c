/*
 * health.c - a table of these metrics; writes the lines of the daemon's answer,
 * and parses them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "health.h"

#define LINE_MAX 1024	/* bytes: a node's name is at most 255 */
#define COLUMNS 4

#define OF_NODE { "node" }
#define OF_CAUSE { "cause" }

static const struct metric metrics[HEALTH_COUNT] = {
	[HEALTH_UPTIME] = { "kprof_uptime_seconds", METRIC_GAUGE,
	    "How long kprofd has been running.", { NULL } },
	[HEALTH_TARGETS] = { "kprof_targets", METRIC_GAUGE,
	    "Nodes that are to be profiled.", { NULL } },
	[HEALTH_NO_ROOM] = { "kprof_targets_without_room", METRIC_GAUGE,
	    "Nodes past the most that one kprofd profiles.", { NULL } },
	[HEALTH_DB_BYTES] = { "kprof_store_bytes", METRIC_GAUGE,
	    "Size of the database.", { NULL } },
	[HEALTH_DB_MAX] = { "kprof_store_max_bytes", METRIC_GAUGE,
	    "What the database may grow to; 0: no limit.", { NULL } },
	[HEALTH_DB_STUCK] = { "kprof_store_stuck", METRIC_GAUGE,
	    "1 while the database cannot be written.", { NULL } },
	[HEALTH_DB_AGES] = { "kprof_store_retention_ratio", METRIC_GAUGE,
	    "How long rows are kept, of what -retain says: less than 1 where "
	    "the database would be too large.", { NULL } },
	[HEALTH_DB_WINDOWS] = { "kprof_store_waiting_windows", METRIC_GAUGE,
	    "Windows that wait to be written.", { NULL } },
	[HEALTH_DB_WAITING] = { "kprof_store_waiting_bytes", METRIC_GAUGE,
	    "What waits to be written.", { NULL } },
	[HEALTH_DB_DROPPED] = { "kprof_store_dropped_rows", METRIC_COUNTER,
	    "Rows that could not be written to the database.", OF_CAUSE },
	[HEALTH_ARMED] = { "kprof_target_armed", METRIC_GAUGE,
	    "1 while the node is profiled.", OF_NODE },
	[HEALTH_FAILED] = { "kprof_target_failed", METRIC_GAUGE,
	    "1 where there is no way on with the node.", OF_NODE },
	[HEALTH_EVENTS] = { "kprof_events", METRIC_COUNTER,
	    "Trace events that came.", OF_NODE },
	[HEALTH_BATCHES] = { "kprof_batches", METRIC_COUNTER,
	    "Batches of events that came.", OF_NODE },
	[HEALTH_QUEUE] = { "kprof_agent_queue_events", METRIC_GAUGE,
	    "Events in the agent's queue in the node.", OF_NODE },
	[HEALTH_AGENT_MEMORY] = { "kprof_agent_memory_bytes", METRIC_GAUGE,
	    "Memory of the agent in the node.", OF_NODE },
	[HEALTH_REQUESTS] = { "kprof_requests_assembled", METRIC_COUNTER,
	    "Requests put together, as sampled.", OF_NODE },
	[HEALTH_IN_FLIGHT] = { "kprof_requests_in_flight", METRIC_GAUGE,
	    "Requests that have begun and not ended.", OF_NODE },
	[HEALTH_ONE_IN] = { "kprof_sampling_one_in", METRIC_GAUGE,
	    "One request in so many is traced.", OF_NODE },
	[HEALTH_LAG] = { "kprof_lag_seconds", METRIC_GAUGE,
	    "How old events are when they are taken in.", OF_NODE },
	[HEALTH_TRIPS] = { "kprof_overload_trips", METRIC_COUNTER,
	    "How often the overload guard disarmed the node.", OF_NODE },
	[HEALTH_RESTING] = { "kprof_overload_resting", METRIC_GAUGE,
	    "1 while the node rests after a trip.", OF_NODE },
	[HEALTH_COST] = { "kprof_target_cost_ratio", METRIC_GAUGE,
	    "What profiling costs the node, in parts of one scheduler.",
	    OF_NODE },
	[HEALTH_TRACED_CALL] = { "kprof_traced_call_seconds", METRIC_GAUGE,
	    "What tracing adds to the time of one traced call; absent until it "
	    "was measured.", OF_NODE },
	[HEALTH_CLOCK_ERROR] = { "kprof_clock_error_seconds", METRIC_GAUGE,
	    "How well the node's clock is known.", OF_NODE },
	[HEALTH_STACKS] = { "kprof_stack_samples", METRIC_COUNTER,
	    "Samples of stacks taken in the node, with those not seen; absent "
	    "where none are, as the next two.", OF_NODE },
	[HEALTH_STACKS_NOT_SEEN] = { "kprof_stack_samples_not_seen",
	    METRIC_COUNTER, "Of these, processes that did not answer in time.",
	    OF_NODE },
	[HEALTH_STACKS_BUSY] = { "kprof_stack_sampler_seconds", METRIC_COUNTER,
	    "Processor time that sampling took in the node.", OF_NODE },
	[HEALTH_OTLP_FAILING] = { "kprof_otlp_failing", METRIC_GAUGE,
	    "1 while the collector of -otlp cannot be reached, or has no "
	    "time.", { NULL } },
	[HEALTH_OTLP_FAILURES] = { "kprof_otlp_failures", METRIC_COUNTER,
	    "Attempts to send to it that will be made again.", { NULL } },
	[HEALTH_OTLP_SPANS] = { "kprof_otlp_spans", METRIC_COUNTER,
	    "Spans that it took.", { NULL } },
	[HEALTH_OTLP_POINTS] = { "kprof_otlp_points", METRIC_COUNTER,
	    "Data points of metrics that it took.", { NULL } },
	[HEALTH_OTLP_REFUSED_SPANS] = { "kprof_otlp_refused_spans",
	    METRIC_COUNTER, "Spans that it refused.", { NULL } },
	[HEALTH_OTLP_REFUSED_POINTS] = { "kprof_otlp_refused_points",
	    METRIC_COUNTER, "Data points that it refused.", { NULL } },
	[HEALTH_OTLP_LOST] = { "kprof_otlp_lost_requests", METRIC_COUNTER,
	    "Slow requests that were never sent: too many waited, or they "
	    "were deleted first.", { NULL } },
	[HEALTH_OTLP_WAITING] = { "kprof_otlp_waiting_requests", METRIC_GAUGE,
	    "Slow requests that wait to be sent.", { NULL } },
};

void
health_put(struct kp_buf *b, enum health which, const char *node,
    const char *cause, double v)
{
	char text[PROM_NUMBER_MAX];

	kp_buf_printf(b, "%s\t%s\t%s\t%s\n", metrics[which].name, node, cause,
	    prom_double(text, v));
}

static const struct metric *
find_metric(const char *name)
{
	for (int i = 0; i < HEALTH_COUNT; i++)
		if (strcmp(metrics[i].name, name) == 0)
			return &metrics[i];
	return NULL;
}

/* False: the line does not have four columns, or the last is not a number. */
static bool
split(char *line, char *col[COLUMNS], double *v)
{
	char *end;
	int n = 0;

	for (char *p = line; p != NULL; n++) {
		if (n == COLUMNS)
			return false;
		col[n] = p;
		p = strchr(p, '\t');
		if (p != NULL)
			*p++ = '\0';
	}
	if (n < COLUMNS)
		return false;
	*v = strtod(col[3], &end);
	return end != col[3] && *end == '\0';
}

static bool
write_line(struct prom *x, char *line)
{
	const char *values[METRIC_LABELS_MAX];
	const struct metric *m;
	char *col[COLUMNS];
	int n = 0;
	double v;

	if (!split(line, col, &v) || (m = find_metric(col[0])) == NULL)
		return false;
	if (x->m != m)
		prom_family(x, m);
	for (int i = 0; m->labels[i] != NULL; i++)
		values[n++] = col[strcmp(m->labels[i], "node") == 0 ? 1 : 2];
	prom_number(x, values, v);
	return true;
}

size_t
health_write(struct prom *x, const char *text, size_t n)
{
	char line[LINE_MAX];
	size_t len, bad = 0;

	for (size_t i = 0; i < n; i += len + 1) {
		const char *end = memchr(text + i, '\n', n - i);

		len = end != NULL ? (size_t)(end - text) - i : n - i;
		if (len >= sizeof(line) || !utf8_valid(text + i, len) ||
		    memchr(text + i, '\0', len) != NULL) {
			bad++;
			continue;
		}
		memcpy(line, text + i, len);
		line[len] = '\0';
		bad += !write_line(x, line);
	}
	return bad;
}
