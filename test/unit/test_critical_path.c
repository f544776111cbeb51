/*
 * The critical path of requests, and who worked for them: traces made by hand,
 * whose answer is known.
 */
#include "cases.h"
#include "calls_feed.h"
#include "calls/critical_path.h"

static struct calls_feed feed;
static struct kp_critical_path *way;
static struct kp_critical_path_step *steps;
static uint32_t nsteps;

FIXTURE(setup)
{
	feed.names = kp_call_names_new();
	feed.n = 0;
	way = kp_critical_path_new();
	steps = NULL;
	return feed.names == NULL || way == NULL;
}

FIXTURE(teardown)
{
	free(steps);
	kp_critical_path_free(way);
	kp_call_names_free(feed.names);
	return 0;
}

static void
message(enum kp_call_kind kind, uint32_t proc, int64_t us, uint32_t serial,
    uint32_t from)
{
	feed_put(&feed, kind, proc, us, 0, from);
	feed.v[feed.n - 1].request = 1;
	feed.v[feed.n - 1].serial = serial;
}

static void
send_at(uint32_t proc, int64_t us, uint32_t serial)
{
	message(KP_CALL_SEND, proc, us, serial, 0);
}

static void
receive_at(uint32_t proc, int64_t us, uint32_t serial, uint32_t from)
{
	message(KP_CALL_RECEIVE, proc, us, serial, from);
}

static void
at(enum kp_call_kind kind, uint32_t proc, int64_t us)
{
	feed_at(&feed, kind, proc, us, '?');
}

static void
begin(void)
{
	feed_put(&feed, KP_CALL_REQUEST, 0, 0, 0, 1);
	feed_call(&feed, 0, 0, 'e', 'x');
}

static enum kp_err
find(void)
{
	for (size_t i = 0; i < feed.n; i++)
		assert_int_equal(kp_critical_path_add(way, &feed.v[i]), KP_OK);
	assert_int_equal(kp_critical_path_end(way), KP_OK);
	assert_int_equal(way->nrequests, 1);
	return kp_critical_path_steps(way, &way->requests[0], &steps, &nsteps);
}

/* Times are in us. */
static void
step_is(uint32_t i, uint32_t proc, int64_t from, int64_t to,
    enum kp_critical_path_part part, int64_t us)
{
	assert_true(i < nsteps);
	assert_fields(steps[i], IS(proc, proc) IS(from, from * KP_NS_PER_US)
	    IS(to, to * KP_NS_PER_US) IS(parts[part], us * KP_NS_PER_US));
}

/* 0 asks 1, which is busy; 1 asks 2, which collects garbage. */
TEST(test_chain)
{
	begin();
	send_at(0, 10, 1);
	at(KP_CALL_OUT, 0, 12);
	receive_at(1, 50, 1, 0);
	send_at(1, 60, 2);
	at(KP_CALL_OUT, 1, 62);
	receive_at(2, 63, 2, 1);
	at(KP_CALL_GC_START, 2, 70);
	at(KP_CALL_GC_END, 2, 90);
	send_at(2, 100, 3);
	at(KP_CALL_IN, 1, 103);
	receive_at(1, 104, 3, 2);
	send_at(1, 110, 4);
	at(KP_CALL_IN, 0, 112);
	receive_at(0, 113, 4, 1);
	feed_at(&feed, KP_CALL_RETURN_TO, 0, 120, 'x');
	assert_int_equal(find(), KP_OK);
	assert_true(way->requests[0].ended);
	assert_int_equal(nsteps, 9);
	step_is(0, 0, 0, 10, KP_PART_OWN, 10);
	step_is(1, 1, 10, 50, KP_PART_MAILBOX, 40);
	step_is(2, 1, 50, 60, KP_PART_OWN, 10);
	step_is(3, 2, 60, 63, KP_PART_MAILBOX, 3);
	step_is(4, 2, 63, 100, KP_PART_GC, 20);
	step_is(4, 2, 63, 100, KP_PART_OWN, 17);
	step_is(5, 1, 100, 104, KP_PART_MAILBOX, 4);
	step_is(6, 1, 104, 110, KP_PART_OWN, 6);
	step_is(7, 0, 110, 113, KP_PART_MAILBOX, 3);
	step_is(8, 0, 113, 120, KP_PART_OWN, 7);
}

/* Both are asked at once: the slower one is waited for. */
TEST(test_parallel)
{
	begin();
	send_at(0, 10, 1);
	send_at(0, 11, 2);
	at(KP_CALL_OUT, 0, 12);
	receive_at(1, 20, 1, 0);
	receive_at(2, 21, 2, 0);
	send_at(1, 30, 5);
	at(KP_CALL_IN, 0, 31);
	receive_at(0, 32, 5, 1);
	at(KP_CALL_OUT, 0, 33);
	send_at(2, 80, 6);
	at(KP_CALL_IN, 0, 81);
	receive_at(0, 82, 6, 2);
	feed_at(&feed, KP_CALL_RETURN_TO, 0, 90, 'x');
	assert_int_equal(find(), KP_OK);
	assert_int_equal(nsteps, 5);
	step_is(0, 0, 0, 11, KP_PART_OWN, 11);
	step_is(1, 2, 11, 21, KP_PART_MAILBOX, 10);
	step_is(2, 2, 21, 80, KP_PART_OWN, 59);
	step_is(3, 0, 80, 82, KP_PART_MAILBOX, 2);
	step_is(4, 0, 82, 90, KP_PART_OWN, 8);
}

/* An answer that is there before it is wanted is not waited for. */
TEST(test_not_waited_for)
{
	begin();
	send_at(0, 10, 1);
	receive_at(1, 20, 1, 0);
	send_at(1, 30, 2);
	receive_at(0, 70, 2, 1);
	feed_at(&feed, KP_CALL_RETURN_TO, 0, 90, 'x');
	assert_int_equal(find(), KP_OK);
	assert_int_equal(nsteps, 1);
	step_is(0, 0, 0, 90, KP_PART_OWN, 90);
}

TEST(test_works)
{
	begin();
	send_at(0, 10, 1);
	receive_at(1, 25, 1, 0);
	send_at(1, 30, 2);
	send_at(1, 31, 3);
	receive_at(2, 33, 2, 1);
	receive_at(2, 41, 3, 1);
	kp_critical_path_spent(way, 1, 0, KP_PART_OUT, 0, 7);
	kp_critical_path_spent(way, 0, 0, KP_PART_OUT, 0, 7);	/* of none */
	assert_int_equal(find(), KP_OK);
	assert_false(way->requests[0].ended);
	assert_int_equal(nsteps, 0);
	assert_fields(*way, IS(nworks, 3) IS(works[0].proc, 0)
	    IS(works[0].by, KP_PROC_NONE) IS(works[0].parts[KP_PART_OUT], 7)
	    IS(works[1].proc, 1) IS(works[1].by, 0)
	    IS(works[1].parts[KP_PART_MAILBOX], 15 * KP_NS_PER_US)
	    IS(works[2].proc, 2) IS(works[2].by, 1) IS(works[2].messages, 2)
	    IS(works[2].parts[KP_PART_MAILBOX], (3 + 10) * KP_NS_PER_US));
}

TESTS(setup, teardown)
