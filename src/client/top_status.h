/* top_status.h - asks daemons for the state of their targets, for kprof top. */
#ifndef KPROFD_CLIENT_TOP_STATUS_H
#define KPROFD_CLIENT_TOP_STATUS_H

#include "client.h"
#include "report/top.h"

/*
 * Asks the daemon of the database.  One that does not answer in time is counted,
 * with the reason in out->why.
 */
void top_status_ask(struct top_status *out, const struct place *p);

#endif
