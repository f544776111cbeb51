/*
 * test_request_tail.c - what exporters follow: each window once it is written, with
 * what it tells of those that were not; and slow requests, each once.
 */
#include <unistd.h>

#include "cases.h"
#include "store_fixture.h"
#include "store/query.h"

struct seen {
	uint64_t windows, calls, hist, lost;	/* calls: of _total, _total */
};

static void
on_written(void *ctx, const struct kp_window *w)
{
	struct seen *s = ctx;

	s->windows++;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		s->lost += w->losses.n[i];
	for (size_t i = 0; i < w->ncells; i++)
		if (strcmp(w->cells[i].tier, "_total") == 0 &&
		    strcmp(w->cells[i].identity, "_total") == 0) {
			s->calls += w->cells[i].w_calls;
			s->hist += w->cells[i].hist.count;
		}
}

static uint64_t
one(const char *sql)
{
	return strtoull(sql_text(sql), NULL, 10);
}

static void
assert_as_in_the_database(const struct seen *seen)
{
	assert_fields(*seen,
	    IS(windows, one("select count(*) from time_window"))
	    IS(calls, one("select sum(w_calls) from stat s"
	    " join tier t on t.id = s.tier_id join identity i on i.id = s.identity_id"
	    " where t.name = '_total' and i.name = '_total'"))
	    IS(lost, one("select sum(n) from loss")));
	assert_true(seen->hist > 0);
}

/* Whatever could not be written is in the next one that is. */
TEST(each_window_once)
{
	struct kp_store_opts o = store_opts(path);
	struct seen seen = { .windows = 0 };
	struct kp_store *s;

	o.on_written = on_written;
	o.written_ctx = &seen;
	s = open_store_with(&o);
	for (int i = 0; i < 150; i++)
		kp_store_window(s, known_window(i % 2 == 0 ? "a@h" : "b@h",
		    T0 + i * 10 * S));
	assert_true(sync_store(s));
	assert_int_equal(seen.windows, 150);
	assert_as_in_the_database(&seen);
	/* one that the database will never take */
	sql_exec("create trigger no before insert on time_window"
	    " begin select raise(abort, 'no'); end");
	kp_store_window(s, known_window("a@h", T0 + HOUR));
	assert_false(sync_store(s));
	assert_int_equal(seen.windows, 150);
	sql_exec("drop trigger no");
	kp_store_window(s, known_window("a@h", T0 + HOUR + MIN));
	assert_true(sync_store(s));
	assert_int_equal(seen.windows, 151);
	assert_as_in_the_database(&seen);
	assert_true(one("select count(*) from loss l join cause c"
	    " on c.id = l.cause_id where c.name = 'unwritten'") == 1);
	kp_store_close(s);
}

static size_t
look(struct kp_request_tail *f, int64_t ids[4], int64_t *newest)
{
	struct kp_query *q = open_query();
	size_t n;

	assert_int_equal(kp_request_tail_next(q, f, ids, 4, &n, newest), KP_OK);
	kp_query_close(q);
	return n;
}

/* In order, so many at once; those of a run before this one are none of it. */
TEST(requests_in_order)
{
	struct kp_store *s = open_store();
	struct kp_request_tail f = { .run = 0 };
	int64_t ids[4], newest;

	kp_store_tree(s, new_tree(1));
	assert_true(sync_store(s));
	kp_store_close(s);
	s = open_store();
	assert_int_equal(look(&f, ids, &newest), 0);
	for (int i = 0; i < 6; i++)
		kp_store_tree(s, new_tree(2));
	assert_true(sync_store(s));
	assert_int_equal(look(&f, ids, &newest), 4);
	assert_int_equal(newest, 7);
	for (int i = 0; i < 4; i++)
		assert_int_equal(ids[i], 2 + i);
	/* not taken: there again */
	assert_int_equal(look(&f, ids, &newest), 4);
	f.request = ids[3];
	/* one is deleted before it was seen: a gap */
	sql_exec("pragma foreign_keys = on; delete from request where id = 6");
	assert_int_equal(look(&f, ids, &newest), 1);
	assert_int_equal(ids[0], 7);
	f.request = ids[0];
	assert_int_equal(look(&f, ids, &newest), 0);
	/* the last row's id comes again */
	sql_exec("pragma foreign_keys = on; delete from request where id > 3");
	assert_int_equal(look(&f, ids, &newest), 0);
	kp_store_tree(s, new_tree(2));
	assert_true(sync_store(s));
	assert_int_equal(look(&f, ids, &newest), 1);
	assert_int_equal(ids[0], 4);
	kp_store_close(s);
}

/* Those of runs that ended before it looked, too; and of another file from its beginning. */
TEST(requests_of_all_runs)
{
	struct kp_request_tail f = { .all = true };
	struct kp_store *s = open_store();
	int64_t ids[4], newest;

	kp_store_tree(s, new_tree(1));
	assert_true(sync_store(s));
	assert_int_equal(look(&f, ids, &newest), 1);
	f.request = ids[0];
	kp_store_tree(s, new_tree(1));
	kp_store_close(s);
	s = open_store();
	kp_store_tree(s, new_tree(1));
	assert_true(sync_store(s));
	assert_int_equal(look(&f, ids, &newest), 2);
	assert_int_equal(ids[0], 2);
	assert_int_equal(ids[1], 3);
	f.request = ids[1];
	/* runs that are over may be deleted */
	sql_exec("pragma foreign_keys = on; delete from request where run_id = 1");
	sql_exec("delete from run where id = 1");
	assert_int_equal(look(&f, ids, &newest), 0);
	kp_store_close(s);
	assert_int_equal(unlink(path), 0);
	s = open_store();
	kp_store_tree(s, new_tree(1));
	assert_true(sync_store(s));
	assert_int_equal(look(&f, ids, &newest), 1);
	assert_int_equal(ids[0], 1);
	kp_store_close(s);
}

TESTS(setup, teardown)
