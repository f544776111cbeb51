/*
 * stack_tree.c - finds or adds the nodes of each row, from the root down, and adds
 * its figures to all of them.
 *
 * A node is found by its parent, kind and name.  A parent's number is less than
 * that of its children.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/vec.h"
#include "frames.h"
#include "kprofd/buf.h"
#include "stack_tree.h"

#define KEY_MAX (1u << 16)

void
stack_tree_free(struct stack_tree *t)
{
	free(t->v);
	intern_free(&t->keys);
	*t = (struct stack_tree){ .n = 0 };
}

static enum kp_err
add_node(struct stack_tree *t, uint32_t parent, enum stack_kind kind,
    const char *name, size_t n)
{
	enum kp_err err = vec_room_by_len(&t->v, t->n, STACK_NO_NODE - 1);

	if (err == KP_OK)
		t->v[t->n++] = (struct stack_node){ .kind = kind, .name = name,
			.n = n, .parent = parent, .child = STACK_NO_NODE,
			.next = STACK_NO_NODE, .depth =
			parent == STACK_NO_NODE ? 0 : t->v[parent].depth + 1 };
	return err;
}

/* Finds the child, or adds it; STACK_NO_NODE: no memory. */
static uint32_t
child_of(struct stack_tree *t, uint32_t parent, enum stack_kind kind,
    const char *name, size_t n)
{
	const struct interned *known;
	struct kp_buf key;
	uint32_t node = STACK_NO_NODE;

	kp_buf_init(&key, KEY_MAX);
	kp_buf_put(&key, &parent, sizeof(parent));
	kp_buf_u8(&key, (uint8_t)kind);
	kp_buf_put(&key, name, n);
	if (key.err == KP_OK) {
		known = intern_get(&t->keys, key.p, key.len);
		if (known == NULL && add_node(t, parent, kind, name, n) ==
		    KP_OK)
			known = intern_put(&t->keys, key.p, key.len, t->n - 1);
		if (known != NULL)
			node = known->val;
	}
	kp_buf_free(&key);
	return node;
}

static void
add_figures(struct stack_figures *f, const struct kp_query_stack *row)
{
	f->samples += row->samples;
	f->time = sat_add(f->time, row->w_time);
	f->of[row->state] = sat_add(f->of[row->state], row->w_time);
}

/* Adds the row to the root and to each node on its way. */
static enum kp_err
add_row(struct stack_tree *t, const struct kp_query_stack *row)
{
	const char *path = row->path, *part;
	uint32_t node = 0;
	size_t n = 0;

	add_figures(&t->v[0].all, row);
	while ((part = frames_next(&path, &n)) != NULL) {
		node = child_of(t, node, STACK_TIER, part, n);
		if (node == STACK_NO_NODE)
			return KP_ENOMEM;
		add_figures(&t->v[node].all, row);
	}
	part = frames_app(row->frames, &n);
	node = child_of(t, node, STACK_FN, part != NULL ? part : "",
	    part != NULL ? frame_fn(part, n) : 0);
	if (node == STACK_NO_NODE)
		return KP_ENOMEM;
	add_figures(&t->v[node].all, row);
	if (frames_count(row->frames) < 2)
		return KP_OK;
	node = child_of(t, node, STACK_FRAMES, row->frames,
	    strlen(row->frames));
	if (node == STACK_NO_NODE)
		return KP_ENOMEM;
	add_figures(&t->v[node].all, row);
	return KP_OK;
}

static bool
is_in(const char *path, const char *tier)
{
	size_t n, len = strlen(tier);
	const char *part;

	while ((part = frames_next(&path, &n)) != NULL)
		if (n == len && memcmp(part, tier, n) == 0)
			return true;
	return false;
}

/* Tiers after the functions of their parent; of each, the longest first. */
static int
by_time(const void *pa, const void *pb, void *ctx)
{
	const struct stack_node *v = ctx;
	const struct stack_node *a = &v[*(const uint32_t *)pa];
	const struct stack_node *b = &v[*(const uint32_t *)pb];

	if ((a->kind == STACK_TIER) != (b->kind == STACK_TIER))
		return a->kind == STACK_TIER ? 1 : -1;
	if (a->all.time != b->all.time)
		return a->all.time < b->all.time ? 1 : -1;
	return (a > b) - (a < b);
}

/* Links each node's children, by a sort of all nodes. */
static enum kp_err
link_children(struct stack_tree *t)
{
	uint32_t *order = malloc(t->n * sizeof(*order));
	struct stack_node *parent;

	if (order == NULL)
		return KP_ENOMEM;
	for (uint32_t i = 0; i < t->n; i++)
		order[i] = i;
	qsort_r(order, t->n, sizeof(*order), by_time, t->v);
	for (uint32_t i = t->n; i-- > 0;) {
		if (order[i] == 0)
			continue;
		parent = &t->v[t->v[order[i]].parent];
		t->v[order[i]].next = parent->child;
		parent->child = order[i];
	}
	free(order);
	return KP_OK;
}

enum kp_err
stack_tree_make(struct stack_tree *t, const struct stacks *s,
    const char *identity, const char *tier)
{
	const struct kp_query_stack *row;
	enum kp_err err;

	*t = (struct stack_tree){ .n = 0 };
	err = add_node(t, STACK_NO_NODE, STACK_TIER, "", 0);
	for (size_t i = 0; i < s->stacks.n && err == KP_OK; i++) {
		row = &s->stacks.v[i];
		if ((identity == NULL || strcmp(row->identity, identity) == 0) &&
		    (tier == NULL || is_in(row->path, tier)))
			err = add_row(t, row);
	}
	if (err == KP_OK)
		err = link_children(t);
	if (err != KP_OK)
		stack_tree_free(t);
	return err;
}
