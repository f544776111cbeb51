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
	struct kp_query_tree t = { .request = request(7), .run = RUN, .calls = &call,
		.ncalls = 1 };

	otlp_traces(&out, NULL, &t, 1);
	assert_true(has("{\"key\":\"kprof.outlasts\",\"value\":"
	    "{\"boolValue\":true}}"));
	assert_false(has("{\"stringValue\":\"unfinished\"}"));
	call.outlasts = false;
	kp_buf_reset(&out);
	otlp_traces(&out, NULL, &t, 1);
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
	struct kp_query_tree tree = { .request = request(7), .run = RUN, .calls = &call,
		.ncalls = 1 };
	char text[256];

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		call.fn = t[i].fn;
		kp_buf_reset(&out);
		otlp_traces(&out, NULL, &tree, 1);
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
	struct kp_query_tree t = { .request = request(7), .run = RUN, .calls = calls,
		.ncalls = 2 };
	char trace[OTLP_TRACE_ID], id[OTLP_SPAN_ID], text[128];

	t.request.parent_label = 6;
	assert_int_equal(otlp_traces(&out, NULL, &t, 1), 3);
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

/* The entry's call is the request: one span has both, and is the parent of the rest. */
TEST(entry)
{
	struct kp_query_call calls[] = {
		{ .fn = "web:get/2", .tier = "web", .pid = "<1.2.3>",
		  .total = 1000, .self = 400, .parent = KP_NONE,
		  .outcome = KP_RAISED, .node = "" },
		{ .fn = "db:query/1", .tier = "db", .pid = "<1.2.3>",
		  .start = 20, .total = 600, .self = 600, .parent = 0,
		  .outcome = KP_RETURNED, .node = "", .pauses = { .out = 50, .gc = -1 } },
	};
	struct kp_query_tree t = { .request = request(7), .run = RUN, .calls = calls,
		.ncalls = 2 };
	char id[OTLP_SPAN_ID], text[128];

	assert_int_equal(otlp_traces(&out, NULL, &t, 1), 2);
	otlp_span_id(id, RUN, 7, 0);
	snprintf(text, sizeof(text), "\"parentSpanId\":\"%s\"", id);
	assert_int_equal(count(text), 1);
	assert_int_equal(count("parentSpanId"), 1);
	assert_true(has("\"code.function.name\",\"value\":{\"stringValue\":\"web:get\"}"));
	assert_true(has("\"kprof.self_ns\",\"value\":{\"intValue\":\"400\"}"));
	assert_true(has("\"kprof.out_ns\",\"value\":{\"intValue\":\"50\"}"));
	assert_int_equal(count("\"kprof.gc_ns\""), 1);
	assert_int_equal(count("\"error.type\""), 1);
	/* one that begins elsewhere or later is no entry */
	calls[0].node = "b@h";
	assert_int_equal(otlp_traces(&out, NULL, &t, 1), 3);
	calls[0].node = "";
	calls[0].start = 1;
	assert_int_equal(otlp_traces(&out, NULL, &t, 1), 3);
}

/* What a node's name tells, and what the user says instead. */
TEST(resources)
{
	static const struct {
		const char *node, *attributes, *has, *not;
	} t[] = {
		{ "app1@h", NULL, "service.name=app", NULL },
		{ "app-12@h", NULL, "service.name=app", NULL },
		{ "s3@h", NULL, "service.name=s3", NULL },
		{ "42@h", NULL, "service.name=42", NULL },
		{ "app1@h.example", NULL, "host.name=h.example", NULL },
		{ "app1@h", NULL, "service.instance.id=app1@h", NULL },
		{ "app1@h", "service.name=shop", "service.name=shop", "service.name=app" },
		{ "app1@h", "a=b,service.version=1%2C2%41", "service.version=1,2A", NULL },
		{ "app1@h", "a=b,c=", "c=", NULL },
	};
	struct kp_query_tree tree = { .request = request(7), .run = RUN };
	char name[64], text[128];
	const char *v;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		for (int k = 0; k < 2; k++) {
			const char *pair = k == 0 ? t[i].has : t[i].not;

			if (pair == NULL)
				continue;
			v = strchr(pair, '=');
			snprintf(name, sizeof(name), "%.*s", (int)(v - pair), pair);
			snprintf(text, sizeof(text), "{\"key\":\"%s\",\"value\":"
			    "{\"stringValue\":\"%s\"}}", name, v + 1);
			tree.request.node = t[i].node;
			kp_buf_reset(&out);
			otlp_traces(&out, &(struct otlp_about){ .attributes =
			    t[i].attributes }, &tree, 1);
			assert_int_equal(has(text), k == 0);
		}
}

TEST(lists_of_attributes)
{
	static const char *const good[] = { "a=b", "a=", "a=b,c=d", "a=%2c%20" };
	static const char *const bad[] = { "", "a", "=b", "a=b,", ",a=b", "a=b,,c=d",
		"a=%", "a=%2", "a=%zz", "a=%00", "a=\n" };
	char longest[600];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(otlp_attributes_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(otlp_attributes_valid(bad[i]));
	memset(longest, 'x', sizeof(longest));
	memcpy(longest, "a=", 2);
	longest[257] = '\0';
	assert_true(otlp_attributes_valid(longest));
	longest[257] = 'x';
	longest[258] = '\0';
	assert_false(otlp_attributes_valid(longest));
}

/*
 * In the application's trace the request is a child of its span.  A link is to the
 * trace of the outer request, if that is stored; else to the same.
 */
TEST(application_trace)
{
	struct kp_query_call call = { .fn = "db:query/1", .tier = "db", .pid = "<2.3.4>",
		.total = 1, .parent = KP_NONE, .outcome = KP_RETURNED, .node = "b@h" };
	struct kp_query_tree t = { .request = request(7), .run = RUN, .calls = &call,
		.ncalls = 1 };
	char id[OTLP_SPAN_ID], text[160];

	t.request.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
	t.request.parent_label = 6;
	assert_int_equal(otlp_traces(&out, NULL, &t, 1), 2);
	assert_int_equal(count("\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e4736\""), 3);
	assert_int_equal(count("\"traceId\""), 3);
	otlp_span_id(id, RUN, 7, 0);
	snprintf(text, sizeof(text), "\"spanId\":\"%s\",\"name\":\"GET \\\"x\\\"\"", id);
	assert_true(has(text));
	assert_true(has("\"parentSpanId\":\"00f067aa0ba902b7\",\"flags\":1,"));
	snprintf(text, sizeof(text), "\"parentSpanId\":\"%s\"", id);
	assert_int_equal(count(text), 1);
	t.outer = request(6);
	t.outer.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4735-00f067aa0ba902b7-00";
	kp_buf_reset(&out);
	otlp_traces(&out, NULL, &t, 1);
	otlp_span_id(id, RUN, 6, 0);
	snprintf(text, sizeof(text), "\"links\":[{\"traceId\":"
	    "\"4bf92f3577b34da6a3ce929d0e0e4735\",\"spanId\":\"%s\"}]", id);
	assert_true(has(text));
	t.request.traceparent = t.outer.traceparent;
	kp_buf_reset(&out);
	otlp_traces(&out, NULL, &t, 1);
	assert_true(has("\"flags\":0,"));
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
	assert_int_equal(otlp_metrics(&out, NULL, t, 1), 0);
	totals_add(t, &w);
	/* a histogram, five outcomes, the losses */
	assert_int_equal(otlp_metrics(&out, NULL, t, 1), 6 + KP_LOSS_COUNT);
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
	otlp_metrics(&out, NULL, t, 1);
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
	otlp_metrics(&out, NULL, t, 1);
	assert_false(has("{\"stringValue\":\"raised\"}"));
	c.w_unfinished = 0;
	totals_add(t, &w);
	kp_buf_reset(&out);
	otlp_metrics(&out, NULL, t, 1);
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

/* A text of the answer, "" without one. */
static uint64_t
refused_profiles(const char *answer, size_t n, char text[32])
{
	const char *why;
	size_t len;
	uint64_t refused = otlp_refused_profiles(answer, n, &why, &len);

	snprintf(text, 32, "%.*s", (int)len, len > 0 ? why : "");
	return refused;
}

TEST(answers_to_profiles)
{
	char text[32];

	assert_int_equal(refused_profiles("", 0, text), 0);
	assert_string_equal(text, "");
	/* a partial success of a text of two bytes, and of 300 that are rejected */
	assert_int_equal(refused_profiles("\x0a\x07\x12\x02no\x08\xac\x02", 9, text), 300);
	assert_string_equal(text, "no");
	/* an error, with its number and a message */
	assert_int_equal(refused_profiles("\x08\x03\x12\x05" "empty", 9, text), 0);
	assert_string_equal(text, "empty");
	/* cut short, of a text past its end, and of a kind that is in neither */
	assert_int_equal(refused_profiles("\x0a\x07\x12\x02no\x08\xac", 8, text), 0);
	assert_int_equal(refused_profiles("\x0a\x04\x12\x7fno", 6, text), 0);
	assert_string_equal(text, "");
	assert_int_equal(refused_profiles("\x09\x01\x0a\x02\x08\x01", 6, text), 0);
}

TESTS(setup, teardown)
