/*
 * What tracing adds, from events of calls that do nothing: the medians, whatever
 * is lost, and nobody else's event is taken.
 */
#include "cases.h"
#include "kprofd/label.h"
#include "kprofd/cost.h"

#define LABEL(kind, constant) ((uint64_t)(kind) << KP_LABEL_KIND_SHIFT | \
	(uint64_t)(constant) << KP_LABEL_CONST_SHIFT | 4711)
#define OURS LABEL(KP_LABEL_KPROFD, KP_LABEL_MEASURES)

static struct tracing_cost t;

static bool
put(enum kp_event_kind kind, uint32_t pid, kp_target_ns ts, uint8_t arity,
    uint64_t label)
{
	const uint8_t mfa[] = { 'm', 'f', 'a', arity };
	struct kp_event ev = { .kind = kind, .ts = ts, .label = label,
		.pid = { .id = pid }, .mfa = { mfa, sizeof(mfa) } };

	return tracing_cost_event(&t, &ev);
}

/* inside takes 40, and 10 + 30 are between its times and around's. */
static void
pair(uint32_t pid, kp_target_ns at, kp_dur_ns inside)
{
	assert_true(put(KP_EV_CALL, pid, at, 1, OURS));
	assert_true(put(KP_EV_CALL, pid, at + 10, 0, OURS));
	assert_true(put(KP_EV_RETURN_TO, pid, at + 10 + inside, 1, 0));
	assert_true(put(KP_EV_RETURN_TO, pid, at + 40 + 2 * inside, 1, 0));
}

TEST(test_median)
{
	t = (struct tracing_cost){ 0 };
	for (int i = 0; i < TRACING_COST_SERIES; i++) {
		assert_int_equal(t.call, 0);
		pair(7, -1000000 + i * 1000, i < 3 ? 9000 : 40);
	}
	assert_fields(t, IS(call, 40) IS(caller, 40));
}

/* Some events never came: what is whole counts, with the next series. */
TEST(test_lost)
{
	t = (struct tracing_cost){ 0 };
	for (int i = 0; i < TRACING_COST_LEAST; i++)
		pair(7, i * 1000, 40);
	put(KP_EV_CALL, 7, 90000, 1, OURS);
	put(KP_EV_CALL, 7, 91000, 1, OURS);	/* three are lost before it */
	put(KP_EV_CALL, 7, 91010, 0, OURS);
	assert_int_equal(t.call, 0);
	pair(8, 100000, 77);
	assert_int_equal(t.call, 40);
	put(KP_EV_CALL, 8, 110000, 0, OURS);	/* whose caller is lost */
	put(KP_EV_RETURN_TO, 8, 110040, 1, 0);
	put(KP_EV_RETURN_TO, 8, 110080, 1, 0);
	assert_int_equal(t.n, 1);
}

/* Where ends are told of twice, the exact one counts. */
TEST(test_exact)
{
	t = (struct tracing_cost){ 0 };
	for (int i = 0; i < TRACING_COST_SERIES; i++) {
		put(KP_EV_CALL, 7, i * 1000, 1, OURS);
		put(KP_EV_CALL, 7, i * 1000 + 10, 0, OURS);
		put(KP_EV_RETURN_FROM, 7, i * 1000 + 50, 0, 0);
		assert_true(put(KP_EV_RETURN_TO, 7, i * 1000 + 55, 1, 0));
		put(KP_EV_RETURN_FROM, 7, i * 1000 + 100, 1, 0);
		put(KP_EV_RETURN_TO, 7, i * 1000 + 105, 1, 0);
	}
	assert_fields(t, IS(call, 40) IS(caller, 20));
}

TEST(test_others)
{
	t = (struct tracing_cost){ 0 };
	assert_false(put(KP_EV_RETURN_TO, 0, 1, 1, 0));
	assert_false(put(KP_EV_CALL, 7, 1, 1, LABEL(KP_LABEL_KPROFD, 1021)));
	assert_false(put(KP_EV_CALL, 7, 1, 1, LABEL(KP_LABEL_TRACE,
	    KP_LABEL_MEASURES)));
	pair(7, 1000, 40);
	assert_false(put(KP_EV_RETURN_TO, 8, 2000, 1, 0));
	assert_false(put(KP_EV_ENTRY, 8, 2000, 1, LABEL(KP_LABEL_KPROFD, 5)));
	assert_true(put(KP_EV_OUT, 7, 2000, 0, 0));
}

/* Process ids come round: the next with that id is an ordinary one. */
TEST(test_reused)
{
	t = (struct tracing_cost){ 0 };
	for (int i = 0; i < TRACING_COST_SERIES; i++)
		pair(7, i * 1000, 40);
	assert_false(put(KP_EV_RECEIVE, 7, 90000, 0, 0));
	assert_false(put(KP_EV_RETURN_TO, 7, 90001, 1, 0));
	assert_int_equal(t.call, 40);

	pair(8, 100000, 40);			/* the others are lost */
	assert_true(put(KP_EV_RETURN_TO, 8, 100900, 1, 0));
	assert_false(put(KP_EV_CALL, 8, 101000, 1, LABEL(KP_LABEL_KPROFD, 5)));
	assert_false(put(KP_EV_RETURN_TO, 8, 101001, 1, 0));

	pair(9, 200000, 40);
	assert_false(put(KP_EV_CLEAR, 9, 201000, 1, 0));
	assert_false(put(KP_EV_RETURN_TO, 9, 201001, 1, 0));
}

TESTS(NULL, NULL)
