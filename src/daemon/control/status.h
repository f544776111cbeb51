/* status.h - `kprof status`: what the daemon is doing, as text or JSON. */
#ifndef KPROFD_DAEMON_CONTROL_STATUS_H
#define KPROFD_DAEMON_CONTROL_STATUS_H

#include "daemon/daemon.h"
#include "kprofd/buf.h"

/* glob: of the targets to show; NULL: all. */
void status_text(struct kp_buf *b, const struct parts *p, const char *glob,
    bool json);

#endif
