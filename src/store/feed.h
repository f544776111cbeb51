/*
 * feed.h - the windows of the daemon's run as they are written, each once:
 * what exporters follow.
 *
 * Reads like any client (query.h), so that nothing that takes in events knows
 * of it.  It sees a window between its being written and its being rolled up:
 * look more often than the first age of -retain is long.
 */
#ifndef KPROFD_FEED_H
#define KPROFD_FEED_H

#include "query.h"

/* Where a reader is; zero: at the beginning of the latest run. */
struct kp_feed {
	int64_t run;			/* row ids; run 0: none yet */
	kp_wall_ns started;		/* of that run: row ids come again in
					   another file */
	int64_t window;			/* the last one that was taken */
	int64_t request;		/* the caller moves it */
};

/* w is borrowed, and its texts are; those live until q is closed. */
typedef void kp_feed_window_fn(void *ctx, const struct kp_window *w);

/*
 * Calls fn for each window that is new, in the order they were written, and
 * moves f behind it: on error those before are taken, and the rest is there
 * the next time.  When the run is another one it begins with that one's first.
 */
enum kp_err kp_feed_windows(struct kp_query *q, struct kp_feed *f,
    kp_feed_window_fn *fn, void *ctx);

/*
 * Ids of slow requests behind f->request, at most max, in order; *newest is the
 * last there is.  What lies between two ids was deleted before it was seen: the
 * run's have no gaps.
 */
enum kp_err kp_feed_requests(struct kp_query *q, struct kp_feed *f,
    int64_t *ids, size_t max, size_t *n, int64_t *newest);

#endif
