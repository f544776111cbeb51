/*
 * query_queue.c - a bounded list, from which a timer takes one question in each
 * turn, unless its client has gone.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <event2/event.h>

#include "query_queue.h"
#include "reply.h"

#define UNSENT_MAX (64u << 20)	/* bytes of answers that nobody takes */

struct query_queue {
	const struct kp_query_files *dbs;
	struct conns *conns;
	struct event *turn;
	struct query_job *first, **last;	/* in order */
	unsigned n;
	atomic_bool stop;
};

/* Why it is not worth asking; NULL: it is. */
static const char *
job_vain(const struct query_queue *js, const struct query_job *job)
{
	if (conns_gone(job->req))
		return "the client has gone";
	if (conns_unsent(js->conns) > UNSENT_MAX)
		return "too many answers wait to be read: ask again later";
	return NULL;
}

static void
run_job(struct query_queue *js, const struct query_job *job)
{
	const char *vain = job_vain(js, job);
	struct api_answer a;

	if (vain != NULL) {
		conns_asked(js->conns, job->req);
		reply_error(job->req, 503, vain);
		return;
	}
	if (job->route != NULL)
		api_ask(&a, js->dbs, job->route, &job->p, &js->stop);
	else
		api_tree(&a, js->dbs, job->id, &js->stop);
	conns_asked(js->conns, job->req);
	reply(job->req, a.status, a.b.p, a.b.len);
	kp_buf_free(&a.b);
}

static struct query_job *
take_job(struct query_queue *js)
{
	struct query_job *job = js->first;

	js->first = job->next;
	if (js->first == NULL)
		js->last = &js->first;
	js->n--;
	return job;
}

/* By a timer: events that are active would all go before what can be read. */
static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
	const struct timeval now = { 0, 0 };
	struct query_queue *js = ctx;
	struct query_job *job;

	(void)fd, (void)what;
	if (js->first == NULL)
		return;
	job = take_job(js);
	run_job(js, job);
	free(job);
	if (js->first != NULL)
		event_add(js->turn, &now);
}

void
query_queue_add(struct query_queue *js, struct query_job *job)
{
	const struct timeval now = { 0, 0 };

	if (js->n == QUERIES_MAX) {
		reply_error(job->req, 503, "too many questions at once: ask "
		    "again later");
		free(job);
		return;
	}
	conns_hold(js->conns, job->req);
	*js->last = job;
	js->last = &job->next;
	if (js->n++ == 0)
		event_add(js->turn, &now);
}

void
query_queue_stop(struct query_queue *js)
{
	atomic_store(&js->stop, true);
}

struct query_queue *
query_queue_new(struct event_base *base, const struct kp_query_files *dbs,
    struct conns *conns)
{
	struct query_queue *js = calloc(1, sizeof(*js));

	if (js == NULL)
		return NULL;
	js->dbs = dbs;
	js->conns = conns;
	js->last = &js->first;
	js->turn = evtimer_new(base, on_turn, js);
	if (js->turn == NULL) {
		free(js);
		return NULL;
	}
	return js;
}

void
query_queue_free(struct query_queue *js)
{
	struct query_job *job;

	if (js == NULL)
		return;
	while (js->first != NULL) {
		job = take_job(js);
		reply_error(job->req, 503, "kprofd ends");
		free(job);
	}
	event_free(js->turn);
	free(js);
}
