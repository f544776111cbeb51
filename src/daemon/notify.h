/*
 * notify.h - reports kprofd's state to a service manager that wants it
 * (systemd's Type=notify); does nothing otherwise.
 *
 * Source: sd_notify(3): datagrams of "KEY=value" lines to the Unix socket that
 * $NOTIFY_SOCKET names.
 */
#ifndef KPROFD_DAEMON_NOTIFY_H
#define KPROFD_DAEMON_NOTIFY_H

#include <stdbool.h>

/* Is there such a service manager? */
bool notify_is_wanted(void);
/* The first call takes effect. */
void notify_ready(void);
void notify_stopping(void);
/* Sets what `systemctl status` shows.  The texts may come from a target. */
void notify_status(const char *state, const char *text);

#endif
