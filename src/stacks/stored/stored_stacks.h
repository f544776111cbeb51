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

#include "kprofd/buf.h"
#include "store/query.h"

/* The requests of one type in the windows that have samples. */
struct stacks_requests {
	const char *identity;	/* borrowed */
	uint64_t requests;	/* estimated where not every one was measured */
};

struct stacks {
	kp_wall_ns start, end;		/* of its windows; 0: none */
	uint64_t windows;
	uint64_t sampled;		/* requests whose calls were traced */
	struct kp_losses losses;
	struct kp_query_stacks stacks;	/* the rows, and what is left out */
	struct stacks_requests *requests;	/* of all types: [0], "_total" */
	size_t nrequests;
	unsigned depth;			/* frames of the deepest stack */
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

/* How people read a function, and a tier: "(not seen)" for "". */
const char *stacks_fn_name(const char *fn);
const char *stacks_tier_name(const char *tier);

/*
 * One object, as a line: {"from", "to" (times; null: no windows), "samples",
 * "not_seen", "dropped", "depth", "left_out": {"stacks", "samples", "ms"}, "why"
 * (null, or why there are none), "stacks": [{"node", "identity", "path": [..],
 * "state", "frames": [..], "samples", "ms"}]}, the longest first.  dropped: samples
 * whose stack was not kept, and which have the one frame "_other".
 */
void stacks_json(struct kp_buf *b, const struct stacks *s);

struct stacks_opts {
	size_t rows;		/* functions of a tier, and types; 0: all */
	const char *tier;	/* only what is in this tier; NULL: all */
	unsigned width;		/* columns of the terminal; 0: no limit */
};

/* Tables for people, of all requests and of each type: KP_ENOMEM. */
enum kp_err stacks_table(struct kp_buf *b, const struct stacks *s,
    const struct stacks_opts *o);
/* For flame graphs: a line "type;tier;function;function us" for each stack. */
enum kp_err stacks_folded(struct kp_buf *b, const struct stacks *s);
/* For speedscope: a profile for each request type, the longest stacks first. */
enum kp_err stacks_speedscope(struct kp_buf *b, const struct stacks *s);

#endif
