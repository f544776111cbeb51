/*
 * store_health.h - the state of the database, in the log when it changes and in
 * `kprof status`.
 */
#ifndef KPROFD_DAEMON_STORE_HEALTH_H
#define KPROFD_DAEMON_STORE_HEALTH_H

#include "kprofd/buf.h"
#include "text/json.h"
#include "store/store.h"

struct store_health {
	bool stuck;		/* said so */
	bool waits;		/* said that retention does */
	unsigned begun;		/* files begun again, of which was said so */
	uint64_t dropped;	/* rows, of which was said so */
	unsigned ages_percent;	/* the least that was said; 0: nothing yet */
};

/* Says in the log what has changed.  To be called now and then. */
void store_health_watch(struct store_health *w, struct kp_store *s);

/* Lines of text; path: the database's. */
void store_put_text(struct kp_buf *b, struct kp_store *s, const char *path);
/* Into the object that is open. */
void store_put_json(struct json *j, struct kp_store *s, const char *path);

#endif
