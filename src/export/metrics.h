/*
 * metrics.h - the answer to a scraper: totals of all windows that this daemon
 * wrote, its health, and the process's own figures.
 */
#ifndef KPROFD_EXPORT_METRICS_H
#define KPROFD_EXPORT_METRICS_H

#include "prometheus.h"
#include "totals.h"

#define METRICS_OUTPUT_MAX (64u << 20)	/* bytes of one answer */

/*
 * Writes the answer in the format that the Accept header asks for (accept may be
 * NULL), and its content type to *type.  lines: the daemon's answer (see below), or
 * NULL if it gave none.  Errors stick in b.
 */
void metrics_answer(struct totals *t, const char *accept, const char *lines,
    size_t n, struct kp_buf *b, const char **type);

/*
 * Writes the totals, which the caller has locked.  Pure.  All counts and times
 * are estimates for all requests: those of sampled ones times their weight, as in
 * reports.
 */
void families_write(struct prom *x, const struct totals *t);

/*
 * The daemon's own figures.  The daemon answers the control command `metrics` with lines
 *
 *	NAME \t NODE \t CAUSE \t VALUE
 *
 * Lines of one name are adjacent; a figure without a node or a cause leaves that
 * field empty.  The reader knows the type and the help text of each name.
 */
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
	HEALTH_PYROSCOPE_FAILING, HEALTH_PYROSCOPE_FAILURES,
	HEALTH_PYROSCOPE_PROFILES, HEALTH_PYROSCOPE_REFUSED, HEALTH_PYROSCOPE_LOST,
	HEALTH_PYROSCOPE_WAITING,
	HEALTH_OTLP_PROFILES_FAILING, HEALTH_OTLP_PROFILES_FAILURES,
	HEALTH_OTLP_PROFILES_PROFILES, HEALTH_OTLP_PROFILES_REFUSED,
	HEALTH_OTLP_PROFILES_LOST, HEALTH_OTLP_PROFILES_WAITING,
	HEALTH_COUNT
};

/* Writes a line; node and cause may hold no tab or newline. */
void health_put(struct kp_buf *b, enum health which, const char *node,
    const char *cause, double v);
/* Writes the metrics of such lines; returns how many lines it had to skip. */
size_t health_write(struct prom *x, const char *text, size_t n);

/* Returns a figure of a cell; negative if it was not seen, then the series is absent. */
typedef double figure_fn(const struct total *c);

/* How requests ended; of a family with the label "outcome". */
#define REQUEST_OUTCOMES 5
extern const struct cell_figure {
	const char *name;
	figure_fn *get;
} request_outcomes[REQUEST_OUTCOMES];

/* What cells have: for scrapers, and for OTLP. */
#define CELL_FAMILIES 11
extern const struct cell_family {
	struct metric m;
	figure_fn *get;		/* NULL: a histogram, or by outcome */
	const char *otlp, *unit;	/* NULL: not of OTLP */
	const char *help;	/* of OTLP; NULL: that of m */
} cell_families[CELL_FAMILIES];
bool metric_has_label(const struct metric *m, const char *name);

/*
 * What processes and tables use: gauges of the rows of a kind, for scrapers and for
 * OTLP.  The labels behind the node are the row's name and owner.
 */
#define USAGE_FAMILIES 6
extern const struct usage_family {
	struct metric m;
	enum kp_usage_kind kind;
	int64_t (*get)(const struct kp_usage_row *r);	/* negative: not seen */
	const char *otlp, *unit;
} usage_families[USAGE_FAMILIES];

/* Losses have a metric for each unit, since units do not add up. */
#define LOST_UNITS 9
extern const struct lost_unit {
	const char *unit;	/* kp_loss_unit() */
	struct metric m;
	double scale;		/* of m */
	const char *otlp, *otlp_unit;
} lost_units[LOST_UNITS];

#endif
