/*
 * query_queue.c - a bounded queue from which a timer takes one query in each turn,
 * and drops it if its client has gone.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <event2/event.h>

#include "query_queue.h"
#include "reply.h"

#define UNSENT_MAX (64u << 20)	/* bytes of answers not yet received */

struct query_queue {
	const struct kp_query_files *dbs;
	struct conns *conns;
	struct event *turn;
	struct query_job *first, **last;	/* in order */
	unsigned n;
	atomic_bool stop;
};

/* Why the query need not run; NULL: run it. */
static const char *
reason_to_skip(const struct query_queue *q, const struct query_job *job)
{
	if (conns_gone(job->req))
		return "the client has gone";
	if (conns_unsent(q->conns) > UNSENT_MAX)
		return "too many answers wait to be read: ask again later";
	return NULL;
}

static void
run_job(struct query_queue *q, const struct query_job *job)
{
	const char *skip = reason_to_skip(q, job);
	struct api_answer a;

	if (skip != NULL) {
		conns_asked(q->conns, job->req);
		reply_error(job->req, 503, skip);
		return;
	}
	if (job->route != NULL)
		api_ask(&a, q->dbs, job->route, &job->p, &q->stop);
	else
		api_tree(&a, q->dbs, job->id, &q->stop);
	conns_asked(q->conns, job->req);
	reply(job->req, a.status, a.b.p, a.b.len);
	kp_buf_free(&a.b);
}

static struct query_job *
take_job(struct query_queue *q)
{
	struct query_job *job = q->first;

	q->first = job->next;
	if (q->first == NULL)
		q->last = &q->first;
	q->n--;
	return job;
}

/* A timer starts each turn: libevent would run active events before it polls. */
static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
	const struct timeval now = { 0, 0 };
	struct query_queue *q = ctx;
	struct query_job *job;

	(void)fd, (void)what;
	if (q->first == NULL)
		return;
	job = take_job(q);
	run_job(q, job);
	free(job);
	if (q->first != NULL)
		event_add(q->turn, &now);
}

void
query_queue_add(struct query_queue *q, struct query_job *job)
{
	const struct timeval now = { 0, 0 };

	if (q->n == QUERIES_MAX) {
		reply_error(job->req, 503, "too many questions at once: ask "
		    "again later");
		free(job);
		return;
	}
	conns_hold(q->conns, job->req);
	*q->last = job;
	q->last = &job->next;
	if (q->n++ == 0)
		event_add(q->turn, &now);
}

void
query_queue_stop(struct query_queue *q)
{
	atomic_store(&q->stop, true);
}

struct query_queue *
query_queue_new(struct event_base *base, const struct kp_query_files *dbs,
    struct conns *conns)
{
	struct query_queue *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return NULL;
	q->dbs = dbs;
	q->conns = conns;
	q->last = &q->first;
	q->turn = evtimer_new(base, on_turn, q);
	if (q->turn == NULL) {
		free(q);
		return NULL;
	}
	return q;
}

void
query_queue_free(struct query_queue *q)
{
	struct query_job *job;

	if (q == NULL)
		return;
	while (q->first != NULL) {
		job = take_job(q);
		reply_error(job->req, 503, "kprofd ends");
		free(job);
	}
	event_free(q->turn);
	free(q);
}
