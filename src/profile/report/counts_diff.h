/* counts_diff.h - reads counters that were kept as CSV, and compares two. */
#ifndef KPROFD_PROFILE_REPORT_COUNTS_DIFF_H
#define KPROFD_PROFILE_REPORT_COUNTS_DIFF_H

#include <stdbool.h>

#include "calls/counts.h"

#define COUNTS_KEPT_MAX 1000000u	/* rows of one file */

struct counts_kept_row {
	char *fn;		/* owned; as it was printed */
	uint64_t calls, value;
};

/* A kept profile: a row for each function, sorted by name. */
struct counts_kept {
	enum kp_counts_type type;
	struct counts_kept_row *rows;
	size_t n, room;
};

enum counts_diff_sort {
	COUNTS_DIFF_CHANGE,	/* the greatest difference first */
	COUNTS_DIFF_NOW,
	COUNTS_DIFF_FUNCTION
};

struct counts_diff_view {
	enum counts_diff_sort sort;
	bool reverse;
	size_t top;		/* rows to show; 0: all */
};

/*
 * Reads what counts_csv() wrote, and adds up the processes of a function.  On
 * error `why` names the line, and k is empty.
 */
enum kp_err counts_kept_read(struct counts_kept *k, const char *s, size_t n,
    char *why, size_t whylen);
/* Appends a row; names must ascend.  KP_ELIMIT, KP_ENOMEM: k is as it was. */
enum kp_err counts_kept_put(struct counts_kept *k, const char *fn,
    uint64_t calls, uint64_t value);
void counts_kept_free(struct counts_kept *k);

/*
 * Write the figures of each function now and before, and the change.  Both
 * profiles are of one type.  Errors stick in b.
 */
void counts_diff_table(struct kp_buf *b, const struct counts_kept *before,
    const struct counts_kept *now, const struct counts_diff_view *v,
    unsigned width);
void counts_diff_json(struct kp_buf *b, const struct counts_kept *before,
    const struct counts_kept *now, const struct counts_diff_view *v);

#endif
