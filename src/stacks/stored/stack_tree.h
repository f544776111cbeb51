/*
 * stack_tree.h - adds up the stacks of one request type, or of all, as a tree: its
 * tiers as they called each other, the functions of each, and their stacks.
 * Private to src/stacks/stored.
 */
#ifndef KPROFD_STACKS_STORED_STACK_TREE_H
#define KPROFD_STACKS_STORED_STACK_TREE_H

#include "base/intern.h"
#include "stacks.h"

/* Samples of anything, added up. */
struct stack_figures {
	uint64_t samples;
	kp_dur_ns time;		/* w_time */
	kp_dur_ns of[KP_STACK_STATES];
};

enum stack_kind { STACK_TIER, STACK_FN, STACK_FRAMES };

struct stack_node {
	enum stack_kind kind;
	const char *name;	/* borrowed, n bytes: a tier, a frame's function,
				   or all frames */
	size_t n;
	uint32_t depth;
	uint32_t parent, child, next;	/* indices; STACK_NO_NODE */
	struct stack_figures all;	/* with the nodes below */
};

#define STACK_NO_NODE UINT32_MAX

/* The root, node 0, is the request type itself. */
struct stack_tree {
	struct stack_node *v;
	uint32_t n;
	struct intern keys;
};

/*
 * Children are in descending order of time.  identity NULL: of all types; tier
 * NULL: of all.  KP_ENOMEM leaves it empty.
 */
enum kp_err stack_tree_make(struct stack_tree *t, const struct stacks *s,
    const char *identity, const char *tier);
void stack_tree_free(struct stack_tree *t);

#endif
