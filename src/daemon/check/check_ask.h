/*
 * check_ask.h - kprofd -check -control: has the kprofd that is attached to a
 * target check a tiers.conf there, since one at a time can be attached.
 */
#ifndef KPROFD_DAEMON_CHECK_CHECK_ASK_H
#define KPROFD_DAEMON_CHECK_CHECK_ASK_H

#include "daemon/conf_file.h"
#include "daemon/options.h"

/*
 * f: read and without errors.  Prints what kprofd -check prints; returns the exit
 * status.
 */
int check_ask(const struct options *o, const struct conf_file *f);

#endif
