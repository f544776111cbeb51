/*
 * test_intern.c - what identities read like, which one names a request, and
 * the tables underneath against naive ones.
 */
#include "cases.h"
#include "pick.h"
#include "feed.h"
#include "base/map.h"

#define T(name) TEST_WITH(name, setup, teardown)

static const char conf[] =
    "{tiers, [{web, {e,e,1}}, {db, {a,a,1}}]}.\n"
    "{sampling, all}.\n"
    "{rewrite, [{\"/users/[0-9]+\", \"/users/:id\"},\n"
    "           {\"^secret.*\", \"\"},\n"
    "           {\"^wide\", \""
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "01234567890123456789012345678901234567890123\"}]}.\n";

static struct feed f;
static struct kp_buf t;

FIXTURE(setup)
{
	feed_init(&f, conf, NULL);
	kp_buf_init(&t, 1 << 20);
	return 0;
}

FIXTURE(teardown)
{
	feed_free(&f);
	kp_buf_free(&t);
	return 0;
}

/* The text of the term in t, as a request of that identity closes with it. */
static const char *
identity(void)
{
	static uint64_t label;
	static char text[2048];
	char *quote;

	f.raw_identity = (struct kp_span){ t.p, (uint32_t)t.len };
	label++;
	entry(&f, 1, "e", "x", label, (double)label * 1000);
	back_to(&f, 1, "x", (double)label * 1000);
	expire(&f, (double)label * 1000 + 300);
	snprintf(text, sizeof(text), "%s", kp_buf_cstr(&f.text));
	kp_buf_reset(&f.text);
	kp_buf_reset(&t);
	quote = strrchr(text, '\'');
	if (quote == NULL)
		return "none";
	*quote = '\0';
	return strchr(text, '\'') + 1;
}

static const char *
binary(const char *s)
{
	kp_etf_binary(&t, s, strlen(s));
	return identity();
}

static void
chars(const int64_t *c, uint32_t n)
{
	kp_etf_list(&t, n);
	for (uint32_t i = 0; i < n; i++)
		kp_etf_int(&t, c[i]);
	kp_etf_nil(&t);
}

T(kinds_of_terms)
{
	kp_etf_atom(&t, "create");
	assert_string_equal(identity(), "create");
	assert_string_equal(binary("GET /"), "GET /");
	/* the prefix is for the VM; no other atom has one */
	kp_etf_tuple(&t, 2);
	kp_etf_atom(&t, "Elixir.Shop.CartController");
	kp_etf_atom(&t, "show");
	assert_string_equal(identity(), "Shop.CartController show");
	kp_etf_atom(&t, "Elixir.");
	assert_string_equal(identity(), "Elixir.");
	kp_etf_atom(&t, "Elixir.shop");
	assert_string_equal(identity(), "Elixir.shop");
	assert_string_equal(binary("Elixir.Shop"), "Elixir.Shop");
	kp_etf_string(&t, "string", 6);
	assert_string_equal(identity(), "string");
	kp_etf_string(&t, "\xe4", 1);
	assert_string_equal(identity(), "\xc3\xa4");
	chars((int64_t[]){ 'a', 0xe4, 0x20ac, 0x1f600 }, 4);
	assert_string_equal(identity(), "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	kp_etf_int(&t, -42);
	assert_string_equal(identity(), "-42");
	kp_etf_float(&t, 1.5);
	assert_string_equal(identity(), "1.5");
	kp_etf_tuple(&t, 2);
	kp_etf_atom(&t, "get");
	kp_etf_binary(&t, "/x", 2);
	assert_string_equal(identity(), "get /x");
	kp_etf_tuple(&t, 2);
	kp_etf_tuple(&t, 2);
	kp_etf_int(&t, 1);
	kp_etf_tuple(&t, 1);
	kp_etf_atom(&t, "a");
	kp_etf_string(&t, "b", 1);
	assert_string_equal(identity(), "1 a b");
	kp_etf_map(&t, 1);
	kp_etf_atom(&t, "k");
	kp_etf_int(&t, 1);
	assert_string_equal(identity(), "#{k => 1}");
}

/* Half of it was written before the list turned out to be no text. */
T(lists_that_are_no_text)
{
	kp_etf_list(&t, 2);
	kp_etf_int(&t, 300);
	kp_etf_atom(&t, "foo");
	kp_etf_nil(&t);
	assert_string_equal(identity(), "[300,foo]");
	kp_etf_list(&t, 1);
	kp_etf_int(&t, 300);
	kp_etf_atom(&t, "tail");
	assert_string_equal(identity(), "[300|tail]");
}

T(no_utf8)
{
	assert_string_equal(binary("ok \xc3\xa4"), "ok \xc3\xa4");
	assert_string_equal(binary("bad \xe4"), "bad \\xe4");
	assert_string_equal(binary("a\tb\x7f"), "a\\x09b\\x7f");
	/* too long, a surrogate, past the last character, cut off */
	assert_string_equal(binary("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
	assert_string_equal(binary("\xed\xa0\x80"), "\\xed\\xa0\\x80");
	assert_string_equal(binary("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
	assert_string_equal(binary("\xf0\x80\x80\x80"), "\\xf0\\x80\\x80\\x80");
	assert_string_equal(binary("\xe2\x82"), "\\xe2\\x82");
	chars((int64_t[]){ 0xd800, 0x110000, -1 }, 3);
	assert_string_equal(identity(),
	    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

/* Cut at 255 bytes, never inside a character. */
T(long_texts)
{
	char s[600];
	const char *got;

	for (size_t shift = 0; shift < 4; shift++) {
		memset(s, 'a', shift);
		for (size_t i = shift; i + 4 <= 590; i += 4)
			memcpy(s + i, "\xf0\x9f\x98\x80", 5);
		got = binary(s);
		assert_int_equal(strlen(got), shift == 3 ? 255 : 252 + shift);
		assert_memory_equal(got, s, strlen(got));
	}
	/* Also after a rewrite: 254 bytes come before the character. */
	got = binary("wide\xc3\xa4z");
	assert_int_equal(strlen(got), 254);
	/* Far more than there is room for. */
	kp_buf_reset(&t);
	kp_etf_tuple(&t, 200);
	for (int i = 0; i < 200; i++)
		kp_etf_binary(&t, s, 500);
	assert_int_equal(strlen(identity()), 255);
	kp_etf_list(&t, 5000);
	for (int i = 0; i < 5000; i++)
		kp_etf_int(&t, 0x20ac);
	kp_etf_nil(&t);
	assert_int_equal(strlen(identity()), 255);
}

T(rewrites)
{
	assert_string_equal(binary("GET /users/17/x"), "GET /users/:id/x");
	assert_string_equal(binary("GET /users/4711/x"), "GET /users/:id/x");
	assert_string_equal(binary("GET /users/me"), "GET /users/me");
	/* Nothing is left: nothing names it. */
	assert_string_equal(binary("secret 1"), "none");
}

/* Names that mean something to kprofd. */
T(reserved_names)
{
	kp_etf_atom(&t, "_other");
	assert_string_equal(identity(), "_other");
	kp_etf_atom(&t, "_total");
	assert_string_equal(identity(), "_other");
	kp_etf_atom(&t, "_total");
	assert_string_equal(identity(), "_other");
	kp_etf_nil(&t);
	assert_string_equal(identity(), "none");
	kp_etf_tuple(&t, 0);
	assert_string_equal(identity(), "none");
}

/* The first that is not undefined, wherever in the request it comes. */
T(first_one_names)
{
	entry(&f, 1, "e", "x", 1, 0);
	f.identity = "undefined";
	call(&f, 1, "a", "e", 1, 1);
	back_to(&f, 1, "e", 2);
	f.identity = "first";
	call(&f, 2, "a", "e", 1, 3);
	back_to(&f, 2, "e", 4);
	f.identity = "second";
	call(&f, 1, "a", "e", 1, 5);
	back_to(&f, 1, "e", 6);
	back_to(&f, 1, "x", 7);
	expire(&f, 1000);
	assert_has(kp_buf_cstr(&f.text), "#1 unknown 'first' 0-7");
}

/* {'_queued', Microseconds, ...}: what is behind it names the request. */
T(time_in_queue)
{
	static const struct {
		int64_t us;
		int names;
		const char *text;
		kp_dur_ns queued;
	} rows[] = {
		{ 1500, 2, "job W", 1500000 }, { 0, 1, "job", 0 },
		/* clocks of two nodes differ; and more than fits */
		{ -7, 2, "job W", -1 }, { INT64_MAX / 2, 1, "job", -1 },
		/* it names nothing */
		{ 1500, 0, "_queued 1500", -1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		kp_etf_tuple(&t, 2 + (uint32_t)rows[i].names);
		kp_etf_atom(&t, "_queued");
		kp_etf_int(&t, rows[i].us);
		if (rows[i].names > 0)
			kp_etf_atom(&t, "job");
		if (rows[i].names > 1)
			kp_etf_binary(&t, "W", 1);
		assert_string_equal(identity(), rows[i].text);
		assert_int_equal(f.queued, rows[i].queued);
	}
	kp_etf_tuple(&t, 3);
	kp_etf_atom(&t, "_queued");
	kp_etf_atom(&t, "long");
	kp_etf_atom(&t, "job");
	assert_string_equal(identity(), "_queued long job");
	assert_int_equal(f.queued, -1);
}

/* A call that names the request came first, from another process: what it said stays. */
T(time_in_queue_said_early)
{
	kp_etf_tuple(&t, 3);
	kp_etf_atom(&t, "_queued");
	kp_etf_int(&t, 1500);
	kp_etf_atom(&t, "job");
	f.raw_identity = (struct kp_span){ t.p, (uint32_t)t.len };
	call(&f, 2, "a", "x", 1, 5);
	back_to(&f, 2, "x", 6);
	f.raw_identity = (struct kp_span){ NULL, 0 };
	entry(&f, 1, "e", "x", 1, 0);
	back_to(&f, 1, "x", 10);
	expire(&f, 1000);
	assert_has(kp_buf_cstr(&f.text), "'job'");
	assert_int_equal(f.queued, 1500000);
}

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define ZEROS "0000000000000000"

/* What W3C Trace Context allows, and what is made of it: version 00, one flag. */
TEST(traceparents)
{
	static const struct {
		const char *text, *read;
	} rows[] = {
		{ "00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-01" },
		{ "00-" TRACE "-" SPAN "-00", "00-" TRACE "-" SPAN "-00" },
		/* other flags say nothing to us */
		{ "00-" TRACE "-" SPAN "-fe", "00-" TRACE "-" SPAN "-00" },
		{ "00-" TRACE "-" SPAN "-03", "00-" TRACE "-" SPAN "-01" },
		/* later versions: the same, and more after a dash; ff is none */
		{ "01-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-01" },
		{ "cc-" TRACE "-" SPAN "-01-what", "00-" TRACE "-" SPAN "-01" },
		{ "01-" TRACE "-" SPAN "-01-", "00-" TRACE "-" SPAN "-01" },
		{ "01-" TRACE "-" SPAN "-01what", "" },
		{ "ff-" TRACE "-" SPAN "-01", "" },
		{ "cc-" TRACE "-" SPAN "-01-whatever1", "" },	/* longer than is copied */
		{ "00-" TRACE "-" SPAN "-01-", "" },
		{ "00-" TRACE "-" SPAN "-0", "" },
		{ "00-" TRACE "-" SPAN "-", "" },
		{ "00-" ZEROS ZEROS "-" SPAN "-01", "" },
		{ "00-" TRACE "-" ZEROS "-01", "" },
		{ "00-4BF92f3577b34da6a3ce929d0e0e4736-" SPAN "-01", "" },
		{ "00-" TRACE "-00f067aa0ba902bg-01", "" },
		{ "0g-" TRACE "-" SPAN "-01", "" },
		{ "00-" TRACE "-" SPAN "-0g", "" },
		{ "00_" TRACE "-" SPAN "-01", "" },
		{ "00-" TRACE "_" SPAN "-01", "" },
		{ "00-" TRACE "-" SPAN "_01", "" },
		{ " 00-" TRACE "-" SPAN "-01", "" },
		{ "", "" },
	};
	char read[KP_TRACEPARENT];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(kp_traceparent_parse(read, rows[i].text,
		    strlen(rows[i].text)), rows[i].read[0] != '\0');
		assert_string_equal(read, rows[i].read);
		assert_int_equal(kp_traceparent_sampled(read), read[0] != '\0' &&
		    read[54] == '1');
	}
	/* a NUL is no digit */
	assert_false(kp_traceparent_parse(read, "00-" TRACE "-" SPAN "-\0\0", 55));
	assert_true(kp_is_trace_id(TRACE));
	assert_false(kp_is_trace_id(TRACE "0") || kp_is_trace_id(SPAN) ||
	    kp_is_trace_id("4BF92f3577b34da6a3ce929d0e0e4736"));
}

static void
put_trace(void (*put)(struct kp_buf *b, const void *p, size_t n), const char *text)
{
	kp_etf_tuple(&t, 3);
	kp_etf_atom(&t, KP_TRACE_TAG);
	put(&t, text, strlen(text));
}

static void
put_binary(struct kp_buf *b, const void *p, size_t n)
{
	kp_etf_binary(b, p, n);
}

static void
put_string(struct kp_buf *b, const void *p, size_t n)
{
	kp_etf_list(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		kp_etf_int(b, ((const char *)p)[i]);
	kp_etf_nil(b);
}

#define PARENT "00-" TRACE "-" SPAN "-01"

/* {'_trace', Traceparent, Identity}: the identity is what it would be without. */
T(traced)
{
	put_trace(put_binary, PARENT);
	kp_etf_atom(&t, "get");
	assert_string_equal(identity(), "get");
	assert_string_equal(f.traceparent, PARENT);
	put_trace(put_string, PARENT);
	kp_etf_nil(&t);
	assert_string_equal(identity(), "none");
	assert_string_equal(f.traceparent, PARENT);
	/* what is behind it is read as ever: a label of the entry's call */
	put_trace(put_binary, PARENT);
	kp_etf_tuple(&t, 2);
	kp_etf_atom(&t, KP_LABEL_TAG);
	kp_etf_atom(&t, "users");
	assert_string_equal(identity(), "none");
	assert_string_equal(f.traceparent, PARENT);
	/* an invalid one, of any type, is not seen */
	put_trace(put_binary, "00-" TRACE "-" SPAN "-0x");
	kp_etf_atom(&t, "get");
	assert_string_equal(identity(), "get");
	assert_string_equal(f.traceparent, "");
	put_trace(put_string, "short");
	kp_etf_atom(&t, "undefined");
	assert_string_equal(identity(), "none");
	assert_string_equal(f.traceparent, "");
	kp_etf_tuple(&t, 3);
	kp_etf_atom(&t, KP_TRACE_TAG);
	kp_etf_int(&t, 7);
	kp_etf_atom(&t, "get");
	assert_string_equal(identity(), "get");
	assert_string_equal(f.traceparent, "");
}

/*
 * A request inside another is in its trace, unless it has one of its own; not so one
 * that only took over its token.
 */
T(inherited)
{
	put_trace(put_binary, PARENT);
	kp_etf_atom(&t, "outer");
	f.raw_identity = (struct kp_span){ t.p, (uint32_t)t.len };
	entry(&f, 1, "e", "x", 1, 0);
	f.raw_identity = (struct kp_span){ NULL, 0 };
	feed_event(&f, &(struct kp_event){ .kind = KP_EV_ENTRY, .pid = feed_pid(1),
	    .ts = feed_time(1), .label = 2, .old_label = 1, .weight = 1 }, "e", "e");
	back_to(&f, 1, "e", 2);
	expire(&f, 400);
	assert_has(kp_buf_cstr(&f.text), "#2");
	assert_string_equal(f.traceparent, PARENT);
	back_to(&f, 1, "x", 500);
	feed_event(&f, &(struct kp_event){ .kind = KP_EV_ENTRY, .pid = feed_pid(1),
	    .ts = feed_time(501), .label = 3, .old_label = 1, .weight = 1 }, "e", "x");
	expire(&f, 800);
	assert_string_equal(f.traceparent, PARENT);
	back_to(&f, 1, "x", 900);
	expire(&f, 2000);
	assert_has(kp_buf_cstr(&f.text), "#3");
	assert_string_equal(f.traceparent, "");
}

/* Between slices only the entry is seen, and that has it, too. */
T(timed)
{
	feed_free(&f);
	feed_init(&f, "{tiers, [{web, {e,e,1}}]}.\n{slow, always}.\n", NULL);
	put_trace(put_binary, PARENT);
	kp_etf_atom(&t, "get");
	f.raw_identity = (struct kp_span){ t.p, (uint32_t)t.len };
	entry(&f, 1, "e", "x", 0, 1);
	entry(&f, 2, "e", "x", 0, 2);	/* and is never left */
	back_to(&f, 1, "x", 5);
	assert_has(kp_buf_cstr(&f.text), "#0 unknown 'get' x0 1-5");
	assert_string_equal(f.traceparent, PARENT);
}

T(too_many)
{
	struct kp_requests_opts o = { .max_identities = 5 };

	feed_free(&f);
	feed_init(&f, conf, &o);
	assert_string_equal(binary("one"), "one");
	assert_string_equal(binary("two"), "two");
	assert_string_equal(binary("three"), "_other");
	assert_string_equal(binary("three"), "_other");
	assert_string_equal(binary("one"), "one");
	assert_int_equal(lost(&f, KP_LOSS_IDENTITY_CAP), 2);
}

static const char *
unbounded(int64_t line)
{
	kp_etf_tuple(&t, 2);
	kp_etf_atom(&t, "_other");
	kp_etf_int(&t, line);
	return identity();
}

/* More terms than are remembered by their bytes, all rewritten to one. */
T(many_terms)
{
	char s[64];

	for (int i = 0; i < 9000; i++) {
		snprintf(s, sizeof(s), "/users/%d", i);
		assert_string_equal(binary(s), "/users/:id");
	}
	assert_int_equal(lost(&f, KP_LOSS_IDENTITY_CAP), 0);
	/* Nor is room for these needed: they once were "_other 7" then. */
	assert_string_equal(unbounded(7), "_other");
	assert_string_equal(unbounded(7), "_other");
	assert_fields(f, IS(unbounded, 1) IS(unbounded_line, 7));
}

T(process_texts)
{
	char buf[32];

	assert_string_equal(kp_proc_text(123, buf, sizeof(buf)), "<0.123.0>");
	assert_string_equal(kp_proc_text(UINT64_MAX, buf, sizeof(buf)),
	    "<0.4294967295.67108863>");
}

/* ---- map.c ---- */

enum { KEYS = 512 };

static void
check_all(const struct map *m, const uint64_t *vals, uint64_t step)
{
	uint64_t *at;
	size_t n = 0;

	for (uint64_t k = 1; k < KEYS; k++) {
		at = map_get(m, k * step);
		assert_int_equal(at != NULL, vals[k] != 0);
		assert_true(at == NULL || *at == vals[k]);
		n += at != NULL;
	}
	assert_int_equal(m->len, n);
}

/* Dense keys, and keys that share their low or high bits. */
TEST(map_against_array)
{
	static const uint64_t steps[] = { 1, 64, 1 << 20, UINT64_C(1) << 36,
		UINT64_C(1) << 55, UINT64_C(0x9E3779B97F4A7C15) };
	uint64_t vals[KEYS], key, fill;
	struct map m;

	for (size_t s = 0; s < sizeof(steps) / sizeof(*steps); s++) {
		m = (struct map){ 0 };
		memset(vals, 0, sizeof(vals));
		assert_null(map_get(&m, 1));
		map_remove(&m, 1);
		for (int i = 0; i < 20000; i++) {
			key = 1 + rnd(KEYS - 1);
			/* now filling, now emptying */
			fill = (uint64_t)(i / 2500) % 2 == 0 ? 70 : 30;
			vals[key] = rnd(100) < fill ? rnd(1000) + 1 : 0;
			if (vals[key] != 0)
				assert_true(map_put(&m, key * steps[s],
				    vals[key]));
			else
				map_remove(&m, key * steps[s]);
			if (i % 50 == 0)
				check_all(&m, vals, steps[s]);
		}
		check_all(&m, vals, steps[s]);
		map_free(&m);
	}
}

/* Labels count up for ever; the table stays as small as what is in it. */
/*
 * The key of an empty slot: it was stored and never found again, so that each
 * time it was put the map had one entry more, for ever.
 */
TEST(map_has_no_zero)
{
	struct map m = { 0 };

	for (int i = 0; i < 1000; i++)
		assert_false(map_put(&m, 0, 1));
	assert_int_equal(m.len, 0);
	assert_true(map_put(&m, 1, 1));
	for (int i = 0; i < 1000; i++)
		assert_false(map_put(&m, 0, 1));
	map_remove(&m, 0);
	assert_null(map_get(&m, 0));
	assert_fields(m, IS(len, 1) IS(cap, 64));
	map_free(&m);
}

TEST(map_sliding_window)
{
	struct map m = { 0 };

	for (uint64_t i = 1; i < 300000; i++) {
		assert_true(map_put(&m, i, i * 2));
		if (i > 100)
			map_remove(&m, i - 100);
		assert_int_equal(*map_get(&m, i > 99 ? i - 99 : 1),
		    i > 99 ? (i - 99) * 2 : 2);
	}
	assert_int_equal(m.len, 100);
	assert_true(m.cap <= 256);
	map_free(&m);
}

/* What the target did not copy: its clause is told once. */
T(unbounded_told_once)
{
	assert_string_equal(unbounded(7), "_other");
	assert_fields(f, IS(unbounded, 1) IS(unbounded_line, 7));
	assert_string_equal(unbounded(7), "_other");
	assert_int_equal(f.unbounded, 1);
	assert_string_equal(unbounded(300), "_other");
	assert_false(f.unbounded_label);
	assert_fields(f, IS(unbounded, 2) IS(unbounded_line, 300));
	/* Others are names like any. */
	assert_string_equal(unbounded(-1), "_other -1");
	kp_etf_atom(&t, "_other");
	assert_string_equal(identity(), "_other");
	assert_int_equal(f.unbounded, 2);
}

/* Such names ended raw in the database, which people read with sqlite3. */
T(hostile_names)
{
	struct kp_event ev = { .kind = KP_EV_ENTRY, .pid = feed_pid(1),
		.ts = feed_time(1), .label = 9, .weight = 1 };

	assert_string_equal(binary("a\033[2J\r\n"), "a\\x1b[2J\\x0d\\x0a");
	assert_string_equal(binary("a\xc2\x85" "b\xe2\x80\xae" "c"),
	    "a\\x85b\\u{202e}c");
	kp_etf_tuple(&t, 3);
	kp_etf_atom(&t, "m\033");
	kp_etf_atom(&t, "\xff" "f");
	kp_etf_int(&t, 1);
	ev.mfa = (struct kp_span){ t.p, (uint32_t)t.len };
	kp_requests_events(f.rs, 0, &ev, 1);
	/* The first is the other entries'. */
	assert_string_equal(kp_requests_fn(f.rs, 1)->text, "m\\x1b:\\xfff/1");
}

TESTS(NULL, NULL)
