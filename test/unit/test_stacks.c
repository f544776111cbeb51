/* test_stacks.c - tables of stacks, and the messages that bring them. */
#include "cases.h"
#include "stack_feed.h"

static const struct kp_stack_counts counts = { 10, 9, 8, 1, 2, 12345, 3, 4 };

struct got {
	struct kp_stack_sample v[16];
	struct kp_stack_group g;
	char name[64], app[64];
	uint32_t n, groups;
};

static void
on_sample(void *ctx, const struct kp_stack_sample *s)
{
	struct got *got = ctx;

	assert_true(got->n < 16);
	got->v[got->n++] = *s;
}

static void
on_group(void *ctx, const struct kp_stack_group *g)
{
	struct got *got = ctx;

	got->g = *g;
	snprintf(got->name, sizeof(got->name), "%s", g->name);
	snprintf(got->app, sizeof(got->app), "%s", g->application);
	got->groups++;
}

static const struct kp_stack_ops ops = { .on_sample = on_sample,
	.on_group = on_group };

static const char *
text_of(const struct kp_stack_table *t, uint32_t stack)
{
	static struct kp_buf b;

	kp_buf_free(&b);
	kp_buf_init(&b, 1 << 20);
	kp_stack_text(t, stack, &b);
	return kp_buf_cstr(&b);
}

static enum kp_err
decode(struct kp_stack_table *t, const struct kp_buf *b, struct got *got)
{
	struct kp_stack_message m = { 0 };

	assert_int_equal(b->err, KP_OK);
	*got = (struct got){ .n = 0 };
	return kp_stacks_decode(b->p, b->len, t, &m, &ops, got);
}

TEST(a_sample_is_read)
{
	const struct fed_sample v[] = {
		{ 90, 2, (INT64_C(1) << 58) + 5, -77, 0, 5000000, "running",
		    "db:'it/0 lists:seq/2:12 Elixir.My.Repo:all!/1:3", 7 },
		{ 91, 0, 0, -76, 0, 0, "waiting", NULL, 0 },
		{ 92, 0, 0, -75, 0, 1, "waiting", "", 0 },
	};
	struct kp_stack_table *t = kp_stack_table_new();
	struct kp_stack_message m = { 0 };
	struct got got = { 0 };
	struct kp_buf b;

	kp_buf_init(&b, 1 << 20);
	feed_samples(&b, -70, &counts, v, 3);
	assert_int_equal(kp_stacks_decode(b.p, b.len, t, &m, &ops, &got),
	    KP_OK);
	assert_int_equal(m.sent_at, -70);
	assert_memory_equal(&m.counts, &counts, sizeof(counts));
	assert_fields(got, IS(n, 3) IS(v[0].proc, UINT64_C(2) << 32 | 90)
	    IS(v[0].label, (INT64_C(1) << 58) + 5) IS(v[0].at, -77)
	    IS(v[0].time, 5000000) IS(v[0].group, 7)
	    IS(v[0].state, KP_STACK_RUNNING));
	assert_string_equal(text_of(t, got.v[0].stack),
	    "My.Repo.all!/1:3;lists:seq/2:12;db:'\\'it'/0");
	assert_fields(got, IS(v[1].state, KP_STACK_NOT_SEEN)
	    IS(v[1].stack, KP_STACK_NONE) IS(v[2].state, KP_STACK_WAIT));
	assert_string_equal(text_of(t, got.v[2].stack), "");
	kp_buf_free(&b);
	kp_stack_table_free(t);
}

TEST(a_semicolon_does_not_end_a_frame)
{
	const struct fed_sample v = { 1, 0, 0, 0, 0, 0, "running", "a:b;c/0:1",
		0 };
	struct kp_stack_table *t = kp_stack_table_new();
	struct kp_buf b;
	struct got got;

	kp_buf_init(&b, 1 << 20);
	feed_samples(&b, 0, &counts, &v, 1);
	assert_int_equal(decode(t, &b, &got), KP_OK);
	assert_string_equal(text_of(t, got.v[0].stack), "a:'b,c'/0:1");
	kp_buf_free(&b);
	kp_stack_table_free(t);
}

TEST(states_follow_from_status_and_frames)
{
	static const struct {
		const char *status, *frames;
		enum kp_stack_state is;
	} cases[] = {
		{ "running", "gen:do_call/4", KP_STACK_RUNNING },
		{ "exiting", "", KP_STACK_RUNNING },
		{ "runnable", "gen:do_call/4", KP_STACK_RUNNABLE },
		{ "garbage_collecting", "lists:seq/2", KP_STACK_GC },
		{ "waiting", "gen:do_call/4:237 gen_server:call/3 a:b/1",
		    KP_STACK_CALL },
		{ "waiting", "erpc:call/5 a:b/1", KP_STACK_CALL },
		{ "waiting", "Elixir.Task:await/2 a:b/1", KP_STACK_CALL },
		{ "waiting", "prim_inet:recv0/3 a:b/1", KP_STACK_PORT },
		{ "waiting", "gen:do_call/4 gen_statem:call/3 "
		    "ssl_gen_statem:call/2 ssl:recv/3 a:b/1", KP_STACK_PORT },
		{ "waiting", "gen:do_call/4 gen_server:call/3 file:open/2",
		    KP_STACK_PORT },
		{ "waiting", "io:wait_io_mon_reply/2 io:put_chars/2",
		    KP_STACK_PORT },
		{ "waiting", "erts_internal:port_control/3", KP_STACK_PORT },
		/* a frame of the application's ends the search */
		{ "waiting", "a:b/1 gen_tcp:recv/2", KP_STACK_WAIT },
		{ "waiting", "gen:do_call/4 a:b/1 gen_tcp:recv/2",
		    KP_STACK_CALL },
		{ "waiting", "gen_server:loop/7 proc_lib:init_p_do_apply/3",
		    KP_STACK_WAIT },
		{ "waiting", "", KP_STACK_WAIT },
		{ "suspended", "a:b/1", KP_STACK_WAIT },
		{ "a_new_status", "gen:do_call/4", KP_STACK_CALL },
		{ "running", NULL, KP_STACK_NOT_SEEN },
	};
	struct kp_stack_table *t = kp_stack_table_new();
	struct kp_buf b;
	struct got got;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kp_buf_init(&b, 1 << 20);
		feed_samples(&b, 0, &counts, &(struct fed_sample){ 1, 0, 0, 0,
		    0, 0, cases[i].status, cases[i].frames, 0 }, 1);
		assert_int_equal(decode(t, &b, &got), KP_OK);
		if (got.v[0].state != cases[i].is)
			fail_msg("%s, %s: %s", cases[i].status, cases[i].frames,
			    kp_stack_state_name(got.v[0].state));
		kp_buf_free(&b);
	}
	kp_stack_table_free(t);
}

static void
put_group_of(struct kp_buf *b, int64_t number, const char *name,
    const char *app, const char *fourth)
{
	kp_etf_version(b);
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "kprof_groups");
	kp_etf_list(b, 1);
	kp_etf_tuple(b, fourth != NULL ? 4 : 3);
	kp_etf_int(b, number);
	kp_etf_binary(b, name, strlen(name));
	kp_etf_atom(b, app);
	if (fourth != NULL)
		kp_etf_atom(b, fourth);
	kp_etf_nil(b);
}

static void
put_group(struct kp_buf *b, int64_t number, const char *name, const char *app)
{
	put_group_of(b, number, name, app, NULL);
}

TEST(a_group_is_read)
{
	struct kp_stack_table *t = kp_stack_table_new();
	struct kp_buf b;
	struct got got;

	kp_buf_init(&b, 1 << 20);
	put_group(&b, 3, "pool\x1b[2J", "undefined");
	assert_int_equal(decode(t, &b, &got), KP_OK);
	assert_fields(got, IS(groups, 1) IS(g.number, 3)
	    IS(name, "pool\\x1b[2J") IS(app, ""));
	kp_buf_reset(&b);
	put_group(&b, 4, "", "kernel");
	assert_int_equal(decode(t, &b, &got), KP_OK);
	assert_string_equal(got.app, "kernel");
	assert_false(got.g.one);
	kp_buf_reset(&b);
	put_group_of(&b, 5, "a_name", "kernel", "one");
	assert_int_equal(decode(t, &b, &got), KP_OK);
	assert_true(got.g.one);
	kp_buf_reset(&b);
	put_group_of(&b, 5, "a_name", "kernel", "two");
	assert_int_equal(decode(t, &b, &got), KP_EFORMAT);
	kp_buf_reset(&b);
	put_group(&b, 0, "none", "kernel");
	assert_int_equal(decode(t, &b, &got), KP_EFORMAT);
	assert_int_equal(got.groups, 0);
	kp_buf_free(&b);
	kp_stack_table_free(t);
}

/* The last sample of three is bad. */
TEST(a_message_that_lies_changes_nothing)
{
	static const struct fed_sample bad[] = {
		{ 1, 0, -1, 0, 0, 0, "running", "a:b/1", 0 },
		{ 1, 0, INT64_C(1) << 59, 0, 0, 0, "running", "a:b/1", 0 },
		{ 1, 0, 0, INT64_C(1) << 62, 0, 0, "running", "a:b/1", 0 },
		{ 1, 0, 0, 0, 0, -1, "running", "a:b/1", 0 },
		{ 1, 0, 0, 0, 0, 0, "running", "a:b/256", 0 },
		{ 1, 0, 0, 0, 0, 0, "running", "a:b/1:-1", 0 },
		{ 1, 0, 0, 0, 0, 0, "running", "a:b/1:4294967296", 0 },
		{ 1, 0, 0, 0, 0, 0, "running", "a:b/1", -1 },
		{ 1, 0, 0, 0, 0, 0, "running", "a:b/1", INT64_C(1) << 32 },
	};
	struct kp_stack_table *t = kp_stack_table_new();
	struct fed_sample v[3] = {
		{ 1, 0, 0, 0, 0, 0, "running", "x:y/1", 0 },
		{ 2, 0, 0, 0, 0, 0, "running", "x:z/1", 0 },
	};
	struct kp_buf b;
	struct got got;

	kp_buf_init(&b, 1 << 20);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		v[2] = bad[i];
		kp_buf_reset(&b);
		feed_samples(&b, 0, &counts, v, 3);
		assert_int_equal(decode(t, &b, &got), KP_EFORMAT);
		assert_int_equal(got.n, 0);
		assert_int_equal(kp_stack_table_fns(t), 0);
	}
	v[2] = v[1];
	kp_buf_reset(&b);
	feed_samples(&b, 0, &counts, v, 3);
	while (b.len > 0) {
		b.len--;
		assert_int_not_equal(decode(t, &b, &got), KP_OK);
	}
	kp_buf_reset(&b);
	kp_etf_version(&b);
	kp_etf_atom(&b, "kprof_stacks");
	assert_int_equal(decode(t, &b, &got), KP_ENOENT);
	kp_buf_free(&b);
	kp_stack_table_free(t);
}

TEST(too_many_frames_are_refused)
{
	struct kp_stack_table *t = kp_stack_table_new();
	char frames[6 * (KP_STACK_DEPTH_MAX + 2)] = "";
	struct kp_buf b;
	struct got got;

	for (int i = 0; i < KP_STACK_DEPTH_MAX; i++)
		strcat(frames, i > 0 ? " a:b/1" : "a:b/1");
	for (int more = 0; more < 2; more++) {
		kp_buf_init(&b, 1 << 20);
		feed_samples(&b, 0, &counts, &(struct fed_sample){ 1, 0, 0, 0, 0,
		    0, "running", frames, 0 }, 1);
		assert_int_equal(decode(t, &b, &got), more ? KP_ELIMIT :
		    KP_OK);
		kp_buf_free(&b);
		strcat(frames, " a:b/1");
	}
	kp_stack_table_free(t);
}

TEST(equal_stacks_are_one)
{
	struct fed_sample v[4] = {
		{ 1, 0, 0, 0, 0, 0, "running", "a:b/1:1 a:c/0", 0 },
		{ 2, 0, 0, 0, 0, 0, "waiting", "a:b/1:2 a:c/0", 0 },
		{ 3, 0, 0, 0, 0, 0, "running", "a:b/1:1 a:c/0", 0 },
		{ 3, 0, 0, 0, 0, 0, "running", "a:c/0 a:b/1:1", 0 },
	};
	struct kp_stack_table *t = kp_stack_table_new();
	const struct kp_stack_frame *f;
	struct kp_buf b;
	struct got got;
	uint32_t n;

	kp_buf_init(&b, 1 << 20);
	feed_samples(&b, 0, &counts, v, 4);
	assert_int_equal(decode(t, &b, &got), KP_OK);
	assert_int_equal(got.v[0].stack, got.v[2].stack);
	assert_int_not_equal(got.v[0].stack, got.v[1].stack);
	assert_int_not_equal(got.v[0].stack, got.v[3].stack);
	assert_int_equal(kp_stack_table_fns(t), 2);
	assert_int_equal(kp_stack_table_stacks(t), 3 + 3);
	f = kp_stack_frames(t, got.v[0].stack, &n);
	assert_int_equal(n, 2);
	assert_string_equal(kp_stack_fn(t, f[0].fn), "a:c/0");
	assert_int_equal(f[1].line, 1);
	kp_buf_free(&b);
	kp_stack_table_free(t);
}

static uint32_t
nth_stack(struct kp_stack_table *t, uint32_t fn, uint32_t line)
{
	return kp_stack_put(t, &(struct kp_stack_frame){ fn, line }, 1);
}

TEST(a_full_table_takes_no_more)
{
	struct kp_stack_table *t = kp_stack_table_new();
	struct kp_stack_table *other = kp_stack_table_new();
	struct fed_sample v = { 1, 0, 0, 0, 0, 0, "running", "a:b/1:1", 0 };
	uint32_t last = 0, copy;
	struct kp_buf b;
	struct got got;

	kp_buf_init(&b, 1 << 20);
	feed_samples(&b, 0, &counts, &v, 1);
	assert_int_equal(decode(t, &b, &got), KP_OK);
	for (uint32_t line = 1; kp_stack_table_overflow(t) == 0; line++) {
		assert_true(line <= KP_STACK_STACKS_MAX);
		last = nth_stack(t, 0, line);
	}
	assert_int_equal(last, KP_STACK_OTHER);
	assert_int_equal(kp_stack_table_stacks(t), KP_STACK_STACKS_MAX);
	assert_string_equal(text_of(t, last), "_other");
	/* those that it has are found, and may move to another table */
	assert_int_equal(nth_stack(t, 0, 1), got.v[0].stack);
	copy = kp_stack_copy(other, t, nth_stack(t, 0, 5));
	assert_string_equal(text_of(other, copy), "a:b/1:5");
	assert_int_equal(kp_stack_copy(other, t, KP_STACK_OTHER),
	    KP_STACK_OTHER);
	assert_int_equal(kp_stack_copy(other, t, KP_STACK_NONE),
	    KP_STACK_NONE);
	kp_buf_free(&b);
	kp_stack_table_free(t);
	kp_stack_table_free(other);
}

TEST(functions_are_capped_too)
{
	struct kp_stack_table *t = kp_stack_table_new();
	struct fed_sample v = { .status = "running" };
	char frame[40];
	struct kp_buf b;
	struct got got;

	kp_buf_init(&b, 1 << 20);
	v.frames = frame;
	for (int i = 0; i <= KP_STACK_FNS_MAX / 2; i++) {
		snprintf(frame, sizeof(frame), "a:f%d/0 a:g%d/0", i, i);
		kp_buf_reset(&b);
		feed_samples(&b, 0, &counts, &v, 1);
		assert_int_equal(decode(t, &b, &got), KP_OK);
	}
	assert_int_equal(got.v[0].stack, KP_STACK_OTHER);
	assert_int_equal(kp_stack_table_fns(t), KP_STACK_FNS_MAX);
	assert_int_equal(kp_stack_table_overflow(t), 1);
	kp_buf_free(&b);
	kp_stack_table_free(t);
}

TESTS(NULL, NULL)
