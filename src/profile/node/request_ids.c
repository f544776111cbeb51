/*
 * request_ids.c - maps a node's numbers of requests to ours, and our numbers to
 * labels.
 */
#include <stdlib.h>

#include "calls/call_trace.h"
#include "base/vec.h"
#include "profile/node/request_ids.h"

struct request_ids_label {
	int64_t label;
	uint32_t next;		/* label of the same request, or 0 */
};

struct request_ids_request {
	uint32_t labels;	/* the first one */
	uint32_t began;		/* its node + 1; 0: not known yet */
	bool wanted, counted, ended;
};

void
request_ids_free(struct request_ids *t)
{
	map_free(&t->by_label);
	free(t->labels);
	free(t->requests);
}

void
request_ids_node_free(struct request_ids_node *nd)
{
	free(nd->v);
}

/* 0: too many requests, or no memory. */
static uint32_t
request_new(struct request_ids *t)
{
	enum kp_err e = vec_room_by_len(&t->requests, t->nrequests + 1,
	    KP_CALLS_REQUESTS_MAX);

	t->no_memory |= e == KP_ENOMEM;
	if (e != KP_OK)
		return 0;
	t->requests[++t->nrequests] = (struct request_ids_request){ 0 };
	return t->nrequests;
}

static void
label_add(struct request_ids *t, uint32_t request, int64_t label)
{
	if (vec_room_by_len(&t->labels, t->nlabels + 1, VEC_NO_CAP) != KP_OK) {
		t->no_memory = true;
		return;
	}
	t->labels[++t->nlabels] = (struct request_ids_label){ label,
		t->requests[request].labels };
	t->requests[request].labels = t->nlabels;
	if (!map_put(&t->by_label, (uint64_t)label + 1, request))
		t->no_memory = true;
}

static bool
node_room(struct request_ids *t, struct request_ids_node *nd, uint32_t n)
{
	if (vec_reach(&nd->v, &nd->room, n) == KP_OK)
		return true;
	t->no_memory = true;
	return false;
}

uint32_t
request_ids_of(const struct request_ids_node *nd, uint32_t n)
{
	return n < nd->room ? nd->v[n] : 0;
}

uint32_t
request_ids_label(struct request_ids *t, struct request_ids_node *nd, uint32_t n,
    int64_t label)
{
	uint64_t *known;
	uint32_t request;

	if (label < 0 || n >= KP_CALLS_REQUESTS_MAX || !node_room(t, nd, n))
		return 0;
	known = map_get(&t->by_label, (uint64_t)label + 1);
	request = nd->v[n] > 0 ? nd->v[n] :
	    known != NULL ? (uint32_t)*known : request_new(t);
	nd->v[n] = request;
	if (request > 0 && known == NULL)
		label_add(t, request, label);
	return request > 0 && known != NULL && *known != request ?
	    (uint32_t)*known : 0;
}

static bool
count(struct request_ids *t, struct request_ids_request *r)
{
	if (t->begun == t->asked || r->counted || r->began == 0 ||
	    (t->named && !r->wanted))
		return false;
	r->counted = true;
	t->begun++;
	t->ended += r->ended;
	return true;
}

bool
request_ids_begins(struct request_ids *t, uint32_t request, uint32_t node)
{
	if (request == 0)
		return false;
	t->requests[request].began = node + 1;
	return count(t, &t->requests[request]);
}

bool
request_ids_wanted(struct request_ids *t, uint32_t request)
{
	if (request == 0)
		return false;
	t->requests[request].wanted = true;
	return count(t, &t->requests[request]);
}

bool
request_ids_counts(const struct request_ids *t, uint32_t request, uint32_t *node)
{
	if (request == 0 || !t->requests[request].counted)
		return false;
	*node = t->requests[request].began - 1;
	return true;
}

bool
request_ids_ends(struct request_ids *t, uint32_t request)
{
	if (request == 0 || t->requests[request].ended)
		return false;
	t->requests[request].ended = true;
	t->ended += t->requests[request].counted;
	return true;
}

bool
request_ids_next_label(const struct request_ids *t, uint32_t request, uint32_t *at,
    int64_t *label)
{
	*at = *at > 0 ? t->labels[*at].next : t->requests[request].labels;
	if (*at > 0)
		*label = t->labels[*at].label;
	return *at > 0;
}
