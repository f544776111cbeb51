/*
 * config.h - parses and checks tiers.conf.  Pure.
 *
 * The file's format is described in tiers.conf(5).
 */
#ifndef KPROFD_CONFIG_H
#define KPROFD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/err.h"

#define KP_CONF_SIZE_MAX (1u << 20)	/* bytes of a tiers.conf */
#define KP_TIER_MAX 63			/* tiers: a request's are a 64-bit set */
#define KP_TIER_FNS_MAX 4096		/* function patterns in all */
#define KP_ENTRY_MAX 64
#define KP_IDENT_BYTES_MAX 256		/* bytes of a request type's part */
#define KP_IDENT_LIST_MAX 48		/* elements of a string in a type */
#define KP_TRACE_BYTES_MAX 64		/* of a traceparent: 55 and some of a later version */
#define KP_LABELS_MAX 250		/* of calls; those of two tiers count twice */
#define KP_PARTS_MAX (KP_LABELS_MAX + KP_TIER_MAX)	/* with each tier's _other */
#define KP_PART_SEP ": "		/* between a tier's name and a label */
/* A call's event has {KP_LABEL_TAG, Label} in the place of an identity. */
#define KP_LABEL_TAG "_label"
/* ... and {KP_TRACE_TAG, Traceparent, Identity}, if {trace_id, _} names that. */
#define KP_TRACE_TAG "_trace"
#define KP_SLO_MAX 20			/* objectives */
#define KP_DIAG_MAX 50			/* errors kept for one file */
/*
 * The default limit of the cost of profiling.  It allows all of some 500 requests a
 * second of ten calls (cost.h), or slices of more.
 */
#define KP_BUDGET 1			/* percent of one scheduler */
/* A function that costs twice as much is probably a mistake in tiers.conf. */
#define KP_HOT_SHARE 10			/* percent of one scheduler */

/* The default limit of what sampling stacks costs; a part of the budget. */
#define KP_STACKS_SHARE 0.5		/* percent of one scheduler */

struct kp_pos {
	uint32_t line, col;	/* from 1; col counts characters */
};

/* An error in a file, or a warning. */
struct kp_diag {
	struct kp_pos pos;
	bool warning;
	char *text;	/* "found 'x', expected a tier name", without pos */
};

struct kp_diags {
	struct kp_diag *v;
	size_t n;
	size_t errors;	/* including those past KP_DIAG_MAX */
};

/* A function that a tier, entry or finish names. */
struct kp_mfa_pat {
	char *mod;
	char *fun;	/* NULL: every exported function of mod */
	int arity;	/* -1: every arity */
	bool optional;	/* a target need not have it */
	struct kp_pos pos;
};

#define KP_TIER_EXACT 0x1u	/* exception_trace: copies values */
#define KP_TIER_FORCE 0x2u	/* ... even where plan.h would refuse it */
#define KP_TIER_OPTIONAL 0x4u	/* so are its functions */

struct kp_tier {
	char *name;
	unsigned opts;
	struct kp_mfa_pat *fns;
	size_t nfns;
	struct kp_pos pos;
};

struct kp_entry {
	struct kp_mfa_pat fn;
	char **nodes;	/* globs such as web@*; none: every node */
	size_t nnodes;
};

enum kp_sampling_kind {
	KP_SAMPLE_ALL,
	KP_SAMPLE_ONE_IN,
	KP_SAMPLE_PER_SECOND,
	KP_SAMPLE_SLICES	/* all of slices of time: one in n, or fewer */
};

#define KP_SLICES_MAX 1000

struct kp_sampling {
	enum kp_sampling_kind kind;
	uint32_t n;
};

/*
 * May a request that is not measured run beside one that is, and take its place in a
 * pool?  Not while slices of time are measured whole, but at their edges.
 */
static inline bool
kp_sampling_mixes(const struct kp_sampling *s)
{
	return s->kind != KP_SAMPLE_SLICES;
}

struct kp_rewrite {
	char *pattern;	/* POSIX extended regular expression, whole match */
	char *to;
};

struct kp_overload {
	kp_dur_ns max_age;	/* default 1 s */
	uint32_t max_queue;	/* default 20000 messages */
	uint64_t max_memory;	/* default 64 MiB, in bytes */
	kp_dur_ns pause;	/* default 10 s */
	/* The limits of kprofd itself: */
	kp_dur_ns max_lag;	/* default 2 s */
	uint64_t max_kprofd;	/* default 512 MiB, in bytes */
	uint32_t max_backlog;	/* default 75 percent of the store's queue */
};

/* So many of all are to take no longer than the limit, and not to fail. */
struct kp_objective {
	char *name;		/* of a tier, or a request type; _total: all requests */
	bool tier;
	bool computed;		/* a type that no clause returns as it stands */
	kp_dur_ns limit;	/* of one call, or request */
	double percent;		/* above 0, below 100 */
	char *text;		/* "GET /orders within 200 ms"; no two are equal */
	struct kp_pos pos;
};

struct kp_funs;	/* the parsed funs; private to src/config */

struct kp_conf {
	struct kp_tier *tiers;
	size_t ntiers;
	struct kp_entry *entries;	/* none: the first tier's functions */
	size_t nentries;
	struct kp_mfa_pat *finishes;
	size_t nfinishes;
	struct kp_funs *funs;	/* identity, label, trace_id; NULL: none */
	struct kp_sampling sampling;	/* default: per second, 1000 */
	kp_dur_ns slow;			/* default 250 ms */
	bool slow_always;		/* those between slices too, without tiers */
	uint32_t keep_slowest;		/* per type and window; default 1 */
	uint32_t keep_sampled;		/* by the caller, per window; default 0 */
	/* Percent of one scheduler; 0: no limit. */
	double budget;		/* of profiling; default KP_BUDGET */
	double hot_share;	/* of one function's calls; default KP_HOT_SHARE */
	bool gc, scheduling;		/* measure a call's time in them */
	bool gc_forced;			/* see kp_conf_gc() */
	bool messages;			/* measure how long they wait */
	struct {
		uint32_t per_second;	/* aim; 0 (default): none are sampled */
		double percent;		/* limit; default KP_STACKS_SHARE */
	} stacks;			/* of processes that work for requests */
	/* Entries replace an application's own tokens. */
	bool replace_foreign;
	struct kp_overload overload;
	struct kp_rewrite *rewrites;
	size_t nrewrites;
	struct kp_objective *slo;
	size_t nslo;
};

/*
 * Parses n bytes.  On KP_OK the caller owns *out (kp_conf_free), and diags may
 * hold warnings; on KP_EFORMAT *out does not change, and diags holds as many
 * errors as one pass finds, ordered by place.  Initialises diags; the caller
 * frees it in both cases.
 */
enum kp_err kp_conf_parse(struct kp_conf **out, const char *src, size_t n,
    struct kp_diags *diags);
void kp_conf_free(struct kp_conf *c);
/* Returns the number of function patterns in all tiers. */
size_t kp_conf_functions(const struct kp_conf *c);
/*
 * Returns whether to measure garbage collection.  shared: on this VM two
 * tracers may have the flag for it on one process.  Other VMs crash when that
 * process collects garbage (erlang/otp#11624), and another tracer may come at
 * any time, so they need {gc, force}.  The agent's hello says which kind the VM
 * is (kprof_vm_bugs.erl).
 */
bool kp_conf_gc(const struct kp_conf *c, bool shared);
void kp_diags_free(struct kp_diags *d);
/* Counts a message; keeps its text if there is room and memory. */
void kp_diags_add(struct kp_diags *d, struct kp_pos pos, bool warning,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/*
 * Makes a copy with `before` in front of each text; the caller frees both.
 * False: out of memory, and *out has only the first of them.
 */
bool kp_diags_copy(struct kp_diags *out, const struct kp_diags *d,
    const char *before);
/* Returns how many of the kept ones are warnings. */
size_t kp_diags_warnings(const struct kp_diags *d);
/* Turns errors into warnings: other targets may have what one lacks. */
void kp_diags_excuse(struct kp_diags *d);

/* A concrete function. */
struct kp_mfa {
	const char *mod, *fun;
	uint32_t arity;
};

/*
 * Functions of the library for applications (erlang/kprof).  They do nothing;
 * kprofd traces calls of them.
 */
#define KP_MARK_MODULE "kprof"
#define KP_MARK_NAME_MAX 16	/* bytes of any of its functions' names */

enum kp_mark {
	KP_MARK_NONE,
	KP_MARK_RUN,	/* starts a request, which ends with its return */
	KP_MARK_SET,	/* starts a request that goes on after its return */
	KP_MARK_CLEAR,	/* ends a request of KP_MARK_SET */
	KP_MARK_TRACE	/* has a traceparent for the request that it is called in */
};

enum kp_mark kp_mark(const struct kp_mfa *f);

/* Parses "mod:fun/2", "Mod.Sub.fun/2", "mod:fun/_" ... (as in tiers.conf). */
enum kp_err kp_mfa_pat_parse(struct kp_mfa_pat *out, const char *s, size_t n);
void kp_mfa_pat_free(struct kp_mfa_pat *p);
/* Returns whether the pattern covers the function, exported or not. */
bool kp_mfa_pat_covers(const struct kp_mfa_pat *p, const struct kp_mfa *f);

/*
 * Each kp_spec_ function of a function writes one match spec for
 * erlang:trace_pattern/3, as an external term without version byte.  trace.h
 * describes the messages they make, src/config/spec.c their design.
 */
enum kp_shape { KP_SHAPE_NONE, KP_SHAPE_TYPES, KP_SHAPE_VALUES };

struct kp_spec_params {
	uint32_t one_in;	/* sampling: 1 = every request */
	bool sliced;		/* every request, each of which stands for one_in */
	bool watch;		/* entries between slices: how long they take, no token */
	uint64_t label_const;	/* bits 42..51 of the label, in place (label.h) */
	bool exact;		/* add {exception_trace} */
	bool gc_shared;		/* of the target: see kp_conf_gc() */
	/*
	 * Tiers: a call without a token, or with one that is too old, gets one with
	 * KP_LABEL_UNOWNED and makes an event.
	 */
	bool gives_tokens;
	bool trace;		/* for kprof trace: it has its own labels, and
				   matches calls with them itself */
	/*
	 * For a check.  In place of the identity comes the number N of the clause
	 * that matched, from 1, or 0 for none.
	 */
	bool clauses;
	/*
	 * With clauses: what the arguments are comes too, {N, Shape}, of calls
	 * that the last clause takes, if it takes all that are left, or that no
	 * clause does.
	 */
	enum kp_shape shape;
};

enum kp_err kp_spec_tier(const struct kp_conf *c, const struct kp_mfa *f,
    const struct kp_spec_params *p, struct kp_buf *out);
enum kp_err kp_spec_entry(const struct kp_conf *c, const struct kp_mfa *f,
    const struct kp_spec_params *p, struct kp_buf *out);
/* Writes the list of trace flags that entries set and clear on processes. */
void kp_spec_flags(const struct kp_conf *c, bool gc_shared, struct kp_buf *out);
/* For KP_MARK_CLEAR: removes the token, and sends an event if there was one. */
enum kp_err kp_spec_clear(const struct kp_conf *c, struct kp_buf *out);

/*
 * Calls f with each literal result of the identity fun, as a term without
 * version byte.  False: there are others, with variables.
 */
bool kp_spec_identities(const struct kp_conf *c,
    void (*f)(void *ctx, const uint8_t *term, size_t n), void *ctx);
/*
 * Writes a call of that shape, a term without version byte:
 *   shop_handler:init(#{method := binary, ... 5 keys}, [])
 * with values in the place of types where the shape has them.  Values are cut;
 * control characters are replaced.  KP_EFORMAT: it is not a shape.
 */
enum kp_err kp_shape_text(const struct kp_conf *c, const struct kp_mfa *f,
    const uint8_t *term, size_t n, struct kp_buf *out);

/* A clause of the identity fun or, after those, of the label fun. */
struct kp_clause {
	struct kp_pos pos;	/* in tiers.conf */
	uint32_t line;		/* the same, alone */
	bool label;		/* it is of the label fun */
	bool any;		/* the pattern is a variable: it matches all */
	bool names;		/* the result is not undefined */
	bool fixed;		/* the result is a literal */
};

/* Has the file an identity fun? */
bool kp_conf_has_identity(const struct kp_conf *c);
/* Gets clause i, from 0.  False: there are fewer. */
bool kp_clause(const struct kp_conf *c, uint32_t i, struct kp_clause *out);
/* Writes a fixed result, as a term without version byte; else KP_ENOENT. */
enum kp_err kp_clause_answer(const struct kp_conf *c, uint32_t i,
    struct kp_buf *out);
/* Returns whether it may match calls of fns, by module and function name. */
bool kp_clause_meets(const struct kp_conf *c, uint32_t i,
    const struct kp_mfa_pat *fns);
/* Returns whether it may match calls of this function. */
bool kp_clause_takes(const struct kp_conf *c, uint32_t i,
    const struct kp_mfa *f);
/* Returns whether a call of this function may name a request type. */
bool kp_spec_names(const struct kp_conf *c, const struct kp_mfa *f);
/* Returns whether it may have a traceparent, by {trace_id, _}. */
bool kp_spec_traces(const struct kp_conf *c, const struct kp_mfa *f);

#endif
