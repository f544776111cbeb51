/*
 * viewers.c - lays out the calls of one request on tracks, where they nest, and writes
 * them as trace events and for speedscope.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sat.h"
#include "kprofd/fn_name.h"
#include "kprofd/request.h"
#include "otlp_json.h"
#include "text/flame_tree.h"
#include "text/json.h"
#include "text/timefmt.h"
#include "viewers.h"

/* ---- tracks ---- */

struct slice {
	const struct kp_query_call *c;
	const char *node;
	unsigned rank;		/* 0: the entry's process; 1: its node; 2: others */
	kp_dur_ns start, end;	/* since `begin` of the layout */
	uint32_t seq;
	uint32_t up;		/* the slice around it on its track, or KP_NONE */
	uint32_t track;
};

struct track {
	uint32_t first;		/* least seq of its slices */
	uint32_t top;		/* innermost slice that is open, while they are laid out */
	uint32_t node;		/* number, from 1 */
	uint32_t nth;		/* of its process, from 0 */
};

struct layout {
	const struct kp_query_tree *t;
	struct slice *v;	/* by track, then in order of time */
	uint32_t *at;		/* seq -> slice */
	struct track *tracks;
	size_t n, ntracks;
	kp_dur_ns begin;	/* of the first call, since the request's start; 0 at most */
	kp_dur_ns end;		/* of the last, since begin */
};

static int
by_process(const struct slice *a, const struct slice *b)
{
	int d = strcmp(a->node, b->node);

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return d != 0 ? d : strcmp(a->c->pid, b->c->pid);
}

static int
by_time(const void *pa, const void *pb)
{
	const struct slice *a = pa, *b = pb;
	int d = by_process(a, b);

	if (d != 0)
		return d;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->end != b->end)
		return a->end > b->end ? -1 : 1;
	return a->seq < b->seq ? -1 : 1;
}

static int
by_track(const void *pa, const void *pb)
{
	const struct slice *a = pa, *b = pb;

	return a->track != b->track ? (a->track < b->track ? -1 : 1) :
	    by_time(pa, pb);
}

/* Ends what has ended; is there room for this slice in what is still open? */
static bool
takes(struct track *k, const struct slice *v, const struct slice *s)
{
	while (k->top != KP_NONE && v[k->top].end <= s->start)
		k->top = v[k->top].up;
	return k->top == KP_NONE || s->end <= v[k->top].end;
}

/* Puts each slice on the first track of its process that takes it. */
static void
put_on_tracks(struct layout *l)
{
	size_t first = 0, k;
	uint32_t nodes = 0;
	struct slice *s;

	for (uint32_t i = 0; i < l->n; i++) {
		s = &l->v[i];
		if (i == 0 || strcmp(s->node, s[-1].node) != 0)
			nodes++;
		if (i > 0 && by_process(s - 1, s) != 0)
			first = l->ntracks;
		for (k = first; k < l->ntracks && !takes(&l->tracks[k], l->v, s);)
			k++;
		if (k == l->ntracks)
			l->tracks[l->ntracks++] = (struct track){ s->seq, KP_NONE,
				nodes, (uint32_t)(k - first) };
		s->track = (uint32_t)k;
		s->up = l->tracks[k].top;
		l->tracks[k].top = i;
		if (s->seq < l->tracks[k].first)
			l->tracks[k].first = s->seq;
	}
}

static void
layout_free(struct layout *l)
{
	free(l->v);
	free(l->at);
	free(l->tracks);
}

static enum kp_err
layout_make(struct layout *l, const struct kp_query_tree *t)
{
	const struct kp_query_call *c;
	struct slice *s;

	*l = (struct layout){ .t = t, .n = t->ncalls,
		.v = calloc(t->ncalls + 1, sizeof(*l->v)),
		.at = calloc(t->ncalls + 1, sizeof(*l->at)),
		.tracks = calloc(t->ncalls + 1, sizeof(*l->tracks)) };
	if (l->v == NULL || l->at == NULL || l->tracks == NULL) {
		layout_free(l);
		return KP_ENOMEM;
	}
	for (size_t i = 0; i < l->n; i++)
		if (t->calls[i].start < l->begin)
			l->begin = t->calls[i].start;
	for (uint32_t i = 0; i < l->n; i++) {
		c = &t->calls[i];
		s = &l->v[i];
		*s = (struct slice){ .c = c, .seq = i, .node = c->node[0] != '\0' ?
			c->node : t->request.node,
			.start = sat_span(l->begin, c->start) };
		s->rank = strcmp(s->node, t->request.node) != 0 ? 2 :
		    strcmp(c->pid, t->calls[0].pid) != 0;
		s->end = sat_add(s->start, c->total > 0 ? c->total : 0);
		if (s->end > l->end)
			l->end = s->end;
	}
	qsort(l->v, l->n, sizeof(*l->v), by_time);
	put_on_tracks(l);
	qsort(l->v, l->n, sizeof(*l->v), by_track);
	for (uint32_t i = 0; i < l->n; i++)
		l->at[l->v[i].seq] = i;
	return KP_OK;
}

/* The track's first slice in time is its process's. */
static const char *
track_name(char *text, size_t n, const struct layout *l, const struct slice *s,
    bool with_node)
{
	const struct track *k = &l->tracks[s->track];
	char nth[24] = "";

	if (k->nth > 0)
		snprintf(nth, sizeof(nth), " (%" PRIu32 ")", k->nth + 1);
	snprintf(text, n, "%s%s%s%s", s->c->pid, with_node ? " on " : "",
	    with_node ? s->node : "", nth);
	return text;
}

static bool
begins_track(const struct layout *l, uint32_t i)
{
	return i == 0 || l->v[i - 1].track != l->v[i].track;
}

/* Bytes of the names of a track, and of the whole. */
#define NAME_MAX_BYTES 2048u

static const char *
request_name(char *text, size_t n, const struct kp_query_request *q)
{
	char start[TIMEFMT_MAX];

	snprintf(text, n, "%s, request %" PRId64 " on %s, %s", q->identity, q->id,
	    q->node, timefmt_iso(start, q->start));
	return text;
}

/* ---- Chrome's trace events ---- */

static void
event_begin(struct json *j, const char *ph, const char *name,
    const struct layout *l, uint32_t track)
{
	json_object(j, NULL);
	json_string(j, "ph", ph);
	json_string(j, "name", name);
	json_uint(j, "pid", l->tracks[track].node);
	json_uint(j, "tid", track + 1u);
}

/* In us, exactly. */
static void
put_us(struct json *j, const char *key, kp_dur_ns d)
{
	json_ms(j, key, sat_mul(d, 1000));
}

/* Names a process or thread, and says where it stands. */
static void
put_names(struct json *j, const struct layout *l, uint32_t i)
{
	const struct slice *s = &l->v[i];
	char text[NAME_MAX_BYTES];

	event_begin(j, "M", "process_name", l, s->track);
	json_object(j, "args");
	json_string(j, "name", s->node);
	json_end(j);
	json_end(j);
	event_begin(j, "M", "thread_name", l, s->track);
	json_object(j, "args");
	json_string(j, "name", track_name(text, sizeof(text), l, s, false));
	json_end(j);
	json_end(j);
	event_begin(j, "M", "thread_sort_index", l, s->track);
	json_object(j, "args");
	json_uint(j, "sort_index", l->tracks[s->track].first);
	json_end(j);
	json_end(j);
}

static void
put_slice(struct json *j, const struct layout *l, const struct slice *s)
{
	const struct kp_query_call *c = s->c;
	char name[FN_NAME_MAX];

	event_begin(j, "X", fn_shown(name, sizeof(name), c->fn), l, s->track);
	json_string(j, "cat", c->tier[0] != '\0' ? c->tier : "in no tier");
	put_us(j, "ts", s->start);
	put_us(j, "dur", s->end - s->start);
	json_object(j, "args");
	json_ms(j, "total_ms", c->total);
	json_ms(j, "self_ms", c->self);
	if (c->pauses.gc >= 0)
		json_ms(j, "gc_ms", c->pauses.gc);
	if (c->pauses.out >= 0)
		json_ms(j, "out_ms", c->pauses.out);
	json_string(j, "outcome", c->outlasts ? "still running" :
	    c->outcome < KP_OUTCOMES ? kp_outcome_name(c->outcome) : "?");
	if (c->async)
		json_bool(j, "after_the_request", true);
	json_end(j);
	json_end(j);
}

/* An arrow from the call that another process's call was made for. */
static void
put_flow(struct json *j, const struct layout *l, const struct slice *s)
{
	const struct slice *from = s->c->parent == KP_NONE ? NULL :
	    &l->v[l->at[s->c->parent]];

	if (from == NULL || by_process(from, s) == 0)
		return;
	event_begin(j, "s", "message", l, from->track);
	json_string(j, "cat", "message");
	json_uint(j, "id", s->seq);
	/* inside that call, where programs find it */
	put_us(j, "ts", s->start < from->start || from->end <= from->start ?
	    from->start : s->start < from->end ? s->start : from->end - 1);
	json_end(j);
	event_begin(j, "f", "message", l, s->track);
	json_string(j, "cat", "message");
	json_string(j, "bp", "e");
	json_uint(j, "id", s->seq);
	put_us(j, "ts", s->start);
	json_end(j);
}

static void
put_chrome(struct kp_buf *b, const struct layout *l)
{
	const struct kp_query_request *q = &l->t->request;
	char text[NAME_MAX_BYTES];
	struct json j;

	json_open(&j, b);
	json_array(&j, "traceEvents");
	for (uint32_t i = 0; i < l->n && b->err == KP_OK; i++)
		if (begins_track(l, i))
			put_names(&j, l, i);
	for (uint32_t i = 0; i < l->n && b->err == KP_OK; i++)
		put_slice(&j, l, &l->v[i]);
	/* after the slices, which programs look for at the same time */
	for (uint32_t i = 0; i < l->n && b->err == KP_OK; i++)
		put_flow(&j, l, &l->v[i]);
	json_end(&j);
	json_string(&j, "displayTimeUnit", "ms");
	json_object(&j, "otherData");
	json_string(&j, "name", request_name(text, sizeof(text), q));
	json_string(&j, "exporter", "kprofd " KP_VERSION);
	json_int(&j, "request", q->id);
	json_time(&j, "start", sat_add(q->start, l->begin));
	json_ms(&j, "total_ms", q->total);
	json_string(&j, "outcome", q->outcome < KP_OUTCOMES ?
	    kp_outcome_name(q->outcome) : "?");
	json_uint(&j, "weight", q->weight);
	json_end(&j);
	json_close(&j);
}

/* ---- speedscope ---- */

static enum kp_err
put_frames(struct json *j, const struct layout *l, struct intern *frames)
{
	char name[FN_NAME_MAX];
	const char *fn;

	json_object(j, "shared");
	json_array(j, "frames");
	for (size_t i = 0; i < l->n; i++) {
		fn = l->v[i].c->fn;
		if (intern_get(frames, fn, strlen(fn) + 1) != NULL)
			continue;
		if (intern_put(frames, fn, strlen(fn) + 1,
		    (uint32_t)frames->len) == NULL)
			return KP_ENOMEM;
		json_object(j, NULL);
		json_string(j, "name", fn_shown(name, sizeof(name), fn));
		json_end(j);
	}
	json_end(j);
	json_end(j);
	return KP_OK;
}

static void
put_edge(struct json *j, const char *type, const struct slice *s, kp_dur_ns at,
    const struct intern *frames)
{
	json_object(j, NULL);
	json_string(j, "type", type);
	json_uint(j, "frame", intern_get(frames, s->c->fn,
	    strlen(s->c->fn) + 1)->val);
	json_int(j, "at", at);
	json_end(j);
}

/* The profile of a track, whose first slice is i; returns the next track's. */
static uint32_t
put_profile(struct json *j, const struct layout *l, uint32_t i,
    const struct intern *frames)
{
	uint32_t open = KP_NONE, first = i;
	char text[NAME_MAX_BYTES];

	json_object(j, NULL);
	json_string(j, "type", "evented");
	json_string(j, "name", track_name(text, sizeof(text), l, &l->v[i], true));
	json_string(j, "unit", "nanoseconds");
	json_int(j, "startValue", 0);
	json_int(j, "endValue", l->end);
	json_array(j, "events");
	for (; i < l->n && (i == first || !begins_track(l, i)); i++) {
		for (; open != KP_NONE && l->v[open].end <= l->v[i].start;
		    open = l->v[open].up)
			put_edge(j, "C", &l->v[open], l->v[open].end, frames);
		put_edge(j, "O", &l->v[i], l->v[i].start, frames);
		l->v[i].up = open;
		open = i;
	}
	for (; open != KP_NONE; open = l->v[open].up)
		put_edge(j, "C", &l->v[open], l->v[open].end, frames);
	json_end(j);
	json_end(j);
	return i;
}

static enum kp_err
put_speedscope(struct kp_buf *b, const struct layout *l)
{
	struct intern frames = { 0 };
	char text[NAME_MAX_BYTES];
	struct json j;
	enum kp_err err;

	json_open(&j, b);
	json_string(&j, "$schema", SPEEDSCOPE_SCHEMA);
	json_string(&j, "name", request_name(text, sizeof(text), &l->t->request));
	json_string(&j, "exporter", "kprofd " KP_VERSION);
	err = put_frames(&j, l, &frames);
	json_array(&j, "profiles");
	for (uint32_t i = 0; i < l->n && err == KP_OK && b->err == KP_OK;)
		i = put_profile(&j, l, i, &frames);
	json_end(&j);
	json_close(&j);
	intern_free(&frames);
	return err;
}

enum kp_err
trace_put(struct kp_buf *b, const struct kp_query_tree *t, enum trace_form form)
{
	enum kp_err err;
	struct layout l;

	if (form == TRACE_OTLP) {
		otlp_traces(b, NULL, t, 1);
		kp_buf_u8(b, '\n');
		return b->err;
	}
	err = layout_make(&l, t);
	if (err != KP_OK)
		return err;
	if (form == TRACE_CHROME)
		put_chrome(b, &l);
	else
		err = put_speedscope(b, &l);
	layout_free(&l);
	return err != KP_OK ? err : b->err;
}

enum kp_err
trace_from_db(struct kp_query *q, int64_t id, enum trace_form form,
    struct kp_buf *b)
{
	struct kp_query_tree t;
	enum kp_err err = kp_query_tree(q, id, &t);

	if (err != KP_OK)
		return err;
	err = trace_put(b, &t, form);
	kp_query_tree_free(&t);
	return err;
}
