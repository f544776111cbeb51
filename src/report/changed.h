/*
 * changed.h - what changed in a range: the request types that take longer, or fail more
 * often, than before; since when, in which tier, on which node, and after which event.
 *
 * Of a series, the steps of one request type on one node, the part is taken whose mean
 * differs most from that of what is around it, and again of each part: circular binary
 * segmentation, see Olshen, Venkatraman, Lucito and Wigler, "Circular binary segmentation
 * for the analysis of array-based DNA copy number data", Biostatistics 5, 2004.  Times are
 * compared by their logarithms.  Their error is taken from how steps differ from the mean
 * of their part and, since one step resembles the next, from how they do so together: Newey
 * and West, "A simple, positive semi-definite, heteroskedasticity and autocorrelation
 * consistent covariance matrix", Econometrica 55, 1987.  Numbers of requests that raised are
 * compared by the ratio of their likelihoods.  A difference has to be of so many errors that
 * chance makes one in a thousand reports (CHANGED_CHANCE), of all series and all parts.
 */
#ifndef KPROFD_REPORT_CHANGED_H
#define KPROFD_REPORT_CHANGED_H

#include "report.h"

#define CHANGED_CHANCE 0.001
#define CHANGED_TIME 0.1	/* less is not reported: a tenth of the time */
#define CHANGED_ERRORS 0.005	/* or half a per cent of the requests */
#define CHANGED_UNSEEN 0.05	/* more of a step may have raised unseen: it has no figure */
#define CHANGED_MAX 20		/* of a range; the others are counted */

enum changed_what { CHANGED_MEAN, CHANGED_RAISED };

/* What the mean of a step is made of: a number, and a sum.  0: it has none. */
static inline double
changed_number(const struct kp_step *v, enum changed_what what)
{
	if (what == CHANGED_MEAN)
		return (double)v->timed;
	/* a probe may not see how requests end */
	return (double)v->unseen > CHANGED_UNSEEN * (double)v->requests ? 0 :
	    (double)v->requests;
}

static inline double
changed_sum(const struct kp_step *v, enum changed_what what)
{
	if (what == CHANGED_MEAN)
		return (double)v->total;
	return changed_number(v, what) > 0 ? (double)v->raised : 0;
}

/* Steps [from, to) of a series differ from those before, [base, from). */
struct changed_steps {
	size_t base, from, to;	/* to is the number of steps: it still is so */
	double then, now;	/* ns of a request, or part of them that raised */
	double error;		/* standard error, of log(now / then) or now - then */
	bool gradual;		/* a line fits it better */
	bool back;		/* it only ends the one before it in v */
};

#define CHANGED_CUTS 8
/*
 * Finds the changes of one series of n steps, at most CHANGED_CUTS, in order of time.
 * tests: comparisons in all series.  Returns their number.
 */
size_t changed_find(const struct kp_step *v, size_t n, enum changed_what what,
    double tests, struct changed_steps *out);

/* What a request spends in a tier on a node: its share of a change. */
struct changed_tier {
	const char *tier;	/* "": in no tier; NULL: not known */
	const char *node;
	double then, now;	/* as of the change: ns, or exceptions, a request */
	double calls_then, calls_now;	/* a request; of no tier 0 */
	double inside;		/* of exceptions: traced calls inside one of its calls */
	double part;		/* of the change */
};

struct changed {
	enum changed_what what;
	const char *identity;
	const char *nodes[KP_NODES_MAX];	/* where it changed, */
	size_t nnodes, of_nodes;	/* of those that have this type */
	kp_wall_ns base, since, until;	/* until 0: it still is so */
	/* low, high: the ends of the interval of now / then - 1, or of now - then */
	double then, now, low, high;
	bool gradual;
	double weight;		/* the part of all requests' time, or of all requests, that
				   it is more or less */
	struct changed_tier in;
	kp_dur_ns step;		/* how exact since is */
	/*
	 * The mark, and the other event, that are nearest to its beginning; kind NULL:
	 * there is none.
	 */
	struct kp_query_event mark, event;
	/* the same figure, a day and a week before the time since; -1: not known */
	double day, week;
};

struct changes {
	kp_wall_ns start, end;	/* what was looked at; 0: there is nothing */
	kp_wall_ns asked;	/* changes that hold at this time, or later ones, are
				   told */
	kp_dur_ns step;
	size_t nodes, types;
	size_t steps;		/* that have requests, of the series with most */
	uint64_t left;		/* rows that were too many */
	struct changed *v;	/* those with most weight first */
	size_t n, more;		/* more: left out, with less weight */
	size_t bare;		/* the last of v: too late to look for tier and event */
};

/* Too few steps to tell: then there are no changes. */
#define CHANGED_STEPS 12
bool changes_too_few(const struct changes *c);

/*
 * Looks at the range and at as much time before it.  Texts are borrowed from q; free it with
 * changes_free().
 */
enum kp_err changes_from_db(struct kp_query *q, const struct kp_query_range *r,
    struct changes *out);
void changes_free(struct changes *c);

/* A sentence for each, and what was looked at. */
void changes_text(struct kp_buf *b, const struct changes *c, unsigned width);
void changes_json(struct kp_buf *b, const struct changes *c);

#endif
