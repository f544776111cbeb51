/*
 * store_fixture.c - see the header.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "store_fixture.h"

char dir[64], path[96];
const struct kp_query_range all = { .since = 0, .until = INT64_MAX };

static struct kp_tier tiers[] = { { .name = "web" }, { .name = "db" } };
static const struct kp_conf conf = { .tiers = tiers, .ntiers = 2 };

int
setup(void **state)
{
	(void)state;
	/* memory will do: what a disk forgets is test_store_power's */
	snprintf(dir, sizeof(dir), "%s/test_store.XXXXXX",
	    access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/k.db", dir);
	return 0;
}

int
teardown(void **state)
{
	char cmd[128];

	(void)state;
	umount2(dir, MNT_DETACH);	/* where a test that failed left one */
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	return system(cmd);
}

struct kp_store_opts
store_opts(const char *file)
{
	return (struct kp_store_opts){ .path = file, .version = "0.1.0",
		.tiers_text = "[{db, {db, query, 2}}].", .conf = &conf,
		.interval = 10 * S };
}

enum kp_err
try_open(struct kp_store **s, const char *file, char **why)
{
	const struct kp_store_opts o = store_opts(file);

	*why = NULL;
	return kp_store_open(s, &o, why);
}

struct kp_store *
open_store_with(const struct kp_store_opts *o)
{
	struct kp_store *s = NULL;
	char *why = NULL;

	if (kp_store_open(&s, o, &why) != KP_OK)
		fail_msg("%s", why);
	return s;
}

struct kp_store *
open_store(void)
{
	const struct kp_store_opts o = store_opts(path);

	return open_store_with(&o);
}

uint64_t
dropped(struct kp_store *s)
{
	struct kp_store_status st;

	kp_store_status(s, &st);
	return kp_store_dropped(&st);
}

struct waiter {
	sem_t sem;
	bool ok;
};

static void
synced(void *ctx, bool ok)
{
	struct waiter *w = ctx;

	w->ok = ok;
	sem_post(&w->sem);
}

bool
sync_store(struct kp_store *s)
{
	struct waiter w;

	sem_init(&w.sem, 0, 0);
	kp_store_sync(s, synced, &w);
	sem_wait(&w.sem);
	sem_destroy(&w.sem);
	return w.ok;
}

struct kp_window *
new_window(const char *node, kp_wall_ns start, size_t ncells)
{
	struct kp_window *w = calloc(1, sizeof(*w));

	w->node = node;
	w->start = start;
	w->end = start + 10 * S;
	w->entry_calls = 100;
	w->sampled = 10;
	w->ncells = ncells;
	w->cells = calloc(ncells, sizeof(*w->cells));
	for (size_t i = 0; i < ncells; i++)
		w->cells[i].min = -1;
	return w;
}

void
fill_cell(struct kp_cell *c, const char *tier, const char *identity)
{
	*c = (struct kp_cell){ .tier = tier, .identity = identity,
		.requests = 2, .w_requests = 20, .share_requests = 2,
		.w_share_requests = 20, .calls = 3, .w_calls = 30,
		.raised = 1, .w_raised = 11, .unfinished = 4,
		.w_unfinished = 44, .ambiguous = 5, .w_ambiguous = 55,
		.async_calls = 6, .w_async_calls = 66, .timed = 2,
		.w_timed = 20, .total = 123456789, .w_total = 1234567890,
		.self = 23456789, .w_self = 234567890, .busy = 100000001,
		.w_busy = 1000000010, .share_busy = 100000001,
		.w_share_busy = 1000000010, .async = 7000, .w_async = 70000,
		.outlasting = 1, .w_outlasting = 10, .unknown_outcomes = 2,
		.w_unknown_outcomes = 20, .w_inside = 30, .w_made = 20,
		.min = 23456789, .max = 100000000 };
	kp_hist_add(&c->hist, 23456789, 10);
	kp_hist_add(&c->hist, 100000000, 10);
}

static struct kp_window *
filled_window(const char *node, kp_wall_ns start, size_t ncells)
{
	static const char *const names[] = { "_total", "db", PART, "db: orders" };
	struct kp_window *w = new_window(node, start, ncells);

	for (size_t i = 0; i < ncells; i++)
		fill_cell(&w->cells[i], names[i / 2], i % 2 == 0 ? "_total" :
		    "create");
	w->losses.n[KP_LOSS_SAMPLED_OUT] = 90;
	return w;
}

struct kp_window *
known_window(const char *node, kp_wall_ns start)
{
	return filled_window(node, start, 4);
}

struct kp_window *
labelled_window(const char *node, kp_wall_ns start)
{
	return filled_window(node, start, 8);
}

char *
sql_text(const char *sql)
{
	static char out[4096];
	sqlite3 *db;
	sqlite3_stmt *st;
	size_t n = 0;
	const char *v;
	int rc;

	out[0] = '\0';
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY,
	    NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 2000);
	if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(st); i++) {
			v = (const char *)sqlite3_column_text(st, i);
			n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s",
			    i > 0 ? "|" : n > 0 ? "\n" : "", v ? v : "null");
			assert_true(n < sizeof(out));
		}
	}
	assert_int_equal(rc, SQLITE_DONE);
	sqlite3_finalize(st);
	sqlite3_close(db);
	return out;
}

void
sql_exec(const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 2000);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

struct kp_query *
open_query(void)
{
	struct kp_query *q = NULL;
	char *why;

	if (kp_query_open(&q, path, &why) != KP_OK)
		fail_msg("%s", why);
	return q;
}

bool
exists(const char *suffix)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	return access(name, F_OK) == 0;
}

size_t
slurp(const char *suffix, char *out, size_t max)
{
	char name[128];
	size_t n;
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	f = fopen(name, "rb");
	assert_non_null(f);
	n = fread(out, 1, max, f);
	fclose(f);
	return n;
}

void
write_file(const char *file, const char *bytes, size_t n)
{
	FILE *f = fopen(file, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

sqlite3 *
lock_db(void)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 2000);
	assert_int_equal(sqlite3_exec(db, "begin immediate", NULL, NULL,
	    NULL), SQLITE_OK);
	return db;
}

struct kp_tree *
new_tree(uint32_t ncalls)
{
	struct kp_tree *t = calloc(1, sizeof(*t) +
	    ncalls * sizeof(t->calls[0]));

	*t = (struct kp_tree){ .node = "a@h", .identity = "create",
		.label = UINT64_C(0x3ffffff00000001), .weight = 10,
		.start = T0, .total = 300 * KP_NS_PER_MS + 1,
		.outcome = KP_RAISED, .ncalls = ncalls };
	for (uint32_t i = 0; i < ncalls; i++) {
		t->calls[i] = (struct kp_tree_call){ .fn = "db:query/2",
			.tier = "db", .pid = "<0.1.0>", .total = 1000,
			.self = 500, .pauses = { -1, -1 }, .parent = KP_NONE,
			.outcome = KP_RETURNED, .start = i };
	}
	return t;
}

struct upkeep keep;

struct kp_db *
keep_open(const char *retain)
{
	struct kp_store_opts o = store_opts(path);
	struct kp_db *db = NULL;
	char *why = NULL;

	keep = (struct upkeep){ .interval = o.interval };
	if (retain != NULL)
		assert_true(kp_retain_parse(retain, &keep.retain));
	if (db_open(&db, &o, &why) != KP_OK)
		fail_msg("%s", why);
	return db;
}

void
keep_put(struct kp_db *db, const struct kp_window *w)
{
	db_begin(db);
	db_window(db, w, NULL);
	assert_int_equal(db_commit(db), SQLITE_OK);
}

void
keep_put_known(struct kp_db *db, const char *node, kp_wall_ns start)
{
	struct kp_window *w = known_window(node, start);

	keep_put(db, w);
	kp_window_free(w);
}

static void
note_window(void *ctx, int op, const char *db, const char *table,
    sqlite3_int64 id)
{
	bool *touched = ctx;

	(void)op, (void)db, (void)id;
	*touched = *touched || strcmp(table, "time_window") == 0;
}

int
keep_settle(struct kp_db *db, kp_wall_ns now)
{
	int turns = 0, changes = 0;
	bool more = true, touched;

	sqlite3_update_hook(db->conn, note_window, &touched);
	while (more) {
		touched = false;
		assert_int_equal(upkeep_turn(&keep, db, now, &more),
		    SQLITE_OK);
		assert_true(++turns < 100000);
		changes += touched;
	}
	sqlite3_update_hook(db->conn, NULL, NULL);
	return changes + 1;
}
