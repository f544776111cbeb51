/*
 * families.h - writes what was measured as families of metrics.  Pure.
 *
 * All counts and times are estimates of all requests, sampled ones times their
 * weight, as in every report.
 */
#ifndef KP_EXPORT_FAMILIES_H
#define KP_EXPORT_FAMILIES_H

#include "prometheus.h"
#include "totals.h"

void families_write(struct prom *x, const struct totals *t);

#endif
