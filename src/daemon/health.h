/*
 * health.h - the state of the outputs, the database, the collectors, and Pyroscope:
 * in the log when it changes, in `kprof status` and among the metrics.
 */
#ifndef KPROFD_DAEMON_HEALTH_H
#define KPROFD_DAEMON_HEALTH_H

#include "export/push.h"
#include "kprofd/buf.h"
#include "store/store.h"
#include "text/json.h"

/* What the last check found; all zero at first. */
struct store_health {
	bool stuck;
	bool retention_held;
	unsigned begun;		/* how often the file was begun again */
	uint64_t dropped;	/* rows */
	unsigned ages_percent;	/* the least so far; 0: no check yet */
};

/* Logs what has changed since the last check. */
void store_health_check(struct store_health *h, struct kp_store *s);

/* "18 rows (12 disk full, 6 locked)": those that could not be written. */
void store_put_dropped(struct kp_buf *b, const struct kp_store_status *st);
/* Lines of text; path: the database's. */
void store_put_text(struct kp_buf *b, struct kp_store *s, const char *path);
/* Into the object that is open. */
void store_put_json(struct json *j, struct kp_store *s, const char *path);
void store_put_metrics(struct kp_buf *b, struct kp_store *s);

/* What the last check found; all zero at first. */
struct push_health {
	bool failing;
	uint64_t refused, lost;	/* when they were logged last */
};

/*
 * Logs what has changed since the last check.  Each has PUSH_TO elements; of those that
 * are NULL nothing is written, here and below.
 */
void push_health_check(struct push_health *h, struct push *const *v);
void push_put_text(struct kp_buf *b, struct push *const *v);
void push_put_json(struct json *j, struct push *const *v);
void push_put_metrics(struct kp_buf *b, struct push *const *v);

#endif
