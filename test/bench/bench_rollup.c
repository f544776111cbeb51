/*
 * bench_rollup.c - what it costs to roll up 1,000 series in windows of 10 s,
 * and how much room they take at each step of the default -retain.
 *
 *     bench_rollup [FILE [HOURS]]	HOURS: of windows, 1 if not given
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../support/pick.h"
#include "store/db.h"

enum { TIERS = 10, IDENTS = 100, SERIES = TIERS * IDENTS };

#define HOUR (3600 * KP_NS_PER_S)
#define START (INT64_C(1700049600) * KP_NS_PER_S)	/* a full hour */

static char tier_names[TIERS][16], identities[IDENTS][24];
static const char *path = "bench_rollup.db";

static void
die(const char *why)
{
	fprintf(stderr, "bench_rollup: %s\n", why);
	exit(1);
}

/* Twenty calls, spread over two octaves and a tail. */
static void
fill_cell(struct kp_cell *c, int i)
{
	kp_dur_ns d, base = 50000 * (1 + i % 97);

	*c = (struct kp_cell){ .tier = tier_names[i / IDENTS],
		.identity = identities[i % IDENTS], .requests = 20,
		.w_requests = 200, .calls = 20, .w_calls = 200, .timed = 20,
		.w_timed = 200, .min = base, .max = 16 * base };
	for (int k = 0; k < 20; k++) {
		d = base + pick((uint32_t)base * (k == 0 ? 15 : 3));
		c->total += d;
		c->w_total += 10 * d;
		if (kp_hist_add(&c->hist, d, 10) != KP_OK)
			die("out of memory");
	}
}

static void
write_window(struct kp_db *db, kp_wall_ns start)
{
	static struct kp_cell cells[SERIES];
	const struct kp_window w = { .node = "app@host", .start = start,
		.end = start + 10 * KP_NS_PER_S, .entry_calls = 2000,
		.sampled = 200, .cells = cells, .ncells = SERIES };

	for (int i = 0; i < SERIES; i++)
		fill_cell(&cells[i], i);
	db_begin(db);
	db_window(db, &w, NULL);
	if (db_commit(db) != SQLITE_OK)
		die(db->why);
	for (int i = 0; i < SERIES; i++)
		kp_hist_free(&cells[i].hist);
}

static double
cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct cost {
	double cpu_ms, worst_ms;
	int turns;
};

static struct cost
settle(struct kp_db *db, struct upkeep *u, kp_wall_ns now)
{
	struct cost c = { .cpu_ms = cpu_ms() };
	bool more = true;
	kp_mono_ns t;
	double ms;

	for (; more; c.turns++) {
		t = kp_mono_now();
		if (upkeep_turn(u, db, now, &more) != SQLITE_OK)
			die(db->why);
		ms = (double)(kp_mono_now() - t) / 1e6;
		c.worst_ms = ms > c.worst_ms ? ms : c.worst_ms;
	}
	c.cpu_ms = cpu_ms() - c.cpu_ms;
	return c;
}

static int64_t
ask(struct kp_db *db, const char *sql)
{
	sqlite3_stmt *st;
	int64_t v;

	if (sqlite3_prepare_v2(db->conn, sql, -1, &st, NULL) != SQLITE_OK ||
	    sqlite3_step(st) != SQLITE_ROW)
		die(sqlite3_errmsg(db->conn));
	v = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return v;
}

/* Bytes of the file that are in use, for each window that is there. */
static double
window_kib(struct kp_db *db)
{
	int64_t pages = ask(db, "pragma page_count") -
	    ask(db, "pragma freelist_count");

	return (double)(pages * ask(db, "pragma page_size")) / 1024 /
	    (double)ask(db, "select count(*) from time_window");
}

/* From each step of the plan to the next; the room each takes when full. */
static void
run(struct kp_db *db, struct upkeep *u, int hours)
{
	const struct kp_retain *r = &u->retain;
	double kib = window_kib(db), mib, all = 0;
	kp_dur_ns before = 0;
	struct cost c;

	for (size_t i = 0; i < r->n; i++) {
		mib = kib * (double)((r->step[i].age - before) /
		    r->step[i].length) / 1024;
		all += mib;
		printf("windows of %5lld s: %.0f KiB each, kept for %.4g h: "
		    "%.0f MiB\n", (long long)(r->step[i].length / KP_NS_PER_S),
		    kib, (double)(r->step[i].age - before) / HOUR, mib);
		before = r->step[i].age;
		if (i + 1 == r->n)
			break;
		c = settle(db, u, START + hours * HOUR + before);
		printf("rolled up: %.1f s of CPU for a day of them, a turn "
		    "takes %.0f ms at most (%d turns)\n",
		    c.cpu_ms / 1e3 * 24 / hours, c.worst_ms, c.turns);
		kib = window_kib(db);
	}
	printf("in all: %.0f MiB, which -max-db-size makes less\n", all);
}

int
main(int argc, char **argv)
{
	int hours = argc > 2 ? atoi(argv[2]) : 1;
	struct kp_store_opts o = { .version = "bench", .tiers_text = "",
		.interval = 10 * KP_NS_PER_S };
	struct upkeep u = { .interval = o.interval };
	struct kp_db *db;
	char *why = NULL;

	path = argc > 1 ? argv[1] : path;
	o.path = path;
	for (int i = 0; i < TIERS; i++)
		snprintf(tier_names[i], sizeof(tier_names[i]), "tier%d", i);
	for (int i = 0; i < IDENTS; i++)
		snprintf(identities[i], sizeof(identities[i]),
		    "GET /users/%d", i);
	unlink(path);
	if (hours < 1 || !kp_retain_parse(KP_RETAIN_DEFAULT, &u.retain))
		die("bad arguments");
	if (db_open(&db, &o, &why) != KP_OK)
		die(why);
	for (int i = 0; i < hours * 360; i++)
		write_window(db, START + i * 10 * KP_NS_PER_S);
	run(db, &u, hours);
	db_close(db, 0);
	unlink(path);
	return 0;
}
