/*
 * merge.h - merges the databases of many machines into one.
 *
 * All work is done on a file beside OUT, OUT.merging, which takes OUT's place
 * at the end: until then, and whatever fails or is killed, OUT does not change
 * by a byte.  (Except for a WAL that an unclean end left beside OUT: it is
 * written into OUT first, as by any program that opens it.)
 *
 * A run of kprofd is known by the time that it started, its version and its
 * interval.  What OUT already has of a run is not taken again, so merging twice
 * is the same as merging once, and a file that has grown since adds what is
 * new.  A window that was rolled up in IN since then replaces those parts of it
 * that OUT has, if it goes on beyond them.
 */
#ifndef KPROFD_STORE_MERGE_MERGE_H
#define KPROFD_STORE_MERGE_MERGE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "kprofd/err.h"

struct kp_merge;

/* What one file added. */
struct kp_merge_count {
	uint64_t runs, windows, requests, events;
};

/*
 * Locks OUT against kprofd and other merges, and copies it; OUT need not be
 * there.  Once *stop is not 0, the running call returns KP_ETIMEOUT.  On error
 * *why is one line for the user, owned by the caller; so for all of these.
 */
enum kp_err kp_merge_open(struct kp_merge **out, const char *path,
    const volatile sig_atomic_t *stop, char **why);
/* On error nothing can be added any more: abandon it. */
enum kp_err kp_merge_add(struct kp_merge *m, const char *in,
    struct kp_merge_count *count, char **why);
/* Puts what was merged in OUT's place and frees m, also on error. */
enum kp_err kp_merge_finish(struct kp_merge *m, char **why);
/* Leaves OUT as it is and frees m. */
void kp_merge_abandon(struct kp_merge *m);

#endif
