/*
 * merge.h - merges the databases of many machines into one.
 *
 * All work is done on a file beside OUT, OUT.merging, which replaces OUT at the
 * end: until then, even after a failure or a kill, OUT does not change by a
 * byte. (Except for a WAL that an unclean end left beside OUT: it is written
 * into OUT first, as by any program that opens it.)
 *
 * The start time, the version and the interval identify a run of kprofd.  Rows
 * of a run that OUT already has are not copied again, so to merge twice is the
 * same as once, and a file that has grown adds its new rows.  A window that was
 * rolled up in IN since then replaces those parts of it that OUT has, if it
 * extends beyond them.
 */
#ifndef KPROFD_STORE_MERGE_H
#define KPROFD_STORE_MERGE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "kprofd/err.h"

struct kp_merge;

/* The rows that one file added. */
struct kp_merge_count {
	uint64_t runs, windows, requests, events;
};

/*
 * Locks OUT against kprofd and other merges, and copies it; OUT need not exist.
 * Once *stop is not 0, the running call returns KP_ETIMEOUT.  On error of any
 * of these *why is one line for the user, owned by the caller.
 */
enum kp_err kp_merge_open(struct kp_merge **out, const char *path,
    const volatile sig_atomic_t *stop, char **why);
/* After an error nothing can be added: abandon it. */
enum kp_err kp_merge_add(struct kp_merge *m, const char *in,
    struct kp_merge_count *count, char **why);
/* Replaces OUT by the merged file and frees m, even on error. */
enum kp_err kp_merge_finish(struct kp_merge *m, char **why);
/* Leaves OUT as it is and frees m. */
void kp_merge_abandon(struct kp_merge *m);

/* Returns whether merging handles the table; a test checks every table. */
bool kp_merge_knows(const char *table);

#endif
