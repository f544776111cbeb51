/*
 * drop_counts.h - counts rows that could not be written, for each node, until a
 * window of that node is written and reports them.  So the sums over all
 * windows stay true: entry calls are never missing, and each request that was
 * measured but not written counts as a loss.  Pure.
 */
#ifndef KPROFD_STORE_WRITE_DROP_COUNTS_H
#define KPROFD_STORE_WRITE_DROP_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "kprofd/stats.h"

/* Nodes with unreported drops; further ones count with the last. */
#define DROP_COUNTS_NODES_MAX 256

struct drop_counts_node {
	char *node;		/* owned */
	uint64_t rows;		/* of any table */
	uint64_t entry_calls, sampled;
	struct kp_losses losses;
};

struct drop_counts {
	struct drop_counts_node v[DROP_COUNTS_NODES_MAX];
	size_t n;
};

void drop_counts_free(struct drop_counts *l);
/* Returns NULL if nothing of the node was dropped. */
struct drop_counts_node *drop_counts_find(struct drop_counts *l, const char *node);
/* w: the window that was dropped; NULL: the rows were not a window. */
void drop_counts_add(struct drop_counts *l, const char *node, uint64_t rows,
    const struct kp_window *w);
/* Adds the node's counts to a window that reports them. */
void drop_counts_add_to(const struct drop_counts_node *n, struct kp_window *head);
/*
 * Subtracts what a window has reported; more may have been dropped meanwhile.
 * A node with nothing left is removed.
 */
void drop_counts_reported(struct drop_counts *l,
    const struct drop_counts_node *reported);
/* Returns the number of unreported rows of all nodes. */
uint64_t drop_counts_rows(const struct drop_counts *l);

#endif
