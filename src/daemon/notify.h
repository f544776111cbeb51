/*
 * notify.h - reports kprofd's state to the service manager, if there is one
 * that asks for it (systemd's Type=notify).
 *
 * Source: sd_notify(3): datagrams of "KEY=value" lines to the Unix socket that
 * $NOTIFY_SOCKET names.
 */
#ifndef KPROFD_DAEMON_NOTIFY_H
#define KPROFD_DAEMON_NOTIFY_H

#include <stdbool.h>

/* Is there one? */
bool notify_is_wanted(void);
/* Takes effect once: later ones say nothing new. */
void notify_ready(void);
void notify_stopping(void);
/*
 * What `systemctl status` shows.  The texts may come from a target: they
 * cannot make a second line.
 */
void notify_status(const char *state, const char *text);

#endif
