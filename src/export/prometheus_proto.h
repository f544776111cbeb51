/*
 * prometheus_proto.h - writes families as protobuf messages.  Pure; errors stick
 * in the buffer that they go to.
 */
#ifndef KPROFD_EXPORT_PROMETHEUS_PROTO_H
#define KPROFD_EXPORT_PROMETHEUS_PROTO_H

#include "kprofd/buf.h"
#include "prometheus_metric.h"

/* Fields are private. */
struct proto {
	struct kp_buf *out;
	const struct metric *m;		/* the family that is open, or NULL */
	struct kp_buf family, metric, part;	/* messages that grow inside out */
};

void proto_begin(struct proto *x, struct kp_buf *out);
/* m is borrowed until the next one; the one before goes out. */
void proto_family(struct proto *x, const struct metric *m);
void proto_number(struct proto *x, const char *const *values, double v);
void proto_hist(struct proto *x, const char *const *values,
    const struct kp_hist *h, double sum);
/* The last one goes out. */
void proto_end(struct proto *x);

#endif
