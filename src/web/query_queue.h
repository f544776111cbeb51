/*
 * query_queue.h - queries of the database that wait: each turn of the event loop
 * runs one, so that answers are sent and requests read before the next.
 */
#ifndef KPROFD_WEB_QUERY_QUEUE_H
#define KPROFD_WEB_QUERY_QUEUE_H

#include <event2/http.h>

#include "api.h"
#include "connections.h"

#define QUERIES_MAX 48

struct query_queue;

struct query_job {
	struct query_job *next;		/* query_queue.c's */
	struct evhttp_request *req;
	const struct api_route *route;	/* NULL: the tree of request id */
	const char *id;			/* lives as long as req */
	struct web_params p;
};

/* Borrows dbs and conns.  NULL when out of memory. */
struct query_queue *query_queue_new(struct event_base *base,
    const struct kp_query_files *dbs, struct conns *conns);
/* Takes a job from malloc(), and answers its request. */
void query_queue_add(struct query_queue *js, struct query_job *job);
/* Interrupts the query that runs; from any thread. */
void query_queue_stop(struct query_queue *js);
/* Answers those that wait with 503. */
void query_queue_free(struct query_queue *js);

#endif
