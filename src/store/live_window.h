/*
 * live_window.h - writes and reads windows that still run, on their way from the daemon
 * to kprof, which shows them as long as none of the target is stored.
 *
 * Form: the string KP_VERSION, since both ends have to count the same things;
 * the windows closed; the time until the next boundary; and each window, to the
 * end.  Numbers are LEB128 varints of 64 bits, negative ones zig-zag; a
 * string is its length, its bytes, and a NUL, so that it is used where it lies.
 */
#ifndef KPROFD_STORE_LIVE_WINDOW_H
#define KPROFD_STORE_LIVE_WINDOW_H

#include "query.h"

#define LIVE_WINDOWS_MAX 256		/* windows; a daemon has KP_NODES_MAX */

/* Windows of one daemon or of several. */
struct live_windows {
	struct kp_window *v;	/* owned, with their histograms */
	size_t n;
	char **texts;		/* owned; the windows' names lie in them */
	size_t ntexts;
	uint64_t closed;	/* windows of targets that have stored some */
	kp_dur_ns left;		/* until the first of v is closed */
};

/* Starts the form. */
void live_windows_put_head(struct kp_buf *b, uint64_t closed, kp_dur_ns left);
/* Appends a window, without its waits of messages. */
void live_windows_put(struct kp_buf *b, const struct kp_window *w);

/*
 * Adds the windows of a form of n bytes.  KP_EFORMAT: it is not one, or not one
 * of this version, and to is unchanged.
 */
enum kp_err live_windows_read(struct live_windows *to, const void *p, size_t n);
/* Keeps the first n windows. */
void live_windows_cut(struct live_windows *r, size_t n);
void live_windows_free(struct live_windows *r);

/*
 * Adds the windows up, as kp_query_sum() does: texts are borrowed from r.
 * tiers: in whose order the cells are.
 */
enum kp_err live_windows_sum(const struct live_windows *r,
    const struct kp_query_tiers *tiers, struct kp_query_sum *out);

#endif
