/*
 * tail.h - chooses the requests of a window whose traces (trees) are kept
 * because they are the slowest of their type, even if they are fast.  Pure: a
 * tree is any block of memory from malloc().
 */
#ifndef KPROFD_TAIL_H
#define KPROFD_TAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"

#define KP_TAIL_MAX 64		/* trees of one window: the slowest ones */
#define KP_TAIL_CALLS_MAX 20000	/* in all of them: about 3 MB */

struct kp_tail_slot {
	uint32_t identity, ncalls;
	kp_dur_ns total;
	void *tree;		/* NULL: the owner keeps it elsewhere */
};

/* Zero at first, except per_identity; slots are private. */
struct kp_tail {
	uint32_t per_identity;	/* 0: keep none */
	uint32_t n, ncalls;
	struct kp_tail_slot v[KP_TAIL_MAX];
};

/* Returns whether kp_tail_put() would keep its tree. */
bool kp_tail_wants(const struct kp_tail *t, uint32_t identity, kp_dur_ns total,
    uint32_t ncalls);
/*
 * Takes ownership of a request's tree, and frees the tree that it replaces.
 * NULL: it takes a slot although its tree is kept elsewhere.
 */
void kp_tail_put(struct kp_tail *t, uint32_t identity, kp_dur_ns total,
    uint32_t ncalls, void *tree);
/* Call it when the window closes: hands over every tree and its ownership. */
void kp_tail_take(struct kp_tail *t, void (*fn)(void *ctx, void *tree),
    void *ctx);
/* Frees all trees. */
void kp_tail_free(struct kp_tail *t);

#endif
