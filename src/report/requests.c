/*
 * requests.c - reads one request; lays out the list of requests, the indented tree of
 * one request's calls, and how long messages waited in mailboxes; writes them as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grid.h"
#include "kprofd/fn_name.h"
#include "losses.h"
#include "requests.h"
#include "series.h"
#include "text/text.h"
#include "text/timefmt.h"

#define INDENT_MAX 50u		/* levels, as in the view slow_calls */
#define FN_BYTES_MAX 2048u

/* The outcome is from the database, and may be one that this program lacks. */
static const char *
outcome_text(uint8_t outcome)
{
	return outcome < KP_OUTCOMES ? kp_outcome_name(outcome) : "?";
}

static void
request_cells(struct grid *g, const struct kp_query_request *q, bool raised,
    bool traced)
{
	char text[TIMEFMT_MAX > TEXT_MAX ? TIMEFMT_MAX : TEXT_MAX];

	snprintf(text, sizeof(text), "%" PRId64, q->id);
	grid_cell(g, text);
	grid_cell(g, timefmt_local_ms(text, q->start));
	grid_cell(g, q->node);
	grid_cell(g, q->identity);
	grid_cell(g, text_dur(text, q->total));
	grid_cell(g, outcome_text(q->outcome));
	grid_cell(g, q->weight > 0 ? text_count(text, q->ncalls) : "-");
	if (raised)
		grid_cell(g, q->nraised > 0 ? text_count(text, q->nraised) :
		    "");
	snprintf(text, sizeof(text), "%.*s", KP_TRACE_ID_LEN,
	    q->traceparent != NULL ? q->traceparent + KP_TRACE_ID_AT : "");
	if (traced)
		grid_cell(g, text);
}

void
requests_rows(struct kp_buf *b, const struct kp_query_requests *rs,
    unsigned width)
{
	bool raised = false, traced = false;
	struct grid g;

	for (size_t i = 0; i < rs->n; i++) {
		raised |= rs->v[i].nraised > 0;
		traced |= rs->v[i].traceparent != NULL;
	}
	grid_init(&g);
	grid_col(&g, "id", GRID_RIGHT);
	grid_fix(&g);
	grid_col_optional(&g, "time", GRID_LEFT, 4);
	grid_col_optional(&g, "node", GRID_LEFT, 2);
	grid_col(&g, "identity", GRID_LEFT);
	grid_cut(&g);
	grid_col(&g, "total", GRID_RIGHT);
	grid_col_optional(&g, "outcome", GRID_LEFT, 3);
	grid_col_optional(&g, "calls", GRID_RIGHT, 1);
	if (raised)
		grid_col_optional(&g, "raised", GRID_RIGHT, 1);
	if (traced)
		grid_col_optional(&g, "trace", GRID_LEFT, 1);
	for (size_t i = 0; i < rs->n; i++)
		request_cells(&g, &rs->v[i], raised, traced);
	grid_write(&g, width, b);
	grid_free(&g);
}

void
requests_table(struct kp_buf *b, const struct kp_query_requests *rs,
    const struct kp_query_sum *cover, unsigned width)
{
	char some[TEXT_MAX], of[TEXT_MAX], share[TEXT_MAX], line[4 * TEXT_MAX];
	bool untraced = false;

	requests_rows(b, rs, width);
	kp_buf_u8(b, '\n');
	for (size_t i = 0; i < rs->n; i++)
		untraced |= rs->v[i].weight == 0;
	if (untraced)
		text_wrap(b, "- calls: outside of slices of time, so tiers were not "
		    "traced: the request has its time alone", width, 2);
	if (cover->losses.n[KP_LOSS_SAMPLED_OUT] > 0 && !cover->uncounted) {
		uint64_t timed = cover->losses.n[KP_LOSS_TIMED],
		    known = cover->sampled + timed;

		/* At its edges a window has some of requests that another has counted. */
		if (known > cover->entry_calls)
			known = cover->entry_calls;

		snprintf(line, sizeof(line), "of the %s requests %s, which are %s "
		    "of all %s: among the others may be some that were as slow",
		    text_count(some, known), timed > 0 ? "whose time is known" : "measured",
		    text_share(share, (double)known / (double)cover->entry_calls),
		    text_count(of, cover->entry_calls));
		text_wrap(b, line, width, 2);
	}
	losses_cover_text(b, "", cover, width);
}

/* A string, as a label can exceed 2^53, where many JSON readers lose digits. */
static void
json_label(struct json *j, const char *key, uint64_t label)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, label);
	if (label == 0)
		json_null(j, key);
	else
		json_string(j, key, text);
}

/* The application's trace, and its span that the request is a child of. */
static void
json_traceparent(struct json *j, const char *traceparent)
{
	char text[KP_TRACE_ID_LEN + 1];

	if (traceparent == NULL) {
		json_null(j, "trace_id");
		json_null(j, "trace_span_id");
		json_null(j, "trace_sampled");
		return;
	}
	snprintf(text, sizeof(text), "%.*s", KP_TRACE_ID_LEN,
	    traceparent + KP_TRACE_ID_AT);
	json_string(j, "trace_id", text);
	snprintf(text, sizeof(text), "%.16s", traceparent + KP_TRACE_SPAN_AT);
	json_string(j, "trace_span_id", text);
	json_bool(j, "trace_sampled", kp_traceparent_sampled(traceparent));
}

static void
json_request(struct json *j, const struct kp_query_request *q)
{
	json_int(j, "request", q->id);
	json_time(j, "start", q->start);
	json_string(j, "node", q->node);
	json_string(j, "identity", q->identity);
	json_ms(j, "total_ms", q->total);
	json_string(j, "outcome", outcome_text(q->outcome));
	json_uint(j, "calls", q->ncalls);
	json_uint(j, "raised_calls", q->nraised);
	json_label(j, "label", q->label);
	json_label(j, "parent_label", q->parent_label);
	json_traceparent(j, q->traceparent);
	json_uint(j, "weight", q->weight);
}

void
requests_json(struct kp_buf *b, const struct kp_query_requests *rs,
    const struct kp_query_sum *cover)
{
	struct json j;

	json_open(&j, b);
	json_array(&j, "requests");
	for (size_t i = 0; i < rs->n; i++) {
		json_object(&j, NULL);
		json_request(&j, &rs->v[i]);
		if (rs->v[i].by >= 0)
			json_ms(&j, "by_ms", rs->v[i].by);
		json_end(&j);
	}
	json_end(&j);
	json_uint(&j, "entry_calls", cover->entry_calls);
	json_uint(&j, "sampled", cover->sampled);
	losses_cover_json(&j, cover);
	json_close(&j);
}

/* ---- one request ---- */

static enum kp_err
place_from_db(struct kp_query *q, const struct kp_query_range *r,
    const struct kp_query_request *rq, struct request_place *out)
{
	const struct kp_query_key key = { "_total", rq->identity };
	struct kp_query_range of_type = *r;
	struct kp_query_sum s = { 0 };
	const struct kp_cell *c;
	enum kp_err err;

	of_type.keys = &key;
	of_type.nkeys = 1;
	of_type.identity_glob = NULL;
	err = kp_query_sum(q, &of_type, &s);
	c = err == KP_OK && rq->total >= 0 ? kp_query_cell(&s, "_total",
	    rq->identity) : NULL;
	if (c != NULL)
		err = kp_hist_merge(&out->hist, &c->hist);
	if (c != NULL && err == KP_OK) {
		out->start = s.start;
		out->end = s.end;
		out->known = c->timed == c->w_timed;
		out->slowest = rq->total >= c->max;
		for (uint32_t i = 0; i < c->hist.len; i++)
			if (c->hist.lo + (int32_t)i < kp_hist_bucket(rq->total))
				out->faster += c->hist.n[i];
	}
	kp_query_sum_free(&s);
	return err;
}

enum kp_err
request_from_db(struct kp_query *q, int64_t id, const struct kp_query_range *r,
    struct request_report *out)
{
	struct request_report rr = { .place = { .start = 0 } };
	struct kp_query_range around;
	enum kp_err err = kp_query_tree(q, id, &rr.tree);

	if (err == KP_OK)
		err = kp_query_related(q, id, &rr.tree);
	if (err == KP_OK)
		err = kp_query_around(q, &rr.tree.request, &around);
	if (err == KP_OK)
		err = kp_query_cover(q, &around, &rr.cover);
	if (err == KP_OK)
		err = place_from_db(q, r != NULL ? r : &around, &rr.tree.request,
		    &rr.place);
	if (err == KP_OK)
		*out = rr;
	else
		request_free(&rr);
	return err;
}

void
request_free(struct request_report *rr)
{
	kp_hist_free(&rr->place.hist);
	kp_query_sum_free(&rr->cover);
	kp_query_tree_free(&rr->tree);
}

static void
put_place(struct kp_buf *b, const struct request_report *rr, unsigned width)
{
	const struct request_place *p = &rr->place;
	double share = (double)p->faster / (double)p->hist.count;
	char line[TEXT_MAX + 100], n[TEXT_MAX], slower[40];

	if (p->hist.count == 0)
		return;
	/* less than all, if it is not the slowest; of weight 0 it is not among them */
	if (p->slowest)
		snprintf(slower, sizeof(slower), rr->tree.request.weight == 0 ?
		    "slower than all" : "the slowest");
	else
		snprintf(slower, sizeof(slower), "slower than %.1f %%",
		    100 * (share < 0.999 ? share : 0.999));
	snprintf(line, sizeof(line), "%s of %s request%s of its type in its window%s",
	    slower, text_known(n, p->hist.count, p->known),
	    p->hist.count == 1 ? "" : "s", rr->cover.windows == 1 ? "" : "s");
	text_wrap(b, line, width, 2);
}

static void
place_json(struct json *j, const struct request_place *p)
{
	if (p->hist.count == 0) {
		json_null(j, "place");
		return;
	}
	json_object(j, "place");
	json_time(j, "start", p->start);
	json_time(j, "end", p->end);
	json_uint(j, "requests", p->hist.count);
	json_bool(j, "requests_known", p->known);
	json_bool(j, "slowest", p->slowest);
	json_uint(j, "faster", p->faster);
	json_uint(j, "per_octave", SERIES_PER_OCTAVE);
	series_buckets_json(j, "buckets", &p->hist);
	json_end(j);
}

/* Clocks of nodes may say less. */
static kp_dur_ns
after(kp_wall_ns outer, kp_wall_ns inner)
{
	return inner > outer ? inner - outer : 0;
}

/* Is it the time that the request waited in a queue, before it began? */
static bool
is_queue(const struct kp_query_wait *w)
{
	return strcmp(w->receiver, KP_QUEUE) == 0;
}

static void
put_facts(struct kp_buf *b, const struct kp_query_tree *t)
{
	const struct kp_query_request *q = &t->request;
	char text[TIMEFMT_MAX > TEXT_MAX ? TIMEFMT_MAX : TEXT_MAX];

	kp_buf_printf(b, "request %" PRId64 ": ", q->id);
	text_put(b, q->identity);
	kp_buf_str(b, " on ");
	text_put(b, q->node);
	kp_buf_printf(b, "\n%s ", timefmt_local_ms(text, q->start));
	kp_buf_printf(b, "%s, ", timefmt_zone(text, q->start));
	kp_buf_printf(b, "%s, ", q->total < 0 ? "no end seen" :
	    text_dur(text, q->total));
	kp_buf_printf(b, "%s, %s", outcome_text(q->outcome),
	    text_counted(text, q->ncalls, "call"));
	if (q->weight > 1)
		kp_buf_printf(b, ", stands for %" PRIu32 " requests",
		    q->weight);
	else if (q->weight == 0)
		kp_buf_str(b, ", outside of slices of time: tiers were not traced");
	if (t->outer.id != 0) {
		kp_buf_printf(b, ", started %s into request %" PRId64 ", ",
		    text_dur(text, after(t->outer.start, q->start)), t->outer.id);
		text_put(b, t->outer.identity);
	} else if (q->parent_label != 0) {
		kp_buf_str(b, ", started inside another request");
	}
	for (size_t i = 0; i < t->nwaits; i++)
		if (is_queue(&t->waits[i]))
			kp_buf_printf(b, ", after %s in a queue",
			    text_dur(text, t->waits[i].wait));
}

static void
put_head(struct kp_buf *b, const struct kp_query_tree *t, unsigned width)
{
	const char *trace = t->request.traceparent;
	struct kp_buf facts;
	char line[100];
	const char *s, *second;

	kp_buf_init(&facts, FN_BYTES_MAX * 8);
	put_facts(&facts, t);
	s = kp_buf_cstr(&facts);
	second = strchr(s, '\n');
	if (second != NULL) {
		facts.p[second - s] = '\0';
		text_wrap(b, s, width, 2);
		text_wrap(b, second + 1, width, 2);
	}
	if (trace != NULL) {
		snprintf(line, sizeof(line), "trace %.*s, below its span %.16s%s",
		    KP_TRACE_ID_LEN, trace + KP_TRACE_ID_AT, trace + KP_TRACE_SPAN_AT,
		    kp_traceparent_sampled(trace) ? "" : ", not sampled");
		text_wrap(b, line, width, 2);
	}
	kp_buf_free(&facts);
}

/* The first call is the entry's own, which ends with the request. */
static bool
outlasts(const struct kp_query_tree *t, size_t i)
{
	return i > 0 && !t->calls[i].async &&
	    request_time_after(&t->request, &t->calls[i]) > 0;
}

/* The columns that only some trees have. */
struct shown {
	bool nodes, after, gc, out;
};

static void
tree_row(struct grid *g, const struct kp_query_tree *t, size_t i,
    const struct shown *shown)
{
	const struct kp_query_call *c = &t->calls[i];
	unsigned levels = c->depth < INDENT_MAX ? c->depth : INDENT_MAX;
	char text[TEXT_MAX], name[FN_NAME_MAX], fn[FN_BYTES_MAX];

	grid_cell(g, text_ms(text, c->start));
	grid_cell(g, text_ms(text, c->total));
	if (shown->after)
		grid_cell(g, text_ms(text, outlasts(t, i) ?
		    request_time_after(&t->request, c) : -1));
	grid_cell(g, text_ms(text, c->self));
	if (shown->gc)
		grid_cell(g, text_ms(text, c->pauses.gc));
	if (shown->out)
		grid_cell(g, text_ms(text, c->pauses.out));
	grid_cell(g, c->pid);
	if (shown->nodes)
		grid_cell(g, c->node);
	grid_cell(g, c->outlasts ? "still running" :
	    outcome_text(c->outcome));
	grid_cell(g, c->tier[0] != '\0' ? c->tier : "-");
	snprintf(fn, sizeof(fn), "%*s%s", (int)(2 * levels), "",
	    fn_shown(name, sizeof(name), c->fn));
	grid_cell(g, fn);
}

/* Did a call run on another node than the request began on? */
static bool
has_nodes(const struct kp_query_tree *t)
{
	for (size_t i = 0; i < t->ncalls; i++)
		if (t->calls[i].node[0] != '\0')
			return true;
	return false;
}

static void
put_calls(struct kp_buf *b, const struct kp_query_tree *t, bool async,
    unsigned width)
{
	struct shown shown = { .nodes = has_nodes(t) };
	struct grid g;

	for (size_t i = 0; i < t->ncalls; i++) {
		shown.after |= !async && outlasts(t, i);
		shown.gc |= t->calls[i].async == async && t->calls[i].pauses.gc >= 0;
		shown.out |= t->calls[i].async == async && t->calls[i].pauses.out >= 0;
	}
	grid_init(&g);
	grid_col_optional(&g, "start ms", GRID_RIGHT, 6);
	grid_col(&g, "total ms", GRID_RIGHT);
	if (shown.after)
		grid_col(&g, "after ms", GRID_RIGHT);
	grid_col_optional(&g, "self ms", GRID_RIGHT, 7);
	if (shown.gc)
		grid_col_optional(&g, "gc ms", GRID_RIGHT, 4);
	if (shown.out)
		grid_col_optional(&g, "out ms", GRID_RIGHT, 5);
	grid_col_optional(&g, "process", GRID_LEFT, 1);
	if (shown.nodes)
		grid_col_optional(&g, "node", GRID_LEFT, 8);
	grid_col_optional(&g, "outcome", GRID_LEFT, 2);
	grid_col_optional(&g, "tier", GRID_LEFT, 3);
	grid_col(&g, "function", GRID_LEFT);
	grid_cut(&g);
	for (size_t i = 0; i < t->ncalls; i++) {
		if (t->calls[i].async == async)
			tree_row(&g, t, i, &shown);
	}
	grid_write(&g, width, b);
	grid_free(&g);
}

static void
count_cell(struct grid *g, uint64_t n, bool known)
{
	char text[TEXT_MAX];

	grid_cell(g, text_known(text, n, known));
}

static void
ms_cell(struct grid *g, kp_dur_ns d)
{
	char text[TEXT_MAX];

	grid_cell(g, text_ms(text, d));
}

static void
waits_text(struct kp_buf *b, const struct kp_query_tree *t,
    unsigned width)
{
	char name[FN_NAME_MAX];
	const struct kp_query_wait *w;
	struct grid g;
	size_t shown = 0;

	for (size_t i = 0; i < t->nwaits; i++)
		shown += !is_queue(&t->waits[i]);
	if (shown == 0)
		return;
	grid_init(&g);
	grid_col(&g, "waited for", GRID_LEFT);
	grid_col_optional(&g, "process", GRID_LEFT, 1);
	grid_col(&g, "messages", GRID_RIGHT);
	grid_col(&g, "total ms", GRID_RIGHT);
	grid_col_optional(&g, "mean ms", GRID_RIGHT, 3);
	grid_col_optional(&g, "max ms", GRID_RIGHT, 4);
	grid_col_optional(&g, "node", GRID_LEFT, 2);
	for (size_t i = 0; i < t->nwaits; i++) {
		w = &t->waits[i];
		if (is_queue(w))
			continue;
		grid_cell(&g, fn_shown(name, sizeof(name), w->receiver));
		grid_cell(&g, w->pid);
		count_cell(&g, w->messages, true);
		ms_cell(&g, w->wait);
		ms_cell(&g, w->messages > 0 ? w->wait / (int64_t)w->messages :
		    -1);
		ms_cell(&g, w->max);
		grid_cell(&g, w->node[0] != '\0' ? w->node : t->request.node);
	}
	text_wrap(b, "messages in mailboxes:", width, 2);
	grid_write(&g, width, b);
	kp_buf_u8(b, '\n');
	grid_free(&g);
}

/* The requests that began inside it. */
static void
put_inner(struct kp_buf *b, const struct kp_query_tree *t, unsigned width)
{
	const struct kp_query_request *q;
	char text[TEXT_MAX];
	struct grid g;

	if (t->ninner == 0)
		return;
	grid_init(&g);
	grid_col(&g, "start ms", GRID_RIGHT);
	grid_col(&g, "total ms", GRID_RIGHT);
	grid_col(&g, "id", GRID_RIGHT);
	grid_col(&g, "identity", GRID_LEFT);
	grid_cut(&g);
	for (q = t->inner; q < t->inner + t->ninner; q++) {
		ms_cell(&g, after(t->request.start, q->start));
		ms_cell(&g, q->total);
		snprintf(text, sizeof(text), "%" PRId64, q->id);
		grid_cell(&g, text);
		grid_cell(&g, q->identity);
	}
	text_wrap(b, "requests that began inside it, as far as they were slow:",
	    width, 2);
	grid_write(&g, width, b);
	kp_buf_u8(b, '\n');
	grid_free(&g);
}

static void
put_peers(struct kp_buf *b, const struct kp_query_tree *t, unsigned width)
{
	const struct kp_query_requests peers = { t->peers, t->npeers };

	if (t->npeers == 0)
		return;
	text_wrap(b, "requests at the same time on its node, as far as they were slow:",
	    width, 2);
	requests_rows(b, &peers, width);
	kp_buf_u8(b, '\n');
}

static void
waits_json(struct json *j, const struct kp_query_tree *t)
{
	const struct kp_query_wait *w;

	json_array(j, "waits");
	for (size_t i = 0; i < t->nwaits; i++) {
		w = &t->waits[i];
		json_object(j, NULL);
		json_string(j, "receiver", w->receiver);
		json_string(j, "pid", w->pid);
		json_string(j, "node", w->node[0] != '\0' ? w->node :
		    t->request.node);
		json_uint(j, "messages", w->messages);
		json_uint(j, "away", w->away);
		json_ms(j, "total_ms", w->wait);
		json_ms(j, "max_ms", w->max);
		json_end(j);
	}
	json_end(j);
}

void
tree_text(struct kp_buf *b, const struct request_report *rr, unsigned width)
{
	const struct kp_query_sum *cover = &rr->cover;
	const struct kp_query_tree *t = &rr->tree;
	size_t async = 0, outlast = 0;
	char line[100];

	for (size_t i = 0; i < t->ncalls; i++) {
		async += t->calls[i].async;
		outlast += outlasts(t, i);
	}
	put_head(b, t, width);
	put_place(b, rr, width);
	kp_buf_u8(b, '\n');
	put_calls(b, t, false, width);
	kp_buf_u8(b, '\n');
	if (outlast > 0) {
		snprintf(line, sizeof(line), "after ms: of %zu %s that %s the "
		    "request, the time after its end", outlast,
		    outlast == 1 ? "call" : "calls",
		    outlast == 1 ? "outlasts" : "outlast");
		text_wrap(b, line, width, 2);
		kp_buf_u8(b, '\n');
	}
	if (async > 0) {
		snprintf(line, sizeof(line), "after: %zu %s began after the "
		    "request had ended", async, async == 1 ? "call" : "calls");
		text_wrap(b, line, width, 2);
		put_calls(b, t, true, width);
		kp_buf_u8(b, '\n');
	}
	put_inner(b, t, width);
	put_peers(b, t, width);
	waits_text(b, t, width);
	losses_cover_text(b, cover->windows == 1 ? "its window: " :
	    "its windows: ", cover, width);
}

static void
json_call(struct json *j, const struct kp_query_tree *t, size_t seq)
{
	const struct kp_query_call *c = &t->calls[seq];
	const char *node = t->request.node;

	json_object(j, NULL);
	json_uint(j, "seq", seq);
	if (c->parent == KP_NONE)
		json_null(j, "parent");
	else
		json_uint(j, "parent", c->parent);
	json_uint(j, "depth", c->depth);
	json_ms(j, "start_ms", c->start);
	json_ms(j, "total_ms", c->total);
	json_ms(j, "self_ms", c->self);
	json_ms(j, "gc_ms", c->pauses.gc);
	json_ms(j, "out_ms", c->pauses.out);
	if (c->tier[0] != '\0')
		json_string(j, "tier", c->tier);
	else
		json_null(j, "tier");
	json_string(j, "call", c->fn);
	json_string(j, "pid", c->pid);
	json_string(j, "node", c->node[0] != '\0' ? c->node : node);
	json_string(j, "outcome", outcome_text(c->outcome));
	json_bool(j, "async", c->async);
	json_bool(j, "outlasts", c->outlasts);
	json_ms(j, "after_ms", c->async || outlasts(t, seq) ?
	    request_time_after(&t->request, c) : -1);
	json_end(j);
}

static void
related_json(struct json *j, const char *key, const struct kp_query_request *v,
    size_t n)
{
	json_array(j, key);
	for (size_t i = 0; i < n; i++) {
		json_object(j, NULL);
		json_request(j, &v[i]);
		json_end(j);
	}
	json_end(j);
}

void
tree_json(struct kp_buf *b, const struct request_report *rr)
{
	const struct kp_query_tree *t = &rr->tree;
	struct json j;

	json_open(&j, b);
	json_request(&j, &t->request);
	json_array(&j, "tree");
	for (size_t i = 0; i < t->ncalls; i++)
		json_call(&j, t, i);
	json_end(&j);
	related_json(&j, "inner", t->inner, t->ninner);
	if (t->outer.id == 0) {
		json_null(&j, "outer");
	} else {
		json_object(&j, "outer");
		json_request(&j, &t->outer);
		json_end(&j);
	}
	related_json(&j, "peers", t->peers, t->npeers);
	place_json(&j, &rr->place);
	waits_json(&j, t);
	losses_cover_json(&j, &rr->cover);
	json_close(&j);
}

/* ---- messages, by receiver ---- */

/* A receiver's cells, and their sum. */
struct receiver {
	struct kp_wait_cell all;
	const struct kp_wait_cell *v;
	size_t n;
};

struct receivers {
	struct receiver *v;
	size_t n;
};

static void
receivers_free(struct receivers *rs)
{
	for (size_t i = 0; i < rs->n; i++)
		kp_hist_free(&rs->v[i].all.hist);
	free(rs->v);
}

static int
by_wait(const void *pa, const void *pb)
{
	const struct receiver *a = pa, *b = pb;

	if (a->all.w_wait != b->all.w_wait)
		return a->all.w_wait < b->all.w_wait ? 1 : -1;
	return strcmp(a->all.receiver, b->all.receiver);
}

static enum kp_err
receivers_make(struct receivers *rs, const struct kp_query_waits *w)
{
	enum kp_err err = KP_OK;
	struct receiver *r = NULL;

	*rs = (struct receivers){ .v = calloc(w->n + 1, sizeof(*rs->v)) };
	if (rs->v == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < w->n && err == KP_OK; i++) {
		if (r == NULL ||
		    strcmp(r->all.receiver, w->v[i].receiver) != 0) {
			r = &rs->v[rs->n++];
			r->all = (struct kp_wait_cell){ .min = -1,
				.receiver = w->v[i].receiver };
			r->v = &w->v[i];
		}
		r->n++;
		err = kp_wait_cell_merge(&r->all, &w->v[i]);
	}
	if (err != KP_OK) {
		receivers_free(rs);
		return err;
	}
	qsort(rs->v, rs->n, sizeof(*rs->v), by_wait);
	return KP_OK;
}

static kp_dur_ns
mean(const struct kp_wait_cell *c)
{
	return c->w_messages > 0 ? c->w_wait / (int64_t)c->w_messages : -1;
}

static kp_dur_ns
quantile(const struct kp_wait_cell *c, double q)
{
	return kp_hist_quantile_within(&c->hist, q, c->min, c->max);
}

enum kp_err
messages_table(struct kp_buf *b, const struct kp_query_waits *w,
    const struct kp_query_sum *cover, unsigned width)
{
	char name[FN_NAME_MAX];
	const struct kp_wait_cell *c;
	struct receivers rs;
	struct grid g;
	bool known;
	enum kp_err err = receivers_make(&rs, w);

	if (err != KP_OK)
		return err;
	grid_init(&g);
	grid_col(&g, "receiver", GRID_LEFT);
	grid_col(&g, "messages", GRID_RIGHT);
	grid_col_optional(&g, "from afar", GRID_RIGHT, 1);
	grid_col(&g, "total ms", GRID_RIGHT);
	grid_col(&g, "mean ms", GRID_RIGHT);
	grid_col_optional(&g, "p50 ms", GRID_RIGHT, 2);
	grid_col_optional(&g, "p95 ms", GRID_RIGHT, 4);
	grid_col_optional(&g, "p99 ms", GRID_RIGHT, 3);
	grid_col_optional(&g, "max ms", GRID_RIGHT, 5);
	for (size_t i = 0; i < rs.n; i++) {
		c = &rs.v[i].all;
		known = c->w_messages == c->messages;
		grid_cell(&g, fn_shown(name, sizeof(name), c->receiver));
		count_cell(&g, c->w_messages, known);
		count_cell(&g, c->w_away, known);
		ms_cell(&g, c->w_wait);
		ms_cell(&g, mean(c));
		ms_cell(&g, quantile(c, 0.50));
		ms_cell(&g, quantile(c, 0.95));
		ms_cell(&g, quantile(c, 0.99));
		ms_cell(&g, c->max);
	}
	if (rs.n > 0)
		grid_write(&g, width, b);
	else
		text_wrap(b, "no messages were timed: {messages, true} in "
		    "tiers.conf does that", width, 2);
	kp_buf_u8(b, '\n');
	losses_cover_text(b, "", cover, width);
	grid_free(&g);
	receivers_free(&rs);
	return KP_OK;
}

void
queues_table(struct kp_buf *b, const struct kp_query_waits *w, unsigned width)
{
	const struct kp_wait_cell *c;
	char text[TEXT_MAX];
	struct grid g;

	if (w->n == 0)
		return;
	grid_init(&g);
	grid_col(&g, "in a queue, before it began", GRID_LEFT);
	grid_fix(&g);
	grid_col(&g, "requests", GRID_RIGHT);
	grid_col(&g, "mean", GRID_RIGHT);
	grid_col_optional(&g, "p50", GRID_RIGHT, 2);
	grid_col_optional(&g, "p95", GRID_RIGHT, 1);
	grid_col_optional(&g, "p99", GRID_RIGHT, 3);
	grid_col(&g, "max", GRID_RIGHT);
	for (c = w->v; c < w->v + w->n; c++) {
		grid_cell(&g, c->identity);
		count_cell(&g, c->w_messages, c->w_messages == c->messages);
		grid_cell(&g, text_dur(text, mean(c)));
		grid_cell(&g, text_dur(text, quantile(c, 0.50)));
		grid_cell(&g, text_dur(text, quantile(c, 0.95)));
		grid_cell(&g, text_dur(text, quantile(c, 0.99)));
		grid_cell(&g, text_dur(text, c->max));
	}
	kp_buf_u8(b, '\n');
	grid_write(&g, width, b);
	grid_free(&g);
}

static void
json_figures(struct json *j, const struct kp_wait_cell *c)
{
	json_uint(j, "messages", c->w_messages);
	json_uint(j, "away", c->w_away);
	json_uint(j, "sampled_messages", c->messages);
	json_ms(j, "total_ms", c->w_wait);
	json_ms(j, "mean_ms", mean(c));
	json_ms(j, "min_ms", c->min);
	json_ms(j, "p50_ms", quantile(c, 0.50));
	json_ms(j, "p90_ms", quantile(c, 0.90));
	json_ms(j, "p95_ms", quantile(c, 0.95));
	json_ms(j, "p99_ms", quantile(c, 0.99));
	json_ms(j, "max_ms", c->max);
}

static void
json_receiver(struct json *j, const struct receiver *r)
{
	json_object(j, NULL);
	json_string(j, "receiver", r->all.receiver);
	json_figures(j, &r->all);
	json_array(j, "identities");
	for (size_t i = 0; i < r->n; i++) {
		json_object(j, NULL);
		json_string(j, "identity", r->v[i].identity);
		json_figures(j, &r->v[i]);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

enum kp_err
messages_json(struct kp_buf *b, const struct kp_query_waits *w,
    const struct kp_query_sum *cover)
{
	struct receivers rs;
	struct json j;
	enum kp_err err = receivers_make(&rs, w);

	if (err != KP_OK)
		return err;
	json_open(&j, b);
	json_array(&j, "receivers");
	for (size_t i = 0; i < rs.n; i++)
		json_receiver(&j, &rs.v[i]);
	json_end(&j);
	losses_cover_json(&j, cover);
	json_close(&j);
	receivers_free(&rs);
	return KP_OK;
}
