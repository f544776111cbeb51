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

#include "text/json.h"
#include "text/text.h"
#include "kprofd/stats.h"

#define REPORT_ROWS_MAX 50000	/* identities; a daemon keeps to 1000 */

/*
 * One tier's part in the requests of one identity.  Counts and sums are
 * estimates for all requests, except those called sampled.  ns; -1: none.
 */
struct report_cell {
	uint64_t requests, calls, raised, unfinished, ambiguous, async_calls;
	uint64_t outlasting;	/* of calls: they end after their request */
	uint64_t timed, inside, made;	/* as of struct kp_cell */
	uint64_t async_raised, async_unknown, async_unfinished;
	uint64_t unknown_outcomes, unseen;	/* kp_cell_unseen() */
	bool unrecorded;	/* as of struct kp_cell */
	uint64_t sampled_requests, sampled_calls, sampled_async;
	kp_dur_ns total, self, busy, async;
	kp_dur_ns gc, out;	/* of self; -1: not measured */
	kp_dur_ns busy_per_request;	/* of all this identity's requests */
	kp_dur_ns after_per_request;	/* the same, after their ends; -1 */
	kp_dur_ns mean, min, p50, p90, p95, p99, max;	/* of one call */
	kp_dur_ns tracing;	/* of the mean, what is tracing's own; -1: not
				   known */
	double spread;		/* of calls' times: deviation by mean */
	kp_dur_ns p50_error, p90_error, p99_error;	/* standard errors */
};

struct report_row {
	char *identity;			/* "_total" in the first row */
	struct report_cell *cells;	/* [0]: the request; [t + 1]: tier t */
	double share;			/* of the time of all requests, chosen
					   or not; -1: they took none */
};

struct report {
	kp_wall_ns since, until;	/* what was asked for */
	kp_wall_ns start, end;		/* of the windows; 0: none */
	uint64_t windows;
	kp_dur_ns covered;		/* time in some window */
	kp_dur_ns cost;			/* time of all requests, added up */
	kp_dur_ns cost_tracing;		/* of that, tracing's own; < 0: not
					   known */
	uint64_t entry_calls, sampled;
	bool uncounted;			/* not all calls are in entry_calls */
	struct kp_losses losses;
	/* what tracing adds, as of struct kp_cost; 0: it was not measured */
	kp_dur_ns traced_call, traced_caller;
	bool less_tracing;		/* that is subtracted, as estimated */
	bool filtered;			/* identities were chosen: rows[0] is
					   their sum, not that of all */
	char **nodes, **tiers;
	size_t nnodes, ntiers;
	struct report_row *rows;
	size_t nrows;			/* 1 at least */
	char **hints;			/* what tiers.conf may have wrong, a
					   sentence each: hints.c */
	bool hinted;			/* it was looked for some */
	size_t nhints;
};

/* On error nothing is made.  The caller owns the result (report_free). */
enum kp_err report_from_window(const struct kp_window *w,
    const struct kp_conf *conf, struct report **out);
void report_free(struct report *r);

/* Takes the text, which is malloced; NULL: there was no memory for it. */
void report_hint(struct report *r, char *text);
/* The hints, a line each, broken to fit. */
void report_put_hints(struct kp_buf *b, const struct report *r,
    unsigned width);

/*
 * Subtracts from all times but async ones what tracing added to them: an
 * estimate, since it was measured of calls that do nothing.  False: that was
 * not measured of all calls, and nothing has changed.
 */
bool report_less_tracing(struct report *r);
/* Is the mean of a tier's calls so small that tracing shows in it? */
bool report_small(const struct report *r, size_t tier);
/* A line of such tiers, or of what was subtracted; nothing where there is none. */
void report_put_tracing(struct kp_buf *b, const struct report *r);

/* Has anything been measured at all? */
bool report_empty(const struct report *r);

enum report_what {
	REPORT_BUSY,	/* the union of the tier's calls in a request */
	REPORT_SELF,	/* their time less the tier calls they waited for */
	REPORT_TOTAL,	/* their time, added up */
	REPORT_CALLS,	/* how many */
	REPORT_ASYNC,	/* time after the request had ended */
	REPORT_GC,	/* of self: in which garbage was collected, */
	REPORT_OUT	/* or the process was scheduled out */
};

/* "busy,self,total,calls,async,gc,out": by enum report_what. */
extern const char report_whats[];

/* What one cell's column is called. */
const char *report_title(enum report_what what);

struct report_opts {
	enum report_what what;
	bool percentiles;
	unsigned width;		/* columns of the terminal; 0: no limit */
};

/*
 * Sorts the rows after the first: by "requests" (NULL, too), "name", "cost"
 * (requests x time), or the name of a tier, by what is shown of it.
 * KP_ENOENT: there is no such tier.
 */
enum kp_err report_sort(struct report *r, const char *by,
    enum report_what what);

/* The table, with what it covers and what is missing below it. */
void report_table(struct kp_buf *b, const struct report *r,
    const struct report_opts *o);
/*
 * What a table covers and what it lacks: the lines below it.  A note, where
 * there is one, stands after the first.
 */
void report_coverage(struct kp_buf *b, const struct report *r,
    const struct report_opts *o, const char *title, const char *note);
/*
 * How many requests a row is about: of all, the VM's own count of calls of
 * entries, where it has counted all of them; else those that were measured, by
 * their weights, which is an estimate where some were sampled out.
 */
uint64_t report_requests(const struct report *r, size_t row, bool *known);
/* The same of the calls of a tier; of 0, the request itself, as above. */
uint64_t report_calls(const struct report *r, size_t row, size_t tier,
    bool *known);
/* A time, as text; what was corrected looks like it: ~1.8 us. */
const char *report_corrected(const struct report *r, char *buf,
    const char *text);
/* "all requests", or the identity: what the row is called. */
const char *report_row_name(const struct report *r, size_t row);
/* One object, as a value of a larger one (key) or alone (NULL). */
void report_object(struct json *j, const char *key, const struct report *r);
/* One line of JSON. */
void report_json(struct kp_buf *b, const struct report *r);
/*
 * A line of names and one for each tier of each identity.  Texts that a
 * spreadsheet would take for a formula get a ' before them.
 */
void report_csv(struct kp_buf *b, const struct report *r);
/* A text as a field of it. */
void report_csv_text(struct kp_buf *b, const char *s);

/*
 * What is shown of a cell for one request, in ns or calls; -1: nothing, or no
 * time, where it has calls but the end of none was seen.
 * tier: 0 the request itself, else 1 + index into tiers.
 */
double report_value(const struct report_row *row, size_t tier,
    enum report_what what);

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
/* Where the ends of calls are not seen, this says what would show them. */
#define SEEN_WAY_OUT "the native probe sees it (-probe auto, the default; " \
	"-probe-library where a target could not load it: the event probe "   \
	"says so), and the relay where the entry is in a tier that has [exact]"

#endif
