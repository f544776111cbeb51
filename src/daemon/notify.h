/*
 * notify.h - tells the service manager how the service is, where there is
 * one that wants to know (systemd's Type=notify).
 *
 * Source: sd_notify(3): datagrams of "KEY=value" lines to the Unix socket
 * that $NOTIFY_SOCKET names.
 */
#ifndef KPROFD_DAEMON_NOTIFY_H
#define KPROFD_DAEMON_NOTIFY_H

/* Takes effect once: later ones say nothing new. */
void notify_ready(void);
void notify_stopping(void);
/*
 * What `systemctl status` shows.  The texts may come from a target: they
 * cannot make a second line.
 */
void notify_status(const char *state, const char *text);

#endif
