/*
 * log.h - the log of kprofd while it runs: one line for each entry, on stderr
 * or in a file, as text or as JSON.
 *
 * An entry has the kind of its event, the same as in the database's view
 * `events` if the event is stored too, and the target that it is about.
 * Whatever the texts hold (they come from targets), an entry is one line,
 * without terminal control characters, and valid JSON in a JSON log.  The pure
 * rooms return errors, and only their callers log.  Any thread may log; the other functions
 * are for one thread.
 */
#ifndef KPROFD_DAEMON_LOG_H
#define KPROFD_DAEMON_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kprofd/buf.h"

#define LOG_FIELDS_MAX 4

enum log_level {
	LOG_LEVEL_DEBUG,	/* only with -verbose */
	LOG_LEVEL_INFO,		/* not with -quiet */
	LOG_LEVEL_WARNING,
	LOG_LEVEL_ERROR		/* on stderr too, if the log is a file */
};

/* A value of the text, for programs. */
struct log_field {
	const char *key;	/* NULL: this field and the next are unused */
	const char *text;	/* NULL: the value is the number */
	int64_t number;
};

/* All borrowed. */
struct log_entry {
	enum log_level level;
	const char *event;
	const char *target;	/* NULL: about kprofd itself */
	struct log_field fields[LOG_FIELDS_MAX];
};

struct log_opts {
	const char *name;	/* opens every line of text; borrowed */
	const char *file;	/* appended to; NULL: stderr; borrowed */
	bool json;
	enum log_level least;	/* what is below it is not logged */
};

/* False: the file cannot be opened; the reason is on stderr. */
bool log_open(const struct log_opts *o);
void log_close(void);
/* Is the log a file, which log_reopen() can reopen? */
bool log_has_file(void);
/* Opens the file of that name; where it fails, the old file stays in use. */
void log_reopen(void);

/*
 * Opens a file to append to, made with this mode.  A FIFO must not keep the daemon
 * waiting, for a reader or for one that is slow: then it fails.
 */
FILE *log_append_to(const char *path, unsigned mode);

/* Logs an entry; the format makes its message. */
void log_put(const struct log_entry *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Shorthands for an entry without fields. */
#define LOG_ENTRY(l, e, t) \
	(&(struct log_entry){ .level = (l), .event = (e), .target = (t) })
#define log_debug(e, t, ...) \
	log_put(LOG_ENTRY(LOG_LEVEL_DEBUG, e, t), __VA_ARGS__)
#define log_info(e, t, ...) \
	log_put(LOG_ENTRY(LOG_LEVEL_INFO, e, t), __VA_ARGS__)
#define log_warn(e, t, ...) \
	log_put(LOG_ENTRY(LOG_LEVEL_WARNING, e, t), __VA_ARGS__)
#define log_error(e, t, ...) \
	log_put(LOG_ENTRY(LOG_LEVEL_ERROR, e, t), __VA_ARGS__)

/* The message of the last error; "": none yet. */
void log_last_error(char *buf, size_t n);

/*
 * Puts libevent's messages into the log, from all threads; otherwise libevent
 * writes them to stderr, even if the log is a file or JSON.  Some warnings
 * repeat fast (no descriptor is left to accept with): those above
 * LOG_LIBEVENT_A_MINUTE are counted only.  After a fatal error of libevent
 * kprofd exits with 1.
 */
#define LOG_LIBEVENT_A_MINUTE 10
void log_libevent(void);

/*
 * For who formats entries itself, such as mistakes with their source lines.  A JSON
 * log takes entries of log_put_json(), a log of text any text: if it is a file, on
 * stderr too.
 */
bool log_is_json(void);
void log_put_json(struct kp_buf *b, const struct log_entry *e,
    const char *message);
void log_lines(enum log_level level, const char *text, size_t n);

/*
 * Reports kprofd's state to a service manager that wants it (systemd's
 * Type=notify); does nothing otherwise.
 *
 * Source: sd_notify(3): datagrams of "KEY=value" lines to the Unix socket that
 * $NOTIFY_SOCKET names.  What cannot be sent within a second is dropped.
 */
bool notify_is_wanted(void);
/* The first call takes effect. */
void notify_ready(void);
void notify_stopping(void);
/* Sets what `systemctl status` shows.  The texts may come from a target. */
void notify_status(const char *state, const char *text);

#endif
