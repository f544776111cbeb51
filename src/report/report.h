/*
 * report.h - where the time of requests goes, by tier and request type (identity).
 *
 * A report is made from one live window, from a range of stored ones, or from those
 * that run.  It owns copies of everything, and is written as a table for people, or
 * as JSON or CSV for programs.  Writing is pure: into a kp_buf, whose error sticks.
 */
#ifndef KPROFD_REPORT_REPORT_H
#define KPROFD_REPORT_REPORT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/stats.h"
#include "store/query.h"
#include "text/json.h"
#include "text/text.h"

#define REPORT_ROWS_MAX 50000	/* identities; a daemon keeps to 1000 */

/*
 * Figures whose interval is estimated where requests were sampled.  REPORT_OF_CALLS to
 * REPORT_OF_BUSY are per request of the row.
 */
enum report_of {
	REPORT_OF_REQUESTS, REPORT_OF_MEAN, REPORT_OF_P50, REPORT_OF_P90,
	REPORT_OF_P99, REPORT_OF_CALLS, REPORT_OF_SELF, REPORT_OF_TOTAL,
	REPORT_OF_BUSY,
	REPORT_OF_RAISED,	/* as a part of the calls */
	REPORT_OF_SHARE,	/* of the request: the row's share */
	REPORT_OFS
};

#define REPORT_ERRORS 2.0
/* A part whose odds differ by this factor, exp(by): it stays between 0 and 1. */
static inline double
report_by_odds(double part, double by)
{
	return 1 / (1 + (1 - part) / part * exp(-by));
}
/* It holds the true figure in 95 of 100 cases; high 0: not known, or not sampled. */
struct report_interval {
	double low, high;
};

/*
 * The figures of one tier and one identity.  Counts and sums are estimates for all
 * requests, except those called sampled.  Times are in ns; -1: none.
 */
struct report_cell {
	/* weighted figures as of struct kp_cell; raised is kp_cell_raised() */
#define REPORT_COUNT(X, field, null) uint64_t field;
#define REPORT_TIME(X, field, null) kp_dur_ns field;
	KP_CELL_FIGURES(REPORT_COUNT, REPORT_TIME, REPORT_COUNT, )
#undef REPORT_COUNT
#undef REPORT_TIME
	uint64_t unseen;	/* kp_cell_unseen() */
	uint64_t sampled_requests, sampled_calls, sampled_async;
	kp_dur_ns busy_per_request;	/* mean over the row's requests */
	kp_dur_ns after_per_request;	/* the same, of async */
	kp_dur_ns mean, min, p50, p90, p95, p99, max;	/* of one call */
	/* the same of those that began after their request */
	kp_dur_ns async_p50, async_p90, async_p95, async_p99, async_max;
	kp_dur_ns tracing;	/* the part of the mean that tracing adds; -1:
				   not known */
	double spread;		/* of calls' times: deviation / mean */
	/*
	 * where p50, p90 and p99 may be by chance, whether requests were sampled or all
	 * measured
	 */
#define REPORT_CHANCE(c, of) (&(c)->chance[(of) - REPORT_OF_P50])
	struct report_interval chance[REPORT_OF_P99 - REPORT_OF_P50 + 1];
	/*
	 * relative errors of the others, REPORT_ERRORS of which chance makes in 95 of
	 * 100 cases; 0: not known
	 */
	double error[REPORT_OFS];
	struct report_interval interval[REPORT_OFS];
	struct report_spread *tenths;	/* while report_intervals() works; else NULL */
};

/* A tier's calls that have one label. */
struct report_label {
	size_t tier;		/* an index among cells */
	char *name;
	struct report_cell cell;
};

struct report_row {
	char *identity;			/* "_total" in the first row */
	struct report_cell *cells;	/* [0]: the request; [t + 1]: tier t */
	struct report_label *labels;	/* by tier, most calls first */
	size_t nlabels;
	kp_dur_ns counted;		/* its rate is per this; not above 0: it has none */
	double share;			/* of the time of all requests, also of
					   filtered ones; -1: that is 0 */
	bool left_out;			/* of JSON: it is in another part of a list */
};

struct report {
	kp_wall_ns start, end;		/* of its windows; 0: none */
	uint64_t windows;
	kp_dur_ns covered;		/* time in some window */
	kp_dur_ns cost;			/* time of all requests, added up */
	kp_dur_ns cost_tracing;		/* that part of it that tracing adds;
					   < 0: not known */
	uint64_t entry_calls, sampled;
	bool uncounted;			/* entry_calls lacks some calls */
	bool running;			/* of windows that are not closed yet */
	kp_dur_ns left;			/* until they are; if not running, and not 0:
					   until the first of this run is */
	struct kp_losses losses;
	/* what tracing adds, as of struct kp_cost; 0: it was not measured */
	kp_dur_ns traced_call, traced_caller;
	bool less_tracing;		/* an estimate of that is subtracted */
	bool filtered;			/* rows[0] is the sum of the identities
					   asked for, not of all: */
	struct report *whole;		/* the report of all; else NULL */
	bool by_node;			/* identities are names of nodes */
	bool totals;			/* it has rows[0] alone: too many for more */
	char **nodes, **tiers;
	size_t nnodes, ntiers;
	struct report_row *rows;
	size_t nrows;			/* 1 at least */
	char **hints;			/* sentences on likely mistakes in
					   tiers.conf: advice.h */
	bool hinted;			/* hints were looked for */
	size_t nhints;
};

/* The caller owns *out (report_free), which is not set on error. */
enum kp_err report_from_window(const struct kp_window *w,
    const struct kp_conf *conf, struct report **out);
/*
 * The tiers are those of the last tiers.conf, followed by others that have figures
 * in the range.  On error kp_query_why() says what happened, unless it is
 * KP_ENOMEM or KP_ELIMIT (identities).
 */
enum kp_err report_from_db(struct kp_query *q, const struct kp_query_range *r,
    struct report **out);
struct live_windows;
/* The same, of running windows, and of these tiers.  identity: a glob; NULL: all. */
enum kp_err report_from_running(struct kp_query_tiers *tiers, const char *identity,
    const struct live_windows *running, struct report **out);
void report_free(struct report *r);

/*
 * "250ms,1s", "250ms" (or longer): into octaves of r, which the ends are rounded to
 * outwards.  Returns NULL, or an error text.
 */
const char *report_parse_took(const char *s, struct kp_query_range *r);
#define REPORT_TOOK_MAX 128
/* "over 250 ms", "over 250 ms, up to 1 000 ms"; returns buf. */
const char *report_took(char *buf, unsigned from, unsigned to);

/*
 * For a comparison: if *then does not overlap r, takes a window that both have a
 * part of out of *then, unless nothing is left.  start, end: of the windows of r.
 */
void report_apart(const struct kp_query_range *r, kp_wall_ns start, kp_wall_ns end,
    struct kp_query_range *then);

/*
 * Computes the figures of a cell, but for those that need the whole report.
 * request: it is of tier "_total".
 */
void report_take_cell(struct report_cell *to, const struct kp_cell *c,
    bool request);

/*
 * Adds counts and sums of a cell; gc and out are -1 where there are none.  Of times of
 * one call there is no sum.
 */
void report_add_cell(struct report_cell *to, const struct report_cell *c);

/*
 * Sets the errors and intervals of all cells, of a report of this range, whose sum had so
 * many cells.
 */
enum kp_err report_intervals(struct report *r, struct kp_query *q,
    const struct kp_query_range *range, size_t ncells);
/*
 * The relative error of the ratio of sums y / x by how tenths differ, as struct
 * report_cell has it; least: the least relative variance that it may have.  0: not known.
 */
double report_tenths_error(const double *y, const double *x, size_t tenths,
    double least);
/*
 * Appends how far the farther end of the figure's interval is from it: "6.3 ms ±4 %".
 * Returns buf, of TEXT_MAX bytes, or text if there is none; text may be buf.
 */
const char *report_with_interval(char *buf, const char *text, const struct report_row *row,
    const struct report_cell *c, enum report_of of);

/*
 * Of one call its mean or a percentile, in ns, or the share that raised; -1: none, or
 * how some ended was not seen.  *chance holds it in 95 of 100 other times with such
 * requests, whether they are sampled or all measured; NAN: too few were.
 */
double report_of_call(const struct report_row *row, const struct report_cell *c,
    enum report_of of, struct report_interval *chance);

/* Writes a line, or nothing: the window still runs, and since when. */
void report_put_running(struct kp_buf *b, const struct report *r);
/* Writes the hints, each wrapped to the width. */
void report_put_hints(struct kp_buf *b, const struct report *r,
    unsigned width);

/*
 * Subtracts from all times but async ones what tracing added to them.  This is an
 * estimate, from calls that do nothing.  False: of some calls it is not known, and
 * the report is unchanged.
 */
bool report_less_tracing(struct report *r);
/*
 * Writes one line, or nothing: which tiers have calls so short that tracing is a
 * large part of their mean, or what was subtracted.
 */
void report_put_tracing(struct kp_buf *b, const struct report *r);

/* A tier's index among the cells of a row; of "_total" 0. */
#define REPORT_NO_TIER SIZE_MAX
size_t report_tier(const struct report *r, const char *name);
/* The same of a tier or a part of one, "db: users"; *label: "users", or NULL. */
size_t report_part(const struct report *r, const char *name, const char **label);
/* What the row has of a tier, or of its calls with the label; NULL: nothing. */
struct report_cell *report_cell(const struct report_row *row, size_t tier,
    const char *label);
/* Cell i of a row, from 0: the request, its tiers, and their labels; NULL: no more. */
struct report_cell *report_row_cell(const struct report *r, const struct report_row *row,
    size_t i);

/* True: nothing was measured. */
bool report_empty(const struct report *r);

/*
 * Calls of a tier that measured requests do not have, though the VM counted them;
 * of the first row.
 */
struct report_missing {
	/*
	 * That requests made, by other calls of the tier that came with another
	 * request's token, or are lost (crossed).  Without such: hardly any of the
	 * VM's calls are in requests, and nothing shows whether they lost their
	 * tokens or were made outside of requests.
	 */
	bool sure;
	uint64_t missed;	/* if sure: an estimate */
	uint64_t calls, after;	/* that measured requests have, and after them */
	/* The VM's count, of all calls and of requests; 0: not known. */
	uint64_t counted, entries;
};

/*
 * tier: an index among cells.  False: none are missing, or few, or by chance.
 */
bool report_missing(const struct report *r, size_t tier,
    struct report_missing *m);

enum report_what {
	REPORT_BUSY,	/* the union of the tier's calls in a request */
	REPORT_SELF,	/* their time without the tier calls they waited for:
			   what tables for people show, unless told */
	REPORT_TOTAL,	/* their time, added up */
	REPORT_CALLS,	/* their number */
	REPORT_ASYNC,	/* time after the end of the request */
	REPORT_GC,	/* the part of self in garbage collection */
	REPORT_OUT	/* the part of self while scheduled out */
};

/* That figure per request of the row; REPORT_OFS: it has no interval. */
enum report_of report_of_what(enum report_what what);
/*
 * The relative variance of report_value_of() by chance: how it differs between tenths,
 * if that is known, but no less than if requests had been sampled one by one.
 */
double report_variance(const struct report *r, const struct report_row *row,
    const struct report_cell *c, enum report_what what);
/* "busy,self,total,calls,async,gc,out": by enum report_what. */
extern const char report_whats[];

/*
 * The tiers that have a column in a table: all that have a figure in some row, or calls
 * that are missing, but where there is no room the costliest of them.
 */
struct report_columns {
	const struct report *r;
	enum report_what what;
	/*
	 * By index among cells, as of grid_col_optional(): 2, 4, ... from the
	 * cheapest on, so that other columns go between; 0: it has no figure.
	 */
	unsigned *rank;
	unsigned extra;		/* the rank of columns that leave before the three
				   costliest tiers, such as "after" */
	size_t n;		/* those that have one */
	size_t folded;		/* of these: the cheapest, in one column ... */
	/* what went before that: 1: tiers' intervals and time after the request,
	   2: the others' intervals, too */
	unsigned narrow;
};
/* That column's head. */
#define REPORT_OTHERS "%zu other"

/*
 * keep: a tier that keeps its column; or NULL.  False: out of memory, and there is
 * nothing to free.
 */
bool report_columns(struct report_columns *c, const struct report *r,
    enum report_what what, const char *keep);
void report_columns_free(struct report_columns *c);
/*
 * There is no room for columns of that rank and less: folds these tiers.  False: that
 * changes nothing, or their sum would have no meaning, as that of inclusive times.
 */
bool report_columns_fold(struct report_columns *c, unsigned rank);
/* Has the tier a column of its own? */
bool report_has_column(const struct report_columns *c, size_t tier);
/* Makes a row of which tier 1 is the sum of the row's folded tiers. */
void report_add_others(const struct report_columns *c,
    const struct report_row *row, struct report_row *to,
    struct report_cell cells[2]);

/* A title for people: "self (exclusive) time per request". */
const char *report_title(enum report_what what);

/*
 * The column of the time that a request spends in no tier, which is
 * report_value(row, 0, REPORT_SELF): with it a row adds up to total.  Has any row
 * enough of it to be seen?
 */
#define REPORT_REST "no tier"
bool report_has_rest(const struct report *r, enum report_what what);

struct report_opts {
	enum report_what what;
	bool percentiles;
	unsigned width;		/* columns of the terminal; 0: no limit */
	const char *keep;	/* the tier that rows are in order of; or NULL */
	const struct kp_query_waits *queues;	/* of KP_QUEUE; NULL: not known */
};

/*
 * Sorts the rows after the first: by "requests" (or NULL), "name", "total" (the time
 * of one), "cost" (requests x time), or by `what` of the tier of that name.  "-KEY"
 * sorts by KEY in the opposite order.  KP_ENOENT: there is no such tier.
 */
enum kp_err report_sort(struct report *r, const char *by,
    enum report_what what);

/* The table, and report_coverage() below it. */
void report_table(struct kp_buf *b, const struct report *r,
    const struct report_opts *o);
/*
 * The lines below a table: which time and nodes it covers, the lines of `note` (may
 * be ""), how its figures were measured, and what was lost.
 */
void report_coverage(struct kp_buf *b, const struct report *r,
    const struct report_opts *o, const char *title, const char *note);
/*
 * The number of requests of a row.  For all requests it is the VM's own count of
 * calls of entries, if that is complete; else the sum of the weights of those
 * measured.  *known: it is a count, not an estimate from samples.
 */
uint64_t report_requests(const struct report *r, size_t row, bool *known);
/*
 * How many of the requests that the VM counted are in no type's row: they were not
 * measured, and no measured one stands for them.  0: none, or as few as sampling
 * makes by chance, or the count is not the VM's.
 */
uint64_t report_unmeasured(const struct report *r);
/* The same for the calls of a tier; tier 0: the request itself. */
uint64_t report_calls(const struct report *r, size_t row, size_t tier,
    bool *known);
/* Marks the text of a time as an estimate, ~1.8 us, if tracing was subtracted. */
const char *report_corrected(const struct report *r, char *buf,
    const char *text);
/* The row's head for people: "all requests", or the identity. */
const char *report_row_name(const struct report *r, size_t row);
/* Writes one object; key: as a member of an outer one, or NULL. */
void report_object(struct json *j, const char *key, const struct report *r);
/* One line of JSON. */
void report_json(struct kp_buf *b, const struct report *r);
/* A line of names, and one for each tier of each identity. */
void report_csv(struct kp_buf *b, const struct report *r);
/* One field.  A text that a spreadsheet would take for a formula is quoted by '. */
void report_csv_text(struct kp_buf *b, const char *s);

/*
 * `what` of a cell per request, in ns or calls; -1: it has none, or the end of
 * none of its calls was seen.  tier: 0 the request itself, else 1 + index into
 * tiers.
 */
double report_value(const struct report_row *row, size_t tier,
    enum report_what what);
/* Times by label are inclusive, as those of single calls beside them are. */
static inline enum report_what
report_label_what(enum report_what what)
{
	return what < REPORT_CALLS ? REPORT_TOTAL : what;
}
/* The same of a label's cell in that row. */
double report_value_of(const struct report_row *row,
    const struct report_cell *c, enum report_what what);

/*
 * How people and programs read a figure that is known, known in part, or not
 * seen:
 *
 *	known		12	5 %
 *	at least	>= 12	>= 12	more may be: never a rate
 *	... of samples	~120 or more	an estimate is not a bound
 *	not seen	-	-	never 0
 *
 * A ~ marks an estimate, or a change that chance may have made.
 */
/* "known", "at_least", "not_seen": for programs. */
const char *seen_name(enum kp_seen seen);
/*
 * n of `of`, in TEXT_MAX bytes of buf, which it returns.  known: it was counted,
 * not estimated from samples.
 */
const char *seen_share(char *buf, enum kp_seen seen, uint64_t n, uint64_t of,
    bool known);

#endif
