/*
 * request_ids.h - gives a request that runs on several nodes one number.  Each
 * node has its own number for it; labels of its trace tokens connect them.  Pure.
 */
#ifndef KPROFD_PROFILE_NODE_REQUEST_IDS_H
#define KPROFD_PROFILE_NODE_REQUEST_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

/* The numbers of one node; zeroed is empty. */
struct request_ids_node {
	uint32_t *v;		/* its number -> our number, or 0 */
	uint32_t room;
};

struct request_ids_label;
struct request_ids_request;

/* Zeroed, and then `asked` and `named` set, is empty. */
struct request_ids {
	struct map by_label;	/* label + 1 -> request */
	struct request_ids_label *labels;		/* from 1 on, as requests */
	struct request_ids_request *requests;
	uint32_t nlabels, nrequests;
	uint32_t asked, begun, ended;	/* requests that the user asked for */
	bool named;			/* only those that are wanted */
	bool no_memory;			/* sticks */
};

void request_ids_free(struct request_ids *t);
void request_ids_node_free(struct request_ids_node *nd);
/* Our number of the node's request n; 0: unknown, or too many requests. */
uint32_t request_ids_of(const struct request_ids_node *nd, uint32_t n);
/*
 * Notes that a node's request n has this label.  Returns another number that the
 * label had, which turns out to be of the same request; or 0.
 */
uint32_t request_ids_label(struct request_ids *t, struct request_ids_node *nd, uint32_t n,
    int64_t label);
/*
 * Note that a request began on a node, and that it is of the type that is wanted, which
 * may be known after its end; true if it counts from now on as one the user asked for.
 */
bool request_ids_begins(struct request_ids *t, uint32_t request, uint32_t node);
bool request_ids_wanted(struct request_ids *t, uint32_t request);
/* Does it count?  Then node is where it began. */
bool request_ids_counts(const struct request_ids *t, uint32_t request, uint32_t *node);
/* Notes that a request ended; false if that was known. */
bool request_ids_ends(struct request_ids *t, uint32_t request);
/* Iterates over the labels of a request: *at is 0 at first; false at the end. */
bool request_ids_next_label(const struct request_ids *t, uint32_t request,
    uint32_t *at, int64_t *label);

#endif
