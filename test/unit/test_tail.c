/*
 * test_tail.c - the slowest requests of every identity in a window.
 */
#include "cases.h"
#include "kprofd/tail.h"

static void *
tree(kp_dur_ns total)
{
	kp_dur_ns *p = malloc(sizeof(*p));

	assert_non_null(p);
	*p = total;
	return p;
}

/* As target.c does it. */
static void
offer(struct kp_tail *t, uint32_t identity, kp_dur_ns total, uint32_t ncalls)
{
	if (kp_tail_wants(t, identity, total, ncalls))
		kp_tail_put(t, identity, total, ncalls, tree(total));
}

struct got {
	kp_dur_ns v[KP_TAIL_MAX];
	size_t n;
};

static void
got_one(void *ctx, void *p)
{
	struct got *g = ctx;

	g->v[g->n++] = *(kp_dur_ns *)p;
	free(p);
}

static bool
has(const struct got *g, kp_dur_ns total)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->v[i] == total)
			return true;
	return false;
}

TEST(slowest_of_each)
{
	struct kp_tail t = { .per_identity = 2 };
	struct got g = { .n = 0 };

	for (kp_dur_ns i = 0; i < 1000; i++)
		for (uint32_t id = 0; id < 10; id++)
			offer(&t, id, i * 7919 % 1000 * 100 + id, 5);
	kp_tail_take(&t, got_one, &g);
	assert_int_equal(g.n, 20);
	for (uint32_t id = 0; id < 10; id++) {
		assert_true(has(&g, 99900 + id));
		assert_true(has(&g, 99800 + id));
	}
	/* the next window starts anew */
	g.n = 0;
	offer(&t, 3, 1, 5);
	kp_tail_take(&t, got_one, &g);
	assert_fields(g, IS(n, 1) IS(v[0], 1));
}

TEST(more_identities_than_slots)
{
	struct kp_tail t = { .per_identity = 1 };
	struct got g = { .n = 0 };

	for (uint32_t id = 0; id < 1000; id++)
		offer(&t, id, 1 + id * 613 % 1000, 5);
	kp_tail_take(&t, got_one, &g);
	assert_int_equal(g.n, KP_TAIL_MAX);
	for (kp_dur_ns i = 0; i < KP_TAIL_MAX; i++)
		assert_true(has(&g, 1000 - i));
}

TEST(memory_is_bounded)
{
	struct kp_tail t = { .per_identity = 1 };

	assert_false(kp_tail_wants(&t, 0, 1, KP_TAIL_CALLS_MAX + 1));
	offer(&t, 0, 1, KP_TAIL_CALLS_MAX);
	assert_false(kp_tail_wants(&t, 1, 9, 1));
	/* but in its place it may be as large */
	assert_true(kp_tail_wants(&t, 0, 2, KP_TAIL_CALLS_MAX));
	offer(&t, 0, 2, 1);
	assert_true(kp_tail_wants(&t, 1, 9, KP_TAIL_CALLS_MAX - 1));
	assert_false(kp_tail_wants(&t, 1, 9, KP_TAIL_CALLS_MAX));
	kp_tail_free(&t);
	assert_int_equal(t.ncalls, 0);
}

/* One that {slow_ms, N} keeps is the slowest here as well. */
TEST(kept_elsewhere)
{
	struct kp_tail t = { .per_identity = 1 };
	struct got g = { .n = 0 };

	offer(&t, 1, 10, 5);
	kp_tail_put(&t, 1, 20, 50000, NULL);
	assert_int_equal(t.ncalls, 0);
	assert_false(kp_tail_wants(&t, 1, 19, 5));
	kp_tail_take(&t, got_one, &g);
	assert_int_equal(g.n, 0);
}

TEST(none)
{
	struct kp_tail t = { .per_identity = 0 };

	assert_false(kp_tail_wants(&t, 1, INT64_MAX, 1));
	kp_tail_put(&t, 1, INT64_MAX, 1, NULL);
	assert_int_equal(t.n, 0);
}

TESTS(NULL, NULL)
