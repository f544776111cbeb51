/*
 * ctl_async.h - asks the daemon through its control socket, from an event loop.
 *
 * The web server shares nothing with the daemon but this socket and the
 * database: so it cannot slow the daemon down, and serves a saved database as
 * well.
 */
#ifndef KPROFD_WEB_CTL_ASYNC_H
#define KPROFD_WEB_CTL_ASYNC_H

#include <event2/event.h>

#include <stdbool.h>
#include <stddef.h>

#define CTL_ASKED_MAX 8		/* at once */
#define CTL_SECONDS 15	/* for an answer */
#define CTL_BYTES_MAX (1u << 20)

struct ctl_async;

#define RELAY_NONE 0		/* there is no daemon */

/* status: 200, 409 refused by the daemon, 503 too slow or too much at once. */
typedef void ctl_fn(void *ctx, int status, const char *text, size_t n);

/* path, base: borrowed.  NULL when out of memory. */
struct ctl_async *ctl_async_new(struct event_base *base, const char *path);
/* Those that wait are told RELAY_NONE. */
void ctl_async_free(struct ctl_async *rs);
/* Calls fn(ctx, ...) exactly once, perhaps at once. */
void ctl_ask(struct ctl_async *rs, const char *line, ctl_fn *fn, void *ctx);
/* The same within so many seconds. */
void ctl_ask_within(struct ctl_async *rs, int seconds, const char *line,
    ctl_fn *fn, void *ctx);

#endif
