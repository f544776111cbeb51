/*
 * What reports are built from: figures and times as texts, foreign texts made
 * harmless, grids, JSON, and diagnostics with their source line.
 */
#include <math.h>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <time.h>

#include "cases.h"
#include "config/tiers_file.h"
#include "text/file_why.h"
#include "text/grid.h"
#include "text/json.h"
#include "text/text.h"
#include "text/timefmt.h"

#define MS KP_NS_PER_MS
#define S KP_NS_PER_S

static struct kp_buf buf;

FIXTURE(setup)
{
	setenv("TZ", "UTC", 1);
	tzset();
	kp_buf_init(&buf, 1 << 20);
	return 0;
}

FIXTURE(teardown)
{
	kp_buf_free(&buf);
	return 0;
}

TEST(test_durations)
{
	static const struct {
		kp_dur_ns d;
		const char *text;
	} t[] = {
		{ -1, "-" }, { 0, "0" }, { 1, "1 ns" }, { 999, "999 ns" },
		{ 1000, "1.0 us" }, { 9949, "9.9 us" }, { 9950, "10 us" },
		{ 87499, "87 us" }, { 999499, "999 us" },
		{ 999500, "1.0 ms" }, { 9949999, "9.9 ms" },
		{ 9950000, "10 ms" }, { 70 * MS, "70 ms" },
		{ 1204 * MS, "1 204 ms" }, { 9999499999, "9 999 ms" },
		{ 9999500000, "10.0 s" }, { 999949 * MS, "999.9 s" },
		{ 1000 * S, "1 000 s" }, { INT64_MAX, "9 223 372 037 s" },
	};
	char b[TEXT_MAX];

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_string_equal(text_dur(b, t[i].d), t[i].text);
	assert_string_equal(text_ms(b, 1234567499), "1 234.567");
	assert_string_equal(text_ms(b, 500), "0.001");
	assert_string_equal(text_ms(b, -1), "-");
	assert_string_equal(text_exact_ms(b, 1204567001), "1204.567001");
	assert_string_equal(text_exact_ms(b, 50 * MS), "50");
	assert_string_equal(text_exact_ms(b, 0), "0");
	assert_string_equal(text_exact_ms(b, INT64_MIN),
	    "-9223372036854.775808");
	assert_string_equal(text_span(b, 90 * 60 * S), "1h30m");
	assert_string_equal(text_span(b, 10 * S), "10s");
	assert_string_equal(text_span(b, 86400 * S + 1), "1d");
	assert_string_equal(text_span(b, 250 * MS), "250ms");
}

TEST(test_counts)
{
	char b[TEXT_MAX];

	assert_int_equal(text_hex('f'), 15);
	assert_int_equal(text_hex('A'), 10);
	assert_int_equal(text_hex('g'), -1);
	assert_int_equal(text_hex(0), -1);
	assert_string_equal(text_count(b, 0), "0");
	assert_string_equal(text_count(b, 999), "999");
	assert_string_equal(text_count(b, 1204), "1 204");
	assert_string_equal(text_counted(b, 0, "call"), "0 calls");
	assert_string_equal(text_counted(b, 1, "call"), "1 call");
	assert_string_equal(text_counted(b, 1204, "call"), "1 204 calls");
	assert_string_equal(text_counted(b, 3, "process"), "3 processes");
	assert_string_equal(text_count(b, UINT64_MAX),
	    "18 446 744 073 709 551 615");
	assert_string_equal(text_average(b, -1), "-");
	assert_string_equal(text_average(b, 0), "0");
	assert_string_equal(text_average(b, 0.0001), "<0.01");
	assert_string_equal(text_average(b, 0.05), "0.05");
	assert_string_equal(text_average(b, 9.994), "9.99");
	assert_string_equal(text_average(b, 9.996), "10.0");
	assert_string_equal(text_average(b, 1204.4), "1 204");
	assert_string_equal(text_share(b, -1), "-");
	assert_string_equal(text_share(b, 0), "0 %");
	assert_string_equal(text_share(b, 0.0001), "<0.1 %");
	assert_string_equal(text_share(b, 0.034), "3.4 %");
	assert_string_equal(text_share(b, 0.0994), "9.9 %");
	assert_string_equal(text_share(b, 0.0996), "10 %");
	assert_string_equal(text_share(b, 1), "100 %");
	assert_string_equal(text_change(b, 0), "0 %");
	assert_string_equal(text_change(b, 0.0004), "0 %");
	assert_string_equal(text_change(b, -0.034), "-3.4 %");
	assert_string_equal(text_change(b, 0.11), "+11 %");
	assert_string_equal(text_change(b, -1), "-100 %");
	assert_string_equal(text_change(b, 12.04), "+1 204 %");
	assert_string_equal(text_change(b, 1e300),
	    "+18 446 744 073 709 551 615 %");
	assert_string_equal(text_change(b, (double)NAN), "-");
}

static const char *
cleaned(const char *s)
{
	kp_buf_reset(&buf);
	text_put(&buf, s);
	return kp_buf_cstr(&buf);
}

/* Terminals obey what they print: titles, the clipboard, even the keyboard. */
TEST(test_foreign_texts)
{
	assert_string_equal(cleaned("GET /users/:id"), "GET /users/:id");
	assert_string_equal(cleaned("\x1b]0;evil\x07"), "\\x1b]0;evil\\x07");
	assert_string_equal(cleaned("a\r\n\tb\x7f"), "a\\x0d\\x0a\\x09b\\x7f");
	assert_string_equal(cleaned("\xc2\x9b" "31m"), "\\x9b31m");
	assert_string_equal(cleaned("x\xe2\x80\xaetxt"), "x\\u{202e}txt");
	/* what cannot be seen: a tag, a space of no width */
	assert_string_equal(cleaned("x\xf3\xa0\x81\x81\xe2\x80\x8b"),
	    "x\\u{e0041}\\u{200b}");
	assert_string_equal(cleaned("\xff\xc3"), "\xef\xbf\xbd\xef\xbf\xbd");
	assert_string_equal(cleaned("gr\xc3\xb6\xc3\x9f" "e"),
	    "gr\xc3\xb6\xc3\x9f" "e");
	/* overlong, a surrogate, past the end: a byte each */
	assert_int_equal(text_width(cleaned("\xc0\xaf")), 2);
	assert_int_equal(text_width(cleaned("\xed\xa0\x80")), 3);
	assert_int_equal(text_width(cleaned("\xf4\x90\x80\x80")), 4);

	kp_buf_reset(&buf);
	text_put_lines(&buf, "a\n\tb\x1b\n", 6);
	assert_string_equal(kp_buf_cstr(&buf), "a\n\tb\\x1b\n");
}

TEST(test_widths)
{
	assert_int_equal(text_width("abc"), 3);
	assert_int_equal(text_width("gr\xc3\xb6\xc3\x9f" "e"), 5);
	assert_int_equal(text_width("\xe6\x9d\xb1\xe4\xba\xac"), 4);
	assert_int_equal(text_width("e\xcc\x81"), 1);	/* combining acute */
	assert_int_equal(text_width("\xf0\x9f\x98\x80"), 2);
	assert_int_equal(text_width("\xe1\x84\x80\xe1\x85\xa1"), 2); /* Jamo */
	assert_int_equal(text_width("\xe0\xa4\x95\xe0\xa5\x8d"), 1); /* virama */
	assert_int_equal(text_width("\xd7\xa9\xd6\xb8"), 1); /* a vowel point */
	assert_int_equal(text_fit("\xe6\x9d\xb1\xe4\xba\xac", 3), 3);
	assert_int_equal(text_fit("abc", 9), 3);
	assert_int_equal(text_fit("e\xcc\x81x", 1), 3);
}

static void
small_grid(struct grid *g)
{
	static const char *const cells[] = { "create", "310", "70 ms",
		"30 ms", "\xe6\x9d\xb1\xe4\xba\xac", "1 204", "-", "9.4 ms" };

	grid_init(g);
	grid_col(g, "", GRID_LEFT);
	grid_col(g, "requests", GRID_RIGHT);
	grid_fix(g);
	grid_col(g, "http", GRID_RIGHT);
	grid_col(g, "database", GRID_LEFT);
	for (size_t i = 0; i < 8; i++) {
		if (i == 4)
			grid_rule(g);
		grid_cell(g, cells[i]);
	}
}

TEST(test_grid)
{
	struct grid g;

	small_grid(&g);
	grid_write(&g, 0, &buf);
	assert_string_equal(kp_buf_cstr(&buf),
	    "        requests   http  database\n"
	    "---------------------------------\n"
	    "create       310  70 ms  30 ms\n"
	    "---------------------------------\n"
	    "\xe6\x9d\xb1\xe4\xba\xac       1 204      -  9.4 ms\n");

	/* it fits, to the column */
	kp_buf_reset(&buf);
	grid_write(&g, 33, &buf);
	assert_lacks(kp_buf_cstr(&buf), "\n\n");

	/* one less: two blocks, each with the first columns */
	kp_buf_reset(&buf);
	grid_write(&g, 32, &buf);
	assert_string_equal(kp_buf_cstr(&buf),
	    "        requests   http\n"
	    "-----------------------\n"
	    "create       310  70 ms\n"
	    "-----------------------\n"
	    "\xe6\x9d\xb1\xe4\xba\xac       1 204      -\n"
	    "\n"
	    "        requests  database\n"
	    "--------------------------\n"
	    "create       310  30 ms\n"
	    "--------------------------\n"
	    "\xe6\x9d\xb1\xe4\xba\xac       1 204  9.4 ms\n");
	grid_free(&g);
}

/* A long first column gives way on a terminal, and is whole in a pipe. */
TEST(test_grid_long)
{
	struct grid g;

	grid_init(&g);
	grid_col(&g, "", GRID_LEFT);
	grid_fix(&g);
	grid_col(&g, "http", GRID_RIGHT);
	grid_cell(&g, "GET /a/rather/long/path");
	grid_cell(&g, "70 ms");
	grid_write(&g, 25, &buf);
	assert_string_equal(kp_buf_cstr(&buf),
	    "                     http\n"
	    "-------------------------\n"
	    "GET /a/rather/lon\xe2\x80\xa6  70 ms\n");
	kp_buf_reset(&buf);
	grid_write(&g, 0, &buf);
	assert_has(kp_buf_cstr(&buf), "GET /a/rather/long/path  70 ms\n");
	kp_buf_reset(&buf);
	grid_write(&g, 1, &buf);	/* does what can be done */
	assert_has(kp_buf_cstr(&buf), "70 ms");
	grid_free(&g);
}

/* Columns that belong together stay together, below their name. */
TEST(test_grid_groups)
{
	struct grid g;

	grid_init(&g);
	grid_col(&g, "", GRID_LEFT);
	grid_fix(&g);
	grid_group(&g, "http");
	grid_col(&g, "now", GRID_RIGHT);
	grid_col(&g, "then", GRID_RIGHT);
	grid_group(&g, "a long tier");
	grid_col(&g, "now", GRID_RIGHT);
	grid_col(&g, "then", GRID_RIGHT);
	for (int i = 0; i < 5; i++)
		grid_cell(&g, i == 0 ? "create" : "70 ms");
	grid_write(&g, 0, &buf);
	assert_string_equal(kp_buf_cstr(&buf),
	    "        --- http ---  - a long tier -\n"
	    "          now   then       now   then\n"
	    "-------------------------------------\n"
	    "create  70 ms  70 ms     70 ms  70 ms\n");
	kp_buf_reset(&buf);
	grid_write(&g, 30, &buf);
	assert_string_equal(kp_buf_cstr(&buf),
	    "        --- http ---\n"
	    "          now   then\n"
	    "--------------------\n"
	    "create  70 ms  70 ms\n"
	    "\n"
	    "        - a long tier -\n"
	    "             now   then\n"
	    "-----------------------\n"
	    "create     70 ms  70 ms\n");
	grid_free(&g);
}

/* Columns go by rank, then one is cut; and it is said what is missing. */
TEST(test_grid_optional)
{
	static const char *const cells[] = { "7", "10:00", "web@a",
		"GET /a/rather/long/path", "70 ms" };
	static const struct {
		unsigned width;
		const char *text;
	} t[] = {
		{ 0, "7  10:00  web@a  GET /a/rather/long/path  70 ms\n" },
		{ 48, "7  10:00  web@a  GET /a/rather/long/path  70 ms\n" },
		{ 40, "7  10:00  web@a  GET /a/rather/\xe2\x80\xa6  70 ms\n" },
		{ 34, "7  10:00  GET /a/rather/l\xe2\x80\xa6  70 ms\n"
		    "(no room for: node)\n" },
		{ 23, "7  GET /a/rath\xe2\x80\xa6  70 ms\n"
		    "(no room for: time,\n node)\n" },
	};
	struct grid g;

	grid_init(&g);
	grid_col(&g, "id", GRID_RIGHT);
	grid_fix(&g);
	grid_col_optional(&g, "time", GRID_LEFT, 2);
	grid_col_optional(&g, "node", GRID_LEFT, 1);
	grid_col(&g, "identity", GRID_LEFT);
	grid_cut(&g);
	grid_col(&g, "total", GRID_RIGHT);
	for (size_t i = 0; i < 5; i++)
		grid_cell(&g, cells[i]);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		kp_buf_reset(&buf);
		grid_write(&g, t[i].width, &buf);
		if (strstr(kp_buf_cstr(&buf), t[i].text) == NULL)
			fail_msg("%u:\n%s", t[i].width, kp_buf_cstr(&buf));
	}
	/* what went first comes back where a wider one made room */
	kp_buf_reset(&buf);
	grid_write(&g, 32, &buf);
	assert_has(kp_buf_cstr(&buf),
	    "\n 7  10:00  GET /a/rather\xe2\x80\xa6  70 ms\n");
	/* less than there can be: blocks */
	kp_buf_reset(&buf);
	grid_write(&g, 15, &buf);
	assert_has(kp_buf_cstr(&buf), "\n 7  70 ms\n");
	grid_free(&g);
}

/* What runs from right to left does not draw the figures with it. */
TEST(test_grid_rtl)
{
	struct grid g;

	grid_init(&g);
	grid_col(&g, "", GRID_LEFT);
	grid_fix(&g);
	grid_col(&g, "n", GRID_RIGHT);
	grid_cell(&g, "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d");
	grid_cell(&g, "12");
	grid_cell(&g, "e\xcc\x81\xe6\x9d\xb1");
	grid_cell(&g, "3");
	grid_write(&g, 0, &buf);
	assert_string_equal(kp_buf_cstr(&buf),
	    "       n\n"
	    "--------\n"
	    "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d\xe2\x80\x8e  12\n"
	    "e\xcc\x81\xe6\x9d\xb1    3\n");
	grid_free(&g);
}

static const char *
wrapped(const char *s, unsigned columns, unsigned indent)
{
	kp_buf_reset(&buf);
	text_wrap(&buf, s, columns, indent);
	return kp_buf_cstr(&buf);
}

TEST(test_wrap)
{
	assert_string_equal(wrapped("one two three", 0, 2),
	    "one two three\n");
	assert_string_equal(wrapped("one two three", 13, 2),
	    "one two three\n");
	assert_string_equal(wrapped("one two three", 12, 2),
	    "one two\n  three\n");
	assert_string_equal(wrapped("one two three", 7, 2),
	    "one two\n  three\n");
	/* a word that does not fit stays whole; blanks within stay */
	assert_string_equal(wrapped("one  two three", 3, 1),
	    "one\n two\n three\n");
	assert_string_equal(wrapped("  a  bb", 20, 4), "  a  bb\n");
	assert_string_equal(wrapped("\xe6\x9d\xb1\xe4\xba\xac ab", 6, 1),
	    "\xe6\x9d\xb1\xe4\xba\xac\n ab\n");
	assert_string_equal(wrapped("", 10, 2), "\n");
}

/* SQLite's parser judges ours. */
static void
assert_json(const char *s)
{
	sqlite3_stmt *st;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	sqlite3_prepare_v2(db, "select json_valid(?)", -1, &st, NULL);
	sqlite3_bind_text(st, 1, s, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	if (sqlite3_column_int(st, 0) != 1)
		fail_msg("not JSON: %s", s);
	sqlite3_finalize(st);
	sqlite3_close(db);
}

TEST(test_json)
{
	struct json j;

	json_begin(&j, &buf);
	json_object(&j, NULL);
	json_string(&j, "a\"b", "\x1b\n\\\"\x7f\xc2\x85\xff\xe2\x80\xa8"
	    "\xf3\xa0\x81\x81");
	json_array(&j, "v");
	json_int(&j, NULL, INT64_MIN);
	json_uint(&j, NULL, UINT64_MAX);
	json_object(&j, NULL);
	json_end(&j);
	json_bool(&j, NULL, true);
	json_ms(&j, NULL, 1500000);
	json_ms(&j, NULL, -1);
	json_end(&j);
	json_time(&j, "t", INT64_C(1795255200123) * MS);
	json_time(&j, "none", 0);
	json_string_n(&j, "n", "a\0b", 3);
	json_end(&j);
	assert_string_equal(kp_buf_cstr(&buf),
	    "{\"a\\\"b\":\"\\u001b\\n\\\\\\\"\\u007f\\u0085\xef\xbf\xbd"
	    "\\u2028\\udb40\\udc41\",\"v\":[-9223372036854775808,18446744073709551615,{},"
	    "true,1.5,null],\"t\":\"2026-11-21T10:00:00.123Z\",\"none\":null,"
	    "\"n\":\"a\\u0000b\"}");
	assert_json(kp_buf_cstr(&buf));
}

/* Every text of two bytes, and deep nesting: valid, or an error. */
TEST(test_json_hostile)
{
	char s[2];
	struct json j;

	for (unsigned i = 0; i < 0x10000; i += 7) {
		s[0] = (char)(i >> 8);
		s[1] = (char)i;
		kp_buf_reset(&buf);
		json_begin(&j, &buf);
		json_array(&j, NULL);
		json_string_n(&j, NULL, s, 2);
		json_end(&j);
		assert_json(kp_buf_cstr(&buf));
	}
	kp_buf_reset(&buf);
	json_begin(&j, &buf);
	for (int i = 0; i < 40; i++)
		json_array(&j, NULL);
	for (int i = 0; i < 40; i++)
		json_end(&j);
	assert_int_equal(buf.err, KP_ELIMIT);
}

#define NOW (INT64_C(1795255200) * S)	/* 2026-11-21T10:00:00Z */

TEST(test_when)
{
	struct kp_buf range;
	static const struct {
		const char *text;
		int64_t s;	/* since 10:00 */
	} good[] = {
		{ "30m", -1800 }, { "1h30m", -5400 }, { "2d", -172800 },
		{ "2026-11-21T10:00", 0 }, { "2026-11-21T10:00:05", 5 },
		{ "2026-11-21 10:00", 0 }, { "2026-11-21", -36000 },
		{ "2026-11-21T10:00Z", 0 }, { "2026-11-21T10:00+01:00", -3600 },
		{ "2026-11-21T10:00:00-0230", 9000 },
		/* of a day: the last one before now */
		{ "09:59", -60 }, { "10:00", 0 }, { "10:00:01", 1 - 86400 },
		{ "23:59Z", -36060 }, { "10:30+01:00", -1800 },
		{ "01:00-10:00", 3600 - 86400 },
	};
	static const char *const bad[] = { "", "30", "m", "30x", "--5m", "-", "+5m",
		"-2026-11-21",
		"1h30", "30ms", "yesterday", "2026-11", "2026-13-01",
		"2026-02-29", "2026-11-21T", "2026-11-21T24:00",
		"2026-11-21T1:00", "2026-11-21T10:00:5", "2026-11-21T10:00X",
		"2026-11-21T10:00+1", "2026-11-21T10:00.5", "1969-12-31",
		"24:00", "10:60", "10:5", "1:30", "10:00:61", "10:00Zx", "-10:00",
		"9999-01-01", "99999999999999999999d", "2026-11-21T10:00Zx" };
	kp_wall_ns t = 7;
	char b[TIMEFMT_MAX];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(timefmt_parse(good[i].text, NOW, INT64_MIN, &t));
		assert_int_equal(t, NOW + good[i].s * S);
	}
	t = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (timefmt_parse(bad[i], NOW, INT64_MIN, &t))
			fail_msg("'%s' was taken for a time", bad[i]);
	assert_int_equal(t, 7);
	assert_true(timefmt_parse("2026-11-21T10:00:00.25Z", NOW, INT64_MIN, &t));
	assert_int_equal(t, NOW + 250 * MS);
	assert_true(timefmt_parse("99999d", NOW, INT64_MIN, &t));
	assert_int_equal(t, 0);
	assert_string_equal(timefmt_iso(b, NOW + 5 * MS),
	    "2026-11-21T10:00:00.005Z");
	assert_string_equal(timefmt_iso(b, -1), "1969-12-31T23:59:59.999Z");
	/* of a damaged file; with a sanitizer these failed */
	assert_string_equal(timefmt_iso(b, INT64_MIN),
	    "1677-09-21T00:12:43.145Z");
	assert_string_equal(timefmt_iso(b, INT64_MAX),
	    "2262-04-11T23:47:16.854Z");
	kp_buf_init(&range, 256);
	timefmt_put_range(&range, INT64_MIN, INT64_MAX);
	assert_int_equal(range.err, KP_OK);
	kp_buf_free(&range);
}

TEST(test_when_range)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "give two times with a comma" },
		{ "2h", "give two times with a comma" },
		{ ",1h", "the first is not a length of time such as" },
		{ "2h,", "the second is not a length of time such as" },
		{ "x,1h", "the first is not" }, { "2h,x", "the second is not" },
		{ "3h,2h,1h", "the second is not" },
		{ "-1h,-2h", "the first is not before the second" },
		{ "1h,1h", "the first is not before the second" },
		{ "2026-11-21T10:00:00.000000000000000000000000000000000000,1h",
		    "the first is not" },
	};
	struct timefmt_range r = { 7, 7 };
	const char *why;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = timefmt_parse_range(bad[i].text, NOW, &r);
		assert_non_null(why);
		if (strncmp(why, bad[i].why, strlen(bad[i].why)) != 0)
			fail_msg("%s: %s", bad[i].text, why);
	}
	assert_int_equal(r.since, 7);
	assert_null(timefmt_parse_range("-2h,-1h", NOW, &r));
	assert_fields(r, IS(since, NOW - 7200 * S) IS(until, NOW - 3600 * S));
	assert_null(timefmt_parse_range("2026-11-21,90m", NOW, &r));
	assert_fields(r, IS(since, NOW - 36000 * S) IS(until, NOW - 5400 * S));
}

/*
 * -until 03:52 at 01:52 was yesterday's, and thus before -since 00:52.  Where the end of
 * DST repeats an hour, 02:30 was the day before's at 02:10, and the first one at 02:40.
 */
TEST(test_when_of_day)
{
	static const struct {
		const char *now, *after, *text, *then;
	} v[] = {
		{ "2026-11-29T01:52", "2026-11-29T00:52", "03:52", "2026-11-29T03:52" },
		{ "2026-11-29T01:52", "2026-11-28T22:00", "23:00", "2026-11-28T23:00" },
		{ "2026-11-29T01:52", "2026-11-26T22:00", "23:00", "2026-11-28T23:00" },
		{ "2026-11-29T01:52", "2026-11-29T00:52", "00:52", "2026-11-30T00:52" },
		{ "2026-11-29T23:40", "2026-11-29T23:30", "00:10", "2026-11-30T00:10" },
		{ "2026-11-29T01:52", "2027-01-01", "03:52", "2026-11-28T03:52" },
		{ "2026-10-25T01:10Z", NULL, "02:30", "2026-10-25T00:30Z" },
		{ "2026-10-25T01:40Z", NULL, "02:30", "2026-10-25T01:30Z" },
		{ "2026-10-25T01:10Z", "2026-10-25T00:40Z", "02:30", "2026-10-25T01:30Z" },
		{ "2026-10-25T12:00Z", NULL, "02:30", "2026-10-25T01:30Z" },
		{ "2026-03-29T01:10Z", NULL, "01:30", "2026-03-29T00:30Z" },
		{ "2026-11-29T01:52", NULL, "01:51:60", "2026-11-29T01:52" },
	};
	kp_wall_ns now, after, then, t;

	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		after = INT64_MIN;
		assert_true(timefmt_parse(v[i].now, 0, 0, &now));
		assert_true(v[i].after == NULL || timefmt_parse(v[i].after, 0, 0, &after));
		assert_true(timefmt_parse(v[i].then, 0, 0, &then));
		assert_true(timefmt_parse(v[i].text, now, after, &t));
		if (t != then)
			fail_msg("%s at %s: %lld s off", v[i].text, v[i].now,
			    (long long)((t - then) / S));
	}
}

TEST(test_when_local)
{
	kp_wall_ns t;
	char b[TIMEFMT_MAX];

	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	assert_true(timefmt_parse("2026-11-21T11:00", NOW, INT64_MIN, &t));
	assert_int_equal(t, NOW);
	assert_true(timefmt_parse("10:30", NOW, INT64_MIN, &t));
	assert_int_equal(t, NOW - 1800 * S);
	assert_true(timefmt_parse("11:00:01", NOW, INT64_MIN, &t));
	assert_int_equal(t, NOW - 86399 * S);
	assert_true(timefmt_parse("2026-07-01T12:00", NOW, INT64_MIN, &t));
	assert_string_equal(timefmt_iso(b, t), "2026-07-01T10:00:00.000Z");
	timefmt_put_range(&buf, NOW, NOW + 1800 * S);
	assert_string_equal(kp_buf_cstr(&buf),
	    "2026-11-21 11:00:00 to 11:30:00 +0100 (30m)");
	kp_buf_reset(&buf);
	timefmt_put_range(&buf, NOW, NOW + 86400 * S);
	assert_string_equal(kp_buf_cstr(&buf),
	    "2026-11-21 11:00:00 to 2026-11-22 11:00:00 +0100 (1d)");
}

TEST(test_diag)
{
	static const char src[] = "[{db,\t{d\xc3\xb6, x y}}].\r\nsecond \x1b\n";
	struct kp_diag v[] = {
		{ { 1, 14 }, false, (char *)"found 'y\x1b'" },
		{ { 2, 8 }, true, (char *)"odd" },
		{ { 9, 1 }, false, (char *)"past the end" },
	};
	struct kp_diags d = { v, 3, 52 };

	diag_text(&buf, "t.conf", src, sizeof(src) - 1, &d);
	assert_string_equal(kp_buf_cstr(&buf),
	    "t.conf:1:14: error: found 'y\\x1b'\n"
	    "  [{db, {d\xc3\xb6, x y}}].\n"
	    "               ^\n"
	    "t.conf:2:8: warning: odd\n"
	    "  second \\x1b\n"
	    "         ^\n"
	    "t.conf:9:1: error: past the end\n"
	    "t.conf: 50 more errors\n");
}

/* A file that is one endless line shows the part that matters. */
TEST(test_diag_long)
{
	struct kp_diag v = { { 1, 5001 }, false, (char *)"x" };
	struct kp_diags d = { &v, 1, 1 };
	char *src = malloc(10000);
	const char *line, *caret;

	memset(src, 'a', 10000);
	src[5000] = 'X';
	diag_text(&buf, "f", src, 10000, &d);
	free(src);
	assert_true(buf.len < 400);
	assert_has(kp_buf_cstr(&buf), "  ... aaa");
	assert_has(kp_buf_cstr(&buf), "aXa");
	assert_has(kp_buf_cstr(&buf), "aaa ...\n");
	/* the caret stands below it: both lines begin where they begin */
	line = strchr(kp_buf_cstr(&buf), '\n') + 1;
	caret = strchr(line, '\n') + 1;
	assert_int_equal(strchr(line, 'X') - line, strchr(caret, '^') - caret);
}

int __wrap_statfs(const char *path, struct statfs *st);

static long file_system;

int
__wrap_statfs(const char *path, struct statfs *st)
{
	st->f_type = file_system;
	return strncmp(path, "none", 4) == 0 ? -1 : 0;
}

/* File systems of other hosts, on which a database would not be safe. */
TEST(test_remote)
{
	file_system = 0x6969;
	assert_string_equal(file_remote("kprofd.db"), "NFS");
	assert_string_equal(file_remote("none"), "NFS");	/* its directory */
	assert_null(file_remote("none/none"));
	/* f_type has a sign on some machines */
	file_system = (int32_t)0xff534d42;
	assert_string_equal(file_remote("kprofd.db"), "CIFS");
	file_system = 0xef53;	/* ext4 */
	assert_null(file_remote("kprofd.db"));
}

TESTS(setup, teardown)
