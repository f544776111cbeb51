/*
 * log_libevent.h - what libevent has to say, as lines of the log.
 *
 * It warns on stderr otherwise, in lines without a time or a name, also where
 * the log is a file or JSON.  A warning that comes back at once (no descriptor
 * is left to accept with) is logged LOG_LIBEVENT_A_MINUTE times and counted.
 */
#ifndef KPROFD_DAEMON_LOG_LIBEVENT_H
#define KPROFD_DAEMON_LOG_LIBEVENT_H

#define LOG_LIBEVENT_A_MINUTE 10

/* From now on, for all threads.  After an error that libevent cannot go on
   from, kprofd ends with 1; its agents leave by themselves. */
void log_libevent(void);

#endif
