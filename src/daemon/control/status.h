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
 * `kprof flight`: the oldest KP_FLIGHT_MAX requests in flight, and how many there
 * are; glob: of the nodes that they began on.  The list is of the moment when it
 * was made, and borrows names of the targets' requests: flights_forget() a target
 * before it is freed, and let no list outlive a reload.  NULL: out of memory.
 */
struct flights *flights_new(const struct targets *ts, const char *glob);
void flights_free(struct flights *fs);
void flights_forget(struct flights *fs, const struct target *t);
/*
 * Calls f for each of them that is in a call, with the process of that call,
 * serial << 32 | number, and its target.
 */
void flights_processes(const struct flights *fs,
    void (*f)(void *ctx, struct target *t, uint64_t pid), void *ctx);
/*
 * Takes the stack of a process of a target, for the requests whose call it was in
 * all the time until the stack was read.  All events of then have come.
 */
void flights_sample(struct flights *fs, const struct target *t,
    const struct kp_stack_sample *s);
/* stacks: as answered for these; or NULL. */
void flights_text(struct kp_buf *b, const struct flights *fs, bool json,
    const struct flight_stacks *stacks);
/* For /metrics (export/health.h): figures of the daemon and of its targets. */
void self_metrics_text(struct kp_buf *b, const struct parts *p);

#endif
