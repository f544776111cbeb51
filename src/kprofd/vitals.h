/*
 * vitals.h - the daemon's own figures, and its targets', for /metrics: the
 * answer to the control command `metrics` (export/health.h).
 */
#ifndef KP_KPROFD_VITALS_H
#define KP_KPROFD_VITALS_H

#include "kprofd/status.h"

void vitals_text(struct kp_buf *b, const struct status *s);

#endif
