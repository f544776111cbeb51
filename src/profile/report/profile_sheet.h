/*
 * profile_sheet.h - the rows of a profile in order, with their sums: what
 * profile.c writes.
 */
#ifndef KPROFD_PROFILE_REPORT_PROFILE_SHEET_H
#define KPROFD_PROFILE_REPORT_PROFILE_SHEET_H

#include "profile.h"

struct line {
	const struct kp_profile_fn *fn;
	const struct kp_profile_row *row;	/* NULL: all processes */
	const struct section *section;		/* NULL likewise */
	uint64_t calls, value;
};

/* All that a process did. */
struct section {
	const struct kp_profile_proc *proc;
	uint64_t calls, value;
};

/* What is shown: lines in order, and the sums of all. */
struct sheet {
	const struct kp_profile *p;
	const struct profile_view *v;
	struct kp_profile_name *names;	/* p's, by process */
	struct line *lines;
	size_t n, shown;
	struct section *sections;	/* by process, or none */
	size_t nsections;
	uint64_t calls, value;
};

/* Errors are KP_ENOMEM; there is nothing to be freed then. */
enum kp_err sheet_make(struct sheet *s, const struct kp_profile *p,
    const struct profile_view *v);
void sheet_free(struct sheet *s);
/*
 * The lines shown, those of a process together, and processes in order: of
 * what they did in all, unless another one was asked for.
 */
void sheet_by_section(struct sheet *s);

double sheet_per_call(const struct line *l);
/* Of all; and of what the line's process did. */
double sheet_share(const struct sheet *s, uint64_t calls, uint64_t value);
double sheet_section_share(const struct sheet *s, const struct line *l);
/* NULL: it has none. */
const char *sheet_name(const struct sheet *s,
    const struct kp_profile_proc *proc);

#endif
