/*
 * metrics.c - writes the process's own figures, the daemon's health and the
 * totals in the format that the Accept header asks for.
 *
 * Of sampled figures there are no intervals: those are of a range, which a query chooses,
 * and do not add up; rules in priv/prometheus find them by how counters grow.
 *
 * Health has a table of metrics, by which the daemon writes the lines of its answer
 * and this file parses them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>

#include "base/utf8.h"
#include "metrics.h"

#define SECONDS(ns) ((double)(ns) / (double)KP_NS_PER_S)
#define LINE_MAX 1024	/* bytes: a node's name is at most 255 */
#define COLUMNS 4

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

bool
metric_has_label(const struct metric *m, const char *name)
{
	for (int i = 0; i < METRIC_LABELS_MAX && m->labels[i] != NULL; i++)
		if (strcmp(m->labels[i], name) == 0)
			return true;
	return false;
}

static void
write_hist(struct prom *x, const char *const *values, const struct total *c)
{
	const struct total_kept *k = c->kept;
	struct prom_exemplar e = { .nlabels = 0 };
	char id[24];

	if (k != NULL) {
		snprintf(id, sizeof(id), "%" PRId64, k->id);
		e.labels[e.nlabels++] = (struct prom_label){ "request", id };
		if (k->trace[0] != '\0')
			e.labels[e.nlabels++] = (struct prom_label){ "trace_id", k->trace };
		e.v = SECONDS(k->total);
		e.at = k->end;
	}
	prom_hist(x, values, &c->hist, SECONDS(c->time), k != NULL ? &e : NULL);
}

/*
 * One value of the current family for each node, and for each tier and each identity
 * if it has such a label; else of the request itself, and of all identities.  last:
 * the value of the last label, if it is none of these.
 */
static void
write_cells(struct prom *x, const struct totals *t, const char *last,
    figure_fn *get)
{
	bool tiers = metric_has_label(x->m, "tier");
	bool identities = metric_has_label(x->m, "identity");
	const char *values[METRIC_LABELS_MAX];
	int n;

	EACH(i, t, TOTALS_NODE) {
		struct totals_cell at = { NULL };

		while (totals_next(t, i, tiers, identities, &at)) {
			n = 0;
			values[n++] = totals_name(t, TOTALS_NODE, i);
			if (tiers)
				values[n++] = at.tier;
			if (identities)
				values[n++] = at.identity;
			if (last != NULL)
				values[n] = last;
			if (x->m->type == METRIC_HISTOGRAM)
				write_hist(x, values, at.c);
			else if (get(at.c) >= 0)
				prom_number(x, values, get(at.c));
		}
	}
}

/* ---- the families ---- */

const struct cell_figure request_outcomes[REQUEST_OUTCOMES] = {
	{ "returned", returned }, { "raised", raised },
	{ "unfinished", unfinished }, { "ambiguous", ambiguous },
	{ "unknown", unknown },
};

const struct cell_family cell_families[CELL_FAMILIES] = {
#define OTLP(name, unit, help) "kprof." name, unit, help
#define NO_OTLP NULL, NULL, NULL
#define BY_TIER { "node", "tier", "identity" }
	{ { "kprof_request_duration_seconds", METRIC_HISTOGRAM,
	    "How long requests took whose end was seen.",
	    { "node", "identity" } }, NULL,
	    OTLP("request.duration", "s", "How long requests took.") },
	{ { "kprof_requests", METRIC_COUNTER, "Requests, by how they ended "
	    "(unknown: it cannot be seen how): where some are sampled out, "
	    "estimates of all (kprof_entry_calls: the VM's own count).",
	    { "node", "identity", "outcome" } }, NULL,
	    OTLP("requests", "{request}", "Requests, by how they ended: where "
	    "some are sampled out, estimates of all.") },
	{ { "kprof_request_outside_tiers_seconds", METRIC_COUNTER,
	    "Time of requests that is in no tier.", { "node", "identity" } },
	    self, NO_OTLP },
	{ { "kprof_call_duration_seconds", METRIC_HISTOGRAM,
	    "How long calls of a tier's functions took, within requests.",
	    { "node", "tier" } }, NULL, OTLP("call.duration", "s", NULL) },
	{ { "kprof_tier_calls", METRIC_COUNTER,
	    "Calls of a tier's functions within requests.", BY_TIER }, calls,
	    NO_OTLP },
	{ { "kprof_tier_errors", METRIC_COUNTER,
	    "Calls of a tier's functions that raised, within requests and after "
	    "them; none where outcomes are not seen.", BY_TIER }, raised,
	    NO_OTLP },
	{ { "kprof_tier_busy_seconds", METRIC_COUNTER,
	    "Time of requests in which a tier was at work for them.", BY_TIER },
	    busy, OTLP("tier.busy", "s", NULL) },
	{ { "kprof_tier_self_seconds", METRIC_COUNTER,
	    "Time of a tier's calls without the calls they waited for.",
	    BY_TIER }, self, OTLP("tier.self", "s", NULL) },
	{ { "kprof_tier_async_calls", METRIC_COUNTER,
	    "Calls that began after their request had ended.", BY_TIER },
	    async_calls, NO_OTLP },
	{ { "kprof_tier_async_seconds", METRIC_COUNTER,
	    "Time after the end of requests, of calls that began then and of "
	    "those that outlast them: a mean is over async and outlasting "
	    "calls.", BY_TIER }, async, NO_OTLP },
	{ { "kprof_tier_outlasting_calls", METRIC_COUNTER,
	    "Calls that began before their request ended and ended after it.",
	    BY_TIER }, outlasting, NO_OTLP },
#undef OTLP
#undef NO_OTLP
#undef BY_TIER
};

static void
write_family(struct prom *x, const struct totals *t, const struct cell_family *f)
{
	prom_family(x, &f->m);
	if (!metric_has_label(&f->m, "outcome"))
		write_cells(x, t, NULL, f->get);
	else
		for (int i = 0; i < REQUEST_OUTCOMES; i++)
			write_cells(x, t, request_outcomes[i].name,
			    request_outcomes[i].get);
}

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

#define USAGE_FIGURE(name, value) \
	static int64_t name(const struct kp_usage_row *r) { return value; }
USAGE_FIGURE(memory, r->memory)
USAGE_FIGURE(binaries, r->binaries)
USAGE_FIGURE(messages, (int64_t)r->messages)
USAGE_FIGURE(longest, (int64_t)r->longest)

const struct usage_family usage_families[USAGE_FAMILIES] = {
#define GROUP { "node", "group", "application" }
	{ { "kprof_mailbox_messages", METRIC_GAUGE,
	    "Messages that wait for processes of a group.", GROUP },
	    KP_USAGE_PROCESSES, messages, "kprof.mailbox.messages",
	    "{message}" },
	{ { "kprof_mailbox_longest_messages", METRIC_GAUGE,
	    "Messages that wait for that process of a group for which most "
	    "do.", GROUP }, KP_USAGE_PROCESSES, longest,
	    "kprof.mailbox.longest", "{message}" },
	{ { "kprof_process_memory_bytes", METRIC_GAUGE,
	    "Memory of the processes of a group; an estimate on large nodes.",
	    GROUP }, KP_USAGE_PROCESSES, memory, "kprof.process.memory", "By" },
	{ { "kprof_process_binary_bytes", METRIC_GAUGE,
	    "Binaries outside heaps that processes of a group refer to; an "
	    "estimate on large nodes.", GROUP }, KP_USAGE_PROCESSES, binaries,
	    "kprof.process.binaries", "By" },
	{ { "kprof_ets_memory_bytes", METRIC_GAUGE,
	    "Memory of the ETS tables of one name, the largest.",
	    { "node", "table", "owner" } }, KP_USAGE_TABLES, memory,
	    "kprof.ets.memory", "By" },
	{ { "kprof_node_memory_bytes", METRIC_GAUGE,
	    "Memory of the node, as of erlang:memory/0.", { "node", "kind" } },
	    KP_USAGE_NODE, memory, "kprof.node.memory", "By" },
#undef GROUP
};

static bool
has_usage(const struct totals *t)
{
	EACH(i, t, TOTALS_NODE)
		if (totals_node(t, i) != NULL &&
		    totals_node(t, i)->usage != NULL)
			return true;
	return false;
}

/* There are none unless stacks are sampled. */
static void
write_usage(struct prom *x, const struct totals *t,
    const struct usage_family *f)
{
	const struct kp_usage *u;

	prom_family(x, &f->m);
	EACH(i, t, TOTALS_NODE) {
		u = totals_node(t, i) != NULL ? totals_node(t, i)->usage : NULL;
		for (size_t k = 0; u != NULL && k < u->n; k++) {
			const char *const values[] = {
				totals_name(t, TOTALS_NODE, i),
				u->rows[k].name, u->rows[k].owner };

			if (u->rows[k].kind == f->kind &&
			    f->get(&u->rows[k]) >= 0)
				prom_number(x, values,
				    (double)f->get(&u->rows[k]));
		}
	}
}

const struct lost_unit lost_units[LOST_UNITS] = {
#define LOST(name, help) { "kprof_lost_" name, METRIC_COUNTER, help, { "node", "cause" } }
#define UNIT(many, one, help) \
	{ many, LOST(many, help), 1, "kprof.lost." many, "{" one "}" }
	UNIT("requests", "request", KP_LOST_REQUESTS),
	UNIT("calls", "call", KP_LOST_CALLS),
	UNIT("messages", "message", KP_LOST_MESSAGES),
	UNIT("samples", "sample", KP_LOST_SAMPLES),
	UNIT("turns", "turn", KP_LOST_TURNS),
	UNIT("events", "event", KP_LOST_EVENTS),
	UNIT("batches", "batch", KP_LOST_BATCHES),
	UNIT("rows", "row", KP_LOST_ROWS),
	{ "ms", LOST("seconds", KP_LOST_TIME), 1e-3, "kprof.lost.time", "ms" },
#undef UNIT
#undef LOST
};

static void
lost(struct prom *x, const struct totals *t)
{
	const struct total_node *n;

	for (const struct lost_unit *u = lost_units; u < lost_units + LOST_UNITS; u++) {
		prom_family(x, &u->m);
		EACH(i, t, TOTALS_NODE) {
			n = totals_node(t, i);
			for (int k = 0; n != NULL && k < KP_LOSS_COUNT; k++) {
				const char *const values[] = {
					totals_name(t, TOTALS_NODE, i),
					kp_loss_name(k) };

				if (strcmp(kp_loss_unit(k), u->unit) == 0)
					prom_number(x, values,
					    (double)n->lost.n[k] * u->scale);
			}
		}
	}
}

/* ---- objectives ---- */

static void
slo(struct prom *x, const struct totals *t)
{
	static const struct metric of = { "kprof_slo_requests", METRIC_COUNTER,
		"Requests, or calls of a tier, that an objective of tiers.conf is for, whose "
		"end was seen.", { "node", "objective" } };
	static const struct metric missed = { "kprof_slo_missed", METRIC_COUNTER,
		"Those of them that took longer (slow), and those that raised (failed; absent "
		"where it is not seen): one that did both is in both.",
		{ "node", "objective", "cause" } };
	struct total_slo s;

	if (!totals_slo_at(t, TOTALS_OTHER, 0, &s))
		return;
	for (int k = 0; k < 2; k++) {
		prom_family(x, k == 0 ? &of : &missed);
		EACH(i, t, TOTALS_NODE)
			for (size_t o = 0; totals_slo_at(t, i, o, &s); o++) {
				const char *values[] = { totals_name(t, TOTALS_NODE, i),
					s.text, "slow" };

				if (s.requests == 0)
					continue;
				prom_number(x, values, k == 0 ? (double)s.requests : s.slow);
				values[2] = "failed";
				if (k == 1 && s.failed >= 0)
					prom_number(x, values, s.failed);
			}
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
	for (int i = 0; i < CELL_FAMILIES; i++)
		write_family(x, t, &cell_families[i]);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		write_nodes(x, t, &nodes[i].m, nodes[i].get);
	for (int i = 0; i < USAGE_FAMILIES && has_usage(t); i++)
		write_usage(x, t, &usage_families[i]);
	slo(x, t);
	lost(x, t);
	caps(x, t);
}

/* ---- the daemon's health ---- */

#define OF_NODE { "node" }
#define OF_CAUSE { "cause" }

static const struct metric health[HEALTH_COUNT] = {
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
	    "One request in this many is traced.", OF_NODE },
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
#define OF_PROFILES(to, name, profiles, refused, option) \
	[HEALTH_##to##_FAILING] = { "kprof_" name "_failing", METRIC_GAUGE, \
	    "1 while the server of " option " cannot be reached, or has no time.", \
	    { NULL } }, \
	[HEALTH_##to##_FAILURES] = { "kprof_" name "_failures", METRIC_COUNTER, \
	    "Attempts to send to it that will be made again.", { NULL } }, \
	[HEALTH_##to##_PROFILES] = { "kprof_" profiles, METRIC_COUNTER, \
	    "Profiles of a node that it took.", { NULL } }, \
	[HEALTH_##to##_REFUSED] = { "kprof_" refused, METRIC_COUNTER, \
	    "Profiles that it refused.", { NULL } }, \
	[HEALTH_##to##_LOST] = { "kprof_" name "_lost_seconds", METRIC_COUNTER, \
	    "Time of nodes whose profiles were never sent: they were too far behind.", \
	    { NULL } }, \
	[HEALTH_##to##_WAITING] = { "kprof_" name "_waiting_seconds", METRIC_GAUGE, \
	    "Time of nodes whose profiles are not sent yet; windows shorter than the " \
	    "first of -retain wait for each other.", { NULL } }
	OF_PROFILES(PYROSCOPE, "pyroscope", "pyroscope_profiles",
	    "pyroscope_refused_profiles", "-pyroscope"),
	OF_PROFILES(OTLP_PROFILES, "otlp_profiles", "otlp_profiles",
	    "otlp_refused_profiles", "-otlp-profiles"),
#undef OF_PROFILES
};

void
health_put(struct kp_buf *b, enum health which, const char *node,
    const char *cause, double v)
{
	char text[PROM_NUMBER_MAX];

	kp_buf_printf(b, "%s\t%s\t%s\t%s\n", health[which].name, node, cause,
	    prom_double(text, v));
}

static const struct metric *
find_metric(const char *name)
{
	for (int i = 0; i < HEALTH_COUNT; i++)
		if (strcmp(health[i].name, name) == 0)
			return &health[i];
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
metrics_answer(struct totals *t, const char *accept, const char *lines,
    size_t n, struct kp_buf *b, const char **type)
{
	enum prom_format format = prom_choose(accept);
	struct prom x;

	*type = prom_content_type(format);
	prom_begin(&x, b, format);
	process(&x, lines != NULL);
	if (lines != NULL)
		health_write(&x, lines, n);
	totals_lock(t);
	families_write(&x, t);
	totals_unlock(t);
	prom_end(&x);
}
