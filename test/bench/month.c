/* month.c - see the header. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/pick.h"
#include "month.h"
#include "store/db.h"

#define KINDS 64		/* of histograms, for each length of window */
#define SLOW_HOURS (14 * 24)
#define SLOW_A_HOUR 40		/* of each node */
#define SLOW_CALLS 8
#define STACKS 400		/* that there are, */
#define STACKS_SHOWN 60		/* and of a window */
#define GROUPS 70		/* of processes and tables */

/* Where windows of a length begin, and how many calls a series has in them. */
static const struct step {
	int seconds, age_hours, calls;
} steps[] = {
	{ 10, 2, 20 }, { 60, 24, 60 }, { 600, 14 * 24, 200 },
	{ 3600, MONTH_DAYS * 24, 400 },
};
#define NSTEPS 4

static char nodes[MONTH_NODES][32], tiers[MONTH_TIERS + 1][16];
static char identities[MONTH_IDENTS + 1][32];
static struct kp_tier conf_tiers[MONTH_TIERS];
static const struct kp_conf conf = { .tiers = conf_tiers,
	.ntiers = MONTH_TIERS };
static struct kp_cell kinds[NSTEPS][KINDS];
static char frames[STACKS][160], paths[STACKS][32], groups[GROUPS][32];

#define ONE_IN 4	/* requests are measured, so reports estimate intervals */

static void
die(const char *why)
{
	fprintf(stderr, "month: %s\n", why);
	exit(1);
}

/* Most times within two octaves, some in a tail of four. */
static void
make_kind(struct kp_cell *c, int calls, int kind)
{
	kp_dur_ns d, base = 40000 * (1 + 5 * kind);

	*c = (struct kp_cell){ .min = base, .max = 16 * base };
	for (int i = 0; i < calls; i++) {
		d = base + pick((uint32_t)base * (i % 20 == 0 ? 15 : 3));
		c->total += d;
		if (kp_hist_add(&c->hist, d, ONE_IN) != KP_OK)
			die("out of memory");
	}
	c->requests = c->calls = c->timed = (uint64_t)calls;
	c->w_requests = c->w_calls = c->w_timed = ONE_IN * (uint64_t)calls;
	c->raised = kind % 8 == 0;
	c->w_raised = ONE_IN * c->raised;
	c->busy = c->total;
	c->w_busy = c->w_total = ONE_IN * c->total;
	c->self = c->total / 2;
	c->w_self = ONE_IN * c->self;
	c->share_requests = c->requests;
	c->w_share_requests = c->w_requests;
	c->share_busy = c->busy;
	c->w_share_busy = c->w_busy;
}

static void
make_names(void)
{
	for (int i = 0; i < MONTH_NODES; i++)
		snprintf(nodes[i], sizeof(nodes[i]), "web%02d@host", i);
	snprintf(tiers[0], sizeof(tiers[0]), "_total");
	for (int i = 1; i <= MONTH_TIERS; i++) {
		snprintf(tiers[i], sizeof(tiers[i]), "tier%02d", i);
		conf_tiers[i - 1].name = tiers[i];
	}
	snprintf(identities[0], sizeof(identities[0]), "_total");
	for (int i = 1; i <= MONTH_IDENTS; i++)
		snprintf(identities[i], sizeof(identities[i]),
		    "GET /things/%d", i);
	for (int i = 0; i < STACKS; i++) {
		snprintf(paths[i], sizeof(paths[i]), "tier01;tier%02d", 2 + i % 19);
		snprintf(frames[i], sizeof(frames[i]), "cowboy_stream_h:request_process/3:306;"
		    "web:handle/2:%d;part%d:run/2:%d;gen:do_call/4:259", 40 + i % 7,
		    i % 31, 10 + i % 13);
	}
	for (int i = 0; i < GROUPS; i++)
		snprintf(groups[i], sizeof(groups[i]), "group_%d", i);
	for (int s = 0; s < NSTEPS; s++)
		for (int k = 0; k < KINDS && kinds[s][k].requests == 0; k++)
			make_kind(&kinds[s][k], steps[s].calls, k);
}

static struct kp_cell
cell(int step, int node, kp_wall_ns start, int i)
{
	int64_t window = start / (10 * KP_NS_PER_S);
	struct kp_cell c = kinds[step][(window + 11 * node + 7 * i) % KINDS];

	c.tier = tiers[i / (MONTH_IDENTS + 1)];
	c.identity = identities[i % (MONTH_IDENTS + 1)];
	return c;
}

static struct kp_window
head(int step, int node, kp_wall_ns start)
{
	uint64_t n = (uint64_t)(steps[step].calls * MONTH_IDENTS);

	return (struct kp_window){ .node = nodes[node], .start = start,
		.end = start + steps[step].seconds * KP_NS_PER_S,
		.entry_calls = 10 * n, .sampled = n,
		.losses.n[KP_LOSS_SAMPLED_OUT] = 9 * n,
		.cost = { .events = 20 * n, .armed_calls = 100 * n,
		    .agent = (kp_dur_ns)(500 * n) } };
}

const char *
month_node(int node)
{
	return nodes[node];
}

struct kp_window *
month_window(int node, kp_wall_ns start)
{
	struct kp_window *w = calloc(1, sizeof(*w));
	struct kp_cell *c = calloc(MONTH_CELLS, sizeof(*c));
	struct kp_hist hist;

	if (w == NULL || c == NULL)
		die("out of memory");
	*w = head(0, node, start);
	w->cells = c;
	w->ncells = MONTH_CELLS;
	for (int i = 0; i < MONTH_CELLS; i++) {
		c[i] = cell(0, node, start, i);
		/* its own: who takes it frees it */
		hist = c[i].hist;
		memset(&c[i].hist, 0, sizeof(hist));
		if (kp_hist_merge(&c[i].hist, &hist) != KP_OK)
			die("out of memory");
	}
	return w;
}

/* Some stacks are met in each window, others now and then. */
static void
add_stacks(struct kp_window *w, struct kp_stack_cell stacks[STACKS_SHOWN])
{
	for (uint32_t i = 0; i < STACKS_SHOWN; i++) {
		uint32_t k = i % 2 == 0 ? i : 2 * pick(STACKS / 2) + 1, n = 1 + pick(40);

		stacks[i] = (struct kp_stack_cell){ .identity = identities[1 + i % 25],
			.path = paths[k], .frames = frames[k], .state = (uint8_t)(i % 3),
			.octave = (uint8_t)(20 + i % 4), .samples = n,
			.time = n * 20 * KP_NS_PER_MS,
			.w_time = n * 20 * KP_NS_PER_MS * ONE_IN };
	}
	w->stacks = stacks;
	w->nstacks = STACKS_SHOWN;
}

static void
add_usage(struct kp_window *w, struct kp_usage *u)
{
	u->n = GROUPS;
	for (int i = 0; i < GROUPS; i++)
		u->rows[i] = (struct kp_usage_row){ .kind = (uint8_t)(i % 2),
			.name = groups[i], .owner = "shop", .count = 1 + pick(400),
			.memory = pick(1u << 24), .binaries = i % 2 == 0 ?
			(int64_t)pick(1u << 20) : -1, .reductions = i % 2 == 0 ?
			(int64_t)pick(1u << 20) : -1 };
	w->usage = u;
}

/* As the writer does; what was rolled up says so. */
static void
write_window(struct kp_db *db, int step, int node, kp_wall_ns start)
{
	static struct kp_cell cells[MONTH_CELLS];
	static struct kp_stack_cell stacks[STACKS_SHOWN];
	static union {
		struct kp_usage of;
		char room[sizeof(struct kp_usage) + GROUPS * sizeof(struct kp_usage_row)];
	} usage;
	struct kp_window w = head(step, node, start);
	char sql[160];

	add_stacks(&w, stacks);
	add_usage(&w, &usage.of);
	w.cells = cells;
	w.ncells = MONTH_CELLS;
	for (int i = 0; i < MONTH_CELLS; i++)
		cells[i] = cell(step, node, start, i);
	db_window(db, &w, NULL);
	snprintf(sql, sizeof(sql), "update time_window set level = %d"
	    " where id = (select max(id) from time_window)",
	    steps[step].seconds);
	if (step > 0)
		db_fail(db, sqlite3_exec(db->conn, sql, NULL, NULL, NULL));
}

static void
commit(struct kp_db *db)
{
	if (db_commit(db) != SQLITE_OK)
		die(db->why);
}

/* From the oldest to the newest, as they would have come. */
static void
write_windows(struct kp_db *db, int percent)
{
	kp_wall_ns t = MONTH_END - MONTH_DAYS * 24 * MONTH_HOUR, until;

	for (int s = NSTEPS; s-- > 0; t = until) {
		until = MONTH_END;
		if (s > 0) {
			until -= steps[s - 1].age_hours * MONTH_HOUR / 100 *
			    percent;
			until -= until % (steps[s].seconds * KP_NS_PER_S);
		}
		for (; t < until; t += steps[s].seconds * KP_NS_PER_S) {
			db_begin(db);
			for (int n = 0; n < MONTH_NODES; n++)
				write_window(db, s, n, t);
			commit(db);
		}
	}
}

static void
write_request(struct kp_db *db, struct kp_tree *t, int node, int hour)
{
	*t = (struct kp_tree){ .node = nodes[node],
		.identity = identities[1 + pick(MONTH_IDENTS)],
		.label = 1 + pick(1u << 20), .weight = 1, .outcome = 1,
		.ncalls = SLOW_CALLS,
		.start = MONTH_END - hour * MONTH_HOUR - pick(3600) *
		    KP_NS_PER_S,
		.total = 250 * KP_NS_PER_MS + pick(1u << 30) };
	for (uint32_t i = 0; i < SLOW_CALLS; i++) {
		t->calls[i] = (struct kp_tree_call){ .fn = "things:get/2",
			.tier = tiers[1 + pick(MONTH_TIERS)], .pid = "<0.99.0>",
			.start = i * t->total / SLOW_CALLS,
			.total = i == 0 ? t->total : t->total / SLOW_CALLS,
			.self = t->total / SLOW_CALLS,
			.parent = i == 0 ? KP_NONE : 0, .outcome = 1,
			.pauses = { -1, -1 } };
	}
	db_tree(db, t);
}

static void
write_requests(struct kp_db *db, int percent)
{
	struct kp_tree *t = calloc(1, sizeof(*t) + SLOW_CALLS *
	    sizeof(t->calls[0]));

	if (t == NULL)
		die("out of memory");
	for (int h = SLOW_HOURS * percent / 100; h-- > 0;) {
		db_begin(db);
		for (int i = 0; i < MONTH_NODES * SLOW_A_HOUR; i++)
			write_request(db, t, i % MONTH_NODES, h);
		commit(db);
	}
	free(t);
}

struct kp_store_opts
month_opts(const char *path)
{
	make_names();
	return (struct kp_store_opts){ .path = path, .version = "bench",
		.tiers_text = MONTH_CONF, .conf = &conf,
		.interval = 10 * KP_NS_PER_S };
}

void
month_make(const char *path, int percent)
{
	const struct kp_store_opts o = month_opts(path);
	struct upkeep u = { .interval = o.interval };
	kp_mono_ns t0 = kp_mono_now(), t1;
	struct kp_db *db;
	char *why = NULL;
	bool more = true;

	unlink(path);
	if (db_open(&db, &o, &why) != KP_OK)
		die(why);
	sqlite3_exec(db->conn, "pragma synchronous = off", NULL, NULL, NULL);
	write_windows(db, percent);
	write_requests(db, percent);
	t1 = kp_mono_now();
	while (more)
		if (upkeep_turn(&u, db, MONTH_END + MONTH_HOUR, &more) !=
		    SQLITE_OK)
			die(db->why);
	printf("%d days of %d nodes, %d tiers, %d identities: %llu MiB; "
	    "written in %.0f s, its sums in %.0f s\n", MONTH_DAYS,
	    MONTH_NODES, MONTH_TIERS, MONTH_IDENTS,
	    (unsigned long long)(u.bytes >> 20), (double)(t1 - t0) / 1e9,
	    (double)(kp_mono_now() - t1) / 1e9);
	db_close(db, 0);
}
