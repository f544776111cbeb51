/* in_flight.h - requests in flight now, as text or JSON. */
#ifndef KPROFD_DAEMON_CONTROL_IN_FLIGHT_H
#define KPROFD_DAEMON_CONTROL_IN_FLIGHT_H

#include "daemon/target/targets.h"

/*
 * Writes the oldest KP_FLIGHT_MAX, and how many there are.  glob: of the nodes
 * that they began on; NULL: all.
 */
void in_flight_text(struct kp_buf *b, const struct targets *ts, const char *glob,
    bool json);

#endif
