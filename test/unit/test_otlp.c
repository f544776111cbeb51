/*
 * test_otlp.c - what a collector gets: ids, spans, points, byte by byte where
 * that is short, and what it answers.
 */
#include "cases.h"
#include "export/otlp_json.h"

#define RUN INT64_C(1700000000000000000)
#define START INT64_C(1700000001000000000)

static struct kp_buf out;

FIXTURE(setup)
{
	kp_buf_init(&out, 1u << 20);
	return 0;
}

FIXTURE(teardown)
{
	kp_buf_free(&out);
	return 0;
}

static bool
has(const char *text)
{
	return memmem(out.p, out.len, text, strlen(text)) != NULL;
}

static size_t
count(const char *text)
{
	const char *p = kp_buf_cstr(&out);
	size_t n = 0;

	while ((p = strstr(p, text)) != NULL) {
		n++;
		p++;
	}
	return n;
}

static struct kp_query_request
request(uint64_t label)
{
	return (struct kp_query_request){ .id = 5, .start = START,
		.total = 1000, .node = "a@h", .identity = "GET \"x\"",
		.label = label, .weight = 4, .outcome = KP_RAISED,
		.ncalls = 2 };
}

/* The same from the same, others from others, and never the id of none. */
TEST(ids)
{
	char a[OTLP_TRACE_ID], b[OTLP_TRACE_ID];
	char s[3][OTLP_SPAN_ID];

	otlp_trace_id(a, RUN, 7);
	otlp_trace_id(b, RUN, 7);
	assert_string_equal(a, b);
	assert_int_equal(strspn(a, "0123456789abcdef"), 32);
	otlp_trace_id(b, RUN, 8);
	assert_string_not_equal(a, b);
	otlp_trace_id(b, RUN + 1, 7);
	assert_string_not_equal(a, b);
	otlp_span_id(s[0], RUN, 7, 0);
	otlp_span_id(s[1], RUN, 7, 1);
	otlp_span_id(s[2], RUN, 8, 0);
	assert_int_equal(strspn(s[0], "0123456789abcdef"), 16);
	assert_string_not_equal(s[0], s[1]);
	assert_string_not_equal(s[0], s[2]);
}

/* It ran on when its request was kept: that is no outcome. */
TEST(still_running)
{
	struct kp_query_call call = { .fn = "db:query/1", .tier = "db",
		.pid = "<2.3.4>", .start = 20, .total = -1, .self = -1,
		.parent = KP_NONE, .outcome = KP_UNFINISHED, .outlasts = true,
		.node = "" };
	struct kp_query_tree t = { .request = request(7), .calls = &call,
		.ncalls = 1 };

	otlp_traces(&out, RUN, &t, 1);
	assert_true(has("{\"key\":\"kprof.outlasts\",\"value\":"
	    "{\"boolValue\":true}}"));
	assert_false(has("{\"stringValue\":\"unfinished\"}"));
	call.outlasts = false;
	kp_buf_reset(&out);
	otlp_traces(&out, RUN, &t, 1);
	assert_true(has("{\"stringValue\":\"unfinished\"}"));
	assert_false(has("kprof.outlasts"));
}

/* Functions are named as elsewhere in OpenTelemetry; a label is an attribute. */
TEST(functions)
{
	static const struct {
		const char *fn, *name, *label;
	} t[] = {
		{ "db:query/2", "db:query", NULL },
		{ "db:query/2 [users]", "db:query", "users" },
		{ "Elixir.MyApp.Repo:all/2 [all \"users\"/2 [x]]", "MyApp.Repo.all",
		  "all \\\"users\\\"/2 [x]" },
		{ "db:query/2 []", "db:query", "" },
		{ "not a function", NULL, NULL },
	};
	struct kp_query_call call = { .tier = "db", .pid = "<2.3.4>", .total = 1,
		.parent = KP_NONE, .outcome = KP_RETURNED, .node = "" };
	struct kp_query_tree tree = { .request = request(7), .calls = &call,
		.ncalls = 1 };
	char text[256];

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		call.fn = t[i].fn;
		kp_buf_reset(&out);
		otlp_traces(&out, RUN, &tree, 1);
		snprintf(text, sizeof(text), "\"code.function.name\",\"value\":"
		    "{\"stringValue\":\"%s\"}", t[i].name != NULL ? t[i].name : "");
		assert_int_equal(has(text), t[i].name != NULL);
		snprintf(text, sizeof(text), "\"kprof.label\",\"value\":"
		    "{\"stringValue\":\"%s\"}", t[i].label != NULL ? t[i].label : "");
		assert_int_equal(has(text), t[i].label != NULL);
	}
}

/* Two nodes are two resources of one trace; the outer request is a link. */
TEST(spans)
{
	struct kp_query_call calls[] = {
		{ .fn = "web:get/2", .tier = "web", .pid = "<1.2.3>",
		  .start = 10, .total = 900, .self = 400, .parent = KP_NONE,
		  .outcome = KP_RETURNED, .node = "" },
		{ .fn = "db:query/1", .tier = "db", .pid = "<2.3.4>",
		  .start = 20, .total = -1, .self = -1, .parent = 0,
		  .outcome = KP_UNFINISHED, .async = true, .node = "b@h" },
	};
	struct kp_query_tree t = { .request = request(7), .calls = calls,
		.ncalls = 2 };
	char trace[OTLP_TRACE_ID], id[OTLP_SPAN_ID], text[128];

	t.request.parent_label = 6;
	assert_int_equal(otlp_traces(&out, RUN, &t, 1), 3);
	assert_int_equal(out.err, KP_OK);
	otlp_trace_id(trace, RUN, 7);
	snprintf(text, sizeof(text), "\"traceId\":\"%s\"", trace);
	assert_int_equal(count(text), 3);
	assert_int_equal(count("\"scopeSpans\""), 2);
	assert_true(has("{\"key\":\"service.instance.id\",\"value\":"
	    "{\"stringValue\":\"b@h\"}}"));
	assert_true(has("\"name\":\"GET \\\"x\\\"\",\"kind\":2,"
	    "\"startTimeUnixNano\":\"1700000001000000000\","
	    "\"endTimeUnixNano\":\"1700000001000001000\""));
	assert_true(has("\"status\":{\"code\":2}"));
	otlp_trace_id(trace, RUN, 6);
	otlp_span_id(id, RUN, 6, 0);
	snprintf(text, sizeof(text),
	    "\"links\":[{\"traceId\":\"%s\",\"spanId\":\"%s\"}]", trace, id);
	assert_true(has(text));
	/* the first call is the request's child, the second the first's */
	otlp_span_id(id, RUN, 7, 0);
	snprintf(text, sizeof(text), "\"parentSpanId\":\"%s\"", id);
	assert_int_equal(count(text), 1);
	otlp_span_id(id, RUN, 7, 1);
	snprintf(text, sizeof(text), "\"parentSpanId\":\"%s\"", id);
	assert_int_equal(count(text), 1);
	/* no end was seen: as long as none, and said */
	assert_true(has("\"startTimeUnixNano\":\"1700000001000000020\","
	    "\"endTimeUnixNano\":\"1700000001000000020\""));
	assert_true(has("{\"key\":\"kprof.async\",\"value\":"
	    "{\"boolValue\":true}}"));
	assert_true(has("{\"stringValue\":\"unfinished\"}"));
}

/* The buckets themselves, from the first that holds anything. */
TEST(histograms)
{
	struct kp_cell c = { .tier = "_total", .identity = "create",
		.w_calls = 5, .w_raised = 2, .w_total = 1500000000 };
	struct kp_window w = { .node = "a@h", .start = RUN, .end = START,
		.cells = &c, .ncells = 1, .losses.n[KP_LOSS_CUT] = 9 };
	struct totals *t = totals_new();

	assert_int_equal(kp_hist_add(&c.hist, KP_NS_PER_S, 3), KP_OK);
	assert_int_equal(kp_hist_add(&c.hist, 1050000000, 2), KP_OK);
	assert_int_equal(otlp_metrics(&out, t, 1), 0);
	totals_add(t, &w);
	/* a histogram, five outcomes, the losses */
	assert_int_equal(otlp_metrics(&out, t, 1), 6 + KP_LOSS_COUNT);
	assert_int_equal(out.err, KP_OK);
	/* 1 s ends bucket -1; 1.05 s is in (2^(2/32), 2^(3/32)] */
	assert_true(has("\"startTimeUnixNano\":\"1700000000000000000\","
	    "\"timeUnixNano\":\"1700000001000000000\",\"attributes\":[{\"key\":"
	    "\"kprof.identity\",\"value\":{\"stringValue\":\"create\"}}],"
	    "\"count\":\"5\",\"sum\":1.5,\"scale\":5,\"zeroCount\":\"0\","
	    "\"positive\":{\"offset\":-1,\"bucketCounts\":"
	    "[\"3\",\"0\",\"0\",\"2\"]}}"));
	assert_true(has("{\"stringValue\":\"returned\"}}],\"asInt\":\"3\"}"));
	assert_true(has("{\"stringValue\":\"cut\"}}],\"asInt\":\"9\"}"));
	assert_true(has("\"aggregationTemporality\":2"));
	assert_true(has("\"description\":\"Requests, by how they ended: where "
	    "some are sampled out, estimates of all.\""));
	kp_hist_free(&c.hist);
	totals_free(t);
}

/* What is not seen is no point of 0. */
TEST(outcomes_not_seen)
{
	struct kp_cell c = { .tier = "_total", .identity = "create",
		.w_calls = 5, .w_unknown_outcomes = 5 };
	struct kp_window w = { .node = "a@h", .start = RUN, .end = START,
		.cells = &c, .ncells = 1 };
	struct totals *t = totals_new();

	totals_add(t, &w);
	otlp_metrics(&out, t, 1);
	assert_false(has("{\"stringValue\":\"raised\"}"));
	assert_false(has("{\"stringValue\":\"returned\"}"));
	assert_true(has("{\"stringValue\":\"unknown\"}}],\"asInt\":\"5\"}"));
	totals_free(t);
}

/* All of them may have raised; one that is known to have returned tells. */
TEST(unfinished_alone_is_no_zero)
{
	struct kp_cell c = { .tier = "_total", .identity = "create",
		.w_calls = 5, .w_unfinished = 5 };
	struct kp_window w = { .node = "a@h", .start = RUN, .end = START,
		.cells = &c, .ncells = 1 };
	struct totals *t = totals_new();

	totals_add(t, &w);
	otlp_metrics(&out, t, 1);
	assert_false(has("{\"stringValue\":\"raised\"}"));
	c.w_unfinished = 0;
	totals_add(t, &w);
	kp_buf_reset(&out);
	otlp_metrics(&out, t, 1);
	assert_true(has("{\"stringValue\":\"raised\"}}],\"asInt\":\"0\"}"));
	assert_true(has("{\"stringValue\":\"returned\"}}],\"asInt\":\"5\"}"));
	totals_free(t);
}

static uint64_t
refused(const char *answer)
{
	return otlp_refused(answer, strlen(answer), true, 50);
}

TEST(answers)
{
	assert_int_equal(refused(""), 0);
	assert_int_equal(refused("{}"), 0);
	assert_int_equal(refused("{\"partialSuccess\":{\"rejectedSpans\":"
	    "\"12\",\"errorMessage\":\"x\"}}"), 12);
	assert_int_equal(refused("{\"partialSuccess\":{\"rejectedSpans\": 3}}"),
	    3);
	assert_int_equal(refused("{\"partialSuccess\":{\"rejectedDataPoints\":"
	    "3}}"), 0);
	assert_int_equal(refused("\"rejectedSpans\":99999999999999999999999"),
	    50);
	assert_int_equal(refused("\"rejectedSpans\""), 0);
	assert_int_equal(refused("\"rejectedSpans\":-4"), 0);
}

TESTS(setup, teardown)
