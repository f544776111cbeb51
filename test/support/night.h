/*
 * night.h - the windows of a night on three nodes, as a daemon writes them: a deploy that
 * makes one tier slow on one node, faults of the database on another, an overload.
 */
#ifndef KPROFD_TEST_NIGHT_H
#define KPROFD_TEST_NIGHT_H

#include <math.h>
#include <stdlib.h>

#include "kprofd/stats.h"
#include "pick.h"
#include "store/db.h"

#define NIGHT_WINDOWS 720	/* of 10 s */
#define NIGHT_STEP (10 * KP_NS_PER_S)
#define NIGHT_NODES 3
#define NIGHT_DEPLOY 500	/* formatter of update is slower on web2 from here on */
#define NIGHT_FAULTS 560	/* an eighth of POST /orders fails on web3 */
#define NIGHT_FAULTS_END 620
#define NIGHT_TRIP 660		/* web1 measures nothing in three windows */

static const char *const night_nodes[] = { "web1@shop", "web2@shop", "web3@shop" };
static const char *const night_types[] = { "_total", "GET /orders", "POST /orders",
	"update", "GET /health" };
static const char *const night_tiers[] = { "_total", "http", "db", "formatter" };
#define NIGHT_TYPES 5
#define NIGHT_TIERS 4

static const char night_conf[] =
    "{entry, {web, handle, 2}}.\n"
    "{tiers, [{http, {web, handle, 2}}, {db, {db, query, 2}},\n"
    "         {formatter, {formatter, format, 1}}]}.\n";

static inline double
night_uniform(void)
{
	return ((double)rnd(1u << 30) + 0.5) / (1u << 30);
}

static inline kp_dur_ns
night_time(double ms)
{
	return 1000 + (kp_dur_ns)(-ms * 1e6 * log(night_uniform()));
}

static inline void
night_call(struct kp_cell *c, kp_dur_ns total, kp_dur_ns self, bool raised)
{
	c->requests++, c->w_requests++, c->share_requests++, c->w_share_requests++;
	c->calls++, c->w_calls++, c->timed++, c->w_timed++;
	c->raised += raised, c->w_raised += raised;
	c->total += total, c->w_total += total;
	c->self += self, c->w_self += self;
	c->busy += total, c->w_busy += total;
	c->share_busy = c->busy, c->w_share_busy = c->w_busy;
	c->min = c->min < 0 || total < c->min ? total : c->min;
	c->max = total > c->max ? total : c->max;
	if (kp_hist_add(&c->hist, total, 1) != KP_OK)
		abort();
}

/* changes: with what goes wrong; otherwise a night like all others. */
static inline void
night_request(struct kp_cell *cells, unsigned i, unsigned node, bool changes)
{
	unsigned type = 1 + (unsigned)(night_uniform() * (NIGHT_TYPES - 1));
	bool slow = changes && type == 3 && node == 1 && i >= NIGHT_DEPLOY;
	bool faults = changes && type == 2 && node == 2 && i >= NIGHT_FAULTS &&
	    i < NIGHT_FAULTS_END;
	kp_dur_ns db = night_time(type == 4 ? 0.2 : 6), http = night_time(2);
	kp_dur_ns format = type == 3 ? night_time(slow ? 17 : 3) : 0;
	bool raised = night_uniform() < (faults ? 0.125 : 0.004);

	for (int k = 0; k < 2; k++) {
		struct kp_cell *c = &cells[(k == 0 ? 0 : type) * NIGHT_TIERS];

		night_call(&c[0], http + db + format, 10000, raised);
		night_call(&c[1], http + db + format - 10000, http - 10000 > 0 ?
		    http - 10000 : 0, raised);
		c[1].w_inside += 1 + (format > 0);
		night_call(&c[2], db, db, raised);
		if (format > 0)
			night_call(&c[3], format, format, false);
	}
}

/* Window i of a node; the caller frees it, NULL: there is none. */
static inline struct kp_window *
night_window(kp_wall_ns start, unsigned i, unsigned node, bool changes)
{
	struct kp_window *w = calloc(1, sizeof(*w));
	struct kp_cell *cells = calloc(NIGHT_TYPES * NIGHT_TIERS, sizeof(*cells));
	unsigned n = (unsigned)(100 + 40 * sin(i / 90.0) + 20 * night_uniform());

	if (w == NULL || cells == NULL)
		abort();
	w->node = night_nodes[node];
	w->start = start + i * NIGHT_STEP;
	w->end = w->start + NIGHT_STEP;
	for (unsigned k = 0; k < NIGHT_TYPES * NIGHT_TIERS; k++)
		cells[k] = (struct kp_cell){ .min = -1,
			.tier = night_tiers[k % NIGHT_TIERS],
			.identity = night_types[k / NIGHT_TIERS] };
	if (changes && node == 0 && i >= NIGHT_TRIP && i < NIGHT_TRIP + 3) {
		w->losses.n[KP_LOSS_TRIPPED] = n;
		n = 0;
	}
	w->entry_calls = w->sampled = n;
	while (n-- > 0)
		night_request(cells, i, node, changes);
	w->cells = calloc(NIGHT_TYPES * NIGHT_TIERS, sizeof(*w->cells));
	for (unsigned k = 0; k < NIGHT_TYPES * NIGHT_TIERS && w->cells != NULL; k++)
		if (cells[k].requests > 0)
			w->cells[w->ncells++] = cells[k];
	free(cells);
	return w;
}

/* What the log of that night says, after its start. */
static const struct kp_happening night_log[] = {
	{ .at = NIGHT_DEPLOY * NIGHT_STEP - 3 * KP_NS_PER_S, .node = "web2@shop",
	    .kind = "reloaded", .text = "module formatter was loaded again" },
	{ .at = NIGHT_FAULTS * NIGHT_STEP + 30 * KP_NS_PER_S, .node = "web1@shop",
	    .kind = "loads",
	    .text = "1 new module was loaded: calendar (no tier names it)" },
	{ .at = NIGHT_TRIP * NIGHT_STEP, .node = "web1@shop", .kind = "trip",
	    .text = "tracing is paused for 30 s: events came faster than the agent "
	    "could take them" },
};

/* Slow requests that were kept: of each a time since the start, in ms, and how long. */
static const struct {
	int64_t at;
	unsigned node, type, ms;
	bool raised;
} night_slow[] = {
	/* one that was served while the module was loaded, and two beside it */
	{ NIGHT_DEPLOY * 10000 - 3100, 1, 3, 260, false },
	{ NIGHT_DEPLOY * 10000 - 3000, 1, 1, 90, false },
	{ NIGHT_DEPLOY * 10000 - 2850, 1, 3, 40, false },
	{ NIGHT_DEPLOY * 10000 - 3000, 0, 3, 80, false },
	{ NIGHT_DEPLOY * 10000 + 41000, 1, 3, 180, false },
	{ NIGHT_DEPLOY * 10000 + 95000, 1, 3, 140, false },
	{ NIGHT_DEPLOY * 10000 + 99000, 1, 3, 160, false },
	{ NIGHT_DEPLOY * 10000 + 130000, 1, 3, 150, false },
	{ NIGHT_FAULTS * 10000 + 60000, 2, 2, 30, true },
	{ NIGHT_FAULTS * 10000 + 60000, 2, 2, 50, false },
};

/* A quarter of it in the database, which another process asks; most of it in formatter. */
static inline void
night_tree(struct kp_db *db, kp_wall_ns start, unsigned k, unsigned n)
{
	kp_dur_ns ms = KP_NS_PER_MS, all = night_slow[k].ms * ms, quarter = all / 4;
	/* only those of the first were measured */
	const struct kp_call_pauses some = { .out = k == 0 ? 1 * ms : -1,
		.gc = k == 0 ? 6 * ms : -1 };
	const struct kp_tree_call calls[] = {
		{ "web:handle/2", "http", "<0.500.0>", 0, all, 10 * ms, KP_NONE,
		    night_slow[k].raised ? KP_RAISED : KP_RETURNED, false, false, NULL, some },
		{ "db:query/2 [orders]", "db", "<0.77.0>", 5 * ms, quarter, quarter, 0,
		    night_slow[k].raised ? KP_RAISED : KP_RETURNED, false, false, NULL, some },
		{ "formatter:format/1", "formatter", "<0.500.0>", 5 * ms + quarter,
		    all - quarter - 10 * ms, all - quarter - 10 * ms, 0, KP_RETURNED,
		    false, false, NULL, some },
	};
	const struct kp_tree_wait wait = { "db_server", NULL, "<0.77.0>", 1, 0, 3 * ms,
		3 * ms };
	struct kp_tree *t = calloc(1, sizeof(*t) + sizeof(calls) + sizeof(wait));

	if (t == NULL)
		abort();
	*t = (struct kp_tree){ .node = night_nodes[night_slow[k].node],
		.identity = night_types[night_slow[k].type], .weight = 1,
		.label = 1000 + k, .ncalls = n, .start = start + night_slow[k].at * ms,
		.total = all, .outcome = calls[0].outcome, .nwaits = 1 };
	memcpy(t->calls, calls, sizeof(calls));
	if (k == 0)
		strcpy(t->traceparent, "00-4bf92f3577b34da6a3ce929d0e0e4736-"
		    "00f067aa0ba902b7-01");
	t->waits = memcpy(&t->calls[n], &wait, sizeof(wait));
	db_tree(db, t);
	free(t);
}

/* Writes all of it. */
static inline void
night_put(struct kp_db *db, kp_wall_ns start, bool changes)
{
	struct kp_happening h;
	struct kp_window *w;

	db_begin(db);
	for (unsigned i = 0; i < NIGHT_WINDOWS; i++)
		for (unsigned n = 0; n < NIGHT_NODES; n++) {
			w = night_window(start, i, n, changes);
			db_window(db, w, NULL);
			kp_window_free(w);
		}
	for (size_t k = 0; k < sizeof(night_log) / sizeof(night_log[0]) && changes; k++) {
		h = night_log[k];
		h.at += start;
		db_happening(db, &h);
	}
	for (unsigned k = 0; k < sizeof(night_slow) / sizeof(night_slow[0]) && changes; k++)
		night_tree(db, start, k, 3);
	if (db_commit(db) != 0)
		abort();
}

#endif
