/*
 * metrics.c - writes the process's own figures, the daemon's health and the
 * totals in the format that the Accept header asks for.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>

#include "health.h"
#include "metrics.h"

#define SECONDS(ns) ((double)(ns) / (double)KP_NS_PER_S)

/* A figure of a cell; negative: it is not seen, and there is no such series. */
typedef double figure_fn(const struct total *c);

#define FIGURE(name, value) \
	static double name(const struct total *c) { return value; }
FIGURE(calls, (double)c->calls)
FIGURE(raised, c->raised > 0 || total_sees_all(c) ? (double)c->raised : -1)
FIGURE(unfinished, (double)c->unfinished)
FIGURE(ambiguous, (double)c->ambiguous)
FIGURE(returned, total_returned(c) > 0 || total_sees_all(c) ?
    (double)total_returned(c) : -1)
FIGURE(unknown, (double)c->unknown)
FIGURE(async_calls, (double)c->async_calls)
FIGURE(outlasting, (double)c->outlasting)
FIGURE(busy, SECONDS(c->busy))
FIGURE(self, SECONDS(c->self))
FIGURE(async, SECONDS(c->async))

/* A figure of a node. */
typedef double node_fn(const struct total_node *n);

#define NODE_FIGURE(name, value) \
	static double name(const struct total_node *n) { return value; }
NODE_FIGURE(windows, (double)n->windows)
NODE_FIGURE(entry_calls, (double)n->entry_calls)
NODE_FIGURE(sampled, (double)n->sampled)
NODE_FIGURE(last, SECONDS(n->last))

/* ---- loops over nodes, tiers and identities ---- */

#define EACH(i, t, kind) \
	for (size_t i = 0; i < totals_count(t, kind); i++)

/* One value for each node. */
static void
write_nodes(struct prom *x, const struct totals *t, const struct metric *m,
    node_fn *get)
{
	const struct total_node *n;
	const char *node;

	prom_family(x, m);
	EACH(i, t, TOTALS_NODE) {
		n = totals_node(t, i);
		node = totals_name(t, TOTALS_NODE, i);
		if (n != NULL)
			prom_number(x, &node, get(n));
	}
}

/* One value for each identity; `last` is the value of the last label, if any. */
static void
write_requests(struct prom *x, const struct totals *t, const struct metric *m,
    const char *last, figure_fn *get)
{
	const struct total *c;

	EACH(i, t, TOTALS_NODE)
		EACH(k, t, TOTALS_IDENTITY) {
			const char *const values[] = {
				totals_name(t, TOTALS_NODE, i),
				totals_name(t, TOTALS_IDENTITY, k), last };

			c = totals_at(t, i, TOTALS_TOTAL, k);
			if (c == NULL || k == TOTALS_TOTAL)
				continue;
			if (m->type == METRIC_HISTOGRAM)
				prom_hist(x, values, &c->hist,
				    SECONDS(c->time));
			else if (get(c) >= 0)
				prom_number(x, values, get(c));
		}
}

static void
write_tier_identities(struct prom *x, const struct totals *t, size_t node,
    size_t tier, figure_fn *get)
{
	const struct total *c;

	EACH(k, t, TOTALS_IDENTITY) {
		const char *const values[] = {
			totals_name(t, TOTALS_NODE, node),
			totals_name(t, TOTALS_TIER, tier),
			totals_name(t, TOTALS_IDENTITY, k) };

		c = totals_at(t, node, tier, k);
		if (c != NULL && k != TOTALS_TOTAL && get(c) >= 0)
			prom_number(x, values, get(c));
	}
}

static void
write_tiers(struct prom *x, const struct totals *t, const struct metric *m,
    figure_fn *get)
{
	prom_family(x, m);
	EACH(i, t, TOTALS_NODE)
		EACH(k, t, TOTALS_TIER)
			if (k != TOTALS_TOTAL)
				write_tier_identities(x, t, i, k, get);
}

static void
write_calls(struct prom *x, const struct totals *t)
{
	static const struct metric m = { "kprof_call_duration_seconds",
		METRIC_HISTOGRAM, "How long calls of a tier's functions took, "
		"within requests.", { "node", "tier" } };
	const struct total *c;

	prom_family(x, &m);
	EACH(i, t, TOTALS_NODE)
		EACH(k, t, TOTALS_TIER) {
			const char *const values[] = {
				totals_name(t, TOTALS_NODE, i),
				totals_name(t, TOTALS_TIER, k) };

			c = totals_at(t, i, k, TOTALS_TOTAL);
			if (c != NULL && k != TOTALS_TOTAL)
				prom_hist(x, values, &c->hist,
				    SECONDS(c->time));
		}
}

/* ---- the families ---- */

static void
requests(struct prom *x, const struct totals *t)
{
	static const struct metric duration = {
		"kprof_request_duration_seconds", METRIC_HISTOGRAM,
		"How long requests took whose end was seen.",
		{ "node", "identity" } };
	static const struct metric outcomes = { "kprof_requests",
		METRIC_COUNTER, "Requests, by how they ended (unknown: it cannot "
		"be seen how): where some are sampled out, estimates of all "
		"(kprof_entry_calls: the VM's own count).",
		{ "node", "identity", "outcome" } };
	static const struct metric outside = {
		"kprof_request_outside_tiers_seconds", METRIC_COUNTER,
		"Time of requests that is in no tier.",
		{ "node", "identity" } };

	prom_family(x, &duration);
	write_requests(x, t, &duration, NULL, NULL);
	prom_family(x, &outcomes);
	write_requests(x, t, &outcomes, "returned", returned);
	write_requests(x, t, &outcomes, "raised", raised);
	write_requests(x, t, &outcomes, "unfinished", unfinished);
	write_requests(x, t, &outcomes, "ambiguous", ambiguous);
	write_requests(x, t, &outcomes, "unknown", unknown);
	prom_family(x, &outside);
	write_requests(x, t, &outside, NULL, self);
}

static const struct {
	struct metric m;
	figure_fn *get;
} tiers[] = {
#define BY_TIER { "node", "tier", "identity" }
	{ { "kprof_tier_calls", METRIC_COUNTER,
	    "Calls of a tier's functions within requests.", BY_TIER }, calls },
	{ { "kprof_tier_errors", METRIC_COUNTER,
	    "Calls of a tier's functions that raised, within requests and after "
	    "them; none where outcomes are not seen.",
	    BY_TIER }, raised },
	{ { "kprof_tier_busy_seconds", METRIC_COUNTER,
	    "Time of requests in which a tier was at work for them.",
	    BY_TIER }, busy },
	{ { "kprof_tier_self_seconds", METRIC_COUNTER,
	    "Time of a tier's calls without the calls they waited for.",
	    BY_TIER }, self },
	{ { "kprof_tier_async_calls", METRIC_COUNTER,
	    "Calls that began after their request had ended.", BY_TIER },
	    async_calls },
	{ { "kprof_tier_async_seconds", METRIC_COUNTER,
	    "Time after the end of requests, of calls that began then and of "
	    "those that outlast them: a mean is over async and outlasting "
	    "calls.", BY_TIER }, async },
	{ { "kprof_tier_outlasting_calls", METRIC_COUNTER,
	    "Calls that began before their request ended and ended after it.",
	    BY_TIER }, outlasting },
#undef BY_TIER
};

static const struct {
	struct metric m;
	node_fn *get;
} nodes[] = {
	{ { "kprof_windows", METRIC_COUNTER,
	    "Windows that were written to the database.", { "node" } },
	    windows },
	{ { "kprof_last_window_timestamp_seconds", METRIC_GAUGE,
	    "When the last window that was written ended.", { "node" } },
	    last },
	{ { "kprof_entry_calls", METRIC_COUNTER,
	    "Calls of entries, as the VM itself counts them.", { "node" } },
	    entry_calls },
	{ { "kprof_sampled_requests", METRIC_COUNTER,
	    "Requests that the figures are made of.", { "node" } }, sampled },
};

/* Losses: a family for each unit, since units do not add up. */

static const struct {
	const char *unit;
	struct metric m;
	double scale;
} losses[] = {
#define LOST { "node", "cause" }
	{ "requests", { "kprof_lost_requests", METRIC_COUNTER,
	    KP_LOST_REQUESTS, LOST }, 1 },
	{ "calls", { "kprof_lost_calls", METRIC_COUNTER,
	    KP_LOST_CALLS, LOST }, 1 },
	{ "messages", { "kprof_lost_messages", METRIC_COUNTER,
	    KP_LOST_MESSAGES, LOST }, 1 },
	{ "samples", { "kprof_lost_samples", METRIC_COUNTER,
	    KP_LOST_SAMPLES, LOST }, 1 },
	{ "turns", { "kprof_lost_turns", METRIC_COUNTER,
	    KP_LOST_TURNS, LOST }, 1 },
	{ "events", { "kprof_lost_events", METRIC_COUNTER,
	    KP_LOST_EVENTS, LOST }, 1 },
	{ "batches", { "kprof_lost_batches", METRIC_COUNTER,
	    KP_LOST_BATCHES, LOST }, 1 },
	{ "rows", { "kprof_lost_rows", METRIC_COUNTER,
	    KP_LOST_ROWS, LOST }, 1 },
	{ "ms", { "kprof_lost_seconds", METRIC_COUNTER,
	    KP_LOST_TIME, LOST },
	    1e-3 },
#undef LOST
};

static void
lost_of_node(struct prom *x, const struct totals *t, size_t node,
    const char *unit, double scale)
{
	const struct total_node *n = totals_node(t, node);

	for (int i = 0; n != NULL && i < KP_LOSS_COUNT; i++) {
		const char *const values[] = {
			totals_name(t, TOTALS_NODE, node), kp_loss_name(i) };

		if (strcmp(kp_loss_unit(i), unit) == 0)
			prom_number(x, values, (double)n->lost.n[i] * scale);
	}
}

static void
lost(struct prom *x, const struct totals *t)
{
	for (size_t f = 0; f < sizeof(losses) / sizeof(losses[0]); f++) {
		prom_family(x, &losses[f].m);
		EACH(i, t, TOTALS_NODE)
			lost_of_node(x, t, i, losses[f].unit,
			    losses[f].scale);
	}
}

/* How much of the caps of totals.h is used. */

static void
caps(struct prom *x, const struct totals *t)
{
	static const struct metric count = { "kprof_export_names",
		METRIC_GAUGE, "Nodes, tiers and identities that have figures "
		"of their own; _other has the rest.", { "kind" } };
	static const struct metric max = { "kprof_export_names_max",
		METRIC_GAUGE, "How many may have.", { "kind" } };
	static const struct metric folded = { "kprof_export_folded_requests",
		METRIC_COUNTER, "Requests under _other because there are too "
		"many identities for a scraper.", { NULL } };
	static const struct metric dropped = { "kprof_export_dropped_cells",
		METRIC_COUNTER, "Cells of windows that are in no figure for "
		"want of memory or room.", { NULL } };
	static const char *const kinds[] = { "node", "tier", "identity" };
	static const size_t most[] = { TOTALS_NODES_MAX, TOTALS_TIERS_MAX,
		TOTALS_IDENTITIES_MAX };
	static const size_t fixed[] = { 1, 2, 2 };

	prom_family(x, &count);
	for (int k = 0; k < TOTALS_KINDS; k++)
		prom_number(x, &kinds[k],
		    (double)(totals_count(t, (enum totals_kind)k) - fixed[k]));
	prom_family(x, &max);
	for (int k = 0; k < TOTALS_KINDS; k++)
		prom_number(x, &kinds[k], (double)most[k]);
	prom_family(x, &folded);
	prom_number(x, NULL, (double)totals_folded(t));
	prom_family(x, &dropped);
	prom_number(x, NULL, (double)totals_dropped(t));
}

void
families_write(struct prom *x, const struct totals *t)
{
	requests(x, t);
	write_calls(x, t);
	for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++)
		write_tiers(x, t, &tiers[i].m, tiers[i].get);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		write_nodes(x, t, &nodes[i].m, nodes[i].get);
	lost(x, t);
	caps(x, t);
}

/* ---- the process ---- */

static double
cpu_seconds(const struct timeval *tv)
{
	return (double)tv->tv_sec + (double)tv->tv_usec / 1e6;
}

/* Bytes of memory; 0: not known. */
static double
resident(void)
{
	unsigned long size, rss = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f != NULL && fscanf(f, "%lu %lu", &size, &rss) != 2)
		rss = 0;
	if (f != NULL)
		fclose(f);
	return (double)rss * (double)sysconf(_SC_PAGESIZE);
}

/* A family of one value, with at most one label. */
static void
single(struct prom *x, const struct metric *m, const char *value, double v)
{
	prom_family(x, m);
	prom_number(x, &value, v);
}

static void
process(struct prom *x, bool answers)
{
	static const struct metric build = { "kprof_build_info", METRIC_GAUGE,
		"Which kprofd this is.", { "version" } };
	static const struct metric up = { "kprof_daemon_up", METRIC_GAUGE,
		"1 where the daemon's own loop has answered.", { NULL } };
	static const struct metric cpu = { "process_cpu_seconds",
		METRIC_COUNTER, "CPU time of this process.", { NULL } };
	static const struct metric memory = { "process_resident_memory_bytes",
		METRIC_GAUGE, "Memory of this process.", { NULL } };
	struct rusage ru;

	single(x, &build, KP_VERSION, 1);
	single(x, &up, NULL, answers);
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		single(x, &cpu, NULL, cpu_seconds(&ru.ru_utime) +
		    cpu_seconds(&ru.ru_stime));
	single(x, &memory, NULL, resident());
}

void
metrics_answer(struct totals *t, const char *accept, const char *health,
    size_t n, struct kp_buf *b, const char **type)
{
	enum prom_format format = prom_choose(accept);
	struct prom x;

	*type = prom_content_type(format);
	prom_begin(&x, b, format);
	process(&x, health != NULL);
	if (health != NULL)
		health_write(&x, health, n);
	totals_lock(t);
	families_write(&x, t);
	totals_unlock(t);
	prom_end(&x);
}
