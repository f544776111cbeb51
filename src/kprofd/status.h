/*
 * status.h - `kprof status`: what the daemon is doing, in words or JSON.
 */
#ifndef KP_KPROFD_STATUS_H
#define KP_KPROFD_STATUS_H

#include "kprofd/options.h"
#include "kprofd/target.h"

void status_text(struct kp_buf *b, const struct target *t,
    struct kp_store *store, const struct options *o, kp_mono_ns started,
    bool json);

#endif
