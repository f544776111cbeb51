/*
 * slo.h - how the objectives of tiers.conf were met in a range: the part of requests, or
 * of a tier's calls, that took no longer than a limit and did not fail.
 *
 * One that failed has missed, whatever its time.  The store does not say which of the
 * failed ones were slow, too: what is said counts such a one twice, and the lower bound
 * once.
 */
#ifndef KPROFD_REPORT_SLO_H
#define KPROFD_REPORT_SLO_H

#include "kprofd/config.h"
#include "report.h"

/* How fast the budget was burned lately: over 5 m, 1 h, 6 h, 3 d. */
#define SLO_BURNS 4

/* Counts are of all, estimated by weights where some were sampled. */
struct slo_row {
	const struct kp_objective *of;
	const char *node;		/* NULL: all */
	uint64_t requests, sampled;	/* whose time is known; of these, measured */
	uint64_t endless;		/* whose end was not seen: in no other count */
	uint64_t failed;
	enum kp_seen failed_seen;
	double slow;
	bool exact;			/* slow is: the limit is inside no bucket */
	double missed, low, high;	/* not fewer than low, not more than high */
	/* of the part that missed, with what sampling adds; high 0: not known */
	struct report_interval interval;
	double burn[SLO_BURNS];		/* negative: the range does not tell */
};

struct slo {
	struct kp_conf *conf;		/* the last in force; NULL: there is none */
	struct kp_query_nodes nodes;	/* of rows */
	struct kp_query_sum cover;	/* without cells */
	struct slo_row *rows;		/* each objective's, followed by those of nodes */
	size_t nrows;
};

/* Takes the figures of a cell; NULL: there are none. */
void slo_take(struct slo_row *row, const struct kp_cell *c);
/*
 * The part of the error budget that these have burned: 1 is all that may miss.  Negative:
 * there were no requests.
 */
double slo_burned(const struct slo_row *row);

/*
 * r->by_node: with rows of nodes.  Texts are borrowed from q; slo_free() in any case of
 * KP_OK.
 */
enum kp_err slo_from_db(struct kp_query *q, const struct kp_query_range *r,
    struct slo *out);
void slo_free(struct slo *s);
void slo_text(struct kp_buf *b, const struct slo *s, unsigned width);
void slo_json(struct kp_buf *b, const struct slo *s);

#endif
