/*
 * suggest_node.h - what kprof suggest learns of a node: it counts calls, traces all
 * processes for a moment, and then some requests.  Each step is bounded, and takes
 * back what it has set.  KP_END: a signal came.
 */
#ifndef KPROFD_PROFILE_COMMAND_SUGGEST_NODE_H
#define KPROFD_PROFILE_COMMAND_SUGGEST_NODE_H

#include "profile/command/shared.h"
#include "profile/target/facts.h"
#include "suggest/propose.h"

#define SUGGEST_MODULES_MAX 1000u	/* a node answers for 1,024 patterns */
#define SUGGEST_EVENTS_MAX 60000u	/* of one trace: 60 ms of the node's time */
#define SUGGEST_QUEUE_MAX 30000u	/* events that wait in the node */
#define SUGGEST_REQUESTS 200u		/* that are traced */
#define SUGGEST_HOT 20000.0	/* calls a second, from which a trace is without it */

struct suggest_node {
	struct dist_sync_opts talk;
	kp_dur_ns span;			/* of each step */
	struct facts *facts;
	char library[4096 + 64];
	/* Modules whose functions are looked at. */
	struct kp_mfa_pat *modules;
	size_t nmodules, modules_over;	/* over: there were more */
	struct kp_mfa_pat *called;	/* functions and modules to trace */
	size_t ncalled, called_room;
	size_t nhot;			/* functions that were too hot to trace */
	/* Calls that were counted: names and a rate each. */
	struct kp_call_names *names;
	double *rates;
	uint64_t functions;		/* that were counted */
	uint64_t events;		/* of all traces */
	int otp;
	char why[INJECTED_TEXT_MAX + 512];	/* what failed */
};

/* Connects, and chooses modules. */
enum kp_err suggest_node_open(struct suggest_node *s);
void suggest_node_free(struct suggest_node *s);
/* Counts the calls of all functions; then s->called is known. */
enum kp_err suggest_node_count(struct suggest_node *s);
/* -1: unknown */
double suggest_node_rate(const struct suggest_node *s, const struct kp_call_fn *f);
/*
 * Traces all processes, or (entry is not NULL) requests; before: a trace that was
 * made earlier, or NULL.  *names and *c are the
 * caller's after KP_OK, and so are *fns.
 */
enum kp_err suggest_node_trace(struct suggest_node *s,
    const struct kp_mfa_pat *entry, const struct suggest_calls *before,
    struct kp_call_names **names, struct suggest_calls **c,
    struct suggest_fn **fns);

#endif
