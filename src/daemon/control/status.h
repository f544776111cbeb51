/*
 * status.h - the answers of the control socket that show what kprofd is doing.
 * glob: of the targets to show, or several with blanks between them (kp_globs());
 * NULL: all.
 */
#ifndef KPROFD_DAEMON_CONTROL_STATUS_H
#define KPROFD_DAEMON_CONTROL_STATUS_H

#include "daemon/control/flight_stacks.h"
#include "daemon/daemon.h"
#include "kprofd/buf.h"

/* `kprof status`: targets, their cost and losses, the database. */
void status_text(struct kp_buf *b, const struct parts *p, const char *glob,
    bool json);
/*
 * `kprof flight`: the oldest KP_FLIGHT_MAX requests in flight, and how many
 * there are.  glob: of the nodes that they began on.  stacks: of the processes
 * that they are in, or NULL.
 */
void in_flight_text(struct kp_buf *b, const struct targets *ts,
    const char *glob, bool json, const struct flight_stacks *stacks);
/*
 * Calls f for each of them that is in a call, with the process of that call,
 * serial << 32 | number, and its target.
 */
void in_flight_processes(const struct targets *ts, const char *glob,
    void (*f)(void *ctx, struct target *t, uint64_t pid), void *ctx);
/* For /metrics (export/health.h): figures of the daemon and of its targets. */
void self_metrics_text(struct kp_buf *b, const struct parts *p);

#endif
