/*
 * tail.h - chooses the requests of a window that are kept as trees because they
 * are the slowest of their identity, however fast that is.  Pure: a tree is any
 * block of memory from malloc().
 */
#ifndef KPROFD_TAIL_H
#define KPROFD_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"

#define KP_TAIL_MAX 64		/* trees of one window: the slowest ones */
#define KP_TAIL_CALLS_MAX 20000	/* in all of them: some 3 MB */

struct kp_tail_slot {
	uint32_t identity, ncalls;
	kp_dur_ns total;
	void *tree;		/* NULL: the owner keeps it elsewhere */
};

/* Zero but for per_identity to begin with; slots are private. */
struct kp_tail {
	uint32_t per_identity;	/* 0: none are kept */
	uint32_t n, ncalls;
	struct kp_tail_slot v[KP_TAIL_MAX];
};

/* Is it worth making a tree of? */
bool kp_tail_wants(const struct kp_tail *t, uint32_t identity, kp_dur_ns total,
    uint32_t ncalls);
/*
 * Takes the tree of one that is wanted, and frees one that it takes the place
 * of.  NULL: it is kept elsewhere, and takes its place here all the same.
 */
void kp_tail_put(struct kp_tail *t, uint32_t identity, kp_dur_ns total,
    uint32_t ncalls, void *tree);
/* The window closes: hands every tree over, with its ownership. */
void kp_tail_take(struct kp_tail *t, void (*fn)(void *ctx, void *tree),
    void *ctx);
/* Frees what is held. */
void kp_tail_free(struct kp_tail *t);

#endif
