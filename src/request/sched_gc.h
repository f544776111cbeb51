/*
 * sched_gc.h - when processes were scheduled out or collected garbage during
 * the calls of requests in flight.
 *
 * It has tables of its own beside those of requests and processes: they are
 * empty, and cost nothing, unless the configuration asks for them.
 */
#ifndef KPROFD_REQUEST_SCHED_GC_H
#define KPROFD_REQUEST_SCHED_GC_H

#include "request/internal.h"

#define PAUSES_MAX 1000000	/* of all requests in flight: 40 MB, and room to
				   grow of as much again */
#define PAUSES_OF_MAX 10000	/* of one request */
#define PAUSES_APART 256	/* of one; from then on some are put together */

/* IN, OUT, GC_START, GC_END */
void pauses_event(struct kp_requests *rs, struct rnode *nd,
    const struct kp_event *ev);
/*
 * Sets rq->r.pauses, good until the next of these calls; source[i * step] is
 * the index in the request in flight of r.calls[i].
 */
void pauses_hand_on(struct kp_requests *rs, struct req *rq,
    const uint32_t *source, size_t step);
/* The request with this label is no more. */
void pauses_forget(struct kp_requests *rs, uint64_t label);
/* No end of those that have begun on this node will come. */
void pauses_leave(struct kp_requests *rs, const struct rnode *nd);
void pauses_free(struct kp_requests *rs);

#endif
