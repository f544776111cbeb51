/*
 * suggest.h - the state of one kprof suggest, and what its files share: suggest.c has
 * the course, suggest_entry.c a proposal with one entry, suggest_node.c what the node
 * is asked.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_SUGGEST_H
#define KPROFD_CLIENT_FUNCTIONS_SUGGEST_H

#include "base/map.h"
#include "client/functions/fn_command.h"
#include "suggest/pools.h"
#include "suggest/propose.h"

#define SUGGEST_REQUESTS 500u		/* that are traced */
#define SUGGEST_ALL_EVENTS 20000u	/* of a trace of all processes */
#define SUGGEST_ALL_SPAN KP_NS_PER_S	/* and that takes no longer */
#define SUGGEST_HOT_RATE 20000.0	/* calls a second, from which a trace is without it */

/* A trace, or the samples, as a call tree.  All are owned. */
struct suggest_calls {
	struct kp_call_names *names;
	struct suggest_tree *tree;
	struct suggest_fn *fns;		/* by number, of names */
};

void suggest_calls_free(struct suggest_calls *c);

/* ---- suggest_facts.c: what runs there ---- */

struct facts_app {
	char *name;
	bool platform;		/* OTP's or Elixir's */
	bool needed;		/* by another application, not of the platform */
	bool loaded;		/* a module of it is */
	bool chosen;		/* a module of it was seen at work: the caller's */
};

struct facts_module {
	char *name;
	size_t app;		/* its application, as a number; 0: of none */
	bool platform;		/* of OTP, of Elixir, or kprof's */
	bool chosen;		/* to be counted: the caller's */
	bool asked;		/* the rest is known: */
	bool unnamed;		/* no file: made at run time, under any name */
	bool runs_servers;	/* a behaviour of servers */
	uint32_t functions;	/* all of them */
	struct kp_buf exports, callbacks;	/* of a server; as they came */
};

struct facts {
	struct facts_app *apps;		/* the first is "", of modules of none */
	size_t napps;
	struct facts_module *v;		/* in the order of applications and names */
	size_t n;
	uint64_t questions;		/* so far, in each of which is one module */
	/* Private. */
	struct dist_sync_opts opts;
	struct dist_sync *talk;		/* while it asks */
	struct intern by_name;
};

/*
 * Connects for a moment, and lists applications and loaded modules in f, which is zeroed,
 * if the node has room for profiles that take `memory` bytes (injected_room()).  o's
 * texts are borrowed.  On error `why` is one line for the user; KP_END: woken.
 */
enum kp_err facts_open(struct facts *f, const struct dist_sync_opts *o,
    uint64_t memory, char *why, size_t n);
void facts_free(struct facts *f);
/* NULL: it is not loaded. */
struct facts_module *facts_find(const struct facts *f, const char *name);
/* True for OTP's own clients and databases, whose calls are boundaries. */
bool facts_is_client(const char *mod);
/* Is the application OTP's or Elixir's? */
bool facts_is_platform(const struct facts *f, const char *app);
/* Applications that are not of the platform and have loaded modules. */
size_t facts_apps(const struct facts *f, const char **v, size_t max);
/*
 * Asks about these modules in turn, each once, until they have more than `most`
 * functions.  *taken: how many of them are before that.  Errors as facts_open().
 */
enum kp_err facts_ask(struct facts *f, struct facts_module *const *v, size_t n,
    uint64_t most, size_t *taken, char *why, size_t len);
/*
 * Describes each function of t, from the first on; asks the node about modules that
 * it has not asked about yet.  The caller frees *fns.  Errors as facts_open().
 */
enum kp_err facts_describe(struct facts *f, const struct kp_call_names *t,
    struct suggest_fn **fns, char *why, size_t n);

/* ---- suggest_node.c: it samples, counts and traces ---- */

/* A framework that is loaded there, and its example, parsed. */
struct suggest_stock {
	const struct suggest_framework *of;
	struct kp_conf *conf;
};

/* Each step is bounded, and takes back what it has set.  KP_END: a signal came. */
struct suggest_node {
	struct dist_sync_opts talk;
	struct suggest_stock stocks[SUGGEST_STOCKS_MAX];
	size_t nstocks;
	kp_dur_ns span;			/* of sampling; and of other steps: */
	kp_dur_ns short_span;
	struct facts facts;
	char library[4096 + 64];
	/* Samples. */
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
	size_t nhot, nleft;		/* functions that were not traced: too hot; others */
	/* Calls that were counted: names and a rate each. */
	struct kp_call_names *names;
	double *rates;
	struct suggest_fn *facts_of;	/* by number, of names */
	uint32_t nrates;
	uint32_t *counted;		/* functions, in the order of names */
	size_t ncounted;
	uint64_t functions;		/* that were counted */
	uint64_t events;		/* of all traces */
	double called_rate;		/* a second, of those that are traced */
	bool flooded;			/* the last trace ended, since too much waited there */
	uint64_t processes;		/* that were there when it was sampled */
	struct suggest_cost cost;	/* so far, without questions */
	int otp;
	char why[INJECTED_TEXT_MAX + 512];	/* what failed */
};

/* Asks what runs there. */
enum kp_err suggest_node_open(struct suggest_node *s);
void suggest_node_free(struct suggest_node *s);
/* Samples stacks, and chooses the modules that are on them or near. */
enum kp_err suggest_node_sample(struct suggest_node *s);
/* Counts the calls of all functions; then s->called is known. */
enum kp_err suggest_node_count(struct suggest_node *s);
/* Whose requests are calls of this function; NULL: of none. */
const struct suggest_stock *suggest_stock_of(const struct suggest_node *s,
    const struct kp_call_fn *f);
/* -1: unknown */
double suggest_node_rate(const struct suggest_node *s, const struct kp_call_fn *f);
/*
 * The call tree of the samples; or again, in the same `out`, without functions that were
 * marked as loops in its fns.  As suggest_node_trace(), which is not used.
 */
enum kp_err suggest_node_tree(struct suggest_node *s, struct suggest_calls *out);
/*
 * Traces all processes, or (entry is not NULL) requests; rate: the entry's calls a
 * second, or -1; before: a trace that was made earlier, or NULL.  *out is the caller's
 * after KP_OK, and else empty.
 */
enum kp_err suggest_node_trace(struct suggest_node *s,
    const struct kp_mfa_pat *entry, double rate,
    const struct suggest_tree *before, struct suggest_calls *out);
/*
 * Traces requests again, with the functions alone by which other modules call into one,
 * but not those of helpers in t, which is of the trace `from`.  Functions keep their
 * numbers.  As suggest_node_trace().
 */
enum kp_err suggest_node_measure(struct suggest_node *s,
    const struct kp_mfa_pat *entry, const struct suggest_tiers *t,
    const struct suggest_calls *from, struct suggest_calls *out);
/* Notes it in s->why. */
enum kp_err suggest_node_no_memory(struct suggest_node *s);

/* ---- the course ---- */

struct suggest_args {
	const char *target, *file, *duration, *library;
	struct reach reach;
	bool values, quiet, send;
	kp_dur_ns span;
};

/* Facts about the node, and the text that follows from them. */
struct suggest_run {
	const struct suggest_args *a;
	struct suggest_node node;
	struct suggest_calls all;	/* of all processes */
	bool traced;		/* all processes were, since samples show none */
	struct suggest_entry entries[SUGGEST_ENTRIES_MAX];
	size_t nentries, chosen;
	bool looped;		/* an entry of the tree was a loop: */
	uint32_t loop;		/* the last; 0: none */
	bool asked;		/* for the chosen entry, by a key */
	const struct suggest_stock *stock;	/* whose example is proposed, or NULL */
	struct suggest_calls requests;	/* of the chosen entry */
	struct suggest_tiers tiers;
	struct kp_buf text;	/* the file; and parts of it: */
	struct kp_buf about, identity, identity_why, verdict;
	/* The last check's output, JSON lines and exit status. */
	struct kp_buf check_out, check_log;
	int check_status;
	kp_mono_ns begun;
	char not_good[4096];	/* why the last entry was not */
	size_t guess;		/* the first of which only little was known, or: */
#define SUGGEST_NO_GUESS SUGGEST_ENTRIES_MAX
	char doubt[4096];	/* ... and why */
	bool guessed;		/* the proposal is for that one */
	bool paths;		/* its request types are method and path */
};

/* To standard error, unless -quiet. */
void __attribute__((format(printf, 2, 3)))
suggest_progress(const struct suggest_run *r, const char *fmt, ...);
/* text has FN_NAME_MAX bytes, and is returned. */
const char *suggest_entry_name(const struct suggest_run *r, size_t i, char *text);
/* Writes r->about: what runs there, and how the chosen entry was found. */
void suggest_about(struct suggest_run *r);
/* Says what failed; EXIT_FAILED. */
int suggest_failed(const struct suggest_run *r, enum kp_err e);
/*
 * Proposes with entry r->chosen.  OPTS_GO_ON; EXIT_DONE: it is not one, r->not_good says
 * why; or what to exit with, after saying why.  In suggest_entry.c.
 */
int suggest_entry_try(struct suggest_run *r);

#endif
