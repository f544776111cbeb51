/*
 * Profiles in a database: one after the other, read again as they were; what is
 * no such database is left as it is, and is refused in words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/report/profile_db.h"

static char dir[] = "/tmp/test_profile_db.XXXXXX";
static char file[64], why[300];

static struct profile_view view = { .target = "a@b", .otp = 27,
	.functions = 2, .processes = 3 };

static int
setup(void **state)
{
	(void)state;
	strcpy(strrchr(dir, '.'), ".XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/f.db", dir);
	view.by_process = false;
	view.ended = NULL;
	view.limit = NULL;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	unlink(file);
	return rmdir(dir);
}

/* Two functions, the second by two processes. */
static enum kp_err
add(enum kp_profile_type type, uint64_t calls)
{
	struct kp_profile_fn fns[] = {
		{ (char *)"lists", (char *)"seq", 2, calls, 40 },
		{ (char *)"Elixir.My\x1b", (char *)"all", 1, 7, 9 },
	};
	struct kp_profile_row rows[] = {
		{ 1, { 7, 2, false }, 3, 4 },
		{ 1, { 0, 0, true }, 4, 5 },
	};
	struct kp_profile_name names[] = { { { 7, 2, false },
		(char *)"server" } };
	struct kp_profile p = { .type = type, .fns = fns, .nfns = 2,
		.rows = rows, .nrows = 2, .names = names, .nnames = 1,
		.elapsed = 1500000 };

	return profile_db_add(file, &p, &view, KP_NS_PER_S, why, sizeof(why));
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
read_one(int64_t which, struct profile_kept *k)
{
	return profile_db_read(file, which, k, why, sizeof(why));
}

static void
test_functions(void **state)
{
	struct profile_kept k;

	(void)state;
	assert_int_equal(add(KP_PROFILE_TIME, 10), KP_OK);
	assert_string_equal(ask("select * from function"),
	    "1 'Elixir.My\\x{1b}':all/1 7 0.009 - 1.286 - 1 lists:seq/2 10 0.04 - 4.0 - ");
	assert_string_equal(ask("select * from profiles"),
	    "1 a@b 27 time 1970-01-01T00:00:01Z 1.5 2 - - ");
	assert_int_equal(read_one(PROFILE_DB_LAST, &k), KP_OK);
	assert_int_equal(k.type, KP_PROFILE_TIME);
	assert_int_equal(k.n, 2);
	assert_string_equal(k.rows[1].fn, "lists:seq/2");
	assert_int_equal(k.rows[1].calls, 10);
	assert_int_equal(k.rows[1].value, 40);
	profile_kept_free(&k);
}

static void
test_processes(void **state)
{
	struct profile_kept k;

	(void)state;
	view.by_process = true;
	view.ended = "early";
	assert_int_equal(add(KP_PROFILE_MEMORY, 10), KP_OK);
	assert_string_equal(ask("select pid, calls, us, words from counted"),
	    "<0.7.2> 3 - 4 others 4 - 5 ");
	assert_string_equal(ask("select pid, name from process"),
	    "<0.7.2> server ");
	assert_string_equal(ask("select ended from profiles"), "early ");
	assert_int_equal(read_one(1, &k), KP_OK);
	assert_int_equal(k.n, 1);
	assert_int_equal(k.rows[0].value, 9);
	profile_kept_free(&k);
}

static void
test_which(void **state)
{
	struct profile_kept k;

	(void)state;
	assert_int_equal(add(KP_PROFILE_COUNT, 1), KP_OK);
	assert_int_equal(read_one(PROFILE_DB_BEFORE, &k), KP_ENOENT);
	assert_non_null(strstr(why, "no profile before the last one"));
	assert_int_equal(add(KP_PROFILE_TIME, 2), KP_OK);
	assert_int_equal(read_one(PROFILE_DB_BEFORE, &k), KP_ENOENT);
	assert_int_equal(add(KP_PROFILE_COUNT, 3), KP_OK);
	assert_int_equal(read_one(PROFILE_DB_BEFORE, &k), KP_OK);
	assert_int_equal(k.rows[1].calls, 1);
	profile_kept_free(&k);
	assert_int_equal(read_one(PROFILE_DB_LAST, &k), KP_OK);
	assert_int_equal(k.rows[1].calls, 3);
	profile_kept_free(&k);
	assert_int_equal(read_one(2, &k), KP_OK);
	assert_int_equal(k.type, KP_PROFILE_TIME);
	profile_kept_free(&k);
	assert_int_equal(read_one(4, &k), KP_ENOENT);
}

/* One that was limited is no match for one that was not. */
static void
test_limited(void **state)
{
	static const struct profile_limit limit = { .attached = true,
		.identity = "create" };
	struct profile_kept k;

	(void)state;
	assert_int_equal(add(KP_PROFILE_COUNT, 1), KP_OK);
	view.limit = &limit;
	assert_int_equal(add(KP_PROFILE_COUNT, 2), KP_OK);
	assert_int_equal(read_one(PROFILE_DB_BEFORE, &k), KP_ENOENT);
	assert_string_equal(ask("select limited from profiles"), "- only in "
	    "requests that a kprofd marks, of type 'create' ");
	view.limit = NULL;
	assert_int_equal(add(KP_PROFILE_COUNT, 3), KP_OK);
	assert_int_equal(read_one(PROFILE_DB_BEFORE, &k), KP_OK);
	assert_int_equal(k.rows[1].calls, 1);
	profile_kept_free(&k);
}

/* As it was before profiles could be limited: read as it is, and added to. */
static void
test_version_1(void **state)
{
	static const struct profile_limit limit = { .attached = true };
	struct profile_kept k;

	(void)state;
	assert_int_equal(add(KP_PROFILE_COUNT, 1), KP_OK);
	assert_int_equal(add(KP_PROFILE_COUNT, 2), KP_OK);
	ask("drop view profiles");
	ask("alter table profile drop column limited");
	ask("create view profiles as select id from profile");
	ask("pragma user_version = 1");
	assert_int_equal(read_one(PROFILE_DB_BEFORE, &k), KP_OK);
	assert_int_equal(k.rows[1].calls, 1);
	profile_kept_free(&k);
	view.limit = &limit;
	assert_int_equal(add(KP_PROFILE_COUNT, 3), KP_OK);
	assert_string_equal(ask("pragma user_version"), "2 ");
	assert_string_equal(ask("select id, limited from profiles"),
	    "1 - 2 - 3 only in requests that a kprofd marks ");
	ask("pragma user_version = 3");
	assert_int_equal(add(KP_PROFILE_COUNT, 4), KP_EFORMAT);
}

/* Somebody's database is not written to. */
static void
test_foreign(void **state)
{
	struct profile_kept k;

	(void)state;
	ask("create table t(a)");
	assert_int_equal(add(KP_PROFILE_COUNT, 1), KP_EFORMAT);
	assert_non_null(strstr(why, "another database"));
	assert_string_equal(ask("select name from sqlite_master"), "t ");
	assert_int_equal(read_one(PROFILE_DB_LAST, &k), KP_EFORMAT);
}

static void
test_unwritable(void **state)
{
	struct stat st;

	(void)state;
	snprintf(file, sizeof(file), "%s/no/f.db", dir);
	assert_int_equal(add(KP_PROFILE_COUNT, 1), KP_EIO);
	assert_true(why[0] != '\0');
	assert_int_not_equal(stat(file, &st), 0);
}

/* Figures that no kprof has written. */
static void
test_lies(void **state)
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
	struct profile_kept k;

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		assert_int_equal(add(KP_PROFILE_TIME, 1), KP_OK);
		ask(lies[i]);
		assert_int_not_equal(read_one(PROFILE_DB_LAST, &k), KP_OK);
		assert_int_equal(k.n, 0);
		unlink(file);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_functions, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(test_processes, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(test_which, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limited, setup, teardown),
		cmocka_unit_test_setup_teardown(test_version_1, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unwritable, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(test_lies, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
