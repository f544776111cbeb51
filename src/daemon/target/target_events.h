/*
 * target_events.h - reports events of a target, to the log and to the store.
 * Some of the text may be the target's own.
 */
#ifndef KPROFD_DAEMON_TARGET_TARGET_EVENTS_H
#define KPROFD_DAEMON_TARGET_TARGET_EVENTS_H

#include <stdint.h>

struct kp_fn;
struct target;

/* Among the events of this target. */
void target_happened(struct target *t, const char *kind, const char *text);
/* In the log, too, if that is not too much by now. */
void target_tell(struct target *t, const char *kind, const char *text);
/* How many were too much since it was asked last, if any. */
void target_tell_untold(struct target *t);

/* Called by kp_requests (kprofd/request.h). */
void target_on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn);
void target_on_unbounded(void *ctx, uint32_t node, uint32_t line);
void target_on_crossed(void *ctx, uint32_t node, uint64_t proc,
    const struct kp_fn *fn);

#endif
