/*
 * push.c - the exporter's thread: makes a body, of traces and of metrics in turn or of
 * profiles, sends it, and retries with backoff.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "kprofd/clock.h"
#include "kprofd/thread.h"
#include "push.h"
#include "otlp_json.h"
#include "http_post.h"
#include "profiles.h"
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
	enum push_kind kind;
	size_t n;		/* spans, points or profiles */
	int64_t request;	/* of traces: the last one's id */
	size_t node;		/* of metrics */
	uint64_t version;	/* of the node's totals */
};

struct push {
	struct push_opts o;
	struct otlp_about about;
	struct post *post;
	pthread_t thread;
	struct kp_request_tail tail;
	struct profiles profiles;
	unsigned unread;	/* failed reads of the next request */
	uint64_t sent[TOTALS_NODES_MAX + 2];	/* versions, by node */
	size_t next;		/* the node whose turn it is */
	struct kp_backoff backoff;
	struct batch batch;
	struct kp_buf body;
	bool metrics_first;	/* alternates */
	bool sending, ending;
	bool again;		/* the body that was made is sent again */
	kp_mono_ns turn;	/* when the next body is made, unless one is sent */
	atomic_bool stop;	/* the loop ends */
	pthread_mutex_t lock;	/* of the status */
	struct push_status status;
};

static const struct {
	const char *name, *option;
} to_names[] = {
	[PUSH_OTLP] = { "otlp", "-otlp" },
	[PUSH_OTLP_PROFILES] = { "otlp_profiles", "-otlp-profiles" },
	[PUSH_PYROSCOPE] = { "pyroscope", "-pyroscope" },
};

const char *
push_name(enum push_to to)
{
	return to_names[to].name;
}

const char *
push_option(enum push_to to)
{
	return to_names[to].option;
}

/* ---- traces ---- */

/* lost: more of them; waiting: all that are; -1: not known. */
static void
note_behind(struct push *x, int64_t lost, int64_t waiting)
{
	pthread_mutex_lock(&x->lock);
	x->status.lost += (uint64_t)lost;
	if (waiting >= 0)
		x->status.waiting = (uint64_t)waiting;
	pthread_mutex_unlock(&x->lock);
}

/*
 * The ids that come next, up to a gap.  Requests that are too far behind or were
 * deleted are skipped and counted here; once, even if sending is retried.
 */
static enum kp_err
next_requests(struct push *x, struct kp_query *q,
    int64_t ids[REQUESTS_AT_ONCE], size_t *n)
{
	int64_t newest = 0, lost = 0;
	size_t whole = 1;
	enum kp_err err = kp_request_tail_next(q, &x->tail, ids,
	    REQUESTS_AT_ONCE, n, &newest);

	if (err != KP_OK)
		return err;
	if (newest - x->tail.request > PUSH_WAITING_MAX) {
		lost = newest - PUSH_WAITING_MAX - x->tail.request;
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
	note_behind(x, lost, newest - x->tail.request);
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
skip_requests(struct push *x, int64_t last, size_t n)
{
	note_behind(x, (int64_t)n, 0);
	x->tail.request = last;
}

static bool
put_traces(struct push *x, struct kp_query *q)
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
	x->batch = (struct batch){ .kind = PUSH_SPANS, .request = ids[got - 1] };
	x->batch.n = otlp_traces(&x->body, &x->about, v, got);
	for (size_t i = 0; i < got; i++)
		kp_query_tree_free(&v[i]);
	/* out of memory, or larger than PUSH_BODY_MAX */
	if (x->body.err != KP_OK)
		skip_requests(x, ids[got - 1], got);
	return x->body.err == KP_OK;
}

/* Has the database read into the body.  False: there is nothing to send. */
static bool
make_read(struct push *x, bool (*put)(struct push *x, struct kp_query *q))
{
	struct kp_query *q;
	bool made;
	char *why;

	kp_buf_reset(&x->body);
	if (kp_query_open(&q, x->o.db, &why) != KP_OK) {
		free(why);
		return false;
	}
	kp_query_limit(q, QUERY_MAX, QUERY_MAX, NULL);
	made = put(x, q);
	kp_query_close(q);
	return made;
}

/* ---- profiles ---- */

/* Rounded up; -1 stays. */
static int64_t
seconds(kp_dur_ns d)
{
	return d < 0 ? -1 : (d + KP_NS_PER_S - 1) / KP_NS_PER_S;
}

static bool
put_profiles(struct push *x, struct kp_query *q)
{
	kp_wall_ns now = kp_wall_now();
	kp_dur_ns lost = 0, left;

	x->batch = (struct batch){ .kind = PUSH_PROFILES };
	x->batch.n = profiles_put(&x->body, q, &x->profiles, now, &lost);
	left = profiles_left(q, &x->profiles, now, &lost);
	note_behind(x, seconds(lost), seconds(left));
	return x->batch.n > 0;
}

/* ---- metrics ---- */

/* False: the node has no new ones.  The caller has locked the totals. */
static bool
put_metrics(struct push *x, size_t node)
{
	const struct total_node *n = totals_node(x->o.totals, node);

	if (n == NULL || n->version == x->sent[node])
		return false;
	kp_buf_reset(&x->body);
	x->batch = (struct batch){ .kind = PUSH_POINTS, .node = node,
		.version = n->version };
	x->batch.n = otlp_metrics(&x->body, x->o.attributes,
	    x->o.totals, node);
	/* as in put_traces(); the next ones make up for them */
	if (x->body.err != KP_OK)
		x->sent[node] = n->version;
	return x->body.err == KP_OK;
}

static bool
make_metrics(struct push *x)
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

/* Notes slow requests that have not been sent, or seconds of windows; -1: not known. */
static int64_t
count_waiting(struct push *x)
{
	int64_t id, newest = 0, waiting = -1;
	kp_dur_ns lost = 0;
	struct kp_query *q;
	char *why;
	size_t n;

	if (kp_query_open(&q, x->o.db, &why) != KP_OK) {
		free(why);
		return -1;
	}
	kp_query_limit(q, QUERY_MAX, QUERY_MAX, NULL);
	if (x->o.to != PUSH_OTLP)
		waiting = seconds(profiles_left(q, &x->profiles, kp_wall_now(), &lost));
	else if (kp_request_tail_next(q, &x->tail, &id, 1, &n, &newest) == KP_OK)
		waiting = newest - x->tail.request;
	kp_query_close(q);
	note_behind(x, seconds(lost), waiting);
	return waiting;
}

/* ---- sending ---- */

static bool
is_later(enum push_to to, int status)
{
	if (to == PUSH_PYROSCOPE && (status == 408 || status == 409 || status >= 500))
		return true;
	return status == 0 || status == 429 || status == 502 ||
	    status == 503 || status == 504;
}

/* Notes the reason in the status, which the caller has locked. */
static void
note_why(struct push *x, const struct http_post_answer *a)
{
	const char *text = a->text;
	size_t len = a->n;
	int n;

	if (a->status != 0 && x->o.to == PUSH_OTLP_PROFILES)
		otlp_refused_profiles(a->text, a->n, &text, &len);
	/* what is between may answer with a text of its own */
	if (len == 0 && a->n > 0 && a->text[0] >= ' ') {
		text = a->text;
		len = a->n;
	}
	n = len > 160 ? 160 : (int)len;
	if (a->status == 0)
		snprintf(x->status.why, sizeof(x->status.why), "%.*s", n, text);
	else
		snprintf(x->status.why, sizeof(x->status.why),
		    "it answers %d%s%.*s", a->status, n > 0 ? ": " : "", n,
		    n > 0 ? text : "");
}

static void
count_taken(struct push *x, const struct http_post_answer *a)
{
	bool taken = a->status >= 200 && a->status < 300;
	const struct batch *b = &x->batch;
	uint64_t refused = b->n;
	const char *text;
	size_t len;

	if (taken && b->kind == PUSH_PROFILES)
		refused = x->o.to == PUSH_OTLP_PROFILES && otlp_refused_profiles(a->text,
		    a->n, &text, &len) > 0 ? b->n : 0;
	else if (taken)
		refused = otlp_refused(a->text, a->n, b->kind == PUSH_SPANS, b->n);

	x->status.failing = false;
	if (refused > 0)
		note_why(x, a);
	x->status.taken[b->kind] += b->n - refused;
	x->status.refused[b->kind] += refused;
}

static void
on_answer(struct push *x, const struct http_post_answer *a)
{
	kp_dur_ns wait, asked = (kp_dur_ns)a->retry_after * KP_NS_PER_S;
	kp_mono_ns now = kp_mono_now();
	bool later = is_later(x->o.to, a->status);

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
	/* a profile that was taken after all would be counted twice with others beside it */
	x->again = later && x->batch.kind == PUSH_PROFILES;
	if (x->again)
		count_waiting(x);
	if (later) {
		wait = kp_backoff_next(&x->backoff, now);
		x->turn += asked > wait ? asked : wait;
		if (x->ending)
			atomic_store(&x->stop, true);
		return;
	}
	kp_backoff_works(&x->backoff, now);
	if (x->batch.kind == PUSH_SPANS)
		x->tail.request = x->batch.request;
	else if (x->batch.kind == PUSH_POINTS)
		x->sent[x->batch.node] = x->batch.version;
	else
		profiles_sent(&x->profiles);
}

static void
send_next(struct push *x)
{
	static const char *const paths[] = { [PUSH_SPANS] = "/v1/traces",
		[PUSH_POINTS] = "/v1/metrics", [PUSH_PROFILES] = "/v1development/profiles" };

	x->metrics_first = !x->metrics_first;
	x->again = x->again && !profiles_stale(&x->profiles, kp_wall_now());
	if (x->o.to != PUSH_OTLP)
		x->sending = x->again || make_read(x, put_profiles);
	else if (x->metrics_first)
		x->sending = make_metrics(x) || make_read(x, put_traces);
	else
		x->sending = make_read(x, put_traces) || make_metrics(x);
	if (x->sending)
		http_post_send(x->post, x->o.to == PUSH_PYROSCOPE ? PROFILES_PYROSCOPE :
		    paths[x->batch.kind], &x->body);
	else if (x->ending)
		atomic_store(&x->stop, true);
	else
		x->turn = kp_mono_now() + POLL_INTERVAL;
}

/* Sends what there is, until then or until it is stopped. */
static void
push_loop(struct push *x, kp_mono_ns until)
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
push_main(void *ctx)
{
	struct push *x = ctx;

	/* on Linux this is the thread's own: the event loop goes first */
	setpriority(PRIO_PROCESS, 0, NICER);
	push_loop(x, INT64_MAX);
	return NULL;
}

static void
push_free(struct push *x)
{
	http_post_free(x->post);
	profiles_free(&x->profiles);
	kp_buf_free(&x->body);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

enum kp_err
push_start(struct push **out, const struct push_opts *o, char *why, size_t n)
{
	struct push *x = calloc(1, sizeof(*x));
	enum kp_err err;
	char option[48];

	snprintf(why, n, "out of memory");
	if (x == NULL)
		return KP_ENOMEM;
	x->o = *o;
	pthread_mutex_init(&x->lock, NULL);
	kp_buf_init(&x->body, PUSH_BODY_MAX);
	x->turn = kp_mono_now() + POLL_INTERVAL;
	snprintf(option, sizeof(option), "%s-header-file", push_option(o->to));
	x->about = (struct otlp_about){ o->attributes, o->totals };
	if (o->to != PUSH_OTLP)
		profiles_init(&x->profiles, o->to == PUSH_OTLP_PROFILES, &x->about, o->since,
		    o->interval, o->retain);
	err = http_post_new(&x->post, o->url, o->to == PUSH_OTLP_PROFILES ?
	    "application/x-protobuf" : "application/json", o->header_file,
	    option, why, n);
	if (err == KP_OK && kp_thread_start(&x->thread, push_main, x) != 0)
		err = KP_ENOMEM;
	if (err == KP_OK)
		*out = x;
	else
		push_free(x);
	return err;
}

void
push_status(struct push *x, struct push_status *out)
{
	pthread_mutex_lock(&x->lock);
	*out = x->status;
	pthread_mutex_unlock(&x->lock);
}

void
push_stop(struct push *x)
{
	if (x == NULL)
		return;
	atomic_store(&x->stop, true);
	http_post_wake(x->post);
	pthread_join(x->thread, NULL);
}

uint64_t
push_finish(struct push *x)
{
	int64_t waiting;

	if (x == NULL)
		return 0;
	x->ending = x->profiles.ending = true;
	if (!x->status.failing) {
		atomic_store(&x->stop, false);
		x->turn = kp_mono_now();
		push_loop(x, x->turn + LAST_SECONDS * KP_NS_PER_S);
	}
	waiting = count_waiting(x);
	push_free(x);
	return waiting < 0 ? 0 : (uint64_t)waiting;
}
