/*
 * queue.h - queues the items that wait to be written, with limits.  The caller
 * locks it.  Private to src/store.
 *
 * Trees and events may use half of the bytes, so that windows always find
 * room.
 */
#ifndef KPROFD_STORE_WRITE_QUEUE_H
#define KPROFD_STORE_WRITE_QUEUE_H

#include "store/store.h"

enum kind { WINDOW, TREE, HAPPENING, CONF, SYNC };

struct item {
	struct item *next;
	enum kind kind;
	size_t bytes;
	uint64_t rows;
	union {
		struct kp_window *window;
		struct kp_tree *tree;
		struct kp_happening happening;
		struct {
			const struct kp_conf *conf;
			const char *text;
		} conf;
		struct {
			void (*done)(void *ctx, bool ok); /* NULL: called already */
			void *ctx;
		} sync;
	} u;
};

struct queue {
	struct item *head, **tail;
	size_t windows, small, bytes;
};

void queue_init(struct queue *q);
bool queue_has_room(const struct queue *q, const struct item *it);
/* Takes ownership. */
void queue_put(struct queue *q, struct item *it);
/* Frees the head and its contents. */
void queue_pop(struct queue *q);
/* Returns how many items from the head make a transaction; a sync is alone. */
size_t queue_batch(const struct queue *q);

/* Frees the item's contents, not the item. */
void item_clear(const struct item *it);
/* Returns its node; "": the daemon itself. */
const char *item_node(const struct item *it);
size_t window_bytes(const struct kp_window *w);

#endif
