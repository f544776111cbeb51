/*
 * ctl_async.h - asks the daemon through its control socket, from an event loop.
 *
 * The web server shares nothing with the daemon but this socket and the
 * database: that is why it cannot be in its way, and why it serves a saved
 * database as well.
 */
#ifndef KPROFD_WEB_CTL_ASYNC_H
#define KPROFD_WEB_CTL_ASYNC_H

#include <event2/event.h>

#include <stdbool.h>
#include <stddef.h>

#define RELAYS_MAX 8		/* at once */
#define RELAY_SECONDS 15	/* for an answer */
#define RELAY_BYTES_MAX (1u << 20)

struct relays;

#define RELAY_NONE 0		/* there is no daemon */

/* status: 200, 409 refused by the daemon, 503 too slow or too much at once. */
typedef void relay_fn(void *ctx, int status, const char *text, size_t n);

/* path, base: borrowed.  NULL when out of memory. */
struct relays *relays_new(struct event_base *base, const char *path);
/* Those that wait are told RELAY_NONE. */
void relays_free(struct relays *rs);
/* Calls fn(ctx, ...) exactly once, perhaps at once. */
void relay_ask(struct relays *rs, const char *line, relay_fn *fn, void *ctx);
/* The same within so many seconds. */
void relay_ask_within(struct relays *rs, int seconds, const char *line,
    relay_fn *fn, void *ctx);

#endif
