/*
 * test_prometheus.c - metrics as scrapers read them: the text forms byte by byte,
 * protobuf read back field by field, what an Accept header chooses, totals
 * within their caps, and the daemon's own lines.
 */
#include <math.h>

#include "cases.h"
#include "export/metrics.h"

#define MS KP_NS_PER_MS

static struct kp_buf out;

static const struct metric counter = { "x_lost", METRIC_COUNTER,
	"Of a \\ kind.", { "node", "cause" } };
static const struct metric gauge = { "x_lag_seconds", METRIC_GAUGE,
	"How late.", { NULL } };
static const struct metric hist_m = { "x_time_seconds", METRIC_HISTOGRAM,
	"How long.", { "node" } };

FIXTURE(setup)
{
	kp_buf_init(&out, 64u << 20);
	return 0;
}

FIXTURE(teardown)
{
	kp_buf_free(&out);
	return 0;
}

static void
add(struct kp_hist *h, kp_dur_ns d, uint64_t n)
{
	assert_int_equal(kp_hist_add(h, d, n), KP_OK);
}

/* ---- text ---- */

static void
write_two(enum prom_format f)
{
	const char *const values[] = { "a\"b\\c\nd@h", "cut" };
	struct prom x;

	kp_buf_reset(&out);
	prom_begin(&x, &out, f);
	prom_family(&x, &counter);
	prom_number(&x, values, 12345678901.0);
	prom_family(&x, &gauge);
	prom_number(&x, NULL, 0.05);
	prom_end(&x);
}

TEST(text_as_it_is_written)
{
	write_two(PROM_TEXT);
	assert_string_equal(kp_buf_cstr(&out),
	    "# TYPE x_lost_total counter\n"
	    "# HELP x_lost_total Of a \\\\ kind.\n"
	    "x_lost_total{node=\"a\\\"b\\\\c\\nd@h\",cause=\"cut\"} 12345678901\n"
	    "# TYPE x_lag_seconds gauge\n"
	    "# HELP x_lag_seconds How late.\n"
	    "x_lag_seconds 0.05\n");
	write_two(PROM_OPENMETRICS);
	assert_string_equal(kp_buf_cstr(&out),
	    "# TYPE x_lost counter\n"
	    "# HELP x_lost Of a \\\\ kind.\n"
	    "x_lost_total{node=\"a\\\"b\\\\c\\nd@h\",cause=\"cut\"} 12345678901\n"
	    "# TYPE x_lag_seconds gauge\n"
	    "# UNIT x_lag_seconds seconds\n"
	    "# HELP x_lag_seconds How late.\n"
	    "x_lag_seconds 0.05\n"
	    "# EOF\n");
}

/* What is at or below the bound: of the bucket that holds the bound, a part. */
TEST(counts_at_bounds)
{
	uint64_t n[PROM_BOUNDS], low, high;
	struct kp_hist h = { 0 };

	for (int32_t b = KP_HIST_MIN; b <= KP_HIST_MAX; b++)
		add(&h, (kp_dur_ns)fmin(kp_hist_lower(b) * 1.01e9 + 1, 9e18),
		    (uint64_t)(b - KP_HIST_MIN + 1));
	prom_cumulate(&h, n);
	for (size_t i = 0; i < PROM_BOUNDS; i++) {
		low = 0;
		for (uint32_t j = 0; j < h.len; j++)
			if (kp_hist_upper(h.lo + (int32_t)j) <= prom_bound(i))
				low += h.n[j];
		high = low + (uint64_t)(kp_hist_bucket((kp_dur_ns)(1e9 *
		    prom_bound(i))) - KP_HIST_MIN + 1);
		assert_true(n[i] >= low && n[i] <= high);
		assert_true(i == 0 || n[i] > n[i - 1]);
	}
	kp_hist_free(&h);
	/* 1 s ends a stored bucket */
	add(&h, 1000 * MS, 3);
	kp_hist_within(&h, 1000 * MS, &low, &high);
	assert_int_equal(low, high);
	kp_hist_free(&h);
}

/* Bounds that people set objectives on are there, to the digit. */
TEST(round_bounds)
{
	static const double wanted[] = { 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
		0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 75 };
	size_t k = 0;

	for (size_t i = 0; i < PROM_BOUNDS; i++)
		k += prom_bound(i) == wanted[k];
	assert_int_equal(k, sizeof(wanted) / sizeof(wanted[0]));
}

TEST(histogram_in_text)
{
	const char *node = "n@h";
	struct kp_hist h = { 0 };
	struct prom x;
	const char *text;

	add(&h, 1000 * MS, 3);
	add(&h, 1001 * MS, 2);
	add(&h, 100000 * MS, 1);
	prom_begin(&x, &out, PROM_OPENMETRICS);
	prom_family(&x, &hist_m);
	prom_hist(&x, &node, &h, 105.002, NULL);
	prom_end(&x);
	text = kp_buf_cstr(&out);
	assert_has(text, "\nx_time_seconds_bucket{node=\"n@h\","
	    "le=\"0.0001\"} 0\n");
	assert_has(text, "{node=\"n@h\",le=\"1.0\"} 3\n");
	assert_has(text, "{node=\"n@h\",le=\"2.0\"} 5\n");
	assert_has(text, "{node=\"n@h\",le=\"75.0\"} 5\n");
	assert_has(text, "{node=\"n@h\",le=\"+Inf\"} 6\n"
	    "x_time_seconds_count{node=\"n@h\"} 6\n"
	    "x_time_seconds_sum{node=\"n@h\"} 105.002\n# EOF\n");
	kp_hist_free(&h);
}

/* In the first bucket that has its value, and only in the format that has exemplars. */
TEST(exemplars_in_text)
{
	static const struct {
		double v;
		const char *line;
	} cases[] = {
		{ 0.00005, "le=\"0.0001\"} 0 # {request=\"7\",trace_id=\"a\\\"b\"} "
		    "5e-05 1700000000.123\n" },
		{ 1, "le=\"1.0\"} 3 # {request=\"7\",trace_id=\"a\\\"b\"} 1 1700000000.123\n" },
		{ 100, "le=\"+Inf\"} 3 # {request=\"7\",trace_id=\"a\\\"b\"} 100 "
		    "1700000000.123\n" },
	};
	struct prom_exemplar e = { .labels = { { "request", "7" }, { "trace_id", "a\"b" } },
		.nlabels = 2, .at = INT64_C(1700000000123456789) };
	const char *node = "n@h";
	struct kp_hist h = { 0 };
	struct prom x;

	add(&h, 1000 * MS, 3);
	for (size_t i = 0; i < 3; i++)
		for (enum prom_format f = PROM_TEXT; f <= PROM_OPENMETRICS; f++) {
			e.v = cases[i].v;
			kp_buf_reset(&out);
			prom_begin(&x, &out, f);
			prom_family(&x, &hist_m);
			prom_hist(&x, &node, &h, 3, &e);
			prom_end(&x);
			if (f == PROM_OPENMETRICS)
				assert_has(kp_buf_cstr(&out), cases[i].line);
			else
				assert_lacks(kp_buf_cstr(&out), "request");
		}
	kp_hist_free(&h);
}

/* ---- protobuf, read back ---- */

struct in {
	const uint8_t *p, *end;
};

struct field {
	unsigned number, type;
	uint64_t v;		/* a varint, or a double's bits */
	struct in bytes;
};

static uint64_t
varint(struct in *in)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		assert_true(in->p < in->end && shift < 70);
		v |= (uint64_t)(*in->p & 0x7f) << shift;
		if (*in->p++ < 0x80)
			return v;
	}
}

static struct in
sized(struct in *in)
{
	uint64_t n = varint(in);
	struct in part = { in->p, in->p + n };

	assert_true(n <= (uint64_t)(in->end - in->p));
	in->p += n;
	return part;
}

static bool
next_field(struct in *in, struct field *f)
{
	uint64_t key;

	if (in->p == in->end)
		return false;
	key = varint(in);
	*f = (struct field){ .number = (unsigned)(key >> 3),
		.type = (unsigned)(key & 7) };
	if (f->type == 2) {
		f->bytes = sized(in);
	} else if (f->type == 1) {
		assert_true(in->end - in->p >= 8);
		memcpy(&f->v, in->p, 8);
		in->p += 8;
	} else {
		assert_int_equal(f->type, 0);
		f->v = varint(in);
	}
	return true;
}

static int64_t
unzig(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static double
as_double(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* The nth field of this number. */
static struct field
field(struct in in, unsigned number, int nth)
{
	struct field f;

	while (next_field(&in, &f))
		if (f.number == number && nth-- == 0)
			return f;
	fail_msg("there is no field %u", number);
	return (struct field){ 0 };
}

static void
assert_text(struct in in, const char *text)
{
	assert_int_equal(in.end - in.p, strlen(text));
	assert_memory_equal(in.p, text, strlen(text));
}

TEST(numbers_in_protobuf)
{
	struct in all, family, metric, label;

	write_two(PROM_PROTOBUF);
	all = (struct in){ out.p, out.p + out.len };
	family = sized(&all);
	assert_text(field(family, 1, 0).bytes, "x_lost_total");
	assert_text(field(family, 2, 0).bytes, "Of a \\ kind.");
	assert_int_equal(field(family, 3, 0).v, 0);
	metric = field(family, 4, 0).bytes;
	label = field(metric, 1, 0).bytes;
	assert_text(field(label, 1, 0).bytes, "node");
	assert_text(field(label, 2, 0).bytes, "a\"b\\c\nd@h");
	label = field(metric, 1, 1).bytes;
	assert_text(field(label, 2, 0).bytes, "cut");
	assert_true(as_double(field(field(metric, 3, 0).bytes, 1, 0).v) ==
	    12345678901.0);
	family = sized(&all);
	assert_text(field(family, 1, 0).bytes, "x_lag_seconds");
	assert_int_equal(field(family, 3, 0).v, 1);
	metric = field(family, 4, 0).bytes;
	assert_true(as_double(field(field(metric, 2, 0).bytes, 1, 0).v) ==
	    0.05);
	assert_true(all.p == all.end);
}

/* Back from spans and deltas to buckets, by our own indexes. */
static void
read_native(struct in h, struct kp_hist *to)
{
	struct in deltas = field(h, 13, 0).bytes;
	int32_t at = 0;
	int64_t count = 0;
	struct field f;

	while (next_field(&h, &f)) {
		if (f.number != 12)
			continue;
		at += (int32_t)unzig(field(f.bytes, 1, 0).v);
		for (uint64_t n = field(f.bytes, 2, 0).v; n > 0; n--, at++) {
			count += unzig(varint(&deltas));
			/* ours is one lower: it names the lower bound */
			if (count > 0)
				add(to, (kp_dur_ns)(kp_hist_lower(at - 1) *
				    1.01e9), (uint64_t)count);
		}
	}
	assert_true(deltas.p == deltas.end);
}

/* Takes one from the other: nothing may be left over. */
static void
assert_same_hist(struct kp_hist *a, const struct kp_hist *b)
{
	assert_int_equal(a->count, b->count);
	assert_int_equal(kp_hist_take(a, b), KP_OK);
	assert_int_equal(a->count, 0);
}

TEST(native_histogram_is_the_same)
{
	const char *node = "n@h";
	struct prom_exemplar e = { .labels = { { "request", "7" } }, .nlabels = 1, .v = 0.9,
		.at = INT64_C(1700000000123456789) };
	struct kp_hist h = { 0 }, back = { 0 };
	struct in all, metric, hist, bucket, exemplar;
	struct prom x;

	/* runs, small gaps, wide gaps; counts that grow and shrink */
	for (int i = 0; i < 40; i++)
		add(&h, (kp_dur_ns)(kp_hist_lower(-300 + i + i / 7 * 3 +
		    i / 20 * 200) * 1.01e9), (uint64_t)(1 + i * i % 17));
	prom_begin(&x, &out, PROM_PROTOBUF);
	prom_family(&x, &hist_m);
	prom_hist(&x, &node, &h, 1.5, &e);
	prom_end(&x);
	all = (struct in){ out.p, out.p + out.len };
	metric = field(sized(&all), 4, 0).bytes;
	hist = field(metric, 7, 0).bytes;
	assert_int_equal(field(hist, 1, 0).v, h.count);
	assert_true(as_double(field(hist, 2, 0).v) == 1.5);
	assert_int_equal(unzig(field(hist, 5, 0).v), 5);
	assert_true(as_double(field(hist, 6, 0).v) > 0);
	bucket = field(hist, 3, 28).bytes;
	assert_true(as_double(field(bucket, 2, 0).v) == 1.0);
	exemplar = field(bucket, 3, 0).bytes;
	assert_memory_equal(field(field(exemplar, 1, 0).bytes, 1, 0).bytes.p, "request", 7);
	assert_memory_equal(field(field(exemplar, 1, 0).bytes, 2, 0).bytes.p, "7", 1);
	assert_true(as_double(field(exemplar, 2, 0).v) == 0.9);
	assert_true(field(field(exemplar, 3, 0).bytes, 1, 0).v == 1700000000);
	assert_true(field(field(exemplar, 3, 0).bytes, 2, 0).v == 123456789);
	read_native(hist, &back);
	assert_same_hist(&back, &h);
	kp_hist_free(&h);
	kp_hist_free(&back);
}

/* ---- what is asked for ---- */

TEST(accept_headers)
{
#define PROTO "application/vnd.google.protobuf;" \
	"proto=io.prometheus.client.MetricFamily;encoding=delimited"
	static const struct {
		const char *accept;
		enum prom_format f;
	} cases[] = {
		{ NULL, PROM_TEXT },
		{ "", PROM_TEXT },
		{ "*/*", PROM_TEXT },
		{ "text/html, application/xhtml+xml;q=0.9", PROM_TEXT },
		/* Prometheus, without and with native histograms */
		{ "application/openmetrics-text;version=1.0.0,application/"
		  "openmetrics-text;version=0.0.1;q=0.75,text/plain;version="
		  "0.0.4;q=0.5,*/*;q=0.1", PROM_OPENMETRICS },
		{ PROTO ",application/openmetrics-text;version=1.0.0;q=0.8,"
		  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", PROM_PROTOBUF },
		{ PROTO ";q=0.3,application/openmetrics-text;q=0.8",
		  PROM_OPENMETRICS },
		{ "application/vnd.google.protobuf; proto=another; "
		  "encoding=delimited", PROM_TEXT },
		{ "application/openmetrics-text;q=0", PROM_TEXT },
		{ "text/plain, application/openmetrics-text;q=0.9", PROM_TEXT },
		{ "text/plain, application/openmetrics-text",
		  PROM_OPENMETRICS },
		{ "application/json, application/openmetrics-text;q=0.9",
		  PROM_OPENMETRICS },
		{ ",,;;, ;q=", PROM_TEXT },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(prom_choose(cases[i].accept), cases[i].f);
}

/* ---- totals ---- */

static struct kp_cell
cell(const char *tier, const char *identity, uint64_t n)
{
	struct kp_cell c = { .tier = tier, .identity = identity, .w_calls = n,
		.w_raised = 1, .w_share_busy = (int64_t)n * MS,
		.w_total = (int64_t)n * MS };

	add(&c.hist, MS, n);
	return c;
}

static void
add_window(struct totals *t, const char *node, struct kp_cell *c, size_t n)
{
	const struct kp_window w = { .node = node, .start = 1, .end = 2 * MS,
		.entry_calls = 7, .sampled = 5, .cells = c, .ncells = n,
		.losses.n[KP_LOSS_CUT] = 3 };

	totals_add(t, &w);
	for (size_t i = 0; i < n; i++)
		kp_hist_free(&c[i].hist);
}

TEST(totals_grow)
{
	struct totals *t = totals_new();
	const struct total *c;

	assert_non_null(t);
	for (int i = 0; i < 2; i++) {
		struct kp_cell v[] = { cell("_total", "_total", 9),
			cell("_total", "create", 9), cell("db", "_total", 4),
			cell("db", "create", 4) };

		add_window(t, "a@h", v, 4);
	}
	assert_int_equal(totals_count(t, TOTALS_NODE), 2);
	c = totals_at(t, 1, TOTALS_TOTAL, 2);
	assert_string_equal(totals_name(t, TOTALS_IDENTITY, 2), "create");
	assert_fields(*c, IS(calls, 18) IS(raised, 2) IS(busy, 18 * MS)
	    IS(hist.count, 18));
	/* the product has counters only */
	assert_fields(*totals_at(t, 1, 2, 2), IS(calls, 8) IS(hist.count, 0));
	assert_int_equal(totals_at(t, 1, 2, TOTALS_TOTAL)->hist.count, 8);
	assert_int_equal(totals_node(t, 1)->entry_calls, 14);
	assert_int_equal(totals_node(t, 1)->lost.n[KP_LOSS_CUT], 6);
	assert_null(totals_node(t, 0));
	assert_int_equal(totals_folded(t), 0);
	totals_free(t);
}

/* Whoever came first stays; the rest is together under _other, and counted. */
TEST(totals_fold)
{
	struct totals *t = totals_new();
	uint64_t seen = 0, all = 0;
	char name[32];

	for (int i = 0; i < TOTALS_IDENTITIES_MAX + 20; i++) {
		struct kp_cell v[] = { cell("_total", name, 3) };

		snprintf(name, sizeof(name), "id%d", i);
		all += 3;
		add_window(t, "a@h", v, 1);
	}
	assert_int_equal(totals_count(t, TOTALS_IDENTITY),
	    TOTALS_IDENTITIES_MAX + 2);
	for (size_t i = 0; i < totals_count(t, TOTALS_IDENTITY); i++)
		if (totals_at(t, 1, TOTALS_TOTAL, i) != NULL)
			seen += totals_at(t, 1, TOTALS_TOTAL, i)->calls;
	assert_int_equal(seen, all);
	assert_int_equal(totals_at(t, 1, TOTALS_TOTAL, TOTALS_OTHER)->calls,
	    60);
	assert_int_equal(totals_folded(t), 60);
	for (int i = 0; i < TOTALS_NODES_MAX + 5; i++) {
		snprintf(name, sizeof(name), "n%d@h", i);
		add_window(t, name, NULL, 0);
	}
	/* one was there */
	assert_int_equal(totals_node(t, TOTALS_OTHER)->windows, 6);
	totals_free(t);
}

static void
round_of(struct totals *t, kp_wall_ns end, const char *const *names)
{
	for (; *names != NULL; names++) {
		struct kp_cell c = cell("_total", "create", 1);
		const struct kp_window w = { .node = *names,
			.start = end - 10 * KP_NS_PER_S, .end = end,
			.cells = &c, .ncells = 1 };

		totals_add(t, &w);
		kp_hist_free(&c.hist);
	}
}

/*
 * A node that left the set has no more windows: its figures end, the others go
 * on where they were, and it begins anew when it comes back.
 */
TEST(nodes_go)
{
	static const char *const both[] = { "a@h", "b@h", NULL };
	static const char *const one[] = { "b@h", NULL };
	const kp_dur_ns step = 10 * KP_NS_PER_S;
	struct totals *t = totals_new();
	kp_wall_ns end = 1000 * KP_NS_PER_S;
	uint64_t version;

	round_of(t, end, both);
	version = totals_node(t, 2)->version;
	for (int i = 0; i < 31; i++)
		round_of(t, end += step, one);
	/* five minutes, and no more */
	assert_int_equal(totals_count(t, TOTALS_NODE), 3);
	assert_string_equal(totals_name(t, TOTALS_NODE, 1), "a@h");
	round_of(t, end += step, one);
	assert_int_equal(totals_count(t, TOTALS_NODE), 2);
	assert_string_equal(totals_name(t, TOTALS_NODE, 1), "b@h");
	assert_int_equal(totals_at(t, 1, TOTALS_TOTAL, 2)->calls, 33);
	assert_true(totals_node(t, 1)->version > version);
	assert_int_equal(totals_node(t, 1)->first, 990 * KP_NS_PER_S);
	assert_null(totals_at(t, 2, TOTALS_TOTAL, 2));
	round_of(t, end += step, both);
	assert_int_equal(totals_at(t, 2, TOTALS_TOTAL, 2)->calls, 1);
	assert_int_equal(totals_node(t, 2)->first, end - step);
	totals_free(t);
}

/* When nothing could be written for an hour, nobody is gone. */
TEST(nodes_stay)
{
	static const char *const both[] = { "a@h", "b@h", NULL };
	struct totals *t = totals_new();

	round_of(t, 1000 * KP_NS_PER_S, both);
	round_of(t, 5000 * KP_NS_PER_S, both);
	assert_int_equal(totals_count(t, TOTALS_NODE), 3);
	assert_int_equal(totals_at(t, 1, TOTALS_TOTAL, 2)->calls, 2);
	/* a clock that was set back */
	round_of(t, 100 * KP_NS_PER_S, both);
	assert_int_equal(totals_at(t, 2, TOTALS_TOTAL, 2)->calls, 3);
	totals_free(t);
}

/* Nodes that come and go for ever leave room for the next ones. */
TEST(nodes_come_and_go)
{
	struct totals *t = totals_new();
	const char *names[2] = { NULL };
	char name[32];

	for (int i = 0; i < 3 * TOTALS_NODES_MAX; i++) {
		snprintf(name, sizeof(name), "n%d@h", i);
		names[0] = name;
		round_of(t, (i + 1) * TOTALS_STALE, names);
	}
	assert_null(totals_node(t, TOTALS_OTHER));
	assert_int_equal(totals_dropped(t), 0);
	totals_free(t);
}

TEST(names_are_utf8)
{
	struct totals *t = totals_new();
	struct kp_cell v[] = { cell("_total", "caf\xc3\xa9", 1),
		cell("_total", "caf\xe9", 1), cell("_total", "caf\xff", 1) };

	add_window(t, "a@h", v, 3);
	assert_int_equal(totals_count(t, TOTALS_IDENTITY), 4);
	assert_string_equal(totals_name(t, TOTALS_IDENTITY, 2), "caf\xc3\xa9");
	/* shown alike: one series, not one twice */
	assert_string_equal(totals_name(t, TOTALS_IDENTITY, 3),
	    "caf\xef\xbf\xbd");
	assert_int_equal(totals_at(t, 1, TOTALS_TOTAL, 3)->calls, 2);
	totals_free(t);
}

/* Outcomes add up to the calls, and losses are by unit. */
TEST(families)
{
	struct kp_cell v[] = { cell("_total", "create", 9),
		cell("db", "_total", 4), cell("db", "create", 4) };
	struct totals *t = totals_new();
	struct prom x;
	const char *text;

	add_window(t, "a@h", v, 3);
	prom_begin(&x, &out, PROM_OPENMETRICS);
	families_write(&x, t);
	prom_end(&x);
	text = kp_buf_cstr(&out);
#define HAS(line) assert_non_null(strstr(text, "\n" line "\n"))
	HAS("kprof_requests_total{node=\"a@h\",identity=\"create\","
	    "outcome=\"returned\"} 8");
	HAS("kprof_requests_total{node=\"a@h\",identity=\"create\","
	    "outcome=\"raised\"} 1");
	HAS("kprof_request_duration_seconds_count{node=\"a@h\","
	    "identity=\"create\"} 9");
	HAS("kprof_call_duration_seconds_sum{node=\"a@h\",tier=\"db\"} 0.004");
	HAS("kprof_tier_busy_seconds_total{node=\"a@h\",tier=\"db\","
	    "identity=\"create\"} 0.004");
	HAS("kprof_lost_requests_total{node=\"a@h\",cause=\"cut\"} 3");
	HAS("kprof_lost_seconds_total{node=\"a@h\",cause=\"unarmed\"} 0");
	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		char cause[64];

		snprintf(cause, sizeof(cause), "cause=\"%s\"", kp_loss_name(i));
		assert_has(text, cause);
	}
	assert_lacks(text, "identity=\"_total\"");
	totals_free(t);
}

/* ---- the daemon's lines ---- */

TEST(health_lines)
{
	static const char bad[] = "\n\t\t\t\nno_such\t\t\t1\n"
	    "kprof_targets\t\t\tmany\nkprof_targets\t\t1\n"
	    "kprof_targets\t\t\t1\t\n\xff\t\t\t1\nkprof_targets\t\t\t1";
	struct kp_buf lines;
	struct prom x;

	kp_buf_init(&lines, 1 << 16);
	health_put(&lines, HEALTH_TARGETS, "", "", 2);
	health_put(&lines, HEALTH_DB_DROPPED, "", "disk_full", 5);
	health_put(&lines, HEALTH_ARMED, "a@h", "", 1);
	health_put(&lines, HEALTH_ARMED, "b@h", "", 0);
	prom_begin(&x, &out, PROM_TEXT);
	assert_int_equal(health_write(&x, (const char *)lines.p, lines.len),
	    0);
	prom_end(&x);
	assert_string_equal(kp_buf_cstr(&out),
	    "# TYPE kprof_targets gauge\n"
	    "# HELP kprof_targets Nodes that are to be profiled.\n"
	    "kprof_targets 2\n"
	    "# TYPE kprof_store_dropped_rows_total counter\n"
	    "# HELP kprof_store_dropped_rows_total Rows that could not be "
	    "written to the database.\n"
	    "kprof_store_dropped_rows_total{cause=\"disk_full\"} 5\n"
	    "# TYPE kprof_target_armed gauge\n"
	    "# HELP kprof_target_armed 1 while the node is profiled.\n"
	    "kprof_target_armed{node=\"a@h\"} 1\n"
	    "kprof_target_armed{node=\"b@h\"} 0\n");
	kp_buf_reset(&out);
	prom_begin(&x, &out, PROM_TEXT);
	assert_int_equal(health_write(&x, bad, sizeof(bad) - 1), 7);
	prom_end(&x);
	assert_has(kp_buf_cstr(&out), "\nkprof_targets 1\n");
	kp_buf_free(&lines);
}

/* The shipped alert went by outcome="raised"} 0 where nobody could see any. */
TEST(no_series_of_what_is_not_seen)
{
	struct kp_cell v[] = { cell("_total", "create", 9),
		cell("db", "create", 4) };
	struct totals *t = totals_new();
	struct prom x;
	const char *text;

	for (size_t i = 0; i < 2; i++) {
		v[i].w_raised = 0;
		v[i].w_unknown_outcomes = v[i].w_calls;
	}
	add_window(t, "a@h", v, 2);
	prom_begin(&x, &out, PROM_OPENMETRICS);
	families_write(&x, t);
	prom_end(&x);
	text = kp_buf_cstr(&out);
	assert_lacks(text, "outcome=\"raised\"");
	assert_lacks(text, "outcome=\"returned\"");
	assert_lacks(text, "kprof_tier_errors_total{");
	HAS("kprof_requests_total{node=\"a@h\",identity=\"create\","
	    "outcome=\"unknown\"} 9");
	HAS("kprof_requests_total{node=\"a@h\",identity=\"create\","
	    "outcome=\"unfinished\"} 0");
	totals_free(t);
}

/* Calls of a tier that began after the end of requests raise as others do. */
TEST(errors_after_the_end)
{
	struct kp_cell v[] = { cell("_total", "buy", 9), cell("bg", "buy", 4),
		cell("mail", "buy", 4) };
	struct totals *t = totals_new();
	struct prom x;
	const char *text;

	for (size_t i = 0; i < 3; i++) {
		v[i].w_raised = 0;
		v[i].w_async_calls = 839;
		v[i].w_async_raised = i < 2 ? 164 : 0;
		v[i].w_async_unknown = i == 2 ? 839 : 0;
	}
	add_window(t, "a@h", v, 3);
	prom_begin(&x, &out, PROM_OPENMETRICS);
	families_write(&x, t);
	prom_end(&x);
	text = kp_buf_cstr(&out);
	HAS("kprof_tier_errors_total{node=\"a@h\",tier=\"bg\","
	    "identity=\"buy\"} 164");
	assert_lacks(text, "kprof_tier_errors_total{node=\"a@h\","
	    "tier=\"mail\"");
	HAS("kprof_requests_total{node=\"a@h\",identity=\"buy\","
	    "outcome=\"raised\"} 0");
	totals_free(t);
}

/*
 * Objectives: those in force, of types beyond the cap, too; and what failed only where it
 * is seen, of a tier without what began after requests.
 */
TEST(objectives)
{
	static char names[][16] = { "late", "db", "_total" };
	static char texts[][32] = { "late within 2 ms", "tier db within 2 ms",
		"all requests within 0.5 ms" };
	const struct kp_objective slo[] = {
		{ .name = names[0], .text = texts[0], .limit = 2 * MS },
		{ .name = names[1], .text = texts[1], .limit = 2 * MS, .tier = true },
		{ .name = names[2], .text = texts[2], .limit = MS / 2 } };
	struct kp_cell v[] = { cell("_total", "late", 9), cell("db", "_total", 4),
		cell("_total", "other", 5), cell("_total", "_total", 14) };
	struct totals *t = totals_new();
	char name[16];
	struct prom x;
	const char *text;

	totals_slo(t, slo, 3);
	for (int i = 0; i < TOTALS_IDENTITIES_MAX; i++) {
		struct kp_cell c;

		snprintf(name, sizeof(name), "t%d", i);
		c = cell("_total", name, 0);
		c.w_raised = 0;
		add_window(t, "b@h", &c, 1);
	}
	add(&v[0].hist, 4 * MS, 2);
	v[1].w_async_calls = v[1].w_async_raised = 3;
	v[3].w_raised = 0;
	v[3].w_unknown_outcomes = 14;
	add_window(t, "a@h", v, 4);
	totals_lock(t);
	prom_begin(&x, &out, PROM_OPENMETRICS);
	families_write(&x, t);
	prom_end(&x);
	totals_unlock(t);
	text = kp_buf_cstr(&out);
#define OF(text) "{node=\"a@h\",objective=\"" text "\""
	HAS("kprof_slo_requests_total" OF("late within 2 ms") "} 11");
	HAS("kprof_slo_missed_total" OF("late within 2 ms") ",cause=\"slow\"} 2");
	HAS("kprof_slo_missed_total" OF("late within 2 ms") ",cause=\"failed\"} 1");
	HAS("kprof_slo_requests_total" OF("tier db within 2 ms") "} 4");
	HAS("kprof_slo_missed_total" OF("tier db within 2 ms") ",cause=\"slow\"} 0");
	HAS("kprof_slo_missed_total" OF("tier db within 2 ms") ",cause=\"failed\"} 1");
	HAS("kprof_slo_requests_total" OF("all requests within 0.5 ms") "} 16");
	HAS("kprof_slo_missed_total" OF("all requests within 0.5 ms") ",cause=\"slow\"} 16");
	assert_lacks(text, OF("all requests within 0.5 ms") ",cause=\"failed\"");
	/* a type that has no room is not mixed up with others */
	strcpy(names[0], "t99");
	totals_slo(t, slo, 1);
	kp_buf_reset(&out);
	totals_lock(t);
	prom_begin(&x, &out, PROM_OPENMETRICS);
	families_write(&x, t);
	prom_end(&x);
	totals_unlock(t);
	assert_lacks(kp_buf_cstr(&out), "kprof_slo_requests_total{");
	totals_slo(t, slo, 0);
	kp_buf_reset(&out);
	totals_lock(t);
	prom_begin(&x, &out, PROM_OPENMETRICS);
	families_write(&x, t);
	prom_end(&x);
	totals_unlock(t);
	assert_lacks(kp_buf_cstr(&out), "kprof_slo");
	totals_free(t);
}

TESTS(setup, teardown)
