/*
 * traced_findings.h - what traced requests show of a plan.  Pure.
 *
 * The events must be of match specs with numbers of clauses for identities
 * (struct kp_spec_params).
 */
#ifndef KPROFD_DAEMON_CHECK_TRACED_FINDINGS_H
#define KPROFD_DAEMON_CHECK_TRACED_FINDINGS_H

#include "kprofd/check.h"
#include "kprofd/request.h"

struct findings;

/* NULL: out of memory.  conf is borrowed, plan is copied. */
struct findings *findings_new(const struct kp_conf *conf,
    const struct kp_plan *plan);
void findings_free(struct findings *s);

/* Takes the event's identity away, because it is not one. */
void findings_event(struct findings *s, struct kp_event *ev);
/* rs has the request's functions. */
void findings_request(struct findings *s, struct kp_requests *rs,
    const struct kp_request *rq);
/* Calls of entries so far.  Past KP_CHECK_CALLS_MAX events are not looked at. */
uint64_t findings_entered(const struct findings *s);

/* Fills in what is to be judged; s owns it. */
void findings_get(const struct findings *s, struct kp_check *c);
/*
 * Writes a line for each function of which calls were seen and entries or
 * clauses of the identity fun are about: an example of a call that fell to the
 * clause for all others, or to none; or that there was no such call.
 */
void findings_explain(const struct findings *s, struct kp_buf *out);

#endif
