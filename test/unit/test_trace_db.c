/*
 * A trace that was added up, in a database: names come from the target, and are
 * clean there, as those of a profile are.
 */
#include <sqlite3.h>
#include <unistd.h>

#include "cases.h"
#include "profile/report/profile_db.h"

static struct kp_span
span(const char *s)
{
	return (struct kp_span){ (const uint8_t *)s, (uint32_t)strlen(s) };
}

static void
is_there(sqlite3 *db, const char *sql, const char *text)
{
	sqlite3_stmt *st;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL),
	    SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	assert_string_equal((const char *)sqlite3_column_text(st, 0), text);
	sqlite3_finalize(st);
}

TEST(test_names)
{
	char dir[] = "/tmp/test_trace_db.XXXXXX", file[64], why[300] = "";
	struct kp_calls_info info = { .target = "a\x1b@b", .otp = 27 };
	struct kp_calls_opts o = { .paths = true };
	struct kp_call_names *t = kp_call_names_new();
	struct kp_calls_sum *s = kp_calls_sum_new(&o);
	struct kp_call_event ev = { .kind = KP_CALL_CALL, .ts = 5 };
	sqlite3 *db;
	bool added;

	kp_call_fn_put(t, span("Elixir.My.Repo"), span("all\x1b[2J"), 2, &ev.fn,
	    &added);
	kp_call_fn_put(t, span("l\x1b"), span("x"), 0, &ev.other, &added);
	kp_call_proc_put(t, 0, 7, 0, &ev.proc, &added);
	kp_call_proc_name(t, ev.proc, span("server\x07"));
	assert_int_equal(kp_calls_sum_add(s, &ev), KP_OK);
	assert_int_equal(kp_calls_sum_end(s), KP_OK);
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/t.db", dir);
	assert_int_equal(trace_db_write(file, t, s, &info, why, sizeof(why)),
	    KP_OK);
	assert_int_equal(trace_db_write(file, t, s, &info, why, sizeof(why)),
	    KP_EBUSY);
	assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
	is_there(db, "select function from call where calls = 1",
	    "My.Repo.\"all\\x{1b}[2J\"/2");
	is_there(db, "select caller from call where calls = 1", "'l\\x{1b}':x/0");
	is_there(db, "select name from process", "server\\x07");
	is_there(db, "select target from trace", "a\\x1b@b");
	sqlite3_close(db);
	unlink(file);
	rmdir(dir);
	kp_calls_sum_free(s);
	kp_call_names_free(t);
}

TESTS(NULL, NULL)
