/*
 * queue.c - keeps a linked list with byte and item counts, and decides what
 * fits and how many items make the next transaction.
 */
#include <stdlib.h>
#include <string.h>

#include "queue.h"

#define BATCH_MAX 256		/* items in one transaction */

void
item_clear(const struct item *it)
{
	if (it->kind == WINDOW)
		kp_window_free(it->u.window);
	else if (it->kind == TREE)
		free(it->u.tree);
}

const char *
item_node(const struct item *it)
{
	switch (it->kind) {
	case WINDOW:
		return it->u.window->node;
	case TREE:
		return it->u.tree->node;
	case HAPPENING:
		return it->u.happening.node;
	case CONF:
	case SYNC:
		break;
	}
	return "";
}

size_t
window_bytes(const struct kp_window *w)
{
	size_t n = sizeof(*w) + w->ncells * sizeof(*w->cells) +
	    w->nwaits * sizeof(*w->waits) + w->nstacks * sizeof(*w->stacks);

	for (size_t i = 0; i < w->ncells; i++)
		n += (w->cells[i].hist.len + w->cells[i].async_hist.len) *
		    sizeof(uint64_t);
	for (size_t i = 0; i < w->nwaits; i++)
		n += w->waits[i].hist.len * sizeof(uint64_t);
	/* cells may share a text, so this is at least what there is */
	for (size_t i = 0; i < w->nstacks; i++)
		n += strlen(w->stacks[i].path) + strlen(w->stacks[i].frames);
	return n;
}

void
queue_init(struct queue *q)
{
	*q = (struct queue){ .tail = &q->head };
}

bool
queue_has_room(const struct queue *q, const struct item *it)
{
	size_t max = it->kind == WINDOW ? KP_STORE_BYTES_MAX :
	    KP_STORE_BYTES_MAX / 2;

	/* they are few, since the caller waits for each */
	if (it->kind == SYNC || it->kind == CONF)
		return true;
	if (it->kind == WINDOW ? q->windows >= KP_STORE_QUEUE_MAX :
	    q->small >= KP_STORE_SMALL_MAX)
		return false;
	return q->bytes + it->bytes <= max;
}

void
queue_put(struct queue *q, struct item *it)
{
	*q->tail = it;
	q->tail = &it->next;
	q->bytes += it->bytes;
	if (it->kind == WINDOW)
		q->windows++;
	else
		q->small++;
}

void
queue_pop(struct queue *q)
{
	struct item *it = q->head;

	q->head = it->next;
	if (q->head == NULL)
		q->tail = &q->head;
	q->bytes -= it->bytes;
	if (it->kind == WINDOW)
		q->windows--;
	else
		q->small--;
	item_clear(it);
	free(it);
}

size_t
queue_batch(const struct queue *q)
{
	size_t n = 0;

	for (const struct item *it = q->head; it != NULL && n < BATCH_MAX;
	    it = it->next) {
		if (it->kind == SYNC)
			return n > 0 ? n : 1;
		n++;
		if (it->kind == WINDOW)
			break;
	}
	return n;
}
