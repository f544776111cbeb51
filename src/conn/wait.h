/*
 * wait.h - waits for a descriptor, with a deadline.
 */
#ifndef KPROFD_CONN_WAIT_H
#define KPROFD_CONN_WAIT_H

#include "kprofd/clock.h"

/* 0: it is ready for one of the events of poll(2); ETIMEDOUT; or errno. */
int wait_ready(int fd, short events, kp_mono_ns deadline);

#endif
