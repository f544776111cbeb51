/*
 * Requests that several nodes speak of: whoever is heard first, each has one
 * number.
 */
#include "cases.h"
#include "calls/call_trace.h"
#include "profile/node/request_ids.h"

static struct request_ids all;
static struct request_ids_node a, b;

FIXTURE(setup)
{
	all = (struct request_ids){ .asked = 2 };
	a = b = (struct request_ids_node){ 0 };
	return 0;
}

FIXTURE(teardown)
{
	request_ids_free(&all);
	request_ids_node_free(&a);
	request_ids_node_free(&b);
	return 0;
}

/* B speaks of it before A does, where it began. */
TEST(test_by_label)
{
	assert_int_equal(request_ids_of(&b, 1), 0);
	assert_int_equal(request_ids_label(&all, &b, 5, 77), 0);
	assert_int_equal(request_ids_label(&all, &a, 1, 78), 0);
	assert_int_equal(request_ids_label(&all, &a, 2, 77), 0);
	assert_int_equal(request_ids_of(&a, 2), request_ids_of(&b, 5));
	assert_int_not_equal(request_ids_of(&a, 1), request_ids_of(&b, 5));
	assert_int_equal(request_ids_of(&b, 6), 0);
}

/* A knows that 77 and 79 are one; B has seen only the latter. */
TEST(test_same)
{
	uint32_t theirs;

	request_ids_label(&all, &b, 1, 79);
	theirs = request_ids_of(&b, 1);
	request_ids_label(&all, &a, 1, 77);
	assert_int_equal(request_ids_label(&all, &a, 1, 79), theirs);
	assert_int_not_equal(request_ids_of(&a, 1), theirs);
	/* In the other order there is only one. */
	assert_int_equal(request_ids_label(&all, &a, 2, 90), 0);
	assert_int_equal(request_ids_label(&all, &a, 2, 91), 0);
	assert_int_equal(request_ids_label(&all, &b, 2, 91), 0);
	assert_int_equal(request_ids_of(&a, 2), request_ids_of(&b, 2));
}

/* No more are counted than were asked for. */
TEST(test_counted)
{
	for (uint32_t i = 1; i <= 3; i++)
		request_ids_label(&all, &a, i, 100 + i);
	assert_true(request_ids_begins(&all, 1, 0));
	assert_false(request_ids_begins(&all, 1, 0));
	assert_false(request_ids_begins(&all, 0, 0));
	assert_true(request_ids_begins(&all, 2, 0));
	assert_false(request_ids_begins(&all, 3, 0));
	assert_true(request_ids_ends(&all, 3));
	assert_int_equal(all.ended, 0);
	assert_true(request_ids_ends(&all, 2));
	assert_false(request_ids_ends(&all, 2));
	assert_fields(all, IS(begun, 2) IS(ended, 1));
}

/* Where only some are wanted, it may be known late which, by another node. */
TEST(test_wanted)
{
	uint32_t node = 9;

	all.named = true;
	for (uint32_t i = 1; i <= 4; i++)
		request_ids_label(&all, &a, i, 100 + i);
	assert_false(request_ids_begins(&all, 1, 3));
	assert_false(request_ids_counts(&all, 1, &node));
	assert_true(request_ids_wanted(&all, 1));
	assert_false(request_ids_wanted(&all, 1));
	assert_true(request_ids_counts(&all, 1, &node));
	assert_int_equal(node, 3);
	/* known before its begin; and when it has ended */
	assert_false(request_ids_wanted(&all, 2));
	assert_true(request_ids_begins(&all, 2, 0));
	assert_fields(all, IS(begun, 2) IS(ended, 0));
	all.asked = 3;
	assert_false(request_ids_begins(&all, 3, 0));
	assert_true(request_ids_ends(&all, 3));
	assert_true(request_ids_wanted(&all, 3));
	assert_fields(all, IS(begun, 3) IS(ended, 1));
	assert_false(request_ids_begins(&all, 4, 0));
	assert_false(request_ids_wanted(&all, 4));
	assert_false(request_ids_wanted(&all, 0));
}

TEST(test_labels)
{
	uint32_t at = 0, n = 0;
	int64_t label, sum = 0;

	for (int i = 0; i < 1000; i++)
		request_ids_label(&all, &a, 1 + (i & 1), i);
	while (request_ids_next_label(&all, request_ids_of(&a, 2), &at, &label)) {
		sum += label;
		n++;
	}
	assert_int_equal(n, 500);
	assert_int_equal(sum, 250000);
}

/* What no node of ours says is let pass. */
TEST(test_refused)
{
	assert_int_equal(request_ids_label(&all, &a, 1, -5), 0);
	assert_int_equal(request_ids_of(&a, 1), 0);
	assert_int_equal(request_ids_label(&all, &a, KP_CALLS_REQUESTS_MAX, 5), 0);
	assert_int_equal(request_ids_of(&a, KP_CALLS_REQUESTS_MAX), 0);
	assert_false(all.no_memory);
}

TESTS(setup, teardown)
