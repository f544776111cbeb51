/*
 * status.h - the answers of the control socket that show what kprofd is doing.
 * glob: of the targets to show, or several with blanks between them (kp_globs());
 * NULL: all.
 */
#ifndef KPROFD_DAEMON_CONTROL_STATUS_H
#define KPROFD_DAEMON_CONTROL_STATUS_H

#include "daemon/daemon.h"
#include "kprofd/buf.h"

/* `kprof status`: targets, their cost and losses, the database. */
void status_text(struct kp_buf *b, const struct parts *p, const char *glob,
    bool json);
/* For /metrics (export/metrics.h): figures of the daemon and of its targets. */
void self_metrics_text(struct kp_buf *b, const struct parts *p);

#endif
