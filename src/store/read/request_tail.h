/*
 * request_tail.h - reads the slow requests of the daemon's run as they are
 * written, each once, for exporters.  It is an ordinary reader (query.h).
 */
#ifndef KPROFD_STORE_READ_REQUEST_TAIL_H
#define KPROFD_STORE_READ_REQUEST_TAIL_H

#include "query.h"

/* A reader's position; zero: the beginning of the latest run. */
struct kp_request_tail {
	int64_t run;			/* row id; 0: none yet */
	kp_wall_ns started;		/* of that run, since another file has
					   the same row ids */
	int64_t request;		/* the last one read; the caller sets
					   it */
};

/* Finds the latest run; moves f to its beginning if it is a new one. */
enum kp_err kp_request_tail_run(struct kp_query *q, struct kp_request_tail *f);
/*
 * Gets ids of slow requests after f->request, at most max, in order; *newest is
 * the last one.  Ids missing between two were deleted before they were read, as
 * a run's ids have no gaps.
 */
enum kp_err kp_request_tail_next(struct kp_query *q, struct kp_request_tail *f,
    int64_t *ids, size_t max, size_t *n, int64_t *newest);

#endif
