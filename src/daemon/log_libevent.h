/*
 * log_libevent.h - libevent's own messages, as lines of the log.
 *
 * Otherwise libevent writes them to stderr, without a time or a name, even
 * where the log is a file or JSON.  Some warnings repeat at once (no descriptor
 * is left to accept with): LOG_LIBEVENT_A_MINUTE are logged, the rest is
 * counted.
 */
#ifndef KPROFD_DAEMON_LOG_LIBEVENT_H
#define KPROFD_DAEMON_LOG_LIBEVENT_H

#define LOG_LIBEVENT_A_MINUTE 10

/* From now on, for all threads.  After an error that libevent cannot go on
   from, kprofd ends with 1; its agents leave by themselves. */
void log_libevent(void);

#endif
