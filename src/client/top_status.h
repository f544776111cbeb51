/* top_status.h - asks daemons for the state of their targets, for kprof top. */
#ifndef KPROFD_CLIENT_TOP_STATUS_H
#define KPROFD_CLIENT_TOP_STATUS_H

#include "client.h"
#include "report/top.h"

/*
 * Asks the daemon of each database.  One that does not answer soon is counted
 * and told in out->why; nothing of it is in the targets.
 */
void top_status_ask(struct top_status *out, const struct place *p);
/*
 * Adds the answer to `status json`, n bytes.  False: it is no such thing, and
 * nothing was added.
 */
bool top_status_add(struct top_status *out, const char *json, size_t n);

#endif
