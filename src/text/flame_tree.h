/*
 * flame_tree.h - a call tree, of where time went from the outermost function down,
 * and what writes it: rows for people, folded stacks, which flamegraph.pl and
 * speedscope read, speedscope's own JSON, and Chrome's trace events.  Pure: into a
 * kp_buf, whose error sticks.
 *
 * Source: speedscope's file-format-schema.json, profiles of type "evented"; "Trace
 * Event Format" of Chromium's catapult.
 */
#ifndef KPROFD_TEXT_FLAME_TREE_H
#define KPROFD_TEXT_FLAME_TREE_H

#include <stdbool.h>

#include "base/map.h"
#include "kprofd/buf.h"
#include "kprofd/clock.h"

#define SPEEDSCOPE_SCHEMA "https://www.speedscope.app/file-format-schema.json"

#define FLAME_NONE UINT32_MAX
/* What would be deeper is added to the node at this depth. */
#define FLAME_DEPTH_MAX 1024u

struct flame_node {
	uint32_t parent;	/* less than its own number; FLAME_NONE: a root */
	uint32_t label;		/* flame_labels */
	uint32_t depth;		/* of a root 0 */
	kp_dur_ns self, total;	/* total: with the nodes below, by flame_tree_sum() */
	uint32_t child, next;	/* to be had from flame_tree_first() */
};

/* All zero is empty. */
struct flame_tree {
	struct flame_node *v;
	uint32_t n;
	size_t room;
	struct map known;	/* (parent, label) -> node */
	uint32_t root, *order;	/* private: the first root, and room to sort in */
	kp_dur_ns total;	/* of all roots, by flame_tree_sum() */
};

void flame_tree_free(struct flame_tree *t);
/* Both return the node's number; FLAME_NONE: out of memory. */
uint32_t flame_tree_add(struct flame_tree *t, uint32_t parent, uint32_t label);
/* The one that flame_tree_child() returned before, if any. */
uint32_t flame_tree_child(struct flame_tree *t, uint32_t parent, uint32_t label);
/* Adds up totals and links the children, once all nodes are there: KP_ENOMEM. */
enum kp_err flame_tree_sum(struct flame_tree *t);
/*
 * Returns the first child of a node, or root for FLAME_NONE, after sorting them by
 * descending total, and by number; `next` leads on.  FLAME_NONE: there are none.
 */
uint32_t flame_tree_first(struct flame_tree *t, uint32_t parent);

/* Which rows to write. */
struct flame_rows {
	double least;		/* nodes with at least this part of all, 0 to 1 */
	size_t rows;		/* at most; 0: all */
	unsigned width;		/* columns of the terminal; 0: no limit */
	/* Appends a row, safe for a terminal and without its newline. */
	void (*put)(struct kp_buf *b, const void *ctx, uint32_t node);
	const void *ctx;
};

/* A row for each node in depth-first order, and a note of those left out. */
void flame_tree_rows(struct kp_buf *b, struct flame_tree *t,
    const struct flame_rows *r);

/* Roots have numbers of their own, so labels may be those of others, too. */
struct flame_labels {
	uint32_t n;		/* labels of nodes other than roots are below this */
	void (*put)(struct kp_buf *b, const void *ctx, uint32_t label,
	    bool is_root);
	const char *(*file)(const void *ctx, uint32_t label);	/* NULL: none */
	const void *ctx;
};

/* A stretch of time in one place. */
struct flame_slice {
	uint32_t node;
	kp_target_ns at;	/* its begin; for viewers only */
	kp_dur_ns time;
	kp_dur_ns before;	/* of a difference: the time on the other side */
};

/* Sets way to the nodes from this one up to its root; returns their number. */
uint32_t flame_tree_way(const struct flame_tree *t, uint32_t node,
    uint32_t way[FLAME_DEPTH_MAX + 1]);

/*
 * A line "root;function;function us" for each slice; those that follow each other
 * in one node are added up.  differs: "... us-before us", for difffolded.pl's readers.
 */
void flame_tree_folded(struct kp_buf *b, const struct flame_tree *t,
    const struct flame_labels *l, const struct flame_slice *v, size_t n,
    bool differs);
/*
 * A profile, or a thread of Chrome's, for each root, whose slices stand together.  A
 * function that goes on in the next slice is one box.
 */
enum flame_viewer { FLAME_SPEEDSCOPE, FLAME_CHROME };
void flame_tree_viewer(struct kp_buf *b, const struct flame_tree *t,
    const struct flame_labels *l, const char *name,
    const struct flame_slice *v, size_t n, enum flame_viewer form);
/*
 * Appends a slice that begins where the one before ends, or at 0 if it is of
 * another root; v has room for it.
 */
void flame_slice_put(const struct flame_tree *t, struct flame_slice *v,
    size_t *n, uint32_t node, kp_dur_ns time);

#endif
