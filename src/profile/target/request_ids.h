/*
 * request_ids.h - gives requests that run on several nodes one number: each
 * node has a number of its own for them, and labels are what they have in
 * common.  Pure.
 */
#ifndef KPROFD_PROFILE_TARGET_REQUEST_IDS_H
#define KPROFD_PROFILE_TARGET_REQUEST_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

/* A node's: zeroed is empty. */
struct request_ids_node {
	uint32_t *v;		/* its number -> ours, or 0 */
	uint32_t room;
};

struct request_ids_label;
struct numbers_request;

/* Zeroed, but for how many requests were asked for, is empty. */
struct request_ids {
	struct map by_label;	/* label + 1 -> request */
	struct request_ids_label *labels;		/* from 1 on, as requests */
	struct numbers_request *requests;
	uint32_t nlabels, nrequests;
	uint32_t asked, begun, ended;	/* of those that were asked for */
	bool no_memory;			/* sticks */
};

void request_ids_free(struct request_ids *t);
void request_ids_node_free(struct request_ids_node *nd);
/* 0: it has said nothing of it, or there are too many. */
uint32_t request_ids_of(const struct request_ids_node *nd, uint32_t n);
/*
 * A node's request n has this label.  Returns the request that another node
 * took it for till then, which is the same as that of n; or 0.
 */
uint32_t request_ids_label(struct request_ids *t, struct request_ids_node *nd, uint32_t n,
    int64_t label);
/* It begins: true if it is one of those that were asked for. */
bool request_ids_begins(struct request_ids *t, uint32_t request);
/* It has ended: false if that is known. */
bool request_ids_ends(struct request_ids *t, uint32_t request);
/* Its labels one after the other: *at is 0 at first; false: no more. */
bool request_ids_next_label(const struct request_ids *t, uint32_t request,
    uint32_t *at, int64_t *label);

#endif
