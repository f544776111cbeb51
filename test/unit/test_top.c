/*
 * kprof top without a terminal: what bytes are which keys, what keys do to the
 * view, in what order rows stand, and that a frame always fits.
 */
#include <time.h>

#include "cases.h"
#include "text/keys.h"
#include "text/text.h"
#include "report/top.h"

#define MS KP_NS_PER_MS
#define S KP_NS_PER_S
#define ROWS 40
#define TIERS 3

static struct kp_buf buf;
static struct report rep;
static struct report_row rows[ROWS];
static struct report_cell cells[ROWS][TIERS + 1];
static char names[ROWS][64];
static char *tiers[TIERS] = { "http", "db", "\x1b[2Jtpl" };
static const char *node_names[] = { "a@h", "b@h" };
static struct kp_query_request slow_rows[3];
static struct kp_query_requests slow = { slow_rows, 3 };
static struct kp_query_nodes nodes = { node_names, 2 };
static struct top_status status;
static struct top_data data;
static struct top_view view;

static void
make_row(size_t i)
{
	struct report_cell *c = cells[i];

	snprintf(names[i], sizeof(names[i]), i == 0 ? "_total" :
	    i == 7 ? "gr\xc3\xbc\xc3\x9f" "e \xe6\x9d\xb1\xe4\xba\xac \x1b[31m"
	    : "op%02zu", i);
	rows[i] = (struct report_row){ .identity = names[i], .cells = c,
		.share = (double)i / ROWS };
	memset(c, 0, sizeof(cells[i]));
	c[0].requests = c[0].calls = c[0].timed = c[0].sampled_requests =
	    100 * (i + 1);
	c[0].mean = (kp_dur_ns)(ROWS - i) * MS;
	c[0].p99 = (kp_dur_ns)((i * 7) % ROWS) * MS;
	c[0].raised = i % 5;
	c[0].total = (kp_dur_ns)((i * 11) % ROWS) * S;
	for (size_t t = 1; t <= TIERS; t++) {
		c[t].calls = c[t].timed = i;
		c[t].busy = (kp_dur_ns)(i * t) * MS;
		c[t].self = (kp_dur_ns)(ROWS - i) * S;
	}
}

FIXTURE(setup)
{
	setenv("TZ", "UTC", 1);
	tzset();
	kp_buf_init(&buf, 1 << 20);
	for (size_t i = 0; i < ROWS; i++)
		make_row(i);
	for (size_t i = 0; i < ROWS; i++)
		rows[i].counted = 60 * S;
	rep = (struct report){ .windows = 6, .covered = 60 * S, .tiers = tiers,
		.ntiers = TIERS, .rows = rows, .nrows = ROWS };
	rep.losses.n[KP_LOSS_SAMPLED_OUT] = 1234;
	for (size_t i = 0; i < slow.n; i++)
		slow_rows[i] = (struct kp_query_request){ .id = 41 + (int)i,
			.start = 1763719200 * S, .total = 300 * MS,
			.node = "a@h", .identity = "op01",
			.outcome = KP_RETURNED, .ncalls = 5 };
	status = (struct top_status){ .asked = 1, .answered = 1, .armed = 1,
		.ntargets = 1, .n = 1 };
	status.targets[0] = (struct top_target){ .node = "a@h",
		.state = "armed", .one_in = 4, .in_flight = 12, .cost = 1.5 };
	data = (struct top_data){ .now = 1763719210 * S,
		.last = 1763719205 * S, .report = &rep, .slow = &slow,
		.nodes = &nodes, .status = &status };
	top_view_init(&view);
	return 0;
}

FIXTURE(teardown)
{
	kp_buf_free(&buf);
	return 0;
}

static const char *
frame(unsigned width, unsigned height)
{
	kp_buf_reset(&buf);
	top_frame(&buf, &view, &data, width, height);
	assert_int_equal(buf.err, KP_OK);
	return kp_buf_cstr(&buf);
}

static enum top_action
press(int key)
{
	enum top_action a = top_key(&view, &data, key, 10);

	if (a == TOP_DRAW)
		top_sort(&rep, &view);
	return a;
}

static int
one_key(const char *bytes, size_t n, bool quiet, size_t want_used)
{
	size_t used = 99;
	int key = key_decode((const uint8_t *)bytes, n, quiet, &used);

	assert_int_equal(used, want_used);
	return key;
}

TEST(test_keys)
{
	assert_int_equal(one_key("q", 1, false, 1), 'q');
	assert_int_equal(one_key("\t", 1, false, 1), '\t');
	assert_int_equal(one_key("\0", 1, false, 1), KEY_OTHER);
	assert_int_equal(one_key("\x1b[Aq", 4, false, 3), KEY_UP);
	assert_int_equal(one_key("\x1bOB", 3, false, 3), KEY_DOWN);
	assert_int_equal(one_key("\x1b[5~", 4, false, 4), KEY_PAGE_UP);
	assert_int_equal(one_key("\x1b[6~", 4, false, 4), KEY_PAGE_DOWN);
	assert_int_equal(one_key("\x1b[1~", 4, false, 4), KEY_HOME);
	assert_int_equal(one_key("\x1b[F", 3, false, 3), KEY_END);
	/* with Ctrl held, and a key that means nothing here */
	assert_int_equal(one_key("\x1b[1;5C", 6, false, 6), KEY_RIGHT);
	assert_int_equal(one_key("\x1b[15~", 5, false, 5), KEY_OTHER);
	/* an umlaut is one key, a byte that begins nothing another */
	assert_int_equal(one_key("\xc3\xbcq", 3, false, 2), KEY_OTHER);
	assert_int_equal(one_key("\xffq", 2, false, 1), KEY_OTHER);
}

TEST(test_keys_in_parts)
{
	assert_int_equal(one_key("\x1b", 1, false, 0), KEY_NONE);
	assert_int_equal(one_key("\x1b[", 2, false, 0), KEY_NONE);
	assert_int_equal(one_key("\x1b[1;", 4, false, 0), KEY_NONE);
	assert_int_equal(one_key("\x1bO", 2, false, 0), KEY_NONE);
	/* nothing more came */
	assert_int_equal(one_key("\x1b", 1, true, 1), KEY_ESC);
	assert_int_equal(one_key("\x1b[1;", 4, true, 4), KEY_OTHER);
	/* Alt and q */
	assert_int_equal(one_key("\x1bq", 2, false, 1), KEY_ESC);
	/* broken off by another key's */
	assert_int_equal(one_key("\x1b[1\x1b[A", 6, false, 4), KEY_OTHER);
}

/* Whatever comes, in whatever pieces: it is taken, and it ends. */
TEST(test_keys_any)
{
	uint32_t seed = 1;
	uint8_t p[KEY_BYTES_MAX];
	size_t used;
	int key;

	for (int i = 0; i < 200000; i++) {
		for (size_t k = 0; k < sizeof(p); k++) {
			seed = seed * 1664525u + 1013904223u;
			p[k] = (uint8_t)(seed >> 24);
			if (k < 2 && seed % 3 == 0)
				p[k] = k == 0 ? 0x1b : '[';
			else if (seed % 3 == 1)
				p[k] = (uint8_t)('0' + p[k] % 12);
		}
		key = key_decode(p, sizeof(p), false, &used);
		assert_int_not_equal(key, KEY_NONE);
		assert_in_range(used, 1, sizeof(p));
		key = key_decode(p, 1 + seed % 4, true, &used);
		assert_int_not_equal(key, KEY_NONE);
		assert_in_range(used, 1, 1 + seed % 4);
	}
}

TEST(test_sort_keys)
{
	static const char *const order[] = { "requests", "total", "p99",
		"errors", "share", "name", "http", "db", "\x1b[2Jtpl" };

	for (size_t i = 0; i < 9; i++) {
		assert_string_equal(top_sort_name(&rep, i), order[i]);
		assert_string_equal(view.sort, order[i]);
		assert_int_equal(press('s'), TOP_DRAW);
	}
	assert_null(top_sort_name(&rep, 9));
	assert_string_equal(view.sort, "requests");
	press(KEY_LEFT);
	assert_string_equal(view.sort, order[8]);
	press('>');
	assert_string_equal(view.sort, "requests");
	/* a tier that has gone */
	strcpy(view.sort, "gone");
	press('s');
	assert_string_equal(view.sort, "total");
}

TEST(test_order)
{
	top_sort(&rep, &view);
	assert_string_equal(rows[0].identity, "_total");
	assert_string_equal(rows[1].identity, "op39");
	press('r');
	assert_string_equal(rows[0].identity, "_total");
	assert_string_equal(rows[1].identity, "op01");
	press('r');
	strcpy(view.sort, "total");
	top_sort(&rep, &view);
	assert_string_equal(rows[1].identity, "op01");
	strcpy(view.sort, "p99");
	top_sort(&rep, &view);
	assert_string_equal(rows[1].identity, "op17");	/* 119 % 40 = 39 */
	strcpy(view.sort, "share");
	top_sort(&rep, &view);
	assert_string_equal(rows[1].identity, "op29");	/* 319 % 40 = 39 */
	strcpy(view.sort, "errors");
	top_sort(&rep, &view);
	assert_string_equal(rows[1].identity, "op04");	/* 4 of 500 */
	strcpy(view.sort, "name");
	top_sort(&rep, &view);
	assert_memory_equal(rows[1].identity, "gr", 2);
	/* by a tier: what is shown of it */
	strcpy(view.sort, "db");
	top_sort(&rep, &view);
	assert_string_equal(rows[1].identity, "op01");
	for (int i = 0; i < 4; i++)
		press('w');
	assert_int_equal(view.what, REPORT_BUSY);
	assert_string_equal(rows[1].identity, "op39");
}

TEST(test_node_keys)
{
	view.first = 5;
	assert_int_equal(press('n'), TOP_READ);
	assert_fields(view, IS(node, "a@h") IS(first, 0));
	press('n');
	assert_string_equal(view.node, "b@h");
	press('n');
	assert_string_equal(view.node, "");
	press('N');
	assert_string_equal(view.node, "b@h");
	/* it went */
	nodes.n = 1;
	press('n');
	assert_string_equal(view.node, "a@h");
	nodes.n = 0;
	press('n');
	assert_string_equal(view.node, "");
	nodes.n = 2;
}

TEST(test_other_keys)
{
	strcpy(view.message, "told");
	assert_int_equal(press('q'), TOP_QUIT);
	assert_string_equal(view.message, "");
	assert_int_equal(press('p'), TOP_PAUSE);
	assert_int_equal(press('c'), TOP_RESUME);
	assert_int_equal(press(' '), TOP_DRAW);
	assert_true(view.held);
	assert_int_equal(press(' '), TOP_READ);
	assert_int_equal(press('z'), TOP_NOTHING);
	assert_int_equal(press(KEY_OTHER), TOP_NOTHING);
	for (int i = 0; i < TOP_SPANS; i++)
		press('+');
	assert_int_equal(view.span, TOP_SPANS - 1);
	assert_int_equal(press('+'), TOP_NOTHING);
	for (int i = 0; i < TOP_SPANS; i++)
		press('-');
	assert_int_equal(view.span, 0);
	press('\t');
	assert_int_equal(view.screen, TOP_SLOW);
	press('\t');
	press('\t');
	assert_int_equal(view.screen, TOP_TIERS);
	press('3');
	assert_int_equal(view.screen, TOP_LOSSES);
	press('h');
	assert_int_equal(view.screen, TOP_HELP);
	press(KEY_ESC);
	assert_int_equal(view.screen, TOP_TIERS);
}

/* The first tier was shown, and the one that all time passes in cut. */
TEST(test_cheapest_are_one_column)
{
	const char *s;

	for (size_t t = 1; t <= TIERS; t++)
		cells[0][t].calls = cells[0][t].timed = 100;
	cells[0][3].self *= 10;
	s = frame(82, 30);
	assert_has(s, "  \\x1b[2Jtpl  2 other\n");
	assert_lacks(s, "http");
	assert_has(s, "    4 000 ms   800 ms\n-");
	/* what rows are in order of stays */
	strcpy(view.sort, "http");
	s = frame(82, 30);
	assert_has(s, "   http*   2 other\n");
	assert_has(frame(150, 30), "   http*      db  \\x1b[2Jtpl\n");
}

/* A bound is what was counted; what was estimated from samples looks so. */
TEST(test_errors_seen_in_part)
{
	struct report_cell *c = &cells[1][0];

	c->unseen = 5;
	c->sampled_calls = c->calls;
	assert_has(frame(150, 50), " >= 1 ");
	c->sampled_calls = c->calls / 10;
	assert_has(frame(150, 50), " ~1 or more ");
	assert_lacks(kp_buf_cstr(&buf), ">= 1 ");
}

/* Every screen at every size: as many lines as asked for, none too wide. */
TEST(test_fits)
{
	const char *s;
	size_t lines;
	char line[4096];

	strcpy(view.message, "gr\xc3\xbc\xc3\x9f" "e \xe6\x9d\xb1\xe4\xba\xac");
	for (unsigned w = 1; w < 140; w += w < 50 ? 1 : 7) {
		for (unsigned h = 1; h < 60; h += h < 30 ? 1 : 5) {
			view.screen = (enum top_screen)((w + h) % TOP_SCREENS);
			view.first = h * w % 50;
			s = frame(w, h);
			for (lines = 1; ; lines++) {
				size_t n = strcspn(s, "\n");

				assert_in_range(n, 0, sizeof(line) - 1);
				memcpy(line, s, n);
				line[n] = '\0';
				assert_true(text_width(line) <= w);
				assert_null(strchr(line, 0x1b));
				if (s[n] == '\0')
					break;
				s += n + 1;
			}
			assert_int_equal(lines, h);
		}
	}
}

/* The first window still runs; what is odd about it is said as well. */
TEST(test_running)
{
	static char *hints[] = { "all 12 requests are of the type undefined" };
	const char *s;

	rep.running = true;
	rep.covered = 4 * KP_NS_PER_S;
	rep.hints = hints;
	rep.nhints = 1;
	top_sort(&rep, &view);
	s = frame(120, 40);
	assert_has(s, "(running window: 4 s so far)");
	assert_lacks(s, "(windows until");
	assert_has(s, "\nall 12 requests are of the type undefined\n");
	rep.running = false;
	rep.hints = NULL;
	rep.nhints = 0;
}

/* Whoever has paused is told how to go on. */
TEST(test_resume)
{
	char was[TOP_TEXT_MAX];

	assert_has(frame(120, 40), "  p pause  h help");
	strcpy(was, status.targets[0].state);
	strcpy(status.targets[0].state, "paused");
	assert_has(frame(120, 40), "  c resume  h help");
	strcpy(status.targets[0].state, was);
}

TEST(test_tiers)
{
	const char *s;

	top_sort(&rep, &view);
	s = frame(120, 40);
	assert_has(s, "kprof top  all nodes (2)  last 1m  by requests*");
	assert_has(s, "(windows until 5s ago)");
	assert_has(s, "a@h: armed, one request in 4, 12 in "
	    "flight, costs 1.50 % of a scheduler");
	assert_has(s, "losses: 1 234 requests passed over by "
	    "sampling; the others stand for them (sampled_out)");
	assert_has(s, "tiers: self (exclusive) time per request");
	assert_has(s, "req/s*");
	assert_has(s, "\\x1b[2Jtpl");
	assert_has(s, "\nall requests  ");
	assert_has(s, "\nop39  ");
	assert_non_null(strstr(s, "outcome"));	/* and the slow below */
	assert_has(s, "\n41  ");
	assert_has(s, "\nq end");
}

/* The head stays where rows scroll, and the last row is the last. */
TEST(test_scrolls)
{
	const char *s;

	slow.n = 0;
	top_sort(&rep, &view);
	s = frame(100, 20);
	assert_has(s, "\nop39  ");
	assert_lacks(s, "\nop01  ");
	press(KEY_DOWN);
	s = frame(100, 20);
	assert_lacks(s, "\nop39  ");
	assert_has(s, "\nall requests  ");
	press(KEY_END);
	s = frame(100, 20);
	assert_has(s, "\nop01  ");
	/* 39 rows, 20 lines: 5 of the head, 4 of the table's, the keys */
	assert_int_equal(view.first, 39 - 10);
	press(KEY_UP);
	assert_int_equal(view.first, 39 - 11);
	press(KEY_HOME);
	s = frame(100, 20);
	assert_has(s, "\nop39  ");
	slow.n = 3;
}

TEST(test_narrow)
{
	const char *s;

	top_sort(&rep, &view);
	s = frame(40, 24);
	/* tiers go first, from the right; rate and time stay */
	assert_has(s, "req/s*");
	assert_has(s, "total");
	assert_lacks(s, "tpl");
}

TEST(test_nothing)
{
	const char *s;

	data.report = NULL;
	data.why = "cannot open '\x1b[2J'";
	status.answered = 0;
	strcpy(status.why, "cannot reach kprofd");
	s = frame(100, 10);
	assert_has(s, "no figures: cannot open '\\x1b[2J'");
	assert_has(s, "cannot reach kprofd");
	assert_int_equal(press('s'), TOP_DRAW);
	data.why = NULL;
	data.report = &rep;
	rep.windows = 0;
	s = frame(100, 10);
	assert_has(s, "no figures yet");
}

TEST(test_many_targets)
{
	const char *s;

	for (size_t i = 0; i < 9; i++) {
		status.targets[i] = (struct top_target){ .state = "armed",
			.one_in = 1, .in_flight = 2, .armed = true,
			.resting = i == 0, .cost = (double)i };
		snprintf(status.targets[i].node, TOP_TEXT_MAX, "n%zu@h", i);
	}
	status.n = status.ntargets = status.armed = 9;
	s = frame(100, 24);
	assert_has(s, "9 of 9 targets armed, 1 overloaded, 18 requests "
	    "in flight, at most 8.00 % of a scheduler each");
	strcpy(view.node, "n3@h");
	s = frame(100, 24);
	assert_has(s, "n3@h: armed, 2 in flight");
	assert_lacks(s, "n4@h");
}

/* For a file: everything, in any length, and no keys. */
TEST(test_plain)
{
	const char *s;

	top_sort(&rep, &view);
	s = frame(0, 0);
	assert_has(s, "\nop39  ");
	assert_has(s, "\nop01  ");
	assert_has(s, "\n43  ");
	assert_lacks(s, "q end");
}

TESTS(setup, teardown)
