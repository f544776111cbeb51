/*
 * stored_stacks.h - where sampled processes were, by request type and tier: a report of
 * the stacks in a range of stored windows.
 *
 * All figures are estimates from samples.  Writing is pure: into a kp_buf, whose
 * error sticks.
 */
#ifndef KPROFD_STACKS_STORED_STORED_STACKS_H
#define KPROFD_STACKS_STORED_STORED_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "kprofd/buf.h"
#include "store/query.h"
#include "text/timefmt.h"

/* The requests of one type in the windows that have samples. */
struct stacks_requests {
	const char *identity;	/* borrowed */
	uint64_t requests;	/* estimated where not every one was measured */
};

struct stacks {
	kp_wall_ns start, end;		/* of its windows; 0: none */
	uint64_t windows;
	uint64_t sampled;		/* requests whose calls were traced */
	uint8_t took_from, took_to;	/* as of the range, */
	bool took_other;		/* likewise */
	struct kp_losses losses;
	struct kp_query_stacks stacks;	/* the rows, and what is left out */
	struct intern texts;		/* of frames that are called otherwise (fn_read) */
	struct stacks_requests *requests;	/* of all types: [0], "_total" */
	size_t nrequests;
	unsigned depth;			/* frames of the deepest stack */
	uint64_t cut;		/* samples of that depth, if the VM may have cut them */
	uint64_t other;		/* samples whose stack was not kept: "_other" */
	const char *why;	/* one line: why there are no stacks; NULL: there are */
};

/*
 * Reads the range, at most `cap` rows (KP_QUERY_STACKS_MAX, for one).  The caller
 * owns *out (stacks_free), which is not set on error; its texts are borrowed from
 * q and valid until that is closed.  On error kp_query_why() says what happened,
 * unless it is KP_ENOMEM.
 */
enum kp_err stacks_from_db(struct kp_query *q, const struct kp_query_range *r,
    size_t cap, struct stacks **out);
void stacks_free(struct stacks *s);
/*
 * Drops rows that are not wanted, and those with least time past `cap`.  What the query
 * left out stays left out: what it is of is not known.
 */
void stacks_keep(struct stacks *s, size_t cap,
    bool (*is_wanted)(const struct kp_query_stack *row, const void *ctx),
    const void *ctx);

/* What the stacks of a range are compared with: of the same, but ... */
enum stacks_what {
	STACKS_TIME,		/* of another time alone */
	STACKS_NODES,		/* of all nodes that are not chosen */
	STACKS_TYPES,		/* of all request types that are not chosen */
	STACKS_DURATIONS	/* of requests that took any other known time */
};

struct stacks_against {
	enum stacks_what what;
	struct timefmt_range time;	/* until 0: the same */
};

/* Reads the other side of what stacks_from_db() has read, likewise. */
enum kp_err stacks_against_from_db(struct kp_query *q,
    const struct kp_query_range *r, const struct stacks *now,
    const struct stacks_against *with, size_t cap, struct stacks **out);

/* The requests of a type, or of all ("_total"); 0: there are none. */
uint64_t stacks_requests_of(const struct stacks *s, const char *identity);
/* How people read a function, and a tier: "(not seen)" for "". */
const char *stacks_fn_name(const char *fn);
const char *stacks_tier_name(const char *tier);

/*
 * One object, as a line: {"from", "to" (times; null: no windows), "took": {"over_ms",
 * "to_ms", "other"} (null: requests of all durations), "samples",
 * "not_seen", "untimed", "dropped", "depth", "cut", "left_out": {"stacks", "samples",
 * "ms"}, "why"
 * (null, or why there are none), "requests": [{"identity", "requests"}], "stacks": [{"node", "identity", "path": [..],
 * "state", "frames": [..], "samples", "ms"}]}, the longest first.  dropped: samples
 * whose stack was not kept, and which have the one frame "_other".  "versus" is the
 * same of the other side, null without one.
 */
void stacks_json(struct kp_buf *b, const struct stacks *s,
    const struct stacks *versus);

struct stacks_opts {
	size_t rows;		/* functions of a tier, and types; 0: all */
	const char *tier;	/* only what is in this tier; NULL: all */
	unsigned width;		/* columns of the terminal; 0: no limit */
	bool waits;		/* of a comparison: has times of processes that waited */
};

/* Notes which durations the requests have, unless it is any. */
void stacks_put_took(struct kp_buf *b, const struct stacks *s, unsigned width);
/* Tables for people, of all requests and of each type: KP_ENOMEM. */
enum kp_err stacks_table(struct kp_buf *b, const struct stacks *s,
    const struct stacks_opts *o);
/*
 * The functions that differ, per request, and by how much: KP_ENOMEM.  rows: at most, of
 * those that differ by more than chance; 0: all.
 */
enum kp_err stacks_versus_table(struct kp_buf *b, const struct stacks *now,
    const struct stacks *then, enum stacks_what what, const struct stacks_opts *o);
enum stacks_form {
	STACKS_JSON,	/* stacks_json() */
	/* a line "type;tier;function;function us" for each stack */
	STACKS_FOLDED,
	/*
	 * needs versus: "... us-then us-now", then as if there had been as many
	 * requests of the type as now
	 */
	STACKS_DIFFFOLDED,
	STACKS_SPEEDSCOPE,	/* a profile for each request type, the longest stacks first */
	STACKS_PPROF
};
#define STACKS_FORMS "json,folded,difffolded,speedscope,pprof"

struct pprof_otlp;
/* As STACKS_PPROF, or for OpenTelemetry (pprof.h). */
enum kp_err stacks_pprof(struct kp_buf *b, const struct stacks *s,
    const struct pprof_otlp *otlp);
/* For programs.  versus may be NULL.  Errors: KP_ENOMEM, and those of b. */
enum kp_err stacks_put(struct kp_buf *b, const struct stacks *s,
    const struct stacks *versus, enum stacks_form form);

#endif
