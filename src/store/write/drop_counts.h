/*
 * drop_counts.h - what could not be written, node by node, until a window of that
 * node is written and tells it.  So the sums over all windows stay true:
 * entry calls are never missing, and each request that was measured in vain
 * is counted as a loss.  Pure.
 */
#ifndef KPROFD_STORE_WRITE_DROP_COUNTS_H
#define KPROFD_STORE_WRITE_DROP_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "kprofd/stats.h"

/* With something untold; past this the rest counts with the last. */
#define LOST_NODES_MAX 256

struct lost_node {
	char *node;		/* owned */
	uint64_t rows;		/* of any table */
	uint64_t entry_calls, sampled;
	struct kp_losses losses;
};

struct lost {
	struct lost_node v[LOST_NODES_MAX];
	size_t n;
};

void lost_free(struct lost *l);
/* NULL: nothing is lost there. */
struct lost_node *lost_find(struct lost *l, const char *node);
/* w: the window that the rows were; NULL: they were something else's. */
void lost_add(struct lost *l, const char *node, uint64_t rows,
    const struct kp_window *w);
/* Adds it to a window's head. */
void lost_tell(const struct lost_node *n, struct kp_window *head);
/*
 * Takes away what has been told of told->node, of which more may be lost
 * meanwhile; with nothing left that name is freed.
 */
void lost_told(struct lost *l, const struct lost_node *told);
/* Rows that are not told yet, of all nodes. */
uint64_t lost_rows(const struct lost *l);

#endif
