/*
 * self_metrics.h - the daemon's own figures, and its targets', for /metrics:
 * the answer to the control command `metrics` (export/health.h).
 */
#ifndef KPROFD_DAEMON_CONTROL_SELF_METRICS_H
#define KPROFD_DAEMON_CONTROL_SELF_METRICS_H

#include "daemon/control/status.h"

void self_metrics_text(struct kp_buf *b, const struct status *s);

#endif
