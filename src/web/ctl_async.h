/*
 * ctl_async.h - sends commands to the daemon's control socket, from an event loop.
 *
 * Besides this socket and the database the web server shares nothing with the
 * daemon: so it cannot slow the daemon down, and can serve a saved database.
 */
#ifndef KPROFD_WEB_CTL_ASYNC_H
#define KPROFD_WEB_CTL_ASYNC_H

#include <event2/event.h>

#include <stdbool.h>
#include <stddef.h>

#define CTL_ASKED_MAX 8		/* commands at once */
#define CTL_BYTES_MAX (1u << 20)	/* of an answer */

struct ctl_async;

#define CTL_NO_DAEMON 0		/* as a status */

/* status: 200, 409 refused by the daemon, 503 too slow or too many at once. */
typedef void ctl_fn(void *ctx, int status, const char *text, size_t n);

/* Borrows base and path.  NULL when out of memory. */
struct ctl_async *ctl_async_new(struct event_base *base, const char *path);
/* Answers the commands that wait with CTL_NO_DAEMON. */
void ctl_async_free(struct ctl_async *all);
/* Calls fn(ctx, ...) exactly once, perhaps before it returns. */
void ctl_ask(struct ctl_async *all, int seconds, const char *line, ctl_fn *fn,
    void *ctx);

#endif
