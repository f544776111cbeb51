/*
 * drop_counts.c - adds dropped rows to the counts of their node, and subtracts
 * what a written window has reported.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "drop_counts.h"

void
drop_counts_free(struct drop_counts *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].node);
	l->n = 0;
}

struct drop_counts_node *
drop_counts_find(struct drop_counts *l, const char *node)
{
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].node, node) == 0)
			return &l->v[i];
	}
	return NULL;
}

static struct drop_counts_node *
node_get(struct drop_counts *l, const char *node)
{
	struct drop_counts_node *n = drop_counts_find(l, node);
	char *name;

	if (n != NULL)
		return n;
	name = l->n < DROP_COUNTS_NODES_MAX ? strdup(node) : NULL;
	if (name == NULL)
		return l->n > 0 ? &l->v[l->n - 1] : NULL;
	n = &l->v[l->n++];
	*n = (struct drop_counts_node){ .node = name };
	return n;
}

void
drop_counts_add(struct drop_counts *l, const char *node, uint64_t rows,
    const struct kp_window *w)
{
	struct drop_counts_node *n = node_get(l, node);

	if (n == NULL)
		return;
	n->rows += rows;
	if (w == NULL)
		return;
	n->entry_calls += w->entry_calls;
	n->sampled += w->sampled;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		n->losses.n[i] += w->losses.n[i];
}

void
drop_counts_add_to(const struct drop_counts_node *n, struct kp_window *head)
{
	head->entry_calls += n->entry_calls;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		head->losses.n[i] += n->losses.n[i];
	head->losses.n[KP_LOSS_STORE] += n->rows;
	head->losses.n[KP_LOSS_UNWRITTEN] += n->sampled;
}

static bool
is_zero(const struct drop_counts_node *n)
{
	uint64_t left = n->rows | n->entry_calls | n->sampled;

	for (int i = 0; i < KP_LOSS_COUNT; i++)
		left |= n->losses.n[i];
	return left == 0;
}

void
drop_counts_reported(struct drop_counts *l, const struct drop_counts_node *reported)
{
	struct drop_counts_node *n = drop_counts_find(l, reported->node);

	if (n == NULL)
		return;
	n->rows -= reported->rows;
	n->entry_calls -= reported->entry_calls;
	n->sampled -= reported->sampled;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		n->losses.n[i] -= reported->losses.n[i];
	if (is_zero(n)) {
		free(n->node);
		*n = l->v[--l->n];
	}
}

uint64_t
drop_counts_rows(const struct drop_counts *l)
{
	uint64_t rows = 0;

	for (size_t i = 0; i < l->n; i++)
		rows += l->v[i].rows;
	return rows;
}
