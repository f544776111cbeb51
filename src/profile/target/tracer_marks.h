/*
 * tracer_marks.h - answers the questions of a tracer whose trace is limited to
 * one identity or one tier.  For tracer.c.
 */
#ifndef KPROFD_PROFILE_TARGET_TRACER_MARKS_H
#define KPROFD_PROFILE_TARGET_TRACER_MARKS_H

#include "profile/target/tracer.h"

#define TRACER_READ_LIMIT (60 * KP_NS_PER_S)	/* without a word from the node */

/* Before it traces: which calls say what the identity of a request is. */
enum kp_err tracer_mark(struct injected *g, const struct tracer_limit *l,
    struct kp_call_names *names, char *why, size_t n);
/* Its messages, past their tag; what l's functions return. */
enum kp_err tracer_read_identity(struct injected *g, const struct tracer_limit *l,
    struct kp_term *r);
enum kp_err tracer_read_wanted(const struct tracer_limit *l,
    struct kp_term *r);

#endif
