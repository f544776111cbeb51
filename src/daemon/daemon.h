/*
 * daemon.h - owns every part of kprofd and wires them together.
 */
#ifndef KPROFD_DAEMON_DAEMON_H
#define KPROFD_DAEMON_DAEMON_H

#include "daemon/options.h"

/* Runs until it is told to end or cannot go on; returns the exit status. */
int daemon_run(const struct options *o);

#endif
