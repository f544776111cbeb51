/*
 * self_metrics.h - the figures of the daemon and of its targets for /metrics:
 * the answer to the control command `metrics` (export/health.h).
 */
#ifndef KPROFD_DAEMON_CONTROL_SELF_METRICS_H
#define KPROFD_DAEMON_CONTROL_SELF_METRICS_H

#include "daemon/daemon.h"
#include "kprofd/buf.h"

void self_metrics_text(struct kp_buf *b, const struct parts *p);

#endif
