/*
 * metrics.h - what a scraper gets: totals of all windows that this daemon
 * wrote, its health, and the process's own figures.
 *
 * It follows the database on the loop of the web server, on a timer and when
 * it is asked; so it shares nothing with what takes in events.
 */
#ifndef KP_EXPORT_METRICS_H
#define KP_EXPORT_METRICS_H

#include <event2/event.h>

#include "kprofd/buf.h"

#define METRICS_OUTPUT_MAX (64u << 20)	/* bytes of one answer */

struct metrics;

/* db: borrowed.  NULL when out of memory. */
struct metrics *metrics_new(struct event_base *base, const char *db);
void metrics_free(struct metrics *m);
/*
 * In the form that the Accept header asks for, which *type names then; accept
 * may be NULL.  health: what the daemon answered (health.h), or NULL when it
 * did not.  Errors stick in b.
 */
void metrics_answer(struct metrics *m, const char *accept, const char *health,
    size_t n, struct kp_buf *b, const char **type);

#endif
