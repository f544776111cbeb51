/* status.h - `kprof status`: what the daemon is doing, as text or JSON. */
#ifndef KPROFD_DAEMON_CONTROL_STATUS_H
#define KPROFD_DAEMON_CONTROL_STATUS_H

#include "daemon/options.h"
#include "daemon/target/targets.h"

struct otlp;

/* All borrowed. */
struct status {
	const struct targets *targets;
	const char *glob;	/* of those to be shown; NULL: all */
	struct kp_store *store;
	struct otlp *otlp;	/* NULL: there is no collector */
	const struct options *o;
	kp_dur_ns up;		/* how long kprofd has been running */
};

void status_text(struct kp_buf *b, const struct status *s, bool json);

#endif
