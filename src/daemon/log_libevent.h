/*
 * log_libevent.h - puts libevent's messages into the log.
 *
 * Otherwise libevent writes them to stderr, without a time or a name, even if
 * the log is a file or JSON.  Some warnings repeat fast (no descriptor is left
 * to accept with): LOG_LIBEVENT_A_MINUTE are logged, the rest is counted.
 */
#ifndef KPROFD_DAEMON_LOG_LIBEVENT_H
#define KPROFD_DAEMON_LOG_LIBEVENT_H

#define LOG_LIBEVENT_A_MINUTE 10

/* For all threads.  After a fatal error of libevent kprofd exits with 1. */
void log_libevent(void);

#endif
