/*
 * Which windows are sent to Pyroscope, or to a collector: each once, also while the store joins them, and
 * those that are given up are counted.
 */
#include <openssl/evp.h>

#include "cases.h"
#include "export/profiles.h"
#include "kprofd/nodes.h"
#include "pprof_text.h"
#include "store_fixture.h"

static struct profiles p;
static size_t n;
static kp_dur_ns lost;
static char body[1 << 16];
static size_t body_len;
static struct kp_db *db;
static bool otlp;

static void
begin(const char *retain, kp_dur_ns interval)
{
	struct kp_retain r = { .n = 0 };

	db = keep_open(retain);
	keep.interval = interval;
	if (retain != NULL)
		assert_true(kp_retain_parse(retain, &r));
	profiles_init(&p, otlp, &(struct otlp_about){ NULL }, NOON, interval, &r);
}

static void
finish(void)
{
	profiles_free(&p);
	db_close(db, 0);
}

/* A window with so many samples. */
static void
put_long(const char *node, kp_wall_ns start, kp_dur_ns length, unsigned samples)
{
	struct kp_stack_cell stack = { .identity = "create", .path = "db",
		.frames = "db:query/2:7", .state = KP_STACK_RUNNING, .samples = samples,
		.time = 20 * KP_NS_PER_MS, .w_time = 20 * KP_NS_PER_MS };
	struct kp_window *w = known_window(node, start);

	w->end = start + length;
	w->stacks = samples > 0 ? &stack : NULL;
	w->nstacks = samples > 0;
	keep_put(db, w);
	w->stacks = NULL;
	w->nstacks = 0;
	kp_window_free(w);
}

static void
put(const char *node, kp_wall_ns start, unsigned samples)
{
	put_long(node, start, 2 * S, samples);
}

/* How many samples the body has, in all of its profiles. */
static uint64_t
samples(void)
{
	static uint8_t packed[1 << 15], bytes[1 << 16];
	const char *at = body;
	struct pprof_field f, v;
	struct kp_bytes in;
	uint64_t sum = 0;
	uLongf room;
	int len;

	while ((at = strstr(at, "\"rawProfile\":\"")) != NULL) {
		at += strlen("\"rawProfile\":\"");
		len = (int)strcspn(at, "\"");
		assert_true(EVP_DecodeBlock(packed, (const unsigned char *)at, len) > 0);
		room = sizeof(bytes);
		z_stream z = { .next_in = packed, .avail_in = (unsigned)len,
			.next_out = bytes, .avail_out = sizeof(bytes) };

		assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
		assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
		room = z.total_out;
		inflateEnd(&z);
		in = (struct kp_bytes){ .p = bytes, .end = bytes + room };
		while (pprof_next(&in, &f)) {
			if (f.number != 2)	/* a sample */
				continue;
			while (pprof_next(&f.in, &v))
				if (v.number == 2) {	/* its first value */
					sum += v.value;
					break;
				}
		}
	}
	return sum;
}

/* As samples() of a body for a collector, whose second profile has them. */
static uint64_t
otlp_samples(const char **node)
{
	static char name[KP_NODE_NAME_MAX];
	struct kp_bytes in = { .p = (const uint8_t *)body,
		.end = (const uint8_t *)body + body_len };
	struct kp_bytes of = pprof_find(in, 1, 0, 0).in, v;
	struct kp_bytes profile = pprof_find(pprof_find(of, 2, 0, 0).in, 2, 1, 0).in;
	struct pprof_field f;
	uint64_t sum = 0;

	/* the value of its resource's second attribute */
	v = pprof_find(pprof_find(of, 1, 0, 0).in, 1, 1, 0).in;
	v = pprof_find(pprof_find(v, 2, 0, 0).in, 1, 0, 0).in;
	snprintf(name, sizeof(name), "%.*s", (int)(v.end - v.p), (const char *)v.p);
	*node = name;
	while (pprof_next(&profile, &f)) {
		if (f.number != 2)
			continue;
		v = pprof_find(f.in, 4, 0, 0).in;
		sum += kp_bytes_varint(&v);
	}
	return sum;
}

static void
ask(kp_wall_ns now)
{
	struct kp_query *q = open_query();
	struct kp_buf b;

	kp_buf_init(&b, sizeof(body));
	lost = 0;
	n = profiles_put(&b, q, &p, now, &lost);
	snprintf(body, sizeof(body), "%s", kp_buf_cstr(&b));
	memcpy(body, b.p, body_len = b.len);
	kp_buf_free(&b);
	kp_query_close(q);
}

static kp_dur_ns
left(kp_wall_ns now)
{
	struct kp_query *q = open_query();
	kp_dur_ns time;

	lost = 0;
	time = profiles_left(q, &p, now, &lost);
	kp_query_close(q);
	return time;
}

/* The samples of what was sent are all that there are, whenever the store joins windows. */
TEST(test_each_once)
{
	static char before[sizeof(body)];

	begin("10s:2h", 2 * S);
	for (unsigned i = 0; i < 4; i++)
		put("web1@h", NOON + i * 2 * S, 1 + i);
	ask(NOON + 8 * S);
	assert_int_equal(n, 0);
	put("web1@h", NOON + 8 * S, 5);
	put("web1@h", NOON + 10 * S, 100);
	put("db2@h", NOON + 10 * S, 1000);
	ask(NOON + 12 * S);
	assert_int_equal(n, 1);
	assert_int_equal(samples(), 15);
	assert_has(body, "{\"name\":\"service_name\",\"value\":\"web\"},"
	    "{\"name\":\"node\",\"value\":\"web1@h\"}");
	assert_lacks(body, "db2@h");
	/* it was not taken: the same again, now that it is one window */
	memcpy(before, body, sizeof(body));
	keep_settle(db, NOON + 20 * MIN);
	assert_sql("select count(*) from time_window where start_ns < 1700049610000000000",
	    "1");
	ask(NOON + 13 * S);
	assert_string_equal(body, before);
	profiles_sent(&p);
	ask(NOON + 13 * S);
	assert_int_equal(n, 0);
	assert_true(left(NOON + 13 * S) == 4 * S);
	/* at the end, what there is of both */
	p.ending = true;
	ask(NOON + 13 * S);
	assert_int_equal(n, 2);
	assert_int_equal(samples(), 1100);
	profiles_sent(&p);
	ask(NOON + 13 * S);
	assert_int_equal(n, 0);
	assert_true(lost == 0 && left(NOON + 13 * S) == 0);
	finish();
}

TEST(test_without_samples)
{
	begin(NULL, 2 * S);
	for (int i = 0; i < 10; i++)
		put("a@h", NOON + i * 2 * S, i >= 5);
	ask(NOON + 20 * S);
	assert_int_equal(n, 1);
	assert_int_equal(samples(), 5);
	profiles_sent(&p);
	for (int i = 10; i < 15; i++)
		put("a@h", NOON + i * 2 * S, 0);
	ask(NOON + 30 * S);
	assert_int_equal(n, 0);
	assert_has(body, "{\"series\":[]}");
	finish();
}

/* Those from before it began are an earlier run's; of more than 50 minutes the time is left. */
TEST(test_behind)
{
	begin("10s:2h", 10 * S);
	put_long("a@h", NOON - 10 * S, 10 * S, 1000);
	for (unsigned i = 0; i < 12; i++)
		put_long("a@h", NOON + i * 10 * S, 10 * S, 1u << i);
	/* a minute at once */
	ask(NOON + 2 * MIN);
	assert_int_equal(samples(), 0x3f);
	ask(NOON + 50 * MIN + 40 * S);
	assert_true(lost == 40 * S);
	assert_int_equal(samples(), 0x3f0);
	profiles_sent(&p);
	ask(NOON + 50 * MIN + 40 * S);
	assert_int_equal(samples(), 0xc00);
	profiles_sent(&p);
	ask(NOON + 50 * MIN + 40 * S);
	assert_int_equal(n, 0);
	assert_true(lost == 0);
	finish();
}

/* Windows, and slots, may be longer than that. */
TEST(test_long_windows)
{
	begin("1h:400d", 10 * S);
	for (unsigned i = 0; i < 361; i++)
		put_long("a@h", NOON + i * 10 * S, 10 * S, 1);
	ask(NOON + HOUR + 20 * S);
	assert_int_equal(n, 1);
	assert_int_equal(samples(), 360);
	finish();
	assert_int_equal(unlink(path), 0);
	begin(NULL, HOUR);
	put_long("a@h", NOON, HOUR, 7);
	ask(NOON + HOUR + 5 * S);
	assert_int_equal(samples(), 7);
	profiles_sent(&p);
	put_long("a@h", NOON + HOUR, HOUR, 8);
	ask(NOON + 2 * HOUR + 5 * S);
	assert_int_equal(samples(), 8);
	assert_true(lost == 0);
	finish();
}

TEST(test_nodes_and_clocks)
{
	begin("10s:2h", 2 * S);
	put("a@h", NOON, 3);
	/* a node that has gone: no more comes of its last ten seconds */
	ask(NOON + 5 * MIN);
	assert_int_equal(samples(), 3);
	profiles_sent(&p);
	/* it is forgotten, and so are its windows */
	ask(NOON + 2 * HOUR);
	assert_int_equal(n, 0);
	assert_int_equal(p.n, 0);
	put_long("a@h", NOON + 2 * HOUR, 10 * S, 4);
	ask(NOON + 2 * HOUR + 10 * S);
	assert_int_equal(samples(), 4);
	assert_true(lost == 0);
	profiles_sent(&p);
	/* the clock is set back by an hour: from there on */
	ask(NOON + HOUR);
	put_long("a@h", NOON + HOUR, 10 * S, 5);
	ask(NOON + HOUR + 10 * S);
	assert_int_equal(samples(), 5);
	finish();
}

/* Nothing is taken for an hour, in which nodes come and go: each window is sent or counted. */
TEST(test_outage)
{
	begin("10s:2h", 10 * S);
	put_long("a@h", NOON, 10 * S, 1);
	put_long("c@h", NOON, 10 * S, 1);
	ask(NOON + 10 * S);
	assert_int_equal(n, 2);
	put_long("b@h", NOON + 10 * MIN, 10 * S, 1);
	assert_true(left(NOON + 10 * MIN + 10 * S) == 30 * S);
	assert_false(profiles_stale(&p, NOON + 50 * MIN));
	assert_true(profiles_stale(&p, NOON + 50 * MIN + 1));
	assert_true(left(NOON + 52 * MIN) == 10 * S);
	assert_true(lost == 20 * S);
	put_long("b@h", NOON + HOUR, 10 * S, 7);
	ask(NOON + HOUR + 30 * S);
	assert_true(lost == 10 * S);
	assert_int_equal(n, 1);
	assert_int_equal(samples(), 7);
	profiles_sent(&p);
	assert_false(profiles_stale(&p, NOON + 3 * HOUR));
	finish();
}

/* Windows that are joined as soon as they are so long are sent before they are too old. */
TEST(test_short_retention)
{
	begin("10m:10m,1h:30d", 10 * S);
	for (unsigned i = 0; i < 120; i++)
		put_long("a@h", NOON + i * 10 * S, 10 * S, 1);
	ask(NOON + 10 * MIN + 13 * S);
	assert_int_equal(n, 1);
	assert_int_equal(samples(), 60);
	assert_true(lost == 0);
	finish();
}

/* For a collector a body is of one node; and the same again if it was not taken. */
TEST(test_otlp)
{
	static char before[sizeof(body)];
	const char *node;
	size_t len;

	otlp = true;
	begin("10s:2h", 10 * S);
	put_long("a@h", NOON, 10 * S, 3);
	put_long("b@h", NOON, 10 * S, 0);
	put_long("c@h", NOON, 10 * S, 5);
	ask(NOON + 10 * S);
	assert_int_equal(n, 1);
	assert_int_equal(otlp_samples(&node), 3);
	assert_string_equal(node, "a@h");
	memcpy(before, body, len = body_len);
	profiles_sent(&p);
	ask(NOON + 10 * S);
	assert_int_equal(n, 1);
	assert_int_equal(otlp_samples(&node), 5);
	assert_string_equal(node, "c@h");
	/* of other windows the ids differ, or it would be taken for the same */
	assert_memory_not_equal(body, before, len);
	profiles_sent(&p);
	ask(NOON + 10 * S);
	assert_int_equal(n, 0);
	assert_int_equal(body_len, 0);
	otlp = false;
	finish();
}

TESTS(setup, teardown)
