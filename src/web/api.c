/*
 * api.c - the table of operations, and for each that the database answers a function
 * that queries it and writes the answer as JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "export/viewers.h"
#include "text/json.h"
#include "report/advice.h"
#include "report/changed.h"
#include "report/losses.h"
#include "report/requests.h"
#include "report/series.h"
#include "report/slo.h"
#include "report/usage.h"
#include "report/compare.h"
#include "stacks/stored/frames.h"
#include "stacks/stored/stored_stacks.h"

/* Of one request: seconds that a processor works for it, and that pass in all. */
#define QUERY_WORK 5
#define QUERY_ALL 60
#define TEXT_OF(n) TEXT_OF_(n)
#define TEXT_OF_(n) #n
#define RUNS 20
#define STACKS_MAX 5000	/* the longest: 3 MB with eight frames each, and more than a
			   graph of 2,000 px can show */

static enum kp_err
api_about(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct kp_query_runs runs = { 0 };
	kp_wall_ns first, last;
	enum kp_err err;
	struct json j;

	err = kp_query_span(q, &first, &last);
	if (err == KP_OK)
		err = kp_query_runs(q, RUNS, &runs);
	if (err != KP_OK)
		return err;
	json_open(&j, b);
	json_string(&j, "version", KP_VERSION);
	json_time(&j, "now", kp_wall_now());
	json_time(&j, "first", first);
	json_time(&j, "last", last);
	json_bool(&j, "read_only", p->read_only);
	runs_json(&j, &runs);
	json_close(&j);
	kp_query_runs_free(&runs);
	return KP_OK;
}

static void
put_names(struct json *j, const char *key, const char *const *v, size_t n)
{
	json_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_string(j, NULL, v[i]);
	json_end(j);
}

static enum kp_err
api_nodes(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct kp_query_nodes nodes = { 0 };
	enum kp_err err = kp_query_nodes(q, &p->range, &nodes);
	struct json j;

	if (err != KP_OK)
		return err;
	json_open(&j, b);
	put_names(&j, "nodes", nodes.v, nodes.n);
	json_close(&j);
	kp_query_nodes_free(&nodes);
	return KP_OK;
}

static enum kp_err
api_tiers(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct kp_query_tiers tiers = { 0 };
	enum kp_err err = kp_query_tiers(q, &tiers);
	struct json j;

	(void)p;
	if (err != KP_OK)
		return err;
	json_open(&j, b);
	put_names(&j, "tiers", tiers.v, tiers.current);
	put_names(&j, "former", tiers.v + tiers.current,
	    tiers.n - tiers.current);
	json_close(&j);
	kp_query_tiers_free(&tiers);
	return KP_OK;
}

/* Writes the glob that matches this request type and no other. */
static enum kp_err
quote_glob(struct kp_buf *b, const char *identity)
{
	kp_buf_init(b, 1u << 16);
	for (const char *s = identity; *s != '\0'; s++) {
		if (strchr("*?[\\", *s) != NULL)
			kp_buf_u8(b, '\\');
		kp_buf_u8(b, (uint8_t)*s);
	}
	kp_buf_u8(b, '\0');
	return b->err;
}

/* A sorted report of the range, restricted to its identity if it has one. */
static enum kp_err
make_report(struct kp_query *q, const struct kp_query_range *range,
    const char *sort, enum report_what what, bool hints, struct report **out)
{
	struct kp_query_range r = *range;
	struct kp_buf glob;
	enum kp_err err = KP_OK;

	kp_buf_init(&glob, 0);
	if (r.identity != NULL) {
		err = quote_glob(&glob, r.identity);
		r.identity_glob = (const char *)glob.p;
	}
	r.identity = NULL;
	if (err == KP_OK)
		err = report_from_db(q, &r, out);
	if (err == KP_OK && hints)
		report_hints(q, &r, *out);
	kp_buf_free(&glob);
	if (err == KP_OK && (err = report_sort(*out, sort, what)) != KP_OK)
		report_free(*out);
	return err;
}

/* ---- lists in parts ---- */

/* Adds a member to an object that is written. */
static void
put_member(struct kp_buf *b, const char *key, const char *json)
{
	if (b->err == KP_OK)
		b->len -= strlen("}\n");
	kp_buf_printf(b, ",\"%s\":%s}\n", key, json);
}

/* Adds the cursor after a row of slow requests, or of events; more: others follow. */
static void
put_next_row(struct kp_buf *b, int64_t key, int64_t id, bool more)
{
	char next[64];

	snprintf(next, sizeof(next), "\"%" PRId64 ".%" PRId64 "\"", key, id);
	put_member(b, "next", more ? next : "null");
}

/* False: the cursor is not of such a list. */
static bool
range_after(const struct web_params *p, struct kp_query_range *r)
{
	*r = p->range;
	r->after = (struct kp_query_row){ p->ncursor > 0, p->cursor[0], p->cursor[1] };
	return p->ncursor == 0 || (p->ncursor == 2 && p->cursor[1] >= 0);
}

/*
 * A part of a list of request types.  Their order changes with each window: so the
 * cursor has the range's windows, up to the last that was there, and how many they were.
 * Once some of them are joined, or one more is stored there, it is no longer of this
 * list, and the client is told.
 */
struct part {
	struct kp_query_range range, versus;
	int64_t windows;	/* -1: this is the first part */
	size_t first;		/* row; row 0 is that of all requests */
};

static bool
part_of(const struct web_params *p, struct part *part)
{
	const int64_t *c = p->cursor;

	*part = (struct part){ p->range, p->range, -1, 1 };
	part->versus.since = p->versus.since;
	part->versus.until = p->versus.until;
	if (p->ncursor == 0)
		return true;
	if (p->ncursor != WEB_CURSOR_MAX || c[0] < 0 || c[0] > c[1] || c[2] < 0 ||
	    c[2] > c[3] || c[4] < 0 || c[5] < 1 || c[5] > REPORT_ROWS_MAX)
		return false;
	part->range.since = c[0];
	part->range.until = c[1];
	part->versus.since = c[2];
	part->versus.until = c[3];
	part->windows = c[4];
	part->first = (size_t)c[5];
	return true;
}

/* KP_ESTATE: the list is another one.  then: NULL: there is no second report. */
static enum kp_err
part_check(const struct part *part, const struct report *now, const struct report *then)
{
	uint64_t windows = now->windows + (then != NULL ? then->windows : 0);

	return part->windows >= 0 && (uint64_t)part->windows != windows ? KP_ESTATE :
	    KP_OK;
}

/* Is row i in this part of the list?  Row 0 is in each. */
static bool
part_has(const struct part *part, size_t i, size_t limit)
{
	return i == 0 || (i >= part->first && i - part->first < limit);
}

/* No window that is stored later is in a range that ends so. */
static int64_t
until_last(const struct kp_query_range *range, const struct report *r)
{
	return r != NULL && r->windows > 0 && r->end < range->until ? r->end :
	    range->until;
}

/* n: the rows of the list. */
static void
put_next_part(struct kp_buf *b, const struct part *part, const struct report *now,
    const struct report *then, size_t limit, size_t n)
{
	char next[160];

	snprintf(next, sizeof(next), "\"%" PRId64 ".%" PRId64 ".%" PRId64 ".%" PRId64
	    ".%" PRIu64 ".%zu\"", part->range.since, until_last(&part->range, now),
	    part->versus.since, until_last(&part->versus, then),
	    now->windows + (then != NULL ? then->windows : 0), part->first + limit);
	put_member(b, "next", part->first + limit < n ? next : "null");
}

static enum kp_err
api_report(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct part part;
	struct report *r;
	enum kp_err err;

	if (!part_of(p, &part))
		return KP_EFORMAT;
	err = make_report(q, &part.range, p->sort, REPORT_BUSY, true, &r);
	if (err != KP_OK)
		return err;
	err = part_check(&part, r, NULL);
	for (size_t i = 0; i < r->nrows; i++)
		r->rows[i].left_out = !part_has(&part, i, p->limit);
	report_json(b, r);
	put_next_part(b, &part, r, NULL, p->limit, r->nrows);
	report_free(r);
	return err;
}

/* The names, those that cost most first. */
static enum kp_err
api_identities(struct kp_query *q, const struct web_params *p,
    struct kp_buf *b)
{
	static const struct kp_query_key requests = { "_total", NULL };
	struct part part;
	struct report *r;
	enum kp_err err;
	struct json j;

	if (!part_of(p, &part))
		return KP_EFORMAT;
	part.range.no_intervals = true;
	/* some nodes have calls alone, of requests that began elsewhere */
	if (part.range.node == NULL) {
		part.range.keys = &requests;
		part.range.nkeys = 1;
	}
	err = make_report(q, &part.range, "cost", REPORT_BUSY, false, &r);
	if (err != KP_OK)
		return err;
	err = part_check(&part, r, NULL);
	json_open(&j, b);
	json_array(&j, "identities");
	for (size_t i = 1; i < r->nrows; i++)
		if (part_has(&part, i, p->limit))
			json_string(&j, NULL, r->rows[i].identity);
	json_end(&j);
	json_close(&j);
	put_next_part(b, &part, r, NULL, p->limit, r->nrows);
	report_free(r);
	return err;
}

/* Both reports have the rows of the types whose changes are in this part. */
static void
put_compared(struct kp_buf *b, const struct compare *v, struct report *now,
    struct report *then, const struct part *part, const struct web_params *p)
{
	const struct compare_row *row;
	bool out;

	for (size_t i = 0; i < v->nrows; i++) {
		row = &v->rows[i];
		out = !part_has(part, i, p->limit);
		if (row->now != NULL)
			now->rows[row->now - now->rows].left_out = out;
		if (row->then != NULL)
			then->rows[row->then - then->rows].left_out = out;
	}
	compare_json(b, v, (enum report_what)p->what);
	put_next_part(b, part, now, then, p->limit, v->nrows);
}

static enum kp_err
api_compare(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	enum report_what what = (enum report_what)p->what;
	struct report *now = NULL, *then = NULL;
	struct compare *v;
	struct part part;
	enum kp_err err;

	if ((p->given & PARAM_VERSUS) == 0 || !part_of(p, &part))
		return KP_EFORMAT;
	err = make_report(q, &part.range, NULL, what, true, &now);
	if (err == KP_OK) {
		report_apart(&part.range, now->start, now->end, &part.versus);
		err = make_report(q, &part.versus, NULL, what, true, &then);
	}
	if (err == KP_OK)
		err = part_check(&part, now, then);
	if (err == KP_OK)
		err = compare_make(&v, now, then);
	if (err == KP_OK) {
		compare_sort_change(v, false);
		put_compared(b, v, now, then, &part, p);
		compare_free(v);
	}
	report_free(then);
	report_free(now);
	return err;
}

static enum kp_err
api_changes(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct changes c;
	enum kp_err err = changes_from_db(q, &p->range, &c);

	if (err != KP_OK)
		return err;
	changes_json(b, &c);
	changes_free(&c);
	return KP_OK;
}

static enum kp_err
api_slo(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct slo s;
	enum kp_err err = slo_from_db(q, &p->range, &s);

	if (err != KP_OK)
		return err;
	slo_json(b, &s);
	slo_free(&s);
	return KP_OK;
}

typedef enum kp_err series_fn(struct kp_buf *b, const struct kp_series *s,
    const char *identity, const char *tier);

static enum kp_err
put_series(struct kp_query *q, const struct web_params *p,
    const struct kp_series_want *want, series_fn *put, struct kp_buf *b)
{
	struct kp_series s;
	enum kp_err err = kp_query_series(q, &p->range, want, &s);

	if (err != KP_OK)
		return err;
	err = put(b, &s, p->range.identity, p->tier);
	kp_series_free(&s);
	return err;
}

static enum kp_err
api_series(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	const struct kp_series_want want = { .step = p->step, .cells = true,
		.tier = p->tier, .others = true };

	return put_series(q, p, &want, series_json, b);
}

static enum kp_err
api_heatmap(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	const struct kp_series_want want = { .step = p->step, .cells = true,
		.tier = p->tier != NULL ? p->tier : "_total" };

	return put_series(q, p, &want, series_heatmap_json, b);
}

static enum kp_err
api_load(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	const struct kp_series_want want = { .step = p->step };
	struct kp_series s;
	enum kp_err err = kp_query_series(q, &p->range, &want, &s);

	if (err != KP_OK)
		return err;
	series_load_json(b, &s);
	kp_series_free(&s);
	return KP_OK;
}

static enum kp_err
api_losses(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct kp_query_sum cover = { 0 };
	enum kp_err err = kp_query_cover(q, &p->range, &cover);
	struct json j;

	if (err != KP_OK)
		return err;
	json_open(&j, b);
	json_uint(&j, "windows", cover.windows);
	json_time(&j, "start", cover.start);
	json_time(&j, "end", cover.end);
	json_uint(&j, "entry_calls", cover.entry_calls);
	json_uint(&j, "sampled", cover.sampled);
	losses_json(&j, &cover.losses);
	json_close(&j);
	kp_query_sum_free(&cover);
	return KP_OK;
}

static enum kp_err
api_slow(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	bool self = p->sort != NULL && strcmp(p->sort, "self") == 0;
	struct kp_query_requests rs = { 0 };
	struct kp_query_sum cover = { 0 };
	const struct kp_query_request *last;
	struct kp_query_range range;
	enum kp_err err = KP_ENOENT;
	bool more;

	if (!range_after(p, &range))
		return KP_EFORMAT;
	if (p->sort == NULL || self || strcmp(p->sort, "total") == 0)
		err = kp_query_slow(q, &range, p->tier != NULL ?
		    KP_SLOW_TIER : self ? KP_SLOW_SELF : KP_SLOW_TOTAL,
		    p->tier, p->offset, p->limit + 1, &rs);
	if (err == KP_OK)
		err = kp_query_cover(q, &p->range, &cover);
	if (err == KP_OK) {
		more = rs.n > p->limit;
		rs.n -= more;
		requests_json(b, &rs, &cover);
		last = more ? &rs.v[rs.n - 1] : &(struct kp_query_request){ 0 };
		put_next_row(b, last->by >= 0 ? last->by : last->total, last->id, more);
	}
	kp_query_sum_free(&cover);
	kp_query_requests_free(&rs);
	return err;
}

/* One slow request; p->id: as in the path. */
static enum kp_err
api_request(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct request_report rr;
	enum kp_err err;
	char *rest;
	int64_t id;

	errno = 0;
	id = strtoll(p->id, &rest, 10);
	if (p->id[0] < '0' || p->id[0] > '9' || *rest != '\0' || errno != 0)
		return KP_ENOENT;
	if (p->form != TRACE_TREE)
		return trace_from_db(q, id, (enum trace_form)p->form, b);
	err = request_from_db(q, id, (p->given & PARAM_RANGE) != 0 ? &p->range :
	    NULL, &rr);
	if (err != KP_OK)
		return err;
	tree_json(b, &rr);
	request_free(&rr);
	return KP_OK;
}

static enum kp_err
api_events(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct kp_query_events e = { 0 }, shown;
	const struct kp_query_event *first;
	struct kp_query_range range;
	enum kp_err err;
	struct json j;
	bool more;

	if (!range_after(p, &range))
		return KP_EFORMAT;
	err = kp_query_events(q, &range, p->limit + 1, &e);
	if (err != KP_OK)
		return err;
	more = e.n > p->limit;
	shown = more ? (struct kp_query_events){ e.v + 1, e.n - 1 } : e;
	json_open(&j, b);
	events_json(&j, &shown);
	json_close(&j);
	first = more ? &shown.v[0] : &(struct kp_query_event){ 0 };
	put_next_row(b, first->at, first->id, more);
	kp_query_events_free(&e);
	return KP_OK;
}

/* ---- sampled stacks ---- */

static bool
is_in_tier(const struct kp_query_stack *row, const void *tier)
{
	return frames_in_tier(row->path, tier);
}

static enum kp_err
api_stacks(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	enum kp_err err = p->tier != NULL ? kp_query_tier(q, p->tier) : KP_OK;
	struct stacks_against with = { (enum stacks_what)p->against, p->versus };
	/* files for other programs have all of them, as kprof report -stacks */
	size_t most = p->form == STACKS_JSON ? STACKS_MAX : KP_QUERY_STACKS_MAX;
	size_t cap = p->tier != NULL ? KP_QUERY_STACKS_MAX : most;
	struct stacks *s = NULL, *versus = NULL;

	if (err == KP_OK)
		err = stacks_from_db(q, &p->range, cap, &s);
	if (err == KP_OK && (p->given & (PARAM_VERSUS | PARAM_AGAINST)) != 0)
		err = stacks_against_from_db(q, &p->range, s, &with, cap, &versus);
	if (err == KP_OK && p->tier != NULL) {
		stacks_keep(s, most, is_in_tier, p->tier);
		if (versus != NULL)
			stacks_keep(versus, most, is_in_tier, p->tier);
	}
	/* pprof says no more of an empty profile than that it is empty */
	if (err == KP_OK && p->form == STACKS_PPROF && s->stacks.samples == 0) {
		kp_buf_str(b, s->why != NULL ? s->why : "no stack of this tier was "
		    "sampled");
		err = KP_END;
	}
	if (err == KP_OK)
		err = stacks_put(b, s, versus, (enum stacks_form)p->form);
	stacks_free(versus);
	stacks_free(s);
	return err;
}

static enum kp_err
api_memory(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct kp_query_usage usage;
	struct json j;
	enum kp_err err = kp_query_usage(q, &p->range, &usage);

	if (err != KP_OK)
		return err;
	json_open(&j, b);
	usage_json(&j, &usage);
	json_close(&j);
	kp_query_usage_free(&usage);
	return KP_OK;
}

/* ---- operations ---- */

#define PARAM_CHART (PARAM_RANGE | PARAM_IDENTITY | PARAM_TIER | PARAM_STEP)
#define PARAM_LIST (PARAM_LIMIT | PARAM_CURSOR)

static const struct operation operations[] = {
	{ "about", .fn = api_about },
	{ "nodes", .params = PARAM_SINCE | PARAM_UNTIL, .fn = api_nodes },
	{ "tiers", .fn = api_tiers },
	{ "identities", .params = PARAM_RANGE | PARAM_LIST, .fn = api_identities },
	{ "report", .params = PARAM_RANGE | PARAM_IDENTITY | PARAM_SORT | PARAM_BY |
	    PARAM_LIST, .fn = api_report },
	{ "compare", .params = PARAM_RANGE | PARAM_IDENTITY | PARAM_VERSUS |
	    PARAM_WHAT | PARAM_BY | PARAM_LIST, .fn = api_compare },
	{ "changes", .params = PARAM_RANGE | PARAM_IDENTITY, .fn = api_changes },
	{ "slo", .params = PARAM_RANGE | PARAM_BY, .fn = api_slo },
	{ "series", .params = PARAM_CHART, .fn = api_series },
	{ "heatmap", .params = PARAM_CHART, .fn = api_heatmap },
	{ "load", .params = PARAM_RANGE | PARAM_STEP, .fn = api_load },
	{ "losses", .params = PARAM_RANGE, .fn = api_losses },
	{ "slow", .params = PARAM_RANGE | PARAM_IDENTITY | PARAM_TIER | PARAM_SORT |
	    PARAM_LIST | PARAM_OFFSET | PARAM_OUTCOME | PARAM_TOOK |
	    PARAM_TRACE, .fn = api_slow },
	{ "requests/", .params = PARAM_RANGE | PARAM_FORM, .fn = api_request },
	{ "events", .params = PARAM_RANGE | PARAM_LIST, .fn = api_events },
	{ "stacks", .params = PARAM_RANGE | PARAM_IDENTITY | PARAM_TIER |
	    PARAM_VERSUS | PARAM_AGAINST | PARAM_TOOK |
	    PARAM_STACKS_FORM, .fn = api_stacks },
	{ "memory", .params = PARAM_RANGE, .fn = api_memory },
	{ "status", .params = PARAM_NODE, .line = "status json",
	    .as = ANSWER_STATUS },
	{ "flight", .params = PARAM_NODE, .line = "flight json",
	    .as = ANSWER_STATUS },
	{ "running", .params = PARAM_NODE, .line = "running json",
	    .as = ANSWER_STATUS },
	{ "pause", true, PARAM_NODE, .line = "pause" },
	{ "resume", true, PARAM_NODE, .line = "resume" },
	{ "dump", true, .line = "dump" },
	{ "events", true, PARAM_NODE | PARAM_TEXT, .line = "mark" },
	{ "traces", true, PARAM_NODE | PARAM_IDENTITY | PARAM_FOR | PARAM_EVENTS,
	    .line = "trace", .as = ANSWER_ACCEPTED },
	{ "traces/", .line = "traces", .as = ANSWER_FOUND },
};
#define NOPERATIONS (sizeof(operations) / sizeof(operations[0]))

const struct operation *
operation_find(const char *name, bool post, bool read, const char **allow)
{
	static const char *const methods[] = { NULL, "GET, HEAD", "POST",
		"GET, HEAD, POST" };
	const struct operation *found = NULL, *o;
	unsigned has = 0;
	size_t n;

	for (o = operations; o < operations + NOPERATIONS; o++) {
		n = strlen(o->name);
		if (strncmp(name, o->name, n) != 0 ||
		    (name[n] != '\0' && o->name[n - 1] != '/'))
			continue;
		has |= o->post ? 2 : 1;
		if (o->post ? post : read)
			found = o;
	}
	*allow = methods[has];
	return found;
}

/* ---- errors ---- */

const char *
status_title(int status)
{
	static const struct {
		int status;
		const char *title;
	} titles[] = {
		{ 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" },
		{ 404, "Not Found" }, { 405, "Method Not Allowed" },
		{ 409, "Conflict" }, { 410, "Gone" }, { 413, "Content Too Large" },
		{ 500, "Internal Server Error" }, { 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
	};
	size_t i = 0;

	while (titles[i].status != status)
		i++;
	return titles[i].title;
}

void
api_error(struct api_answer *a, enum web_problem problem, const char *detail)
{
	static const struct {
		int status;
		const char *code;
	} problems[] = {
#define PROBLEM_ROW(name, status, code) { status, code },
		WEB_PROBLEMS(PROBLEM_ROW)
#undef PROBLEM_ROW
	};
	struct json j;

	a->status = problems[problem].status;
	a->type = NULL;
	kp_buf_reset(&a->b);
	json_open(&j, &a->b);
	json_string(&j, "type", "about:blank");
	json_string(&j, "title", status_title(a->status));
	json_int(&j, "status", a->status);
	json_string(&j, "code", problems[problem].code);
	json_string(&j, "detail", detail);
	json_close(&j);
}

/* The tier, or order, that was asked for, or the request, is not there. */
static void
reply_unknown(struct api_answer *a, struct kp_query *q, const struct operation *op,
    const struct web_params *p)
{
	bool is_sort = p->tier == NULL || (op->fn == api_slow && p->sort != NULL &&
	    strcmp(p->sort, "self") != 0 && strcmp(p->sort, "total") != 0), found;
	const char *name = is_sort ? p->sort : p->tier, *near = NULL;
	char detail[WEB_QUERY_MAX];

	if (name == NULL) {
		api_error(a, PROBLEM_NOT_KEPT, "there is no such request, or it is no "
		    "longer kept");
		return;
	}
	if (kp_query_name(q, KP_NAME_TIER, name, &found, &near) != KP_OK ||
	    (is_sort && op->fn == api_slow))
		near = NULL;
	snprintf(detail, sizeof(detail), "%s '%.200s'%s%s%s", is_sort ?
	    op->fn == api_slow ? "'sort' is total or self, not" :
	    "'sort' is requests, cost, name or a tier, not" : found ?
	    "slow requests have no times of" : "there is no tier", name,
	    near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
	    near != NULL ? "'?" : "");
	api_error(a, PROBLEM_NO_NAME, detail);
}

/* Answers with the reason of an error. */
static void
reply_failure(struct api_answer *a, struct kp_query *q, const struct operation *op,
    const struct web_params *p, enum kp_err err)
{
	const char *why = kp_query_why(q);
	char none[400];

	if (err == KP_END) {
		snprintf(none, sizeof(none), "%s", kp_buf_cstr(&a->b));
		api_error(a, PROBLEM_REFUSED, none);
	} else if (err == KP_ENOENT)
		reply_unknown(a, q, op, p);
	else if (err == KP_ETIMEOUT)
		api_error(a, PROBLEM_TOO_SLOW, "the answer takes more than "
		    TEXT_OF(QUERY_WORK) " s of a processor, or "
		    TEXT_OF(QUERY_ALL) " s in all: choose a shorter range, or "
		    "fewer nodes");
	else if (err == KP_EFORMAT && why[0] == '\0')
		api_error(a, PROBLEM_BAD_PARAMETER, op->fn == api_compare &&
		    (p->given & PARAM_VERSUS) == 0 ? "'versus' is needed: FROM,TO" :
		    "'cursor' is not of such a list: it is 'next' of an answer to the "
		    "same question");
	else if (err == KP_ESTATE && why[0] == '\0')
		api_error(a, PROBLEM_MOVED_ON, "what the list is made of was joined or "
		    "added to since its first part: ask for it again, without "
		    "'cursor'");
	else if (err == KP_ELIMIT)
		api_error(a, PROBLEM_TOO_LARGE, "the answer is too large: choose a "
		    "shorter range or a longer step");
	else
		api_error(a, err == KP_EBUSY ? PROBLEM_BUSY : PROBLEM_FAILED,
		    why[0] != '\0' ? why : kp_err_str(err));
}

/* Adds a name that nothing in the database has, and the one that may be meant. */
static enum kp_err
put_unknown(struct json *j, struct kp_query *q, enum kp_name_of of,
    const char *parameter, const char *name)
{
	const char *near;
	bool found;
	enum kp_err err = kp_query_name(q, of, name, &found, &near);

	if (err != KP_OK || found)
		return err;
	json_object(j, NULL);
	json_string(j, "parameter", parameter);
	json_string(j, "name", name);
	json_string(j, "near", near);
	json_end(j);
	return KP_OK;
}

/*
 * A node, or a request type, that was not measured is no error: it may be soon.  But
 * what is written wrong looks the same, so names that are not there are told.
 */
static enum kp_err
put_all_unknown(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	const char *node = p->range.node != NULL ? p->range.node : "";
	enum kp_err err = KP_OK;
	char name[WEB_QUERY_MAX];
	struct kp_buf list;
	struct json j;
	size_t n;

	kp_buf_init(&list, 1u << 20);
	json_begin(&j, &list);
	json_array(&j, NULL);
	for (; *node != '\0' && err == KP_OK; node += n + (node[n] == ' ')) {
		n = strcspn(node, " ");
		snprintf(name, sizeof(name), "%.*s", (int)n, node);
		if (strpbrk(name, "*?[") == NULL)
			err = put_unknown(&j, q, KP_NAME_NODE, "node", name);
	}
	if (p->range.identity != NULL && err == KP_OK)
		err = put_unknown(&j, q, KP_NAME_IDENTITY, "identity",
		    p->range.identity);
	json_end(&j);
	if (err == KP_OK && list.err == KP_OK && list.len > strlen("[]"))
		put_member(b, "unknown", kp_buf_cstr(&list));
	kp_buf_free(&list);
	return err;
}

void
api_ask(struct api_answer *a, const struct kp_query_files *dbs,
    const struct operation *op, const struct web_params *p,
    const atomic_bool *stop)
{
	struct kp_query *q;
	enum kp_err err;
	char *why;

	a->status = 200;
	a->now = op->fn == api_about;
	a->type = op->fn != api_stacks || p->form == STACKS_JSON ||
	    p->form == STACKS_SPEEDSCOPE ? NULL : p->form == STACKS_PPROF ?
	    "application/octet-stream" : "text/plain; charset=utf-8";
	kp_buf_init(&a->b, API_OUTPUT_MAX);
	if (kp_query_open_all(&q, dbs, &why) != KP_OK) {
		api_error(a, PROBLEM_BUSY, why != NULL ? why : "out of memory");
		free(why);
		return;
	}
	kp_query_limit(q, QUERY_WORK * KP_NS_PER_S, QUERY_ALL * KP_NS_PER_S,
	    stop);
	err = op->fn(q, p, &a->b);
	if (err == KP_OK && p->form == TRACE_TREE)
		err = put_all_unknown(q, p, &a->b);
	if (err == KP_OK)
		err = a->b.err;
	if (err != KP_OK)
		reply_failure(a, q, op, p, err);
	kp_query_close(q);
}
