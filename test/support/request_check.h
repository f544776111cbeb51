/*
 * request_check.h - what holds of every request that is handed on, and of the
 * stage when all is over, whatever was fed to it.
 */
#ifndef TEST_REQUEST_CHECK_H
#define TEST_REQUEST_CHECK_H

#include "request/state.h"

static inline void
request_wellformed(const struct kp_request *rq)
{
	const struct kp_call *c;

	assert_true(rq->ncalls > 0);
	assert_true(rq->end >= rq->start);
	assert_true(rq->label != 0 && rq->parent_label != rq->label);
	assert_true(rq->outcome != KP_OPEN);
	assert_true(!rq->expired || rq->outcome == KP_UNFINISHED);
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		assert_true(c->outcome != KP_OPEN);
		assert_true(c->outcome == KP_UNFINISHED || c->end >= c->start);
		assert_true(i == 0 || c->parent == KP_NONE || c->parent < i);
		assert_true(i < 2 || c->start >= rq->calls[i - 1].start);
		assert_int_equal(c->async, i > 0 && c->start >= rq->end);
		assert_true((rq->nodes >> c->node & 1) != 0);
	}
	assert_int_equal(rq->calls[0].parent, KP_NONE);
	assert_int_equal(rq->calls[0].node, rq->node);
}

/* Nothing is kept but names, and room. */
static inline void
requests_empty(const struct kp_requests *rs)
{
	assert_int_equal(rs->by_label.len, 0);
	assert_int_equal(rs->procs.len, 0);
	assert_int_equal(rs->ntombs, 0);
	assert_int_equal(rs->buried.len, 0);
	assert_int_equal(rs->calls, 0);
	assert_int_equal(rs->n_early, 0);
	assert_int_equal(rs->in_flight, 0);
	assert_int_equal(rs->noutlast, 0);
	for (uint32_t i = 0; i < KP_NODES_MAX; i++) {
		assert_int_equal(rs->nodes[i].in_flight, 0);
		assert_int_equal(rs->nodes[i].over, 0);
		assert_int_equal(rs->nodes[i].collided, 0);
		assert_int_equal(rs->nodes[i].touched, 0);
		for (uint32_t j = 0; j < REQ_STATES; j++)
			assert_null(TAILQ_FIRST(&rs->nodes[i].lists[j]));
	}
}

#endif
