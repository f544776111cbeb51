/*
 * usage.c - reads what the processes and tables of a node use, and follows its long
 * queues of messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "base/utf8.h"
#include "decode/term_bytes.h"
#include "kprofd/request.h"
#include "kprofd/trace.h"
#include "kprofd/usage.h"
#include "text/text.h"
#include "text/timefmt.h"

#define NAME_MAX 1024u		/* bytes: 255 characters, as an atom has */
#define TEXTS_MAX (2 * KP_USAGE_ROWS_MAX * (NAME_MAX + 8))

static const char *const kinds[KP_USAGE_KINDS] = {
	[KP_USAGE_PROCESSES] = "processes",
	[KP_USAGE_TABLES] = "tables",
	[KP_USAGE_NODE] = "node",
};

const char *
kp_usage_kind_name(enum kp_usage_kind k)
{
	return kinds[k];
}

/* ---- reading ---- */

struct reader {
	struct kp_term *r;
	struct kp_usage head;
	struct kp_usage_row rows[KP_USAGE_ROWS_MAX];
	size_t name[KP_USAGE_ROWS_MAX], owner[KP_USAGE_ROWS_MAX];	/* in: */
	struct kp_buf texts;
};

static size_t
put_text(struct reader *x, struct kp_span s)
{
	size_t at = x->texts.len;

	utf8_put_name(&x->texts, s.p, s.n, at + NAME_MAX);
	kp_buf_u8(&x->texts, '\0');
	return at;
}

static uint64_t
count(struct reader *x)
{
	return kp_term_count(x->r, KP_TARGET_COUNT_MAX);
}

/* A figure of one process, for the others of its group. */
static int64_t
whole(const struct reader *x, uint64_t v)
{
	const struct kp_usage *u = &x->head;
	double all = (double)v;

	if (u->estimated && u->sized > 0)
		all *= (double)u->sized_of / (double)u->sized;
	return all < (double)KP_TARGET_COUNT_MAX ? (int64_t)(all + 0.5) :
	    KP_TARGET_COUNT_MAX;
}

static int64_t
size(struct reader *x)
{
	uint64_t bytes = count(x);

	return x->head.sized == 0 ? -1 : whole(x, bytes);
}

static void
read_processes(struct reader *x, struct kp_usage_row *w)
{
	struct kp_term *r = x->r;
	struct kp_span app;
	struct kp_pid pid;
	int64_t n;

	kp_term_tuple_n(r, 9);
	x->name[x->head.n] = put_text(x, kp_term_binary(r));
	app = kp_term_atom(r);
	x->owner[x->head.n] = put_text(x, kp_span_is(app, "undefined") ?
	    (struct kp_span){ NULL, 0 } : app);
	w->count = (uint64_t)whole(x, count(x));
	w->memory = size(x);
	w->binaries = size(x);
	n = kp_term_int(r);
	if (n < -1 || n > KP_TARGET_COUNT_MAX)
		term_fail(r, KP_EFORMAT);
	w->reductions = n < 0 || x->head.round <= 0 ? -1 : (int64_t)
	    ((double)whole(x, (uint64_t)n) * 1e9 / (double)x->head.round);
	w->messages = count(x);
	w->longest = count(x);
	if (kp_term_peek(r) == KP_TERM_PID) {
		pid = kp_term_pid(r);
		w->proc = (uint64_t)pid.serial << 32 | pid.id;
	} else if (!kp_span_is(kp_term_atom(r), "none")) {
		term_fail(r, KP_EFORMAT);
	}
}

static void
read_tables(struct reader *x, struct kp_usage_row *w)
{
	kp_term_tuple_n(x->r, 5);
	x->name[x->head.n] = put_text(x, kp_term_binary(x->r));
	x->owner[x->head.n] = put_text(x, kp_term_binary(x->r));
	w->count = count(x);
	w->memory = (int64_t)count(x);
	w->binaries = w->reductions = -1;
	w->messages = count(x);
}

static void
read_node(struct reader *x, struct kp_usage_row *w)
{
	kp_term_tuple_n(x->r, 4);
	x->name[x->head.n] = put_text(x, kp_term_atom(x->r));
	x->owner[x->head.n] = put_text(x, (struct kp_span){ NULL, 0 });
	w->memory = (int64_t)count(x);
	w->binaries = w->reductions = -1;
	w->count = count(x);
	w->limit = count(x);
}

static int64_t
both(int64_t a, int64_t b)
{
	return a < 0 ? b : b < 0 ? a : sat_add(a, b);
}

/* Names are cut, so two rows may be of the same: adds the last one to the first. */
static bool
is_twice(struct reader *x, const struct kp_usage_row *w)
{
	const char *t = (const char *)x->texts.p;
	const size_t last = x->head.n;
	struct kp_usage_row *to;

	for (size_t i = 0; x->texts.err == KP_OK && i < last; i++) {
		to = &x->rows[i];
		if (to->kind != w->kind ||
		    strcmp(t + x->name[i], t + x->name[last]) != 0 ||
		    strcmp(t + x->owner[i], t + x->owner[last]) != 0)
			continue;
		to->count += w->count;
		to->memory = both(to->memory, w->memory);
		to->binaries = both(to->binaries, w->binaries);
		to->reductions = both(to->reductions, w->reductions);
		to->messages += w->messages;
		if (w->longest > to->longest) {
			to->longest = w->longest;
			to->proc = w->proc;
		}
		return true;
	}
	return false;
}

static void
read_rows(struct reader *x, enum kp_usage_kind kind)
{
	static void (*const reads[KP_USAGE_KINDS])(struct reader *,
	    struct kp_usage_row *) = {
		[KP_USAGE_PROCESSES] = read_processes,
		[KP_USAGE_TABLES] = read_tables,
		[KP_USAGE_NODE] = read_node,
	};
	uint32_t n = kp_term_list(x->r);
	struct kp_usage_row *w;

	if (n > KP_USAGE_ROWS_MAX - x->head.n)
		term_fail(x->r, KP_ELIMIT);
	for (uint32_t i = 0; i < n && x->r->err == KP_OK; i++) {
		w = &x->rows[x->head.n];
		*w = (struct kp_usage_row){ .kind = (uint8_t)kind };
		reads[kind](x, w);
		x->head.n += !is_twice(x, w);
	}
	if (n > 0)
		kp_term_nil(x->r);
}

static void
read_head(struct reader *x)
{
	struct kp_usage *u = &x->head;

	kp_term_tuple_n(x->r, 5);
	u->at = kp_term_time(x->r);
	kp_term_tuple_n(x->r, 6);
	u->looked = count(x);
	u->of = count(x);
	u->sized = count(x);
	u->sized_of = count(x);
	u->walk = (kp_dur_ns)kp_term_count(x->r, KP_TARGET_TIME_MAX);
	u->round = (kp_dur_ns)kp_term_count(x->r, KP_TARGET_TIME_MAX);
	/* some end, or do not answer */
	u->estimated = u->sized < u->sized_of - u->sized_of / 50;
}

static struct kp_usage *
made(const struct reader *x)
{
	size_t rows = x->head.n * sizeof(x->rows[0]);
	size_t bytes = sizeof(struct kp_usage) + rows + x->texts.len;
	struct kp_usage *u = x->texts.err == KP_OK ? malloc(bytes) : NULL;
	char *texts;

	if (u == NULL)
		return NULL;
	*u = x->head;
	u->bytes = bytes;
	memcpy(u->rows, x->rows, rows);
	texts = (char *)&u->rows[u->n];
	if (x->texts.len > 0)
		memcpy(texts, x->texts.p, x->texts.len);
	for (size_t i = 0; i < u->n; i++) {
		u->rows[i].name = texts + x->name[i];
		u->rows[i].owner = texts + x->owner[i];
	}
	return u;
}

struct kp_usage *
kp_usage_read(struct kp_term *r, bool make)
{
	struct reader *x = calloc(1, sizeof(*x));
	struct kp_usage *u = NULL;

	if (x == NULL) {
		term_fail(r, KP_ENOMEM);
		return NULL;
	}
	x->r = r;
	kp_buf_init(&x->texts, TEXTS_MAX);
	read_head(x);
	for (int k = 0; k < KP_USAGE_KINDS; k++)
		read_rows(x, (enum kp_usage_kind)k);
	if (make && r->err == KP_OK)
		u = made(x);
	kp_buf_free(&x->texts);
	free(x);
	return u;
}

struct kp_usage *
kp_usage_copy(const struct kp_usage *u)
{
	struct kp_usage *to = malloc(u->bytes);

	if (to == NULL)
		return NULL;
	memcpy(to, u, u->bytes);
	for (size_t i = 0; i < u->n; i++) {
		to->rows[i].name = (char *)to + (u->rows[i].name -
		    (const char *)u);
		to->rows[i].owner = (char *)to + (u->rows[i].owner -
		    (const char *)u);
	}
	return to;
}

/* ---- queues that grow ---- */

/* 02:33, or with its date if that was long ago. */
static const char *
time_text(char *buf, kp_wall_ns t, kp_wall_ns now)
{
	timefmt_local(buf, t);
	if (strlen(buf) < 16)
		return buf;
	buf[16] = '\0';
	return now - t < 12 * 3600 * KP_NS_PER_S ? buf + 11 : buf;
}

char *
kp_queue_text(const struct kp_queue *q, kp_wall_ns now, char *text, size_t n)
{
	char messages[TEXT_MAX], rate[TEXT_MAX], since[TIMEFMT_MAX], pid[64];
	double grown = (double)q->last - (double)q->first;
	double a_second = q->at > q->since_at ? grown * 1e9 /
	    (double)(q->at - q->since_at) : 0;
	char growing[TEXT_MAX + 32] = "";

	if (grown > 0)
		snprintf(growing, sizeof(growing), ", growing %s a second",
		    a_second >= 1 ? text_count(rate, (uint64_t)(a_second + 0.5)) :
		    text_average(rate, a_second));
	snprintf(text, n, "%s: %s messages wait%s since %s (process %s)", q->name,
	    text_count(messages, q->last), growing,
	    time_text(since, q->since, now),
	    kp_proc_text(q->proc, pid, sizeof(pid)));
	return text;
}

static void
put_short(const struct kp_queue *q, kp_wall_ns now, char *text, size_t n)
{
	char most[TEXT_MAX], since[TIMEFMT_MAX], pid[64];

	snprintf(text, n, "%s: its queue is short again; %s messages waited at "
	    "most, since %s (process %s)", q->name, text_count(most, q->most),
	    time_text(since, q->since, now),
	    kp_proc_text(q->proc, pid, sizeof(pid)));
}

static struct kp_queue *
queue_find(struct kp_queues *q, uint64_t proc)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->v[i].proc == proc)
			return &q->v[i];
	return NULL;
}

/* In the place of the shortest one, if there is no other. */
static struct kp_queue *
queue_begin(struct kp_queues *q, const struct kp_usage_row *w, kp_target_ns at,
    kp_wall_ns now)
{
	struct kp_queue *to = &q->v[0];

	if (q->n < KP_QUEUES_MAX) {
		to = &q->v[q->n++];
	} else {
		for (size_t i = 1; i < q->n; i++)
			if (q->v[i].last < to->last)
				to = &q->v[i];
		if (to->last >= w->longest)
			return NULL;
	}
	*to = (struct kp_queue){ .proc = w->proc, .since = now, .since_at = at,
		.first = w->longest };
	snprintf(to->name, sizeof(to->name), "%.*s",
	    (int)utf8_fit(w->name, strlen(w->name), sizeof(to->name) - 1),
	    w->name);
	return to;
}

static bool
is_due(const struct kp_queue *q)
{
	if (q->at == q->since_at || q->last < KP_QUEUE_LONG ||
	    (q->last <= q->first && q->last < KP_QUEUE_VERY_LONG))
		return false;
	return q->reported == 0 || q->last >= 2 * q->reported;
}

void
kp_queues_look(struct kp_queues *q, struct kp_usage *u, kp_wall_ns now,
    void (*report)(void *ctx, const char *text), void *ctx)
{
	struct kp_queue *at;
	char text[KP_QUEUE_TEXT_MAX];
	size_t kept = 0;

	for (size_t i = 0; i < q->n; i++)
		q->v[i].there = false;
	for (size_t i = 0; i < u->n; i++) {
		if (u->rows[i].kind != KP_USAGE_PROCESSES ||
		    u->rows[i].proc == 0 ||
		    u->rows[i].longest < KP_QUEUE_FOLLOWED)
			continue;
		at = queue_find(q, u->rows[i].proc);
		if (at == NULL)
			at = queue_begin(q, &u->rows[i], u->at, now);
		if (at == NULL)
			continue;
		at->there = true;
		at->last = u->rows[i].longest;
		at->at = u->at;
		if (at->last > at->most)
			at->most = at->last;
		u->rows[i].since = at->since;
	}
	for (size_t i = 0; i < q->n; i++) {
		if (q->v[i].there && is_due(&q->v[i])) {
			report(ctx, kp_queue_text(&q->v[i], now, text,
			    sizeof(text)));
			q->v[i].reported = q->v[i].last;
		} else if (!q->v[i].there && q->v[i].reported > 0) {
			put_short(&q->v[i], now, text, sizeof(text));
			report(ctx, text);
		}
		if (q->v[i].there)
			q->v[kept++] = q->v[i];
	}
	q->n = kept;
}
