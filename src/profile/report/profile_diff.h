/*
 * profile_diff.h - reads profiles that were kept as CSV, and compares two of
 * them.
 */
#ifndef KPROFD_PROFILE_REPORT_PROFILE_DIFF_H
#define KPROFD_PROFILE_REPORT_PROFILE_DIFF_H

#include <stdbool.h>

#include "kprofd/profile.h"

#define PROFILE_KEPT_MAX 1000000u	/* rows of one file */

struct profile_kept_row {
	char *fn;		/* owned; as it was printed */
	uint64_t calls, value;
};

/* What a file holds: a row for each function, by name. */
struct profile_kept {
	enum kp_profile_type type;
	struct profile_kept_row *rows;
	size_t n, room;
};

enum profile_diff_sort {
	PROFILE_DIFF_CHANGE,	/* the greatest difference first */
	PROFILE_DIFF_NOW,
	PROFILE_DIFF_FUNCTION
};

struct profile_diff_view {
	enum profile_diff_sort sort;
	bool reverse;
	size_t top;		/* rows to show; 0: all */
};

/*
 * Reads what profile_csv() wrote, processes of a function added up.  On error
 * `why` says which line is not of that kind, and k is empty.
 */
enum kp_err profile_kept_read(struct profile_kept *k, const char *s, size_t n,
    char *why, size_t whylen);
/* Adds a row behind all others, by name.  KP_ELIMIT, KP_ENOMEM: k is as it was. */
enum kp_err profile_kept_put(struct profile_kept *k, const char *fn,
    uint64_t calls, uint64_t value);
void profile_kept_free(struct profile_kept *k);

/*
 * Functions as they are now and were before, and the change; both of one type.
 * Errors stick in b.
 */
void profile_diff_table(struct kp_buf *b, const struct profile_kept *before,
    const struct profile_kept *now, const struct profile_diff_view *v,
    unsigned width);
void profile_diff_json(struct kp_buf *b, const struct profile_kept *before,
    const struct profile_kept *now, const struct profile_diff_view *v);

#endif
