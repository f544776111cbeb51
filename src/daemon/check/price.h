/* price.h - shows what profiling would cost.  Pure. */
#ifndef KPROFD_DAEMON_CHECK_PRICE_H
#define KPROFD_DAEMON_CHECK_PRICE_H

#include "kprofd/buf.h"
#include "kprofd/check.h"

/* Appends "about 310 events/s, 0.05 % of a scheduler" as a line. */
void check_put_price(struct kp_buf *b, const struct kp_check *c);

#endif
