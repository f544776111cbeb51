/*
 * test_targets.c - what is decided over several targets: the constants in
 * their labels, what one of them may lack, and which names are one node's.
 */
#include "cases.h"
#include "daemon/nodes/targets.h"
#include "daemon/options.h"
#include "agent/agent.h"

/* Armed and armed again at random, for years. */
TEST(test_labels_unique)
{
	uint16_t held[TARGETS_MAX] = { 0 };
	struct label_epochs l;
	unsigned t;

	srand(1);
	label_epochs_init(&l, 42, 0, 0);
	for (int i = 0; i < 50000; i++) {
		t = (unsigned)rand() % TARGETS_MAX;
		if (rand() % 10 == 0) {
			label_epochs_give(&l, held[t]);
			held[t] = 0;
			continue;
		}
		held[t] = label_epochs_take(&l, held[t]);
		assert_in_range(held[t], 1, LABEL_EPOCHS_MAX);
		for (unsigned u = 0; u < TARGETS_MAX; u++)
			assert_true(u == t || held[u] == 0 ||
			    held[u] != held[t]);
	}
}

/* A constant comes again only after nearly all others. */
TEST(test_labels_come_late)
{
	int last[LABEL_EPOCHS_MAX + 1];
	uint16_t held[TARGETS_MAX] = { 0 }, c;
	struct label_epochs l;

	memset(last, -1, sizeof(last));
	label_epochs_init(&l, 7, 0, 0);
	for (int i = 0; i < 20000; i++) {
		c = label_epochs_take(&l, held[i % TARGETS_MAX]);
		held[i % TARGETS_MAX] = c;
		if (last[c] >= 0)
			assert_true(i - last[c] >= LABEL_EPOCHS_MAX - TARGETS_MAX);
		last[c] = i;
	}
	for (unsigned n = 1; n <= LABEL_EPOCHS_MAX; n++)
		assert_true(last[n] >= 0);
}

/* Another kprofd has another order: its first ones are others. */
TEST(test_labels_of_another)
{
	unsigned same = 0;

	for (uint64_t seed = 0; seed < 4000; seed++) {
		struct label_epochs a, b;

		label_epochs_init(&a, 2 * seed, 0, 0);
		label_epochs_init(&b, 2 * seed + 1, 0, 0);
		same += label_epochs_take(&a, 0) == label_epochs_take(&b, 0);
	}
	/* 4000 / 1023 = 4 are to be expected */
	assert_in_range(same, 0, 16);
}

static struct unresolved
lacks(unsigned n, ...)
{
	struct unresolved m = { .known = true };
	va_list ap;

	va_start(ap, n);
	for (unsigned i = 0; i < n; i++)
		m.v[m.n++] = (struct kp_pos){ va_arg(ap, unsigned), 5 };
	va_end(ap);
	return m;
}

TEST(test_missing)
{
	struct unresolved a = lacks(1, 3u), b = lacks(1, 4u), none = lacks(0);
	struct unresolved both = lacks(2, 3u, 4u), unknown = { 0 };
	const struct unresolved *others[3];

	assert_false(unresolved_elsewhere(&a, others, 0));
	assert_true(unresolved_elsewhere(&none, others, 0));
	others[0] = &b;
	assert_true(unresolved_elsewhere(&a, others, 1));
	assert_false(unresolved_elsewhere(&both, others, 1));
	others[1] = &a;
	/* each has one of the two */
	assert_true(unresolved_elsewhere(&both, others, 2));
	others[0] = &unknown;
	assert_false(unresolved_elsewhere(&b, others, 1));
	others[0] = &both;
	others[1] = &unknown;
	assert_false(unresolved_elsewhere(&a, others, 2));
	others[2] = &none;
	assert_true(unresolved_elsewhere(&both, others, 3));
	/* more than can be compared is not excused */
	both.more = true;
	assert_false(unresolved_elsewhere(&both, others, 3));
}

TEST(test_missing_set)
{
	struct kp_diag v[] = {
		{ .pos = { 1, 2 }, .warning = true },
		{ .pos = { 3, 4 } },
	};
	struct kp_diags d = { .v = v, .n = 2, .errors = 1 };
	struct unresolved m;

	unresolved_set(&m, &d);
	assert_true(m.known);
	assert_false(m.more);
	assert_fields(m, IS(n, 1) IS(v[0].line, 3));
	d.errors = 2;		/* one was not kept */
	unresolved_set(&m, &d);
	assert_true(m.more);
}

/* However its port was typed it is one node, and keeps the last one. */
TEST(test_ports)
{
	struct target *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->node = "app@127.0.0.1";	/* as it names itself */
	t->opts.target = strcpy(t->typed, "app@localhost:4370");
	assert_true(target_is(t, "app@127.0.0.1"));
	assert_true(target_is(t, "app@127.0.0.1:4371"));
	assert_true(target_is(t, "app@localhost"));
	assert_false(target_is(t, "app@localhos"));
	assert_false(target_is(t, "app@localhost:4370x"));
	/* the cluster knows no port; a list may have another, or none */
	assert_false(target_retype(t, "app@127.0.0.1", true));
	assert_false(target_retype(t, "app@127.0.0.1:4370", false));
	target_retype(t, "app@localhost:4370", true);
	assert_string_equal(t->opts.target, "app@localhost:4370");
	assert_true(target_retype(t, "app@127.0.0.1:4371", true));
	assert_string_equal(t->opts.target, "app@127.0.0.1:4371");
	assert_true(target_retype(t, "app@127.0.0.1", false));
	assert_string_equal(t->opts.target, "app@127.0.0.1");
	free(t);
}

/* One request in four was measured "to keep to the budget" where {slices, 4} asked for that. */
TEST(test_rate_why)
{
	struct target *t = calloc(1, sizeof(*t));

	t->sampler = (struct kp_sampler){ .conf = { KP_SAMPLE_SLICES, 4 },
		.rated = 4, .cut = 1, .frugal = 4, .one_in = 4 };
	assert_string_equal(target_rate_why(t), "");
	t->sampler.frugal = t->sampler.one_in = 5;
	assert_string_equal(target_rate_why(t), "to keep to the budget");
	t->sampler.cut = 2;
	assert_string_equal(target_rate_why(t), "after an overload");
	free(t);
}

TESTS(NULL, NULL)
