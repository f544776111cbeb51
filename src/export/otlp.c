/* otlp.c - see the header. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <event2/event.h>
#include <event2/thread.h>

#include "kprofd/backoff.h"
#include "otlp.h"
#include "otlp_json.h"
#include "post.h"
#include "store/feed.h"

#define LOOK (5 * KP_NS_PER_S)	/* at the database, when all is sent */
#define QUERY_MAX (5 * KP_NS_PER_S)
#define REQUESTS_AT_ONCE 64
#define CALLS_AT_ONCE 2000	/* a request with more goes alone */
#define NICER 10

/* What is under way. */
struct batch {
	bool traces;
	size_t n;		/* spans or points */
	int64_t request;	/* the last one, of traces */
	size_t node;		/* of metrics */
	uint64_t windows;	/* that those know of */
};

struct otlp {
	struct otlp_opts o;
	struct event_base *base;
	struct event *tick, *stop;
	struct post *post;
	pthread_t thread;
	struct kp_feed feed;
	uint64_t told[TOTALS_NODES_MAX + 2];	/* windows, by node */
	struct kp_backoff backoff;
	struct batch batch;
	struct kp_buf body;
	bool metrics_first;	/* by turns */
	pthread_mutex_t lock;	/* of the status */
	struct otlp_status status;
};

static void
wait_for(struct otlp *x, kp_dur_ns d)
{
	const struct timeval tv = { d / KP_NS_PER_S,
		d % KP_NS_PER_S / KP_NS_PER_US };

	event_add(x->tick, &tv);
}

/* ---- traces ---- */

static void
count_lost(struct otlp *x, int64_t n, int64_t waiting)
{
	pthread_mutex_lock(&x->lock);
	x->status.requests_lost += (uint64_t)n;
	x->status.requests_waiting = (uint64_t)waiting;
	pthread_mutex_unlock(&x->lock);
}

/*
 * Those too far behind, and those that are gone, are passed over here; up to
 * the next gap, so that each is counted once however often this is tried.
 */
static enum kp_err
next_requests(struct otlp *x, struct kp_query *q,
    int64_t ids[REQUESTS_AT_ONCE], size_t *n)
{
	int64_t newest = 0, lost = 0;
	size_t whole = 1;
	enum kp_err err = kp_feed_requests(q, &x->feed, ids,
	    REQUESTS_AT_ONCE, n, &newest);

	if (err != KP_OK)
		return err;
	if (newest - x->feed.request > OTLP_WAITING_MAX) {
		lost = newest - OTLP_WAITING_MAX - x->feed.request;
		x->feed.request += lost;
		err = kp_feed_requests(q, &x->feed, ids, REQUESTS_AT_ONCE, n,
		    &newest);
	}
	if (err == KP_OK && *n > 0) {
		lost += ids[0] - 1 - x->feed.request;
		x->feed.request = ids[0] - 1;
		while (whole < *n && ids[whole] == ids[whole - 1] + 1)
			whole++;
		*n = whole;
	}
	count_lost(x, lost, newest - x->feed.request);
	return err;
}

/* As many as go together; one that is deleted meanwhile is left out. */
static void
read_trees(struct kp_query *q, const int64_t *ids, size_t n,
    struct kp_query_tree *v, size_t *got, int64_t *last)
{
	enum kp_err err = KP_OK;
	size_t calls = 0;

	*got = 0;
	for (size_t i = 0; i < n && err == KP_OK && calls < CALLS_AT_ONCE;
	    i++) {
		err = kp_query_tree(q, ids[i], &v[*got]);
		if (err == KP_OK)
			calls += v[(*got)++].ncalls;
		else if (err == KP_ENOENT)
			err = KP_OK;
		if (err == KP_OK)
			*last = ids[i];
	}
}

/* False: there is none to send. */
static bool
make_traces(struct otlp *x, struct kp_query *q)
{
	struct kp_query_tree v[REQUESTS_AT_ONCE];
	int64_t ids[REQUESTS_AT_ONCE], last = 0;
	size_t n, got = 0;

	if (next_requests(x, q, ids, &n) != KP_OK || n == 0)
		return false;
	x->batch = (struct batch){ .traces = true };
	/* those that could not be read are the next ones */
	read_trees(q, ids, n, v, &got, &last);
	x->batch.n = otlp_traces(&x->body, x->feed.started, v, got);
	for (size_t i = 0; i < got; i++)
		kp_query_tree_free(&v[i]);
	x->batch.request = last;
	if (x->body.err != KP_OK) {
		/* for want of memory, or more than a collector would take */
		count_lost(x, (int64_t)got, 0);
		x->feed.request = last;
	}
	return x->batch.n > 0 && x->body.err == KP_OK;
}

/* ---- metrics ---- */

/* Of the next node that has new ones; with the totals locked. */
static bool
node_metrics(struct otlp *x)
{
	const struct total_node *n;

	for (size_t i = 0; i < totals_count(x->o.totals, TOTALS_NODE); i++) {
		n = totals_node(x->o.totals, i);
		if (n == NULL || n->windows == x->told[i])
			continue;
		x->batch = (struct batch){ .node = i,
			.windows = n->windows };
		x->batch.n = otlp_metrics(&x->body, x->feed.started,
		    x->o.totals, i);
		if (x->body.err == KP_OK)
			return true;
		kp_buf_reset(&x->body);
		x->told[i] = n->windows;
	}
	return false;
}

static bool
make_metrics(struct otlp *x)
{
	bool made;

	totals_lock(x->o.totals);
	made = node_metrics(x);
	totals_unlock(x->o.totals);
	return made;
}

/* ---- one after the other ---- */

static bool
make_batch(struct otlp *x)
{
	struct kp_query *q;
	bool made;
	char *why;

	kp_buf_reset(&x->body);
	if (kp_query_open(&q, x->o.db, &why) != KP_OK) {
		free(why);
		return false;
	}
	kp_query_deadline(q, kp_mono_now() + QUERY_MAX);
	x->metrics_first = !x->metrics_first;
	made = kp_feed_run(q, &x->feed) == KP_OK && x->metrics_first &&
	    make_metrics(x);
	if (!made) {
		made = make_traces(x, q);
		if (!made)
			kp_buf_reset(&x->body);
	}
	if (!made && !x->metrics_first)
		made = make_metrics(x);
	kp_query_close(q);
	return made;
}

static bool
is_later(int status)
{
	return status == 0 || status == 429 || status == 502 ||
	    status == 503 || status == 504;
}

/* With the lock held. */
static void
say_why(struct otlp *x, const struct post_answer *a)
{
	int n = a->n > 160 ? 160 : (int)a->n;

	if (a->status == 0)
		snprintf(x->status.why, sizeof(x->status.why), "%.*s", n,
		    a->text);
	else
		snprintf(x->status.why, sizeof(x->status.why),
		    "it answers %d%s%.*s", a->status, n > 0 ? ": " : "", n,
		    n > 0 ? a->text : "");
}

static void
count_taken(struct otlp *x, const struct post_answer *a)
{
	bool taken = a->status >= 200 && a->status < 300;
	const struct batch *b = &x->batch;
	uint64_t refused = taken ? otlp_refused(a->text, a->n, b->traces,
	    b->n) : b->n;

	x->status.failing = false;
	if (refused > 0)
		say_why(x, a);
	if (b->traces) {
		x->status.spans += b->n - refused;
		x->status.spans_refused += refused;
	} else {
		x->status.points += b->n - refused;
		x->status.points_refused += refused;
	}
}

static void
on_answer(void *ctx, const struct post_answer *a)
{
	kp_dur_ns wait, asked = (kp_dur_ns)a->retry_after * KP_NS_PER_S;
	struct otlp *x = ctx;

	pthread_mutex_lock(&x->lock);
	if (is_later(a->status)) {
		x->status.failures++;
		x->status.failing = true;
		say_why(x, a);
	} else {
		count_taken(x, a);
	}
	pthread_mutex_unlock(&x->lock);
	if (is_later(a->status)) {
		wait = kp_backoff_next(&x->backoff, kp_mono_now());
		wait_for(x, asked > wait ? asked : wait);
		return;
	}
	kp_backoff_works(&x->backoff, kp_mono_now());
	if (x->batch.traces)
		x->feed.request = x->batch.request;
	else
		x->told[x->batch.node] = x->batch.windows;
	wait_for(x, 0);
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
	struct otlp *x = ctx;

	(void)fd, (void)what;
	if (make_batch(x))
		post_send(x->post, x->batch.traces ? "/v1/traces" :
		    "/v1/metrics", &x->body, on_answer, x);
	else
		wait_for(x, LOOK);
}

/* ---- beginning and ending ---- */

static void
on_stop(evutil_socket_t fd, short what, void *ctx)
{
	struct otlp *x = ctx;

	(void)fd, (void)what;
	event_base_loopbreak(x->base);
}

static void *
otlp_main(void *ctx)
{
	struct otlp *x = ctx;

	/* of this thread alone, on Linux: events go first */
	setpriority(PRIO_PROCESS, 0, NICER);
	event_base_loop(x->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

/* Signals are for the program's own loop; a broken pipe is an error here. */
static int
start_thread(struct otlp *x)
{
	sigset_t all_signals, old;
	int e;

	sigfillset(&all_signals);
	pthread_sigmask(SIG_SETMASK, &all_signals, &old);
	e = pthread_create(&x->thread, NULL, otlp_main, x);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return e;
}

static void
otlp_free(struct otlp *x)
{
	post_free(x->post);
	if (x->tick != NULL)
		event_free(x->tick);
	if (x->stop != NULL)
		event_free(x->stop);
	if (x->base != NULL)
		event_base_free(x->base);
	kp_buf_free(&x->body);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

static bool
make_events(struct otlp *x)
{
	if (evthread_use_pthreads() != 0 ||
	    (x->base = event_base_new()) == NULL)
		return false;
	x->tick = evtimer_new(x->base, on_tick, x);
	x->stop = event_new(x->base, -1, 0, on_stop, x);
	return x->tick != NULL && x->stop != NULL;
}

enum kp_err
otlp_start(struct otlp **out, const struct otlp_opts *o, char *why, size_t n)
{
	struct otlp *x = calloc(1, sizeof(*x));
	enum kp_err err;

	snprintf(why, n, "out of memory");
	if (x == NULL)
		return KP_ENOMEM;
	x->o = *o;
	pthread_mutex_init(&x->lock, NULL);
	kp_buf_init(&x->body, OTLP_BODY_MAX);
	err = make_events(x) ? post_new(&x->post, x->base, o->url,
	    o->header_file, why, n) : KP_ENOMEM;
	if (err == KP_OK) {
		wait_for(x, LOOK);
		if (start_thread(x) != 0)
			err = KP_ENOMEM;
	}
	if (err == KP_OK)
		*out = x;
	else
		otlp_free(x);
	return err;
}

void
otlp_status(struct otlp *x, struct otlp_status *out)
{
	pthread_mutex_lock(&x->lock);
	*out = x->status;
	pthread_mutex_unlock(&x->lock);
}

void
otlp_stop(struct otlp *x)
{
	if (x == NULL)
		return;
	event_active(x->stop, EV_TIMEOUT, 0);
	pthread_join(x->thread, NULL);
	otlp_free(x);
}
