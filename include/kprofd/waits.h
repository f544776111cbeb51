/*
 * waits.h - servers that answer requests later than they take their messages, such
 * as a pool whose workers are all taken: the answer to a waiting client carries the
 * token of the message that the server took last.  Pure.
 */
#ifndef KPROFD_WAITS_H
#define KPROFD_WAITS_H

#include "kprofd/config.h"
#include "kprofd/term.h"

#define KP_WAITS_MAX 8u		/* kprof_waits.erl finds no more */
#define KP_SERVER_NAME_MAX 400u	/* bytes; longer ones are cut */
#define KP_WAITS_FN_MAX 256u	/* of an atom of 255 characters, mostly all */

struct kp_waits {
	char server[KP_SERVER_NAME_MAX];
	uint64_t waiting;	/* processes, at once */
	/* The function in which most of them wait; mod "": not known. */
	char mod[KP_WAITS_FN_MAX], fun[KP_WAITS_FN_MAX];
	uint32_t arity;
};

/*
 * A process, {Registered | [], {M, F, A} | []}, as people know it: "shop_pool
 * (poolboy:init/1)"; "" if neither is known.
 */
enum kp_err kp_server_read(struct kp_term *r, char name[KP_SERVER_NAME_MAX]);
/*
 * A list as of kprof_waits:waits/1.  Keeps at most max of them, without those that
 * have no name.
 */
enum kp_err kp_waits_read(struct kp_term *r, struct kp_waits *v, size_t max,
    size_t *n);
/* Is the function in which they wait in a tier, with whatever arity? */
bool kp_waits_has_tier(const struct kp_waits *w, const struct kp_conf *c);
/*
 * Appends a sentence about it, and which tiers show how long requests wait, unless
 * c has them.  all: every request is sampled.
 */
void kp_waits_put(const struct kp_waits *w, const struct kp_conf *c, bool all,
    struct kp_buf *b);

/* ---- pools that are known by their functions ---- */

struct kp_pool_fn {
	const char *mod, *fun;
	bool gives;	/* its call is only there to get a worker */
};

/*
 * Does it wait for a worker of a pool, in the caller's process?  NULL: not as far as
 * that is known.
 */
const struct kp_pool_fn *kp_pool_fn(const char *mod, const char *fun);

#endif
