/*
 * query_queue.h - questions to the database that wait for their turn: one in
 * each turn of the loop, so that answers are sent and other questions read
 * before the next.
 */
#ifndef KPROFD_WEB_QUERY_QUEUE_H
#define KPROFD_WEB_QUERY_QUEUE_H

#include <event2/http.h>

#include "api.h"
#include "connections.h"

#define QUERIES_MAX 48

struct query_queue;

struct query_job {
	struct query_job *next;		/* of query_queue.c */
	struct evhttp_request *req;
	const struct api_route *route;	/* NULL: the tree of */
	const char *id;			/* this request; lives with req */
	struct web_params p;
};

/* dbs, conns: borrowed.  NULL when out of memory. */
struct query_queue *query_queue_new(struct event_base *base,
    const struct kp_query_files *dbs, struct conns *conns);
/* Takes the job, which malloc() made, and sees to its answer. */
void query_queue_add(struct query_queue *js, struct query_job *job);
/* From any thread: what is being asked ends now. */
void query_queue_stop(struct query_queue *js);
/* Those that wait are told 503. */
void query_queue_free(struct query_queue *js);

#endif
