/*
 * daemon.h - owns every part of kprofd and wires them together.
 */
#ifndef KP_KPROFD_DAEMON_H
#define KP_KPROFD_DAEMON_H

#include "kprofd/options.h"

/* Runs until it is told to end or cannot go on; returns the exit status. */
int daemon_run(const struct options *o);

#endif
