/*
 * Every write, truncation, sync and deletion of a whole run fails once, is
 * torn, or is the last one before the power goes: the database is never
 * corrupt, no window is there twice or in part, what was synced is there, and
 * the next run goes on with it.
 *
 * The run: a new database is made, windows, slow requests and events are
 * written, rolled up and deleted, pages given back, and it is closed.
 */
#include <unistd.h>

#include "cases.h"
#include "faultvfs.h"
#include "store/db.h"
#include "store_fixture.h"

#define WINDOWS 8
#define TRIES 5		/* more than there are faults */

/*
 * Each kind of fault strikes one operation in this many, each kind other ones;
 * `make faults` strikes every one.
 */
static unsigned step = 7;

struct progress {
	int written;	/* windows that were committed */
	int synced;	/* of these, known to be on disk */
};

static struct kp_db *
open_db(void)
{
	struct kp_store_opts o = store_opts(path);
	struct kp_db *db = NULL;
	char *why = NULL;

	if (db_open(&db, &o, &why) == KP_OK)
		return db;
	assert_non_null(why);
	free(why);
	return NULL;
}

static kp_wall_ns
start_of(int i)
{
	return T0 + i * 10 * S;
}

static bool
write_window(struct kp_db *db, int i)
{
	struct kp_window *w = known_window("a@h", start_of(i));
	struct kp_happening h = { .at = start_of(i), .node = "a@h",
		.kind = "trip", .text = "queue" };
	struct kp_tree *t = new_tree(20);
	int rc = SQLITE_ERROR;

	t->start = start_of(i);
	for (int n = 0; n < TRIES && rc != SQLITE_OK; n++) {
		db_begin(db);
		db_tree(db, t);
		db_happening(db, &h);
		db_window(db, w, NULL);
		rc = db_commit(db);
	}
	kp_window_free(w);
	free(t);
	return rc == SQLITE_OK;
}

/* Trees and events go after a minute; windows are rolled up to minutes. */
static void
roll_up(struct kp_db *db, kp_wall_ns now)
{
	struct upkeep u = { .interval = 10 * S };
	bool more = true;

	assert_true(kp_retain_parse("10s:20s,1m:1d,slow:1m,events:1m",
	    &u.retain));
	for (int n = 0; more && n < 100; n++) {
		if (upkeep_turn(&u, db, now, &more) != SQLITE_OK)
			more = n < TRIES;
	}
}

static bool
checkpoint(struct kp_db *db)
{
	int frames, done;

	return sqlite3_wal_checkpoint_v2(db->conn, NULL,
	    SQLITE_CHECKPOINT_PASSIVE, &frames, &done) == SQLITE_OK &&
	    frames == done;
}

/* With tries: until each step is done.  Without: until the first failure. */
static struct progress
run(bool tries)
{
	struct progress p = { 0, 0 };
	struct kp_db *db = NULL;

	for (int n = 0; db == NULL && n < (tries ? TRIES : 1); n++)
		db = open_db();
	if (db == NULL)
		return p;
	for (int i = 0; i < WINDOWS; i++) {
		if (!write_window(db, i))
			break;
		p.written++;
		if (i % 3 == 2)
			roll_up(db, start_of(i) + 70 * S);
		if (i % 4 == 3 && checkpoint(db))
			p.synced = p.written;
	}
	db_close(db, 0);
	return p;
}

/* How many windows there are, none of them twice or in part. */
static int
windows_there(void)
{
	struct kp_query *q = open_query();
	const struct kp_cell *c;
	struct kp_query_sum sum;
	int n;

	assert_sql("pragma integrity_check", "ok");
	assert_sql("pragma foreign_key_check", "");
	assert_int_equal(kp_query_sum(q, &all, &sum), KP_OK);
	n = (int)(sum.entry_calls / 100);
	assert_fields(sum, IS(entry_calls, 100 * n) IS(sampled, 10 * n)
	    IS(losses.n[KP_LOSS_SAMPLED_OUT], 90 * n));
	if (n > 0) {
		assert_fields(sum, IS(start, T0) IS(end, start_of(n))
		    IS(ncells, 4));
	}
	for (size_t i = 0; i < sum.ncells; i++) {
		c = &sum.cells[i];
		assert_int_equal(c->calls, 3 * n);
		assert_int_equal(c->w_total, INT64_C(1234567890) * n);
		assert_int_equal(c->hist.count, 20 * n);
	}
	kp_query_sum_free(&sum);
	kp_query_close(q);
	/* a tree is whole, or not there */
	assert_sql("select count(*) from request r where"
	    " (select count(*) from call where request_id = r.id) <> 20", "0");
	return n;
}

static void
remove_db(void)
{
	static const char *const all_of_it[] = { "", "-wal", "-shm",
		"-journal" };
	char name[128];

	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s%s", path, all_of_it[i]);
		unlink(name);
	}
}

/* What a power loss left: usable, and as much as was promised. */
static void
check_after_power_loss(const struct progress *p, unsigned n, uint32_t seed)
{
	struct kp_db *db = open_db();
	int there;

	if (db == NULL)
		fail_msg("operation %u, disk %u: it cannot be opened", n,
		    seed);
	there = windows_there();
	if (there < p->synced || there > p->written + 1)
		fail_msg("operation %u, disk %u: %d windows, %d written, %d "
		    "synced", n, seed, there, p->written, p->synced);
	assert_true(write_window(db, there));
	roll_up(db, start_of(there) + 700 * S);
	db_close(db, 0);
	assert_int_equal(windows_there(), there + 1);
	assert_sql("select count(*) > 0 from runs"
	    " where state = 'running'", "0");
}

TEST(test_power_loss)
{
	struct progress p;
	unsigned n, cuts = 0;

	/* nothing that was not synced is there; then, some of it */
	for (uint32_t seed = 0; seed < 3; seed += 2) {
		for (n = 1 + seed / 2;; n += step, cuts++) {
			remove_db();
			faultvfs_set(FAULT_POWER, n, 0);
			p = run(false);
			if (!faultvfs_struck())
				break;
			faultvfs_power_on(seed == 0 ? 0 : 1000 + n);
			check_after_power_loss(&p, n, seed);
		}
		assert_int_equal(p.written, WINDOWS);
		assert_true(p.synced > 0);
	}
	print_message("the power went %u times\n", cuts);
	assert_true(cuts * step > 400);
}

/*
 * The last thing a run does is to leave the WAL, and with it what makes a commit
 * safe without a sync: whichever sectors of the journal are there and which are
 * not, none of it is played back that is not whole.
 */
TEST(test_power_loss_at_close)
{
	unsigned n, cuts = 0;
	struct kp_db *db;

	for (uint32_t seed = 2; seed < 10; seed++) {
		for (n = 1 + seed % step;; n += step, cuts++) {
			remove_db();
			faultvfs_set(FAULT_NONE, 0, 0);
			db = open_db();
			assert_non_null(db);
			assert_true(write_window(db, 0));
			/* what was done up to here is on disk */
			faultvfs_set(FAULT_POWER, n, 0);
			db_close(db, 0);
			if (!faultvfs_struck())
				break;
			faultvfs_power_on(1000 * seed + n);
			db = open_db();
			if (db == NULL)
				fail_msg("operation %u of closing, disk %u: it"
				    " cannot be opened", n, seed);
			assert_int_equal(windows_there(), 1);
			faultvfs_set(FAULT_NONE, 0, 0);
			db_close(db, 0);
		}
		assert_true(n > 10);
	}
	print_message("the power went %u times\n", cuts);
}

/* One operation fails and those after it do not: nothing is lost. */
TEST(test_one_failure)
{
	static const struct {
		enum fault fault;
		int rc;
	} kinds[] = { { FAULT_FAIL, SQLITE_IOERR_WRITE },
		{ FAULT_TEAR, SQLITE_FULL } };
	unsigned n, failures = 0;
	struct progress p;

	for (size_t k = 0; k < 2; k++) {
		for (n = 1 + (unsigned)k;; n += step, failures++) {
			remove_db();
			faultvfs_set(kinds[k].fault, n, kinds[k].rc);
			p = run(true);
			if (!faultvfs_struck())
				break;
			if (p.written != WINDOWS ||
			    windows_there() != WINDOWS)
				fail_msg("failure %u: %d windows", n,
				    p.written);
		}
	}
	faultvfs_set(FAULT_NONE, 0, 0);
	print_message("%u failures\n", failures);
	assert_true(failures * step > 300);
}

static kp_wall_ns
later(void *ctx)
{
	(void)ctx;
	return start_of(WINDOWS) + 70 * S;
}

/* With the writer's thread: whatever fails for a while, it all gets there. */
TEST(test_failing_for_a_while)
{
	struct kp_store_opts o = store_opts(path);
	struct kp_store_status st;
	struct kp_store *s;
	int stuck = 0;

	remove_db();
	assert_true(kp_retain_parse("10s:20s,1m:1d,slow:1m,events:1m",
	    &o.retain));
	o.now = later;
	s = open_store_with(&o);
	for (int i = 0; i < WINDOWS; i++) {
		faultvfs_set(FAULT_FULL, 1 + 7 * (unsigned)i, SQLITE_FULL);
		kp_store_window(s, known_window("a@h", start_of(i)));
		if (!sync_store(s)) {
			stuck++;
			kp_store_status(s, &st);
			assert_true(st.stuck);
			assert_has(st.why, "full");
		}
		faultvfs_set(FAULT_NONE, 0, 0);
		while (!sync_store(s))
			usleep(10000);
	}
	assert_true(stuck > 0);
	assert_int_equal(dropped(s), 0);
	kp_store_close(s);
	assert_int_equal(windows_there(), WINDOWS);
}

FIXTURE(setup_disk)
{
	if (getenv("KPROFD_FAULTS") != NULL)
		step = 1;
	faultvfs_register();
	return setup(state);
}

TESTS_ONCE(setup_disk, teardown)
