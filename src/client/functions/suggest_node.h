/*
 * suggest_node.h - what kprof suggest learns of a node: it samples stacks, counts
 * calls of the functions near them, and traces some requests.  Each step is bounded,
 * and takes back what it has set.  KP_END: a signal came.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_SUGGEST_NODE_H
#define KPROFD_CLIENT_FUNCTIONS_SUGGEST_NODE_H

#include "client/functions/shared.h"
#include "profile/node/facts.h"
#include "suggest/cost.h"
#include "suggest/pools.h"
#include "suggest/propose.h"
#include "suggest/stacks.h"

#define SUGGEST_STACKS 2000u	/* a second, at most, while they take less than */
#define SUGGEST_PPM 10000u	/* millionths of a scheduler */
#define SUGGEST_POOLS_SPAN (5 * KP_NS_PER_S)	/* a node says in 2 which pools it has */
#define SUGGEST_WORKING 1000u	/* samples at work; with fewer it samples as long again */
/* A node answers for 1,024 patterns; each is set in 0.1 to 7 ms. */
#define SUGGEST_MODULES_MAX 500u
#define SUGGEST_FUNCTIONS_MAX 8000u	/* of the modules that are counted, in all */
#define SUGGEST_EVENTS_MAX 60000u	/* of a trace of requests: 60 ms of the node's time */
#define SUGGEST_QUEUE_MAX 15000u	/* events that wait in the node */
#define SUGGEST_REQUESTS 500u		/* that are traced */
#define SUGGEST_ALL_EVENTS 20000u	/* of a trace of all processes */
#define SUGGEST_ALL_SPAN KP_NS_PER_S	/* and that takes no longer */
#define SUGGEST_MEASURED 150u		/* functions that are traced alone */
#define SUGGEST_MEASURED_CALLS 8u	/* a request: who is called more often is not */
#define SUGGEST_HOT_RATE 20000.0	/* calls a second, from which a trace is without it */

struct suggest_node {
	struct dist_sync_opts talk;
	kp_dur_ns span;			/* of sampling; and of other steps: */
	kp_dur_ns short_span;
	struct facts *facts;
	char library[4096 + 64];
	/* What was sampled. */
	struct kp_call_names *stack_names;
	struct suggest_stacks stacks;
	struct suggest_pools pools;
	kp_dur_ns pooled;		/* how long their workers were sampled */
	char **groups;			/* modules that processes began with */
	uint32_t ngroups;
	kp_dur_ns sampled;		/* how long */
	/* Modules whose functions are looked at. */
	struct kp_mfa_pat *modules;
	size_t nmodules, modules_over;	/* over: there were more */
	struct kp_mfa_pat *called;	/* functions and modules to trace */
	size_t ncalled, called_room;
	double hot;			/* calls a second that are too many for that */
	size_t nhot;			/* functions that were too hot to trace */
	/* Calls that were counted: names and a rate each. */
	struct kp_call_names *names;
	double *rates;
	uint32_t nrates;
	uint32_t *counted;		/* functions, in the order of names */
	size_t ncounted;
	uint64_t functions;		/* that were counted */
	uint64_t events;		/* of all traces */
	double called_rate;		/* a second, of those that are traced */
	uint64_t processes;		/* that were there when it was sampled */
	struct suggest_cost cost;	/* so far, without questions */
	int otp;
	char why[INJECTED_TEXT_MAX + 512];	/* what failed */
};

/* Asks what runs there. */
enum kp_err suggest_node_open(struct suggest_node *s);
/* Samples stacks, and chooses the modules that are on them or near. */
enum kp_err suggest_node_sample(struct suggest_node *s);
/* The call tree of the samples.  As suggest_node_trace(), which is not used. */
enum kp_err suggest_node_tree(struct suggest_node *s,
    struct suggest_calls **c, struct suggest_fn **fns);
/* Notes it in s->why. */
enum kp_err suggest_node_no_memory(struct suggest_node *s);
void suggest_node_free(struct suggest_node *s);
/* Counts the calls of all functions; then s->called is known. */
enum kp_err suggest_node_count(struct suggest_node *s);
/* -1: unknown */
double suggest_node_rate(const struct suggest_node *s, const struct kp_call_fn *f);
/*
 * Traces all processes, or (entry is not NULL) requests; rate: the entry's calls a
 * second, or -1; before: a trace that was made earlier, or NULL.  *names and *c are the
 * caller's after KP_OK, and so are *fns.
 */
enum kp_err suggest_node_trace(struct suggest_node *s,
    const struct kp_mfa_pat *entry, double rate,
    const struct suggest_calls *before,
    struct kp_call_names **names, struct suggest_calls **c,
    struct suggest_fn **fns);
/*
 * Traces requests again, with the functions alone by which other modules call into one,
 * but not those of helpers in t.  names, before and fns are of the trace that t is of.
 * Functions keep their numbers in *out_names.  As suggest_node_trace().
 */
enum kp_err suggest_node_measure(struct suggest_node *s,
    const struct kp_mfa_pat *entry, const struct suggest_tiers *t,
    const struct kp_call_names *names, const struct suggest_calls *before,
    const struct suggest_fn *fns, struct kp_call_names **out_names,
    struct suggest_calls **c, struct suggest_fn **out);
/*
 * kprofd -check traced with these tiers, for so long; events: a second, as it says.
 */
void suggest_node_checked(struct suggest_node *s,
    const struct suggest_tiers *t, const struct kp_call_names *names,
    double events, kp_dur_ns span);
/* What all steps took in the node. */
struct suggest_cost suggest_node_cost(const struct suggest_node *s);

#endif
