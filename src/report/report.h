/*
 * report.h - where the time of requests goes, by tier and identity.
 *
 * A report is made from one live window or from a range of stored ones, is
 * independent of where it came from, and is then written as a table for
 * people, or as JSON or CSV for programs.  Writing is pure: into a kp_buf,
 * whose error sticks.
 */
#ifndef KP_REPORT_REPORT_H
#define KP_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/stats.h"

#define REPORT_ROWS_MAX 50000	/* identities; a daemon keeps to 1000 */

/*
 * One tier's part in the requests of one identity.  Counts and sums are
 * estimates for all requests, except those called sampled.  ns; -1: none.
 */
struct report_cell {
	uint64_t requests, calls, raised, unfinished, ambiguous, async_calls;
	uint64_t timed;
	uint64_t sampled_requests, sampled_calls;
	kp_dur_ns total, self, busy, async;
	kp_dur_ns busy_per_request;	/* of all this identity's requests */
	kp_dur_ns mean, min, p50, p90, p95, p99, max;	/* of one call */
};

struct report_row {
	char *identity;			/* "_total" in the first row */
	struct report_cell *cells;	/* [0]: the request; [t + 1]: tier t */
};

struct report {
	kp_wall_ns start, end;		/* of the windows; 0: none */
	uint64_t windows;
	uint64_t entry_calls, sampled;
	struct kp_losses losses;
	bool filtered;			/* identities were chosen: rows[0] is
					   their sum, not that of all */
	char **nodes, **tiers;
	size_t nnodes, ntiers;
	struct report_row *rows;
	size_t nrows;			/* 1 at least */
};

/* On error nothing is made.  The caller owns the result (report_free). */
enum kp_err report_from_window(const struct kp_window *w,
    const struct kp_conf *conf, struct report **out);
void report_free(struct report *r);

/* Has anything been measured at all? */
bool report_empty(const struct report *r);

enum report_what {
	REPORT_BUSY,	/* the union of the tier's calls in a request */
	REPORT_SELF,	/* their time less the tier calls they waited for */
	REPORT_TOTAL,	/* their time, added up */
	REPORT_CALLS,	/* how many */
	REPORT_ASYNC	/* time of calls after the request had ended */
};

/* "busy,self,total,calls,async": by enum report_what. */
extern const char report_whats[];

struct report_opts {
	enum report_what what;
	bool percentiles;
	unsigned width;		/* columns of the terminal; 0: no limit */
};

/*
 * Sorts the rows after the first: by "requests" (NULL, too), "name", or the
 * name of a tier, by what is shown of it.  KP_ENOENT: there is no such tier.
 */
enum kp_err report_sort(struct report *r, const char *by,
    enum report_what what);

/* The table, with what it covers and what is missing below it. */
void report_table(struct kp_buf *b, const struct report *r,
    const struct report_opts *o);
/* "losses: none", or a line for each cause: count, unit, what it means. */
void report_losses(struct kp_buf *b, const struct kp_losses *l);
/* One line of JSON. */
void report_json(struct kp_buf *b, const struct report *r);
/*
 * A line of names and one for each tier of each identity.  Texts that a
 * spreadsheet would take for a formula get a ' before them.
 */
void report_csv(struct kp_buf *b, const struct report *r);

/*
 * What is shown of a cell for one request, in ns or calls; -1: nothing, or no
 * time, where it has calls but the end of none was seen.
 * tier: 0 the request itself, else 1 + index into tiers.
 */
double report_value(const struct report_row *row, size_t tier,
    enum report_what what);

#endif
