/*
 * tracer_limits.h - limits a trace to one identity or one tier: the messages of a
 * tracer about it.  For tracer.c.
 */
#ifndef KPROFD_PROFILE_NODE_TRACER_LIMITS_H
#define KPROFD_PROFILE_NODE_TRACER_LIMITS_H

#include "profile/node/tracer.h"

#define TRACER_READ_LIMIT (60 * KP_NS_PER_S)	/* without a message from the node */

/* Before tracing: sends match specs for calls that reveal a request's identity. */
enum kp_err tracer_mark(struct injected *g, const struct tracer_limit *l,
    struct kp_call_names *names, char *why, size_t n);
/* Read the tracer's messages, behind their tag, and call l's functions. */
enum kp_err tracer_read_identity(struct injected *g, const struct tracer_limit *l,
    struct kp_term *r);
enum kp_err tracer_read_wanted(const struct tracer_limit *l,
    struct kp_term *r);

#endif
