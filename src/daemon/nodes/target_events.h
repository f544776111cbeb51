/*
 * target_events.h - writes events of a target to the log and to the store.  Text
 * may come from the target: control characters are replaced for the store.
 */
#ifndef KPROFD_DAEMON_NODES_TARGET_EVENTS_H
#define KPROFD_DAEMON_NODES_TARGET_EVENTS_H

#include <stdint.h>

struct kp_fn;
struct target;

/* To the store only.  kind: a short word, as in log.h. */
void target_record(struct target *t, const char *kind, const char *text);
/* To the log as well; of too many at once the rest is only counted. */
void target_report(struct target *t, const char *kind, const char *text);
/* Reports how many were only counted since the last call, if any. */
void target_report_suppressed(struct target *t);

/* Warns, once, that it is not verified who the target is. */
void target_report_doubt(struct target *t);

/* Called by kp_requests (kprofd/request.h). */
void target_on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn);
void target_on_unbounded(void *ctx, uint32_t node, uint32_t line);

#endif
