/*
 * propose.h - kprofd without -tiers: has kprof suggest write NODE.tiers.conf, shows
 * it, and asks whether to profile with it.
 */
#ifndef KPROFD_DAEMON_PROPOSE_PROPOSE_H
#define KPROFD_DAEMON_PROPOSE_PROPOSE_H

#include "daemon/options.h"

/*
 * True: o->tiers is that file, and kprofd goes on.  Else *status is what to exit
 * with; why was printed.
 */
bool propose(struct options *o, int *status);

#endif
