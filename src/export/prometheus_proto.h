/* prometheus_proto.h - the protobuf format; for prometheus.c alone. */
#ifndef KPROFD_EXPORT_PROMETHEUS_PROTO_H
#define KPROFD_EXPORT_PROMETHEUS_PROTO_H

#include "prometheus.h"

void proto_begin(struct prom *x);
void proto_family(struct prom *x, const struct metric *m);
void proto_number(struct prom *x, const char *const *values, double v);
void proto_hist(struct prom *x, const char *const *values,
    const struct kp_hist *h, double sum);
void proto_end(struct prom *x);

#endif
