/*
 * query.h - reads a kprofd database.
 *
 * It reads while a daemon writes, and after a crash; it never writes.  Texts in
 * the results are borrowed from the kp_query and valid until it is closed; the
 * caller owns everything else.  On error nothing is returned, and kp_query_why()
 * has the reason.
 *
 * Ranges are [since, until) in wall time.  A request or event belongs to the range
 * that it starts in.  Windows are whole: a range begins and ends with those that
 * it cuts, of any of its nodes, and is longer than asked for then; old windows
 * last up to an hour.
 */
#ifndef KPROFD_STORE_QUERY_H
#define KPROFD_STORE_QUERY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/stacks.h"
#include "kprofd/stats.h"
#include "kprofd/tenths.h"

struct kp_query;

/* On error *why is one line for the user, owned by the caller. */
enum kp_err kp_query_open(struct kp_query **out, const char *path,
    char **why);

struct kp_query_files {
	const char *const *v;
	size_t n;		/* 1 at least */
};

/*
 * Several files, read as one: of many machines, or of one whose file was
 * replaced.  Ids of requests and runs are valid for this list of files.
 * KP_ESTATE: two of them hold the same run.
 */
enum kp_err kp_query_open_all(struct kp_query **out,
    const struct kp_query_files *f, char **why);
void kp_query_close(struct kp_query *q);
/* Returns the text of the last error; "" if none. */
const char *kp_query_why(const struct kp_query *q);
/*
 * From now on queries, which this thread alone may ask, end with KP_ETIMEOUT within
 * some ms once a processor has worked for it this long, or this much time has passed, or
 * another thread has set *stop (may be NULL).  On a machine that is short of processors
 * little of the time that passes is work.
 */
void kp_query_limit(struct kp_query *q, kp_dur_ns work, kp_dur_ns all,
    const atomic_bool *stop);

/* Reads between these two see one snapshot of each file.  They nest. */
void kp_query_hold(struct kp_query *q);
void kp_query_release(struct kp_query *q);

/* The first of its files whose file system has no room left; NULL: all have. */
const char *kp_query_disk_full(const struct kp_query *q);

/*
 * A row of a list, by what it is sorted by: whatever is stored meanwhile, the rows after
 * it are still those.
 */
struct kp_query_row {
	bool is;
	int64_t key, id;	/* an event's time; of a slow request see kp_query_slow() */
};

/* Cells of a tier and a request type; NULL: of any. */
struct kp_query_key {
	const char *tier, *identity;
};

struct kp_query_range {
	kp_wall_ns since, until;
	const char *node;	/* globs such as web@*, blanks between them;
				   NULL: all */
	const char *identity;	/* exactly this one; NULL: all */
	const char *identity_glob; /* such as GET*; NULL: all */
	/*
	 * Of slow requests: those that ended so (enum kp_outcome), or in which
	 * a call raised; 0: all.
	 */
	uint8_t outcome;
	/*
	 * Of slow requests and stacks: those that took so long, by octaves (hist.h);
	 * took_to 0: all.  took_other: of stacks, those that took any other known time.
	 */
	uint8_t took_from, took_to;
	bool took_other;
	const char *trace;	/* of slow requests: 32 hexadecimal digits; NULL: all */
	bool exact;		/* only windows that start in the range */
	bool by_node;		/* of reports: rows are nodes, not request types */
	bool no_intervals;	/* of reports: only figures, which takes half as long */
	/*
	 * Of sums: these cells alone, which is faster, and not `identity`; no two have one
	 * in common.
	 */
	const struct kp_query_key *keys;
	size_t nkeys;		/* 0: all */
	struct kp_query_row after;	/* of lists, if after.is */
};

#define KP_QUERY_RAISED_INSIDE KP_OUTCOMES

/*
 * Names of the tiers, without _total and parts of tiers ("db: users"); those of the
 * last tiers.conf first.
 */
struct kp_query_tiers {
	const char **v;
	size_t n;
	size_t current;		/* number of these in the last tiers.conf */
};

enum kp_err kp_query_tiers(struct kp_query *q, struct kp_query_tiers *out);
/* KP_ENOENT: there is no tier of this name, nor a part of one. */
enum kp_err kp_query_tier(struct kp_query *q, const char *tier);
void kp_query_tiers_free(struct kp_query_tiers *t);

enum kp_name_of { KP_NAME_NODE, KP_NAME_TIER, KP_NAME_IDENTITY };
/* Is there one of this name?  If not, *near is the name that may be meant, or NULL. */
enum kp_err kp_query_name(struct kp_query *q, enum kp_name_of of, const char *name,
    bool *found, const char **near);

struct kp_query_nodes {
	const char **v;
	size_t n;
};

/* Gets the nodes with windows in the range, by name. */
enum kp_err kp_query_nodes(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_nodes *out);
void kp_query_nodes_free(struct kp_query_nodes *n);

/* The sums of the windows of a range. */
struct kp_query_sum {
	uint64_t windows;
	kp_wall_ns start, end;		/* of the first, of the last; 0: none */
	kp_dur_ns covered;		/* time in some window, of any node */
	kp_dur_ns counted;		/* what rates are per: see kp_series_step */
	uint64_t entry_calls, sampled;
	bool uncounted;			/* a window has requests, no calls */
	/* see struct kp_cost: means of the windows that have it; 0: none */
	kp_dur_ns traced_call, traced_caller;
	struct kp_losses losses;
	struct kp_cell *cells;		/* merged; _total first, then tiers in
					   order; within one _total first,
					   then by name */
	size_t ncells;
};

/*
 * The range's request types restrict the cells, not the windows and losses; beside those
 * of a glob there are the cells of _total.
 * For one node a cell's requests and busy are those of that node; for several
 * they are the sums of the shares, so that a request counts once (stats.h).
 */
enum kp_err kp_query_sum(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *out);
/* Does the same without the cells. */
enum kp_err kp_query_cover(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_sum *out);
void kp_query_sum_free(struct kp_query_sum *s);
/* Ten parts of a range, each of which has pieces of all of it (tenths.h). */
#define KP_TENTHS_CELLS_MAX 2000	/* pairs of a tier and a request type */
struct kp_tenths {
	double counted[KP_TENTHS];	/* ns, as in struct kp_query_sum */
	size_t n;		/* of these have a window; 0: not known */
	kp_dur_ns unit;		/* how long their pieces are */
};
/*
 * Takes what a piece adds to a cell of a tenth; c is valid during the call, and has names,
 * min, max and hist, and weighted: requests, calls and raised, async ones too, timed, total,
 * self and busy.  False: no memory.
 */
typedef bool kp_query_take(void *ctx, size_t tenth, const struct kp_cell *c);
/*
 * The same range and cells as kp_query_sum(), or fewer, piece by piece.  ncells: how many
 * the sum has, which the length of a piece depends on; where they are too many, those of
 * labels are left out.  Of too many without them n is 0, and what was taken says nothing.
 * out->unit: of other tenths, whose range has all nodes of this one, so that both have
 * the same pieces of time; 0: chosen here.  nodes: how many others are read with this
 * unit, which is longer then.
 */
enum kp_err kp_query_tenths(struct kp_query *q, const struct kp_query_range *r,
    size_t ncells, size_t nodes, struct kp_tenths *out, kp_query_take *take, void *ctx);
/* Returns NULL if there is none. */
const struct kp_cell *kp_query_cell(const struct kp_query_sum *s,
    const char *tier, const char *identity);

/* A slow request that was kept. */
struct kp_query_request {
	int64_t id;
	kp_wall_ns start;
	kp_dur_ns total;		/* -1: no end seen */
	const char *node, *identity;
	uint64_t label, parent_label;
	uint32_t weight;
	uint8_t outcome;		/* enum kp_outcome */
	uint32_t ncalls, nraised;	/* of these, those that raised */
	kp_dur_ns by;			/* time that chose it; -1: its total */
	const char *traceparent;	/* as of struct kp_request; NULL: none */
};

struct kp_query_call {
	const char *fn, *tier, *pid;	/* tier "": in none */
	kp_dur_ns start;		/* since the request's start */
	kp_dur_ns total, self;		/* -1: no duration */
	uint32_t parent;		/* index, or KP_NONE */
	uint32_t depth;
	uint8_t outcome;
	bool async;
	bool outlasts;			/* unfinished: it still ran then */
	const char *node;		/* "": the request's */
	struct kp_call_pauses pauses;	/* -1: not measured */
};

struct kp_query_requests {
	struct kp_query_request *v;
	size_t n;
};

enum kp_slow_by {
	KP_SLOW_TOTAL,
	KP_SLOW_SELF,	/* the entry call's self time */
	KP_SLOW_TIER	/* self time of all its calls of one tier */
};

/*
 * Gets the slowest first, at most limit, after the first `skip` of them; tier:
 * for KP_SLOW_TIER.  KP_ENOENT: there is no such tier.  The key of a row is `by`, or
 * without one `total`.
 */
enum kp_err kp_query_slow(struct kp_query *q, const struct kp_query_range *r,
    enum kp_slow_by by, const char *tier, size_t skip, size_t limit,
    struct kp_query_requests *out);
void kp_query_requests_free(struct kp_query_requests *s);

/* The waits of messages to its processes; longest first. */
struct kp_query_wait {
	const char *receiver, *pid;
	const char *node;		/* "": the request's */
	uint64_t messages, away;	/* away: sent on another node */
	kp_dur_ns wait, max;
};

struct kp_query_tree {
	struct kp_query_request request;
	kp_wall_ns run;			/* when its run of kprofd started; 0: unknown */
	struct kp_query_call *calls;	/* each after its parent */
	size_t ncalls;
	struct kp_query_wait *waits;
	size_t nwaits;
	/* the request that it began inside; id 0: it is not stored, or there is none */
	struct kp_query_request outer;
	/* kp_query_related(): those that began inside it, by start; stored ones alone */
	struct kp_query_request *inner;
	size_t ninner;
	/* those on its node at the same time, the longest together with it first */
	struct kp_query_request *peers;
	size_t npeers;
};

#define KP_QUERY_INNER_MAX 100
#define KP_QUERY_PEERS_MAX 20

/*
 * Gets the range of exactly those windows of the request's node that may have
 * counted it; an empty range if they were deleted.  Its node is borrowed from
 * rq.
 */
enum kp_err kp_query_around(struct kp_query *q,
    const struct kp_query_request *rq, struct kp_query_range *out);

/* KP_ENOENT: no such request. */
enum kp_err kp_query_tree(struct kp_query *q, int64_t id,
    struct kp_query_tree *out);
/* Adds inner and peers to the tree of this request. */
enum kp_err kp_query_related(struct kp_query *q, int64_t id,
    struct kp_query_tree *t);
void kp_query_tree_free(struct kp_query_tree *t);

struct kp_query_event {
	kp_wall_ns at;
	int64_t run, id;
	const char *node;		/* "" for the daemon itself */
	const char *kind, *text;
};

struct kp_query_events {
	struct kp_query_event *v;
	size_t n;
};

/* Gets the last of the range, at most limit, in order of time. */
enum kp_err kp_query_events(struct kp_query *q,
    const struct kp_query_range *r, size_t limit, struct kp_query_events *out);
void kp_query_events_free(struct kp_query_events *e);

enum kp_run_state { KP_RUN_RUNNING, KP_RUN_CLEAN, KP_RUN_UNCLEAN };

struct kp_query_run {
	int64_t id;
	kp_wall_ns started, ended;	/* ended 0: still runs, or unknown */
	kp_wall_ns reloaded;		/* last time, that of tiers_text; or 0 */
	enum kp_run_state state;	/* also RUNNING right after a crash */
	kp_dur_ns interval;
	const char *version, *tiers_text;
	const char *failed;		/* why it did not start; "": it did */
};

struct kp_query_runs {
	struct kp_query_run *v;
	size_t n;
};

/* Gets the latest first, at most limit. */
enum kp_err kp_query_runs(struct kp_query *q, size_t limit,
    struct kp_query_runs *out);
void kp_query_runs_free(struct kp_query_runs *r);

/*
 * Sums of the windows of a range for each step, for charts.  Steps begin at
 * multiples of their length since 1970; a window counts in the step that it
 * starts in.
 */
#define KP_SERIES_STEPS_MAX 2000

struct kp_series_step {
	uint64_t windows;
	kp_dur_ns covered;		/* time in some window, of any node */
	/*
	 * What rates are per: covered, less what the agents were away.  While a node's
	 * was, its requests are taken to have come as in the rest of its windows, so
	 * that it is the rates of the nodes that add up; -1: none was ever there.
	 */
	kp_dur_ns counted;
	uint64_t entry_calls, sampled;
	struct kp_losses losses;
	/* the cost of profiling; zero if it was not stored */
	uint64_t events;
	kp_dur_ns agent, cost;
	struct kp_cell *cells;		/* [0]: _total; [t + 1]: tiers.v[t],
					   or `part`; NULL: not requested */
};

struct kp_series {
	kp_wall_ns start;		/* of the first step */
	kp_dur_ns step;
	struct kp_query_tiers tiers;
	const char *part;		/* the wanted tier, if it is a part of one */
	struct kp_series_step *v;
	size_t n;
};

struct kp_series_want {
	kp_dur_ns step;		/* 0: for about 150 of them; never less than
				   the range's longest window */
	bool cells;
	const char *tier;	/* only cells of this one, or part of one; NULL: of
				   all tiers */
	bool others;		/* of all tiers besides */
};

/*
 * Sums cells of the range's one request type; NULL is _total.  A range without
 * ends is clipped to the windows.  The series borrows want->tier.  KP_ELIMIT: more
 * than KP_SERIES_STEPS_MAX steps.  KP_ENOENT: there is no such tier.
 */
enum kp_err kp_query_series(struct kp_query *q,
    const struct kp_query_range *r, const struct kp_series_want *want,
    struct kp_series *out);
void kp_series_free(struct kp_series *s);

/*
 * How long requests took, and how many raised, in each step of a range: what a change is
 * found by.
 */
#define KP_STEPS_SERIES_MAX 5000
struct kp_step {
	float sampled;		/* requests that were measured; the others weighted */
	float requests, raised, timed;
	float unseen;		/* requests that may have raised, too */
	float total;		/* ns of the timed ones, added up */
};
struct kp_steps_of {
	const char *node, *identity;
	struct kp_step *v;
};
struct kp_steps {
	kp_wall_ns start;
	kp_dur_ns step;
	size_t n;
	struct kp_steps_of *of;	/* of each node and request type, without _total */
	size_t nof;
	uint64_t left;		/* rows of series past KP_STEPS_SERIES_MAX */
};
/*
 * Gets some 150 steps, or so long ones at least; never shorter than the longest window.
 * KP_ELIMIT: more than KP_SERIES_STEPS_MAX.
 */
enum kp_err kp_query_steps(struct kp_query *q, const struct kp_query_range *r,
    kp_dur_ns least, struct kp_steps *out);
void kp_steps_free(struct kp_steps *s);

/* The waits of messages, by receiver, then by request type. */
struct kp_query_waits {
	struct kp_wait_cell *v;
	size_t n;
};

/* Gets none if messages were not timed.  receiver: of this one alone; NULL: of all. */
enum kp_err kp_query_waits(struct kp_query *q, const struct kp_query_range *r,
    const char *receiver, struct kp_query_waits *out);
void kp_query_waits_free(struct kp_query_waits *w);

/* Sampled stacks of one node, request type, path, state and stack. */
struct kp_query_stack {
	const char *node, *identity;
	const char *path, *frames;	/* as of struct kp_stack_cell */
	uint8_t state;			/* enum kp_stack_state */
	uint64_t samples;
	kp_dur_ns time;		/* of processes, estimated from samples */
	kp_dur_ns w_time;	/* the same of all requests, by their weight */
};

#define KP_QUERY_STACKS_MAX 100000	/* rows: about 50 MB of texts */

struct kp_query_stacks {
	struct kp_query_stack *v;	/* in descending order of w_time */
	size_t n;
	/* Of the range, also in rows that are left out. */
	uint64_t samples, not_seen;
	uint64_t untimed;	/* samples that are left out, as how long their requests
				   took is not known: where the range has took_to */
	uint64_t left, left_samples;	/* rows left out, at least */
	kp_dur_ns left_time;		/* their w_time */
	/*
	 * From the first to the last window with samples: their requests are
	 * those that the samples are of.  0 and 0: there are none.
	 */
	kp_wall_ns since, until;
};

/*
 * Gets at most `limit` rows, those with the longest w_time.  Rolled-up windows
 * hold the stacks with the longest times only, and the others as frames
 * "_other" of their path (stack_totals_limit()): sums over paths and states are
 * right, and times of single stacks may be too short.
 */
enum kp_err kp_query_stacks(struct kp_query *q,
    const struct kp_query_range *r, size_t limit,
    struct kp_query_stacks *out);
void kp_query_stacks_free(struct kp_query_stacks *s);

/* What processes and tables of nodes use (usage.h), as last seen in a range. */
struct kp_query_used {
	const char *node;
	struct kp_usage_row row;	/* without proc: */
	const char *process;	/* with the longest queue, "<0.90.0>"; "": none */
	bool estimated;
	/* of the same in the first window that has any; -1: none */
	int64_t memory_then, binaries_then;
	kp_wall_ns then, now;	/* the first window's start, the last one's end */
};

struct kp_query_usage {
	struct kp_query_used *v;	/* by node, then kind, most memory first */
	size_t n;
};

/* Gets none if stacks were not sampled. */
enum kp_err kp_query_usage(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_usage *out);
void kp_query_usage_free(struct kp_query_usage *u);

/*
 * Reads the slow requests of a file as they are written, each once.  This is a reader's
 * position; zero: the beginning of the latest run, whose requests alone are read.
 */
struct kp_request_tail {
	bool all;			/* those of all runs, from the file's beginning */
	int64_t run;			/* row id; 0: none yet */
	kp_wall_ns started;		/* of that run, since another file has
					   the same row ids */
	int64_t request;		/* the last one read; the caller sets
					   it */
};

/*
 * q has one file.  Gets ids of slow requests after f->request, at most max, in order; *newest is
 * the last one.  Ids missing between two were deleted before they were read, as
 * a run's ids have no gaps.
 */
enum kp_err kp_request_tail_next(struct kp_query *q, struct kp_request_tail *f,
    int64_t *ids, size_t max, size_t *n, int64_t *newest);

/* When the last window of the nodes (globs; NULL: all) began; 0: there is none. */
enum kp_err kp_query_newest(struct kp_query *q, const char *node, kp_wall_ns *start);
/* Gets the span of all windows; 0 and 0 if there is none. */
enum kp_err kp_query_span(struct kp_query *q, kp_wall_ns *first,
    kp_wall_ns *last);

#endif
