/*
 * otlp_health.h - the state of the export to the collector of -otlp: in the log
 * when it changes, in `kprof status`, and among the metrics.
 */
#ifndef KPROFD_DAEMON_OTLP_HEALTH_H
#define KPROFD_DAEMON_OTLP_HEALTH_H

#include "export/otlp.h"
#include "kprofd/buf.h"
#include "text/json.h"

/* What the last check found; all zero at first. */
struct otlp_health {
	bool failing;
	uint64_t refused, lost;
};

/* x may be NULL, without -otlp: then nothing is written. */
/* Logs what has changed since the last check. */
void otlp_health_check(struct otlp_health *h, struct otlp *x);
void otlp_put_text(struct kp_buf *b, struct otlp *x);
void otlp_put_json(struct json *j, struct otlp *x);
void otlp_put_metrics(struct kp_buf *b, struct otlp *x);

#endif
