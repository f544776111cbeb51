/*
 * health.h - passes the daemon's own figures to a scraper.  Pure.
 *
 * The daemon answers the control command `metrics` with lines
 *
 *	NAME \t NODE \t CAUSE \t VALUE
 *
 * Lines of one name are adjacent; a figure without a node or a cause leaves that
 * field empty.  The reader knows the type and the help text of each name.
 */
#ifndef KPROFD_EXPORT_HEALTH_H
#define KPROFD_EXPORT_HEALTH_H

#include <stddef.h>

#include "prometheus.h"

enum health {
	HEALTH_UPTIME, HEALTH_TARGETS, HEALTH_NO_ROOM, HEALTH_DB_BYTES,
	HEALTH_DB_MAX, HEALTH_DB_STUCK, HEALTH_DB_AGES, HEALTH_DB_WINDOWS,
	HEALTH_DB_WAITING, HEALTH_DB_DROPPED,
	HEALTH_ARMED, HEALTH_FAILED, HEALTH_EVENTS, HEALTH_BATCHES,
	HEALTH_QUEUE, HEALTH_AGENT_MEMORY, HEALTH_REQUESTS, HEALTH_IN_FLIGHT,
	HEALTH_ONE_IN, HEALTH_LAG, HEALTH_TRIPS, HEALTH_RESTING, HEALTH_COST,
	HEALTH_TRACED_CALL, HEALTH_CLOCK_ERROR, HEALTH_STACKS,
	HEALTH_STACKS_NOT_SEEN, HEALTH_STACKS_BUSY,
	HEALTH_OTLP_FAILING, HEALTH_OTLP_FAILURES, HEALTH_OTLP_SPANS,
	HEALTH_OTLP_POINTS, HEALTH_OTLP_REFUSED_SPANS,
	HEALTH_OTLP_REFUSED_POINTS, HEALTH_OTLP_LOST, HEALTH_OTLP_WAITING,
	HEALTH_COUNT
};

/* Writes a line; node and cause may hold no tab or newline. */
void health_put(struct kp_buf *b, enum health which, const char *node,
    const char *cause, double v);
/* Writes the metrics of such lines; returns how many lines it had to skip. */
size_t health_write(struct prom *x, const char *text, size_t n);

#endif
