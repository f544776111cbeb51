/*
 * log.h - what kprofd tells people while it runs: one line each, on stderr.
 *
 * log_warn() appends what errno says, log_warnx() does not.  Only the edges
 * log; the core returns errors.
 */
#ifndef KP_BASE_LOG_H
#define KP_BASE_LOG_H

#include <stdbool.h>

/* name: opens every line.  verbose: log_debug() speaks too. */
void log_init(const char *name, bool verbose);

void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
