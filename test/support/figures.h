/*
 * figures.h - the figures of a window by brute force, as stats.h defines
 * them: every moment of a request is looked at by itself.  Shares no code
 * with src/stats.
 */
#ifndef TEST_FIGURES_H
#define TEST_FIGURES_H

#include "kprofd/stats.h"

/* One call of a request, as it truly was. */
struct fig_call {
	kp_target_ns start, end;
	uint64_t tiers;
	uint8_t outcome;	/* enum kp_outcome */
	bool async;
	int parent;		/* its place among the calls, or -1 */
	uint32_t node;
	uint32_t outlasts;	/* goes on, with this number; end: its request's */
	uint64_t proc;
	/* of late ones, not async: as of struct kp_late_call */
	kp_target_ns limit;
	kp_dur_ns waited;
};

struct fig_request {
	kp_target_ns start, end;
	const char *identity;
	uint32_t weight;
	uint8_t outcome;
	bool expired;
	uint32_t node;
	const struct fig_call *calls;
	int ncalls;
};

/* A call of a request as it was handed on. */
struct fig_call figures_call(const struct kp_requests *rs,
    const struct kp_call *c);

struct fig_call figures_late_call(const struct kp_requests *rs,
    const struct kp_late_call *c);

void figures_reset(const struct kp_conf *conf);
void figures_request(const struct fig_request *rq);
void figures_late(const char *identity, uint32_t weight,
    const struct fig_call *c);
/* The same for what was handed on, as it is: right where that is. */
void figures_handed(const struct kp_requests *rs, const struct kp_request *rq);
void figures_handed_late(const struct kp_requests *rs,
    const struct kp_late_call *c);
/*
 * Fails the test where this node's window says anything else; seed: to say so.
 */
void figures_compare(const struct kp_window *w, uint32_t node, uint64_t seed);

#endif
