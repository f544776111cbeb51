/*
 * count_requests.h - counts calls and their time during some requests only: kprof count
 * and time with the entries of -entry or of a tiers.conf, of the requests that a kprofd
 * marks, of one identity, and within one tier.
 *
 * A counter of the VM has no match spec.  A meta pattern that flags a process
 * for calls where it finds a token comes one call late, and leaves the clock of
 * call_time running while the flag is off.  So this traces calls and returns,
 * as kprof trace does, since events carry the token, and adds them up by the
 * same rules as they come.  Costs and limits are those of kprof trace.
 *
 * The VM knows tokens, but not identities.  So with -identity all events are kept,
 * -max-events of them at most, and added up at the end.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_COUNT_REQUESTS_H
#define KPROFD_CLIENT_FUNCTIONS_COUNT_REQUESTS_H

#include "client/client.h"
#include "profile/node/tracers.h"
#include "profile/report/counts_report.h"

/* Options as they are given; zeroed. */
struct limits_args {
	const char *entry, *tiers, *identity, *tier;
	bool attached;
	size_t requests;
};

#define OPTS_LIMITS(a) \
	OPT_GROUP("Only during requests"), \
	{ "entry", "FUNCTION", "count and time: only during requests, " \
	    "which are calls of this function", opt_text, &(a).entry, NULL }, \
	{ "tiers", "FILE", "the same, with the entries of this tiers.conf", \
	    opt_text, &(a).tiers, NULL }, \
	{ "attached", NULL, "the same, with the requests that an attached " \
	    "kprofd marks (OTP 27 or later)", opt_flag, &(a).attached, NULL }, \
	{ "identity", "NAME", "with -tiers: only during requests of this " \
	    "type", opt_text, &(a).identity, NULL }, \
	{ "tier", "NAME", "with -tiers: only while a process is in a call " \
	    "of this tier", opt_text, &(a).tier, NULL }, \
	{ "requests", "N", "with -entry or -tiers: end after N requests " \
	    "(default 1)", opt_count, &(a).requests, NULL }

struct limits;

/*
 * Checks the options and reads tiers.conf.  *out is NULL if all calls are counted;
 * it needs the arguments as long as it is there.  OPTS_GO_ON, or the status to
 * exit with after printing why.
 */
int limits_open(const struct cmd *cmd, const struct limits_args *a,
    const struct opt_list *targets, struct limits **out);
void limits_free(struct limits *l);

const struct counts_limit *limits_shown(const struct limits *l);

/*
 * Limits a trace to these requests.  wanted, if not NULL, is called as on_wanted() of
 * struct tracer_limit, with ctx.
 */
void limits_trace(struct limits *l, struct tracer_opts *o,
    enum kp_err (*wanted)(void *ctx, uint32_t request), void *ctx);
/* Appends a line if no request was of the type: of what types there were. */
void limits_remark(const struct limits *l, uint32_t begun, struct kp_buf *b);

/*
 * Traces the requests that l selects, for `limit` at most (0: no limit), and
 * puts the sums into p.  quiet: print no progress.  Returns the exit status,
 * after printing what failed.  With EXIT_DONE and a text in `ended` there are
 * figures, but not all that the user asked for.
 */
int count_requests(struct tracer_opts *o, struct limits *l, kp_dur_ns limit,
    bool quiet, struct injected_hello *h, struct kp_counts *p, char *ended,
    size_t n);

#endif
