/*
 * counts_sheet.h - the rows of counters in the order in which they are shown,
 * with their sums.  For counts_report.c.
 */
#ifndef KPROFD_PROFILE_REPORT_COUNTS_SHEET_H
#define KPROFD_PROFILE_REPORT_COUNTS_SHEET_H

#include "counts_report.h"

struct sheet_line {
	const struct kp_counts_row *row;
	const struct kp_counts_row *section;	/* by process: its sums; or NULL */
};

struct sheet {
	const struct kp_counts *p;
	const struct counts_view *v;
	struct sheet_line *lines;
	size_t n, shown;
	struct kp_counts_row *sections;	/* a sum for each process */
	size_t nsections;
	struct kp_counts_row all;	/* sum of all rows, shown or not */
};

/* KP_ENOMEM leaves nothing to be freed. */
enum kp_err sheet_make(struct sheet *s, const struct kp_counts *p,
    const struct counts_view *v);
void sheet_free(struct sheet *s);
/*
 * Groups the lines shown by process.  Processes are in the order of their sums,
 * or by number if the user asked for that.
 */
void sheet_by_section(struct sheet *s);

double sheet_per_call(const struct kp_counts_row *r);
/* The part of `all` that r is: of its calls, or else of time or words. */
double sheet_share(const struct sheet *s, const struct kp_counts_row *r,
    const struct kp_counts_row *all);

#endif
