/*
 * Profiles in a database: one after the other, read again as they were; what is
 * no such database is left as it is, and is refused in words.
 */
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cases.h"
#include "profile/report/profile_db.h"

static char dir[] = "/tmp/test_profile_db.XXXXXX";
static char file[64], why[300];

static bool by_process;
static struct counts_view view = { .target = "a@b", .otp = 27,
	.functions = 2, .processes = 3 };

FIXTURE(setup)
{
	strcpy(strrchr(dir, '.'), ".XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/f.db", dir);
	by_process = false;
	view.ended = NULL;
	view.limit = NULL;
	return 0;
}

FIXTURE(teardown)
{
	unlink(file);
	return rmdir(dir);
}

static struct kp_span
span(const char *s)
{
	return (struct kp_span){ (const uint8_t *)s, (uint32_t)strlen(s) };
}

/* Two functions, or by process the second by two processes. */
static enum kp_err
add(enum kp_counts_type type, uint64_t calls)
{
	struct kp_call_names *names = kp_call_names_new();
	uint32_t seq, all, proc;
	bool added;
	enum kp_err e;

	kp_call_fn_put(names, span("lists"), span("seq"), 2, &seq, &added);
	kp_call_fn_put(names, span("Elixir.My\x1b"), span("all"), 1, &all,
	    &added);
	kp_call_proc_put(names, 0, 7, 2, &proc, &added);
	kp_call_proc_name(names, proc, span("server"));
	struct kp_counts_row total[] = {
		{ seq, KP_PROC_ALL, calls, 40 },
		{ all, KP_PROC_ALL, 7, 9 },
	}, each[] = {
		{ all, proc, 3, 4 },
		{ all, KP_PROC_OTHERS, 4, 5 },
	};
	struct kp_counts p = { .type = type, .by_process = by_process,
		.names = names, .rows = by_process ? each : total, .nrows = 2,
		.elapsed = 1500000 };

	e = counts_db_add(file, &p, &view, KP_NS_PER_S, why, sizeof(why));
	kp_call_names_free(names);
	return e;
}

/* What the statement says, a row behind the other. */
static const char *
ask(const char *sql)
{
	static char out[1000];
	sqlite3_stmt *st;
	sqlite3 *db;
	const char *text;

	out[0] = '\0';
	assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL),
	    SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(st); i++) {
			text = (const char *)sqlite3_column_text(st, i);
			snprintf(out + strlen(out), sizeof(out) - strlen(out),
			    "%s ", text != NULL ? text : "-");
		}
	}
	sqlite3_finalize(st);
	sqlite3_close(db);
	return out;
}

static enum kp_err
read_one(int64_t which, struct counts_kept *k)
{
	return counts_db_read(file, which, k, why, sizeof(why));
}

TEST(test_functions)
{
	struct counts_kept k;

	assert_int_equal(add(KP_COUNTS_TIME, 10), KP_OK);
	assert_string_equal(ask("select * from function"),
	    "1 'Elixir.My\\x{1b}':all/1 7 0.009 - 1.286 - 1 lists:seq/2 10 0.04 - 4.0 - ");
	assert_string_equal(ask("select * from profiles"),
	    "1 a@b 27 time 1970-01-01T00:00:01Z 1.5 2 - - ");
	assert_int_equal(read_one(COUNTS_DB_LAST, &k), KP_OK);
	assert_fields(k, IS(type, KP_COUNTS_TIME) IS(n, 2)
	    IS(rows[1].fn, "lists:seq/2") IS(rows[1].calls, 10)
	    IS(rows[1].value, 40));
	counts_kept_free(&k);
}

TEST(test_processes)
{
	struct counts_kept k;

	by_process = true;
	view.ended = "early";
	assert_int_equal(add(KP_COUNTS_MEMORY, 10), KP_OK);
	assert_string_equal(ask("select pid, calls, us, words from counted"),
	    "<0.7.2> 3 - 4 others 4 - 5 ");
	assert_string_equal(ask("select pid, name from process"),
	    "<0.7.2> server ");
	assert_string_equal(ask("select ended from profiles"), "early ");
	assert_int_equal(read_one(1, &k), KP_OK);
	assert_fields(k, IS(n, 1) IS(rows[0].value, 9));
	counts_kept_free(&k);
}

TEST(test_which)
{
	struct counts_kept k;

	assert_int_equal(add(KP_COUNTS_CALLS, 1), KP_OK);
	assert_int_equal(read_one(COUNTS_DB_BEFORE, &k), KP_ENOENT);
	assert_has(why, "no profile before the last one");
	assert_int_equal(add(KP_COUNTS_TIME, 2), KP_OK);
	assert_int_equal(read_one(COUNTS_DB_BEFORE, &k), KP_ENOENT);
	assert_int_equal(add(KP_COUNTS_CALLS, 3), KP_OK);
	assert_int_equal(read_one(COUNTS_DB_BEFORE, &k), KP_OK);
	assert_int_equal(k.rows[1].calls, 1);
	counts_kept_free(&k);
	assert_int_equal(read_one(COUNTS_DB_LAST, &k), KP_OK);
	assert_int_equal(k.rows[1].calls, 3);
	counts_kept_free(&k);
	assert_int_equal(read_one(2, &k), KP_OK);
	assert_int_equal(k.type, KP_COUNTS_TIME);
	counts_kept_free(&k);
	assert_int_equal(read_one(4, &k), KP_ENOENT);
}

/* One that was limited is no match for one that was not. */
TEST(test_limited)
{
	static const struct counts_limit limit = { .attached = true,
		.identity = "create" };
	struct counts_kept k;

	assert_int_equal(add(KP_COUNTS_CALLS, 1), KP_OK);
	view.limit = &limit;
	assert_int_equal(add(KP_COUNTS_CALLS, 2), KP_OK);
	assert_int_equal(read_one(COUNTS_DB_BEFORE, &k), KP_ENOENT);
	assert_string_equal(ask("select limited from profiles"), "- only in "
	    "requests that a kprofd marks, of type 'create' ");
	view.limit = NULL;
	assert_int_equal(add(KP_COUNTS_CALLS, 3), KP_OK);
	assert_int_equal(read_one(COUNTS_DB_BEFORE, &k), KP_OK);
	assert_int_equal(k.rows[1].calls, 1);
	counts_kept_free(&k);
}

/* One of before or after is neither read nor written. */
TEST(test_other_version)
{
	struct counts_kept k;

	assert_int_equal(add(KP_COUNTS_CALLS, 1), KP_OK);
	ask("pragma user_version = 1");
	assert_int_equal(add(KP_COUNTS_CALLS, 2), KP_EFORMAT);
	assert_int_equal(read_one(COUNTS_DB_LAST, &k), KP_EFORMAT);
	ask("pragma user_version = 3");
	assert_int_equal(add(KP_COUNTS_CALLS, 3), KP_EFORMAT);
	assert_int_equal(read_one(COUNTS_DB_LAST, &k), KP_EFORMAT);
	assert_string_equal(ask("select id from profiles"), "1 ");
}

/* Somebody's database is not written to. */
TEST(test_foreign)
{
	struct counts_kept k;

	ask("create table t(a)");
	assert_int_equal(add(KP_COUNTS_CALLS, 1), KP_EFORMAT);
	assert_has(why, "another database");
	assert_string_equal(ask("select name from sqlite_master"), "t ");
	assert_int_equal(read_one(COUNTS_DB_LAST, &k), KP_EFORMAT);
}

TEST(test_unwritable)
{
	struct stat st;

	snprintf(file, sizeof(file), "%s/no/f.db", dir);
	assert_int_equal(add(KP_COUNTS_CALLS, 1), KP_EIO);
	assert_true(why[0] != '\0');
	assert_int_not_equal(stat(file, &st), 0);
}

/* Figures that no kprof has written. */
TEST(test_lies)
{
	static const char *const lies[] = {
		"update counted set calls = -1",
		"update counted set calls = 1 << 50",
		"update counted set calls = 'many'",
		"update counted set us = 0.5",
		"update profile set type = 'weight'",
		"drop table counted",
		"drop table profile",
	};
	struct counts_kept k;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		assert_int_equal(add(KP_COUNTS_TIME, 1), KP_OK);
		ask(lies[i]);
		assert_int_not_equal(read_one(COUNTS_DB_LAST, &k), KP_OK);
		assert_int_equal(k.n, 0);
		unlink(file);
	}
}

TESTS(setup, teardown)
