/*
 * count_limits.h - limits kprof count and time to some requests and calls: by the
 * entries of -entry or of a tiers.conf, to the requests that a kprofd marks, to
 * one identity, and to calls within one tier.
 *
 * The VM knows tokens, but not identities.  So with -identity all events are kept,
 * -max-events of them at most, and added up at the end.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_COUNT_LIMITS_H
#define KPROFD_CLIENT_FUNCTIONS_COUNT_LIMITS_H

#include "client/client.h"
#include "calls/call_sum.h"
#include "profile/report/counts_report.h"
#include "profile/node/tracers.h"

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
    const char *target, struct limits **out);
void limits_free(struct limits *l);

/* Sets what begins requests, how many, and their limits. */
void limits_trace(struct limits *l, struct tracer_opts *o);
/* Sets which calls the sum counts. */
void limits_sum(struct limits *l, struct kp_calls_opts *o);
/* Adds an event to s, or keeps it for limits_end(). */
enum kp_err limits_add(struct limits *l, struct kp_calls_sum *s,
    const struct kp_call_event *ev);
enum kp_err limits_end(struct limits *l, struct kp_calls_sum *s);
/* If no request had the identity: appends a line with those that were seen. */
void limits_remark(const struct limits *l, struct kp_buf *b);
const struct counts_limit *limits_shown(const struct limits *l);

#endif
