/*
 * Slow requests by what they took: in all, by themselves, in a tier; and that
 * a question ends when it should.
 */
#include <time.h>

#include "cases.h"
#include "store_fixture.h"

#define CALLS 6	/* of every request */

/* What its entry and its calls of db and web took by themselves, in us. */
static void
put_request(struct kp_store *s, const char *node, int total, int entry, int db,
    int web)
{
	struct kp_tree *t = new_tree(CALLS);

	t->node = node;
	t->total = total * KP_NS_PER_US;
	t->calls[0].tier = "";
	t->calls[0].self = entry * KP_NS_PER_US;
	t->calls[1].self = db * KP_NS_PER_US / 2;
	t->calls[2].self = db * KP_NS_PER_US - t->calls[1].self;
	t->calls[3].tier = "web";
	t->calls[3].self = web * KP_NS_PER_US;
	/* its end was not seen; and what nobody waited for */
	t->calls[4].self = t->calls[4].total = -1;
	t->calls[5].self = 900 * KP_NS_PER_MS;
	t->calls[5].async = true;
	kp_store_tree(s, t);
}

/* "3 2 1": which, and by how many us; by: NULL, "" itself, or a tier. */
static const char *
found(const struct kp_query_range *r, const char *by, size_t skip,
    size_t limit)
{
	enum kp_slow_by how = by == NULL ? KP_SLOW_TOTAL : by[0] == '\0' ?
	    KP_SLOW_SELF : KP_SLOW_TIER;
	struct kp_query *q = open_query();
	struct kp_query_requests rs;
	static char text[256];
	char *p = text;

	*p = '\0';
	assert_int_equal(kp_query_slow(q, r, how, by, skip, limit, &rs),
	    KP_OK);
	for (size_t i = 0; i < rs.n; i++) {
		assert_int_equal(rs.v[i].ncalls, CALLS);
		p += sprintf(p, "%s%d", i > 0 ? " " : "", (int)rs.v[i].id);
		if (rs.v[i].by >= 0)
			p += sprintf(p, ":%g", (double)rs.v[i].by / 1e3);
	}
	kp_query_requests_free(&rs);
	kp_query_close(q);
	return text;
}

TEST(test_by)
{
	struct kp_query_range r = all;
	struct kp_store *s = open_store();
	struct kp_query_requests rs;
	struct kp_query *q;

	put_request(s, "a@h", 500, 10, 400, 5);
	put_request(s, "b@h", 900, 300, 7, 30);
	put_request(s, "a@h", 700, 300, 11, 20);
	assert_true(sync_store(s));
	assert_string_equal(found(&all, NULL, 0, 9), "2 3 1");
	assert_string_equal(found(&all, "", 0, 9), "2:300 3:300 1:10");
	assert_string_equal(found(&all, "db", 0, 9), "1:400 3:11 2:7");
	assert_string_equal(found(&all, "web", 0, 9), "2:30 3:20 1:5");
	assert_string_equal(found(&all, "db", 1, 1), "3:11");
	r.node = "a@*";
	assert_string_equal(found(&r, "web", 0, 9), "3:20 1:5");
	assert_string_equal(found(&r, NULL, 0, 9), "3 1");
	r.identity = "nosuch";
	assert_string_equal(found(&r, NULL, 0, 9), "");
	r.identity = "create";
	assert_string_equal(found(&r, "", 0, 9), "3:300 1:10");
	r.identity_glob = "d*";
	assert_string_equal(found(&r, NULL, 0, 9), "");
	r = all;
	r.since = T0 + 1;
	assert_string_equal(found(&r, "", 0, 9), "");
	q = open_query();
	assert_int_equal(kp_query_slow(q, &all, KP_SLOW_TIER, "nosuch", 0, 9,
	    &rs), KP_ENOENT);
	kp_query_close(q);
	kp_store_close(s);
	sql_exec("pragma foreign_keys = on; delete from request where id = 2");
	assert_sql("select count(*) from request_time", "6");
}

/*
 * By the time, or because somebody says so.  Time in which it does not run is not
 * work: on a busy machine queries were refused that need a tenth of their limit.
 */
TEST(test_ends)
{
	const struct timespec wait = { 0, 500 * KP_NS_PER_MS };
	struct kp_db *db = keep_open(NULL);
	atomic_bool stop = false;
	struct kp_query_sum s;
	struct kp_window *w;
	struct kp_query *q;

	db_begin(db);
	for (int i = 0; i < 4000; i++) {
		w = new_window("a@h", NOON + i * 10 * S, 0);
		db_window(db, w, NULL);
		kp_window_free(w);
	}
	assert_int_equal(db_commit(db), SQLITE_OK);
	q = open_query();
	kp_query_limit(q, HOUR, HOUR, &stop);
	assert_int_equal(kp_query_cover(q, &all, &s), KP_OK);
	assert_int_equal(s.windows, 4000);
	stop = true;
	assert_int_equal(kp_query_cover(q, &all, &s), KP_ETIMEOUT);
	stop = false;
	assert_int_equal(kp_query_cover(q, &all, &s), KP_OK);
	kp_query_limit(q, 400 * KP_NS_PER_MS, HOUR, NULL);
	nanosleep(&wait, NULL);
	assert_int_equal(kp_query_cover(q, &all, &s), KP_OK);
	kp_query_limit(q, 0, HOUR, NULL);
	assert_int_equal(kp_query_cover(q, &all, &s), KP_ETIMEOUT);
	kp_query_limit(q, HOUR, 0, NULL);
	assert_int_equal(kp_query_cover(q, &all, &s), KP_ETIMEOUT);
	kp_query_close(q);
	db_close(db, 0);
}

TESTS(setup, teardown)
