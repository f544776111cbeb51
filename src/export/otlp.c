/*
 * otlp.c - the exporter's thread: makes a body of traces and one of metrics in turn,
 * sends it, and retries with backoff.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kprofd/clock.h"
#include "kprofd/thread.h"
#include "otlp.h"
#include "otlp_json.h"
#include "http_post.h"
#include "store/query.h"

#define POLL_INTERVAL (5 * KP_NS_PER_S)	/* once all is sent */
#define QUERY_MAX (5 * KP_NS_PER_S)
#define REQUESTS_AT_ONCE 64
#define CALLS_AT_ONCE 2000	/* a request with more goes alone */
#define UNREAD_MAX 12		/* failed reads before a request is skipped */
#define LAST_SECONDS 3		/* for what waits, at the end */
#define NICER 10

/* The body that is being sent. */
struct batch {
	bool traces;
	size_t n;		/* spans or points */
	int64_t request;	/* of traces: the last one's id */
	size_t node;		/* of metrics */
	uint64_t version;	/* of the node's totals */
};

struct otlp {
	struct otlp_opts o;
	struct post *post;
	pthread_t thread;
	struct kp_request_tail tail;
	unsigned unread;	/* failed reads of the next request */
	uint64_t sent[TOTALS_NODES_MAX + 2];	/* versions, by node */
	size_t next;		/* the node whose turn it is */
	struct kp_backoff backoff;
	struct batch batch;
	struct kp_buf body;
	bool metrics_first;	/* alternates */
	bool sending, ending;
	kp_mono_ns turn;	/* when the next body is made, unless one is sent */
	atomic_bool stop;	/* the loop ends */
	pthread_mutex_t lock;	/* of the status */
	struct otlp_status status;
};

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
 * The ids that come next, up to a gap.  Requests that are too far behind or were
 * deleted are skipped and counted here; once, even if sending is retried.
 */
static enum kp_err
next_requests(struct otlp *x, struct kp_query *q,
    int64_t ids[REQUESTS_AT_ONCE], size_t *n)
{
	int64_t newest = 0, lost = 0;
	size_t whole = 1;
	enum kp_err err = kp_request_tail_next(q, &x->tail, ids,
	    REQUESTS_AT_ONCE, n, &newest);

	if (err != KP_OK)
		return err;
	if (newest - x->tail.request > OTLP_WAITING_MAX) {
		lost = newest - OTLP_WAITING_MAX - x->tail.request;
		x->tail.request += lost;
		err = kp_request_tail_next(q, &x->tail, ids, REQUESTS_AT_ONCE, n,
		    &newest);
	}
	if (err == KP_OK && *n > 0) {
		lost += ids[0] - 1 - x->tail.request;
		x->tail.request = ids[0] - 1;
		while (whole < *n && ids[whole] == ids[whole - 1] + 1)
			whole++;
		*n = whole;
	}
	count_lost(x, lost, newest - x->tail.request);
	return err;
}

/*
 * Reads as many as one body takes, up to one that was deleted meanwhile:
 * next_requests() will find a gap there.
 */
static enum kp_err
read_trees(struct kp_query *q, const int64_t *ids, size_t n,
    struct kp_query_tree *v, size_t *got)
{
	enum kp_err err = KP_OK;
	size_t calls = 0;

	*got = 0;
	while (*got < n && calls < CALLS_AT_ONCE) {
		err = kp_query_tree(q, ids[*got], &v[*got]);
		if (err != KP_OK)
			break;
		calls += v[(*got)++].ncalls;
	}
	return err == KP_ENOENT ? KP_OK : err;
}

static void
skip_requests(struct otlp *x, int64_t last, size_t n)
{
	count_lost(x, (int64_t)n, 0);
	x->tail.request = last;
}

static bool
put_traces(struct otlp *x, struct kp_query *q)
{
	struct kp_query_tree v[REQUESTS_AT_ONCE];
	int64_t ids[REQUESTS_AT_ONCE];
	size_t n, got;
	enum kp_err err;

	if (next_requests(x, q, ids, &n) != KP_OK || n == 0)
		return false;
	err = read_trees(q, ids, n, v, &got);
	if (got == 0) {
		/* lest one that cannot be read block all others for ever */
		if (err != KP_OK && ++x->unread == UNREAD_MAX) {
			x->unread = 0;
			skip_requests(x, ids[0], 1);
		}
		return false;
	}
	x->unread = 0;
	x->batch = (struct batch){ .traces = true, .request = ids[got - 1] };
	x->batch.n = otlp_traces(&x->body, x->tail.started, v, got);
	for (size_t i = 0; i < got; i++)
		kp_query_tree_free(&v[i]);
	/* out of memory, or larger than OTLP_BODY_MAX */
	if (x->body.err != KP_OK)
		skip_requests(x, ids[got - 1], got);
	return x->body.err == KP_OK;
}

/* False: there are none to send. */
static bool
make_traces(struct otlp *x)
{
	struct kp_query *q;
	bool made;
	char *why;

	kp_buf_reset(&x->body);
	if (kp_query_open(&q, x->o.db, &why) != KP_OK) {
		free(why);
		return false;
	}
	kp_query_deadline(q, kp_mono_now() + QUERY_MAX, NULL);
	made = put_traces(x, q);
	kp_query_close(q);
	return made;
}

/* ---- metrics ---- */

/* False: the node has no new ones.  The caller has locked the totals. */
static bool
put_metrics(struct otlp *x, size_t node)
{
	const struct total_node *n = totals_node(x->o.totals, node);

	if (n == NULL || n->version == x->sent[node])
		return false;
	kp_buf_reset(&x->body);
	x->batch = (struct batch){ .node = node, .version = n->version };
	x->batch.n = otlp_metrics(&x->body, x->o.totals, node);
	/* as in put_traces(); the next ones make up for them */
	if (x->body.err != KP_OK)
		x->sent[node] = n->version;
	return x->body.err == KP_OK;
}

static bool
make_metrics(struct otlp *x)
{
	bool made = false;
	size_t n;

	totals_lock(x->o.totals);
	n = totals_count(x->o.totals, TOTALS_NODE);
	for (size_t i = 0; i < n && !made; i++) {
		x->next = (x->next + 1) % n;
		made = put_metrics(x, x->next);
	}
	totals_unlock(x->o.totals);
	return made;
}

/* ---- sending ---- */

static bool
is_later(int status)
{
	return status == 0 || status == 429 || status == 502 ||
	    status == 503 || status == 504;
}

/* Notes the reason in the status, which the caller has locked. */
static void
note_why(struct otlp *x, const struct http_post_answer *a)
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
count_taken(struct otlp *x, const struct http_post_answer *a)
{
	bool taken = a->status >= 200 && a->status < 300;
	const struct batch *b = &x->batch;
	uint64_t refused = taken ? otlp_refused(a->text, a->n, b->traces,
	    b->n) : b->n;

	x->status.failing = false;
	if (refused > 0)
		note_why(x, a);
	if (b->traces) {
		x->status.spans += b->n - refused;
		x->status.spans_refused += refused;
	} else {
		x->status.points += b->n - refused;
		x->status.points_refused += refused;
	}
}

static void
on_answer(struct otlp *x, const struct http_post_answer *a)
{
	kp_dur_ns wait, asked = (kp_dur_ns)a->retry_after * KP_NS_PER_S;
	kp_mono_ns now = kp_mono_now();
	bool later = is_later(a->status);

	x->sending = false;
	pthread_mutex_lock(&x->lock);
	if (later) {
		x->status.failures++;
		x->status.failing = true;
		note_why(x, a);
	} else {
		count_taken(x, a);
	}
	pthread_mutex_unlock(&x->lock);
	x->turn = now;
	if (later) {
		wait = kp_backoff_next(&x->backoff, now);
		x->turn += asked > wait ? asked : wait;
		if (x->ending)
			atomic_store(&x->stop, true);
		return;
	}
	kp_backoff_works(&x->backoff, now);
	if (x->batch.traces)
		x->tail.request = x->batch.request;
	else
		x->sent[x->batch.node] = x->batch.version;
}

static void
send_next(struct otlp *x)
{
	x->metrics_first = !x->metrics_first;
	x->sending = x->metrics_first ? make_metrics(x) || make_traces(x) :
	    make_traces(x) || make_metrics(x);
	if (x->sending)
		http_post_send(x->post, x->batch.traces ? "/v1/traces" :
		    "/v1/metrics", &x->body);
	else if (x->ending)
		atomic_store(&x->stop, true);
	else
		x->turn = kp_mono_now() + POLL_INTERVAL;
}

/* Sends what there is, until then or until it is stopped. */
static void
otlp_loop(struct otlp *x, kp_mono_ns until)
{
	struct http_post_answer a;
	kp_mono_ns now, next;

	while (!atomic_load(&x->stop) && (now = kp_mono_now()) < until) {
		if (!x->sending && now >= x->turn)
			send_next(x);
		next = x->sending || x->turn > until ? until : x->turn;
		if (http_post_wait(x->post, next - now, &x->stop, &a))
			on_answer(x, &a);
	}
}

/* ---- starting and stopping ---- */

static void *
otlp_main(void *ctx)
{
	struct otlp *x = ctx;

	/* on Linux this is the thread's own: the event loop goes first */
	setpriority(PRIO_PROCESS, 0, NICER);
	otlp_loop(x, INT64_MAX);
	return NULL;
}

static void
otlp_free(struct otlp *x)
{
	http_post_free(x->post);
	kp_buf_free(&x->body);
	pthread_mutex_destroy(&x->lock);
	free(x);
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
	x->turn = kp_mono_now() + POLL_INTERVAL;
	err = http_post_new(&x->post, o->url, o->header_file, why, n);
	if (err == KP_OK && kp_thread_start(&x->thread, otlp_main, x) != 0)
		err = KP_ENOMEM;
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
	atomic_store(&x->stop, true);
	http_post_wake(x->post);
	pthread_join(x->thread, NULL);
}

/* Slow requests that have not been sent. */
static uint64_t
count_waiting(struct otlp *x)
{
	int64_t id, newest = 0;
	struct kp_query *q;
	enum kp_err err;
	char *why;
	size_t n;

	if (kp_query_open(&q, x->o.db, &why) != KP_OK) {
		free(why);
		return 0;
	}
	err = kp_request_tail_next(q, &x->tail, &id, 1, &n, &newest);
	kp_query_close(q);
	return err == KP_OK ? (uint64_t)(newest - x->tail.request) : 0;
}

uint64_t
otlp_finish(struct otlp *x)
{
	uint64_t waiting;

	if (x == NULL)
		return 0;
	x->ending = true;
	if (!x->status.failing) {
		atomic_store(&x->stop, false);
		x->turn = kp_mono_now();
		otlp_loop(x, x->turn + LAST_SECONDS * KP_NS_PER_S);
	}
	waiting = count_waiting(x);
	otlp_free(x);
	return waiting;
}
