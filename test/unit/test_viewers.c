/*
 * test_viewers.c - the trace of one request as Chrome's events and for speedscope: what
 * cannot nest, what has no end, what began before its request by another node's clock.
 */
#include "cases.h"
#include "export/viewers.h"

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

static const char *
written(const struct kp_query_tree *t, enum trace_form form)
{
	kp_buf_reset(&out);
	assert_int_equal(trace_put(&out, t, form), KP_OK);
	return kp_buf_cstr(&out);
}

static void
has(const char *text)
{
	if (strstr(kp_buf_cstr(&out), text) == NULL)
		fail_msg("%s is not in %s", text, kp_buf_cstr(&out));
}

#define CALL(name, process, from, takes, by) { .fn = name, .tier = "t", .pid = process, \
	.start = from, .total = takes, .self = takes, .parent = by, \
	.outcome = KP_RETURNED, .node = "", .pauses = { -1, -1 } }

/* Two calls of <0.2.0> overlap without either being inside the other; b began 1 us early. */
static struct kp_query_call calls[] = {
	CALL("Elixir.A:a/1", "<0.1.0>", 0, 10000, KP_NONE),
	CALL("b:b/1", "<0.2.0>", -1000, 4000, 0),
	CALL("c:c/1", "<0.2.0>", 2000, 4000, 0),
	CALL("b:b/1", "<0.2.0>", 2500, 100, 2),
	CALL("d:d/1", "<0.1.0>", 5000, -1, 0),
};
static const struct kp_query_tree tree = { .request = { .id = 9, .start = 5000000000,
	.total = 10000, .node = "a@h", .identity = "x\"", .label = 1, .weight = 1,
	.outcome = KP_RETURNED }, .calls = calls, .ncalls = 5 };

TEST(trace_events)
{
	calls[4].outlasts = true;
	written(&tree, TRACE_CHROME);
	has("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":3,\"args\":"
	    "{\"name\":\"<0.2.0> (2)\"}}");
	has("{\"ph\":\"X\",\"name\":\"A.a/1\",\"pid\":1,\"tid\":1,\"cat\":\"t\",\"ts\":1,"
	    "\"dur\":10,\"args\":{\"total_ms\":0.01,\"self_ms\":0.01,"
	    "\"outcome\":\"returned\"}}");
	has("\"name\":\"b:b/1\",\"pid\":1,\"tid\":2,\"cat\":\"t\",\"ts\":0,\"dur\":4,");
	has("\"name\":\"c:c/1\",\"pid\":1,\"tid\":3,\"cat\":\"t\",\"ts\":3,\"dur\":4,");
	/* the inner call fits on the first track that has room */
	has("\"name\":\"b:b/1\",\"pid\":1,\"tid\":2,\"cat\":\"t\",\"ts\":3.5,\"dur\":0.1,");
	has("\"dur\":0,\"args\":{\"total_ms\":null,\"self_ms\":null,"
	    "\"outcome\":\"still running\"}}");
	calls[0].pauses = (struct kp_call_pauses){ .out = 3000, .gc = 0 };
	written(&tree, TRACE_CHROME);
	has("\"self_ms\":0.01,\"gc_ms\":0,\"out_ms\":0.003,\"outcome\":\"returned\"}}");
	calls[0].pauses = (struct kp_call_pauses){ -1, -1 };
	/* an arrow leads from the call's process, not before it began */
	has("{\"ph\":\"s\",\"name\":\"message\",\"pid\":1,\"tid\":1,\"cat\":\"message\","
	    "\"id\":1,\"ts\":1},{\"ph\":\"f\",\"name\":\"message\",\"pid\":1,\"tid\":2,"
	    "\"cat\":\"message\",\"bp\":\"e\",\"id\":1,\"ts\":0}");
	assert_null(strstr(kp_buf_cstr(&out), "\"id\":3"));
	assert_null(strstr(kp_buf_cstr(&out), "\"id\":4"));
}

TEST(speedscope)
{
	written(&tree, TRACE_SPEEDSCOPE);
	has("\"frames\":[{\"name\":\"A.a/1\"},{\"name\":\"d:d/1\"},{\"name\":\"b:b/1\"},"
	    "{\"name\":\"c:c/1\"}]");
	has("{\"type\":\"evented\",\"name\":\"<0.2.0> on a@h\",\"unit\":\"nanoseconds\","
	    "\"startValue\":0,\"endValue\":11000,\"events\":["
	    "{\"type\":\"O\",\"frame\":2,\"at\":0},{\"type\":\"O\",\"frame\":2,\"at\":3500},"
	    "{\"type\":\"C\",\"frame\":2,\"at\":3600},{\"type\":\"C\",\"frame\":2,\"at\":4000}]}");
	has("\"name\":\"<0.2.0> on a@h (2)\"");
}

/* Times of a damaged file. */
TEST(bounds)
{
	struct kp_query_call far[] = {
		CALL("a:a/1", "<0.1.0>", INT64_MAX - 1, INT64_MAX, KP_NONE),
		CALL("b:b/1", "<0.2.0>", INT64_MIN, INT64_MAX, 0),
	};
	struct kp_query_tree t = { .request = tree.request, .calls = far, .ncalls = 2 };

	for (int form = TRACE_CHROME; form <= TRACE_OTLP; form++) {
		written(&t, (enum trace_form)form);
		t.ncalls--;
		written(&t, (enum trace_form)form);
		t.ncalls++;
	}
	t.ncalls = 0;
	written(&t, TRACE_SPEEDSCOPE);
	has("\"profiles\":[]}");
}

TESTS(setup, teardown)
