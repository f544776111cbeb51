/*
 * usage.c - reads what the processes and tables of a node use, and follows its long
 * queues of messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
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
	double scale;		/* of the sizes of a group, to those of all of it */
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

static int64_t
bounded(double v)
{
	return v < (double)KP_TARGET_COUNT_MAX ? (int64_t)(v + 0.5) :
	    KP_TARGET_COUNT_MAX;
}

static int64_t
size(struct reader *x)
{
	uint64_t bytes = count(x);

	return x->head.sized == 0 ? -1 : bounded((double)bytes * x->scale);
}

static void
read_processes(struct reader *x, struct kp_usage_row *w)
{
	struct kp_term *r = x->r;
	struct kp_span app;
	const struct kp_usage *u = &x->head;
	struct kp_pid pid;
	uint32_t arity = kp_term_tuple(r);
	int64_t n;

	if (arity != 9 && arity != 10)
		term_fail(r, KP_EFORMAT);
	x->scale = arity == 9 && u->estimated && u->sized > 0 ?
	    (double)u->sized_of / (double)u->sized : 1;
	x->name[x->head.n] = put_text(x, kp_term_binary(r));
	app = kp_term_atom(r);
	x->owner[x->head.n] = put_text(x, kp_span_is(app, "undefined") ?
	    (struct kp_span){ NULL, 0 } : app);
	w->count = (uint64_t)bounded((double)count(x) * x->scale);
	w->memory = size(x);
	w->binaries = size(x);
	n = kp_term_int(r);
	if (n < -1 || n > KP_TARGET_COUNT_MAX)
		term_fail(r, KP_EFORMAT);
	w->reductions = n < 0 || u->round <= 0 ? -1 :
	    bounded((double)n * x->scale * 1e9 / (double)u->round);
	if (w->count == 0)	/* none of them was asked for its size */
		w->memory = w->binaries = -1;
	w->messages = count(x);
	w->longest = count(x);
	if (kp_term_peek(r) == KP_TERM_PID) {
		pid = kp_term_pid(r);
		w->proc = (uint64_t)pid.serial << 32 | pid.id;
	} else if (!kp_span_is(kp_term_atom(r), "none")) {
		term_fail(r, KP_EFORMAT);
	}
	if (arity == 10 && !kp_span_is(kp_term_atom(r), "one"))
		term_fail(r, KP_EFORMAT);
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
	snprintf(text, n, "%s: %s messages wait%s since %s (process %s%s)",
	    q->name, text_count(messages, q->last), growing,
	    time_text(since, q->since, now),
	    kp_proc_text(q->proc, pid, sizeof(pid)), q->unseen > 0 ?
	    ", not seen in the last walk" : "");
	return text;
}

static void
put_end(const struct kp_queue *q, const char *how, kp_wall_ns now, char *text,
    size_t n)
{
	char most[TEXT_MAX], since[TIMEFMT_MAX], pid[64];

	snprintf(text, n, "%s: its queue is %s; %s messages waited at "
	    "most, since %s (process %s)", q->name, how, text_count(most, q->most),
	    time_text(since, q->since, now),
	    kp_proc_text(q->proc, pid, sizeof(pid)));
}

static struct kp_queue *
queue_find(struct kp_queues *q, uint64_t group)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->v[i].group == group)
			return &q->v[i];
	return NULL;
}

static uint64_t
group_key(const struct kp_usage_row *w)
{
	return intern_hash(w->name, strlen(w->name)) * 31 +
	    intern_hash(w->owner, strlen(w->owner));
}

static void
queue_begin(struct kp_queues *q, const struct kp_usage_row *w, kp_target_ns at,
    kp_wall_ns now)
{
	struct kp_queue *to;

	if (q->n == KP_QUEUES_MAX)
		return;
	to = &q->v[q->n++];
	*to = (struct kp_queue){ .group = group_key(w), .since = now,
		.since_at = at, .first = w->longest };
	snprintf(to->name, sizeof(to->name), "%.*s",
	    (int)utf8_fit(w->name, strlen(w->name), sizeof(to->name) - 1),
	    w->name);
}

static bool
is_due(const struct kp_queue *q)
{
	if (q->at == q->since_at || q->last < KP_QUEUE_LONG ||
	    (q->last <= q->first && q->last < KP_QUEUE_VERY_LONG))
		return false;
	return q->reported == 0 || q->last >= 2 * q->reported;
}

/* Groups without a row are in that of the others. */
static bool
others_short(const struct kp_usage *u)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->rows[i].kind == KP_USAGE_PROCESSES &&
		    u->rows[i].longest >= KP_QUEUE_FOLLOWED &&
		    strcmp(u->rows[i].name, "_other") == 0)
			return false;
	return true;
}

/* A row whose longest queue is short says so only if all of its queues were read. */
static void
look_at(struct kp_queues *q, struct kp_usage_row *w, kp_target_ns at, bool all,
    kp_wall_ns now)
{
	bool is_long = w->longest >= KP_QUEUE_FOLLOWED && w->proc != 0;
	struct kp_queue *to = queue_find(q, group_key(w));

	if (to == NULL && is_long) {
		queue_begin(q, w, at, now);
		to = queue_find(q, group_key(w));
	}
	if (to == NULL || (!is_long && !all))
		return;
	to->unseen = 0;
	to->last = w->longest;
	to->at = at;
	if (!is_long)
		return;
	to->proc = w->proc;
	if (to->last > to->most)
		to->most = to->last;
	w->since = to->since;
}

void
kp_queues_look(struct kp_queues *q, struct kp_usage *u, kp_wall_ns now,
    void (*report)(void *ctx, const char *text), void *ctx)
{
	const bool all = u->looked > 0 && u->looked == u->of;
	const bool others = all && others_short(u);
	char text[KP_QUEUE_TEXT_MAX];
	struct kp_queue *x;
	size_t kept = 0;

	for (size_t i = 0; i < q->n; i++) {
		q->v[i].unseen = others ? 0 : q->v[i].unseen + 1;
		q->v[i].last = others ? 0 : q->v[i].last;
	}
	for (size_t i = 0; i < u->n; i++)
		if (u->rows[i].kind == KP_USAGE_PROCESSES)
			look_at(q, &u->rows[i], u->at, all, now);
	for (size_t i = 0; i < q->n; i++) {
		x = &q->v[i];
		if (x->last >= KP_QUEUE_FOLLOWED && x->unseen <= KP_QUEUE_UNSEEN_MAX) {
			if (x->unseen == 0 && is_due(x)) {
				report(ctx, kp_queue_text(x, now, text, sizeof(text)));
				x->reported = x->last;
			}
			q->v[kept++] = *x;
		} else if (x->reported > 0) {
			put_end(x, x->unseen == 0 ? "short again" :
			    "not seen any more", now, text, sizeof(text));
			report(ctx, text);
		}
	}
	q->n = kept;
}
