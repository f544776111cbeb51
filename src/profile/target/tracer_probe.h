/*
 * tracer_probe.h - tells the tracer in a node which probe to use.
 */
#ifndef KPROFD_PROFILE_TARGET_TRACER_PROBE_H
#define KPROFD_PROFILE_TARGET_TRACER_PROBE_H

#include "profile/target/tracer.h"

#define TRACER_PROBE_OPTS 3

void tracer_put_probe(struct kp_buf *b, const struct tracer_opts *o);

#endif
