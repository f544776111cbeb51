/*
 * The log: one valid line for an entry, whatever its texts hold, in both
 * formats, and a file that is opened anew.
 */
#include <sqlite3.h>
#include <unistd.h>

#include <event2/event.h>

#include "cases.h"
#include "daemon/log.h"

static char path[] = "/tmp/test_log.XXXXXX";
static char text[1 << 20];

FIXTURE(setup)
{
	int fd;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

FIXTURE(teardown)
{
	log_close();
	return unlink(path);
}

static void
begin(bool json, enum log_level least)
{
	const struct log_opts o = { .name = "kprofd", .file = path,
		.json = json, .least = least };

	assert_true(log_open(&o));
}

/* All that the file holds now. */
static size_t
contents(void)
{
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	return n;
}

/* One value of the JSON in text, by SQLite; "" for null. */
static const char *
value(const char *what)
{
	static char out[70000];
	sqlite3_stmt *st;
	sqlite3 *db;
	const char *v;

	assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "select json_extract(?, ?)",
	    -1, &st, NULL), SQLITE_OK);
	sqlite3_bind_text(st, 1, text, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, what, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	v = (const char *)sqlite3_column_text(st, 0);
	snprintf(out, sizeof(out), "%s", v != NULL ? v : "");
	sqlite3_finalize(st);
	sqlite3_close(db);
	return out;
}

TEST(test_fields)
{
	const struct log_entry e = { .level = LOG_LEVEL_WARNING,
		.event = "lost", .target = "app@host",
		.fields = { { .key = "cause", .text = "\"x\"" },
			{ .key = "n", .number = INT64_MIN },
			{ .key = "c", .number = 3 },
			{ .key = "d", .number = 4 } } };

	begin(true, LOG_LEVEL_INFO);
	log_put(&e, "lost '%s'", "app@host");
	contents();
	assert_string_equal(value("$.level"), "warning");
	assert_string_equal(value("$.event"), "lost");
	assert_string_equal(value("$.target"), "app@host");
	assert_string_equal(value("$.message"), "lost 'app@host'");
	assert_string_equal(value("$.fields.cause"), "\"x\"");
	assert_string_equal(value("$.fields.n"), "-9223372036854775808");
	assert_string_equal(value("$.fields.d"), "4");
	assert_int_equal(strlen(value("$.time")), strlen("2026-11-21T10:00:00.123Z"));
}

/* Random bytes, every length to past the limit: one line, and valid. */
TEST(test_bytes)
{
	char bytes[3000];
	unsigned seed = 1;
	size_t n;

	begin(true, LOG_LEVEL_INFO);
	for (size_t len = 0; len < sizeof(bytes); len += 37) {
		for (size_t i = 0; i < len; i++)
			bytes[i] = (char)(1 + rand_r(&seed) % 255);
		bytes[len] = '\0';
		assert_int_equal(truncate(path, 0), 0);
		log_put(&(struct log_entry){ .level = LOG_LEVEL_INFO,
		    .event = "x", .target = bytes,
		    .fields = { { .key = "f", .text = bytes } } }, "%s",
		    bytes);
		n = contents();
		assert_int_equal(strcspn(text, "\n"), n - 1);
		assert_string_equal(value("$.event"), "x");
		for (size_t i = 0; i < n - 1; i++)
			assert_true((unsigned char)text[i] >= 0x20 &&
			    text[i] != 0x7F);
	}
}

TEST(test_text)
{
	begin(false, LOG_LEVEL_INFO);
	log_warn("x", NULL, "a\n\x1b[31mb\xff");
	log_debug("x", NULL, "not told");
	contents();
	assert_string_equal(text + strlen("2026-11-21T10:00:00.123Z"),
	    " kprofd: warning: a\\x0a\\x1b[31mb\xef\xbf\xbd\n");
}

TEST(test_verbose)
{
	begin(true, LOG_LEVEL_DEBUG);
	log_debug("x", "n@h", "told");
	contents();
	assert_string_equal(value("$.level"), "debug");
	assert_string_equal(value("$.target"), "n@h");
}

TEST(test_quiet)
{
	begin(false, LOG_LEVEL_WARNING);
	log_info("x", NULL, "not this");
	assert_int_equal(contents(), 0);
	log_warn("x", NULL, "but this");
	assert_true(contents() > 0);
}

/* Moved away: what comes before the file is opened anew goes to the old one. */
TEST(test_reopen)
{
	char old[sizeof(path) + 2];

	begin(true, LOG_LEVEL_INFO);
	assert_true(log_has_file());
	log_info("x", NULL, "1");
	snprintf(old, sizeof(old), "%s.1", path);
	assert_int_equal(rename(path, old), 0);
	log_info("x", NULL, "2");
	log_reopen();
	log_info("x", NULL, "3");
	contents();
	assert_string_equal(value("$.message"), "3");
	assert_int_equal(rename(old, path), 0);
	contents();
	assert_has(text, "\"2\"");
	assert_lacks(text, "\"3\"");
}

/* Of several lines, as they are: a JSON log takes its own lines only. */
TEST(test_lines)
{
	const struct log_entry e = { .level = LOG_LEVEL_ERROR, .event = "x" };
	struct kp_buf b;

	begin(false, LOG_LEVEL_INFO);
	log_lines(LOG_LEVEL_WARNING, "a:1: b\n  ^\n", 11);
	contents();
	assert_string_equal(text, "a:1: b\n  ^\n");
	log_close();
	assert_false(log_has_file());
	assert_int_equal(truncate(path, 0), 0);
	begin(true, LOG_LEVEL_INFO);
	assert_true(log_is_json());
	kp_buf_init(&b, 1000);
	log_put_json(&b, &e, "m\n");
	log_lines(e.level, (const char *)b.p, b.len);
	kp_buf_free(&b);
	contents();
	assert_string_equal(value("$.message"), "m\n");
	assert_string_equal(value("$.level"), "error");
}

static void
loop_again(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	/* what libevent warns of */
	for (int i = 0; i < 100; i++)
		event_base_loop(ctx, 0);
}

/* It had warned on stderr, in lines of its own: "[warn] ..." */
TEST(test_libevent)
{
	struct timeval now = { 0, 0 };
	struct event_base *base = event_base_new();
	unsigned n = 0;

	begin(false, LOG_LEVEL_INFO);
	log_libevent();
	event_base_once(base, -1, EV_TIMEOUT, loop_again, base, &now);
	event_base_dispatch(base);
	event_base_free(base);
	contents();
	for (const char *p = text; (p = strstr(p, "kprofd: warning: libevent: "
	    "event_base_loop: reentrant invocation.")) != NULL; p++)
		n++;
	assert_int_equal(n, LOG_LIBEVENT_A_MINUTE);
}

TESTS(setup, teardown)
