/*
 * api.c - a table of routes, and for each a function that queries the database
 * and writes the answer as JSON.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "base/sat.h"
#include "text/json.h"
#include "report/advice.h"
#include "report/losses.h"
#include "report/requests.h"
#include "report/series.h"
#include "report/usage.h"
#include "report/compare.h"
#include "stacks/stored/frames.h"
#include "stacks/stored/stored_stacks.h"

#define QUERY_MAX (5 * KP_NS_PER_S)	/* for one request */
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

	(void)p;
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

static enum kp_err
api_report(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct report *r;
	enum kp_err err = make_report(q, &p->range, p->sort, REPORT_BUSY,
	    true, &r);

	if (err != KP_OK)
		return err;
	report_json(b, r);
	report_free(r);
	return KP_OK;
}

/* The names, those that cost most first. */
static enum kp_err
api_identities(struct kp_query *q, const struct web_params *p,
    struct kp_buf *b)
{
	struct report *r;
	enum kp_err err = make_report(q, &p->range, "cost", REPORT_BUSY,
	    false, &r);
	struct json j;

	if (err != KP_OK)
		return err;
	json_open(&j, b);
	json_array(&j, "identities");
	for (size_t i = 1; i < r->nrows; i++)
		json_string(&j, NULL, r->rows[i].identity);
	json_end(&j);
	json_close(&j);
	report_free(r);
	return KP_OK;
}

static enum kp_err
api_compare(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	enum report_what what = (enum report_what)p->what;
	struct kp_query_range then_range = p->range;
	struct report *now = NULL, *then = NULL;
	struct compare *v;
	enum kp_err err;

	if ((p->given & PARAM_VERSUS) == 0)
		return KP_EFORMAT;
	then_range.since = p->versus.since;
	then_range.until = p->versus.until;
	err = make_report(q, &p->range, NULL, what, true, &now);
	if (err == KP_OK) {
		report_apart(&p->range, now, &then_range);
		err = make_report(q, &then_range, NULL, what, true, &then);
	}
	if (err == KP_OK)
		err = compare_make(&v, now, then);
	if (err == KP_OK) {
		compare_sort_change(v, false);
		compare_json(b, v, what);
		compare_free(v);
	}
	report_free(then);
	report_free(now);
	return err;
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
	enum kp_err err = KP_ENOENT;

	if (p->sort == NULL || self || strcmp(p->sort, "total") == 0)
		err = kp_query_slow(q, &p->range, p->tier != NULL ?
		    KP_SLOW_TIER : self ? KP_SLOW_SELF : KP_SLOW_TOTAL,
		    p->tier, p->offset, p->limit, &rs);
	if (err == KP_OK)
		err = kp_query_cover(q, &p->range, &cover);
	if (err == KP_OK)
		requests_json(b, &rs, &cover);
	kp_query_sum_free(&cover);
	kp_query_requests_free(&rs);
	return err;
}

/* The tree of one slow request; p->id: as in the path. */
static enum kp_err
api_tree(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct kp_query_sum cover = { 0 };
	struct kp_query_tree t = { 0 };
	struct kp_query_range around;
	enum kp_err err = KP_ENOENT;
	char *rest;
	int64_t n;

	errno = 0;
	n = strtoll(p->id, &rest, 10);
	if (p->id[0] >= '0' && p->id[0] <= '9' && *rest == '\0' && errno == 0)
		err = kp_query_tree(q, n, &t);
	if (err == KP_OK)
		err = kp_query_related(q, n, &t);
	if (err == KP_OK)
		err = kp_query_around(q, &t.request, &around);
	if (err == KP_OK)
		err = kp_query_cover(q, &around, &cover);
	if (err == KP_OK)
		tree_json(b, &t, &cover);
	kp_query_sum_free(&cover);
	kp_query_tree_free(&t);
	return err;
}

static enum kp_err
api_events(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	struct kp_query_events e = { 0 };
	enum kp_err err = kp_query_events(q, &p->range, p->limit, &e);
	struct json j;

	if (err != KP_OK)
		return err;
	json_open(&j, b);
	events_json(&j, &e);
	json_close(&j);
	kp_query_events_free(&e);
	return KP_OK;
}

/* ---- sampled stacks ---- */

/*
 * Keeps the rows of the tier, STACKS_MAX at most.  What the query left out stays
 * left out: which tiers it is of is not known.
 */
static void
keep_tier(struct stacks *report, const char *tier)
{
	struct kp_query_stacks *s = &report->stacks;
	size_t n = s->n;

	s->n = 0;
	s->samples = s->left_samples;
	s->not_seen = 0;
	report->other = 0;
	for (size_t i = 0; i < n; i++) {
		const struct kp_query_stack row = s->v[i];

		if (!frames_in_tier(row.path, tier))
			continue;
		s->samples += row.samples;
		if (row.state == KP_STACK_NOT_SEEN)
			s->not_seen += row.samples;
		if (frames_other(row.frames))
			report->other += row.samples;
		if (s->n < STACKS_MAX) {
			s->v[s->n++] = row;
			continue;
		}
		s->left++;
		s->left_samples += row.samples;
		s->left_time = sat_add(s->left_time, row.w_time);
	}
}

static enum kp_err
api_stacks(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	enum kp_err err = p->tier != NULL ? kp_query_tier(q, p->tier) : KP_OK;
	struct stacks *s;

	if (err == KP_OK)
		err = stacks_from_db(q, &p->range, p->tier != NULL ?
		    KP_QUERY_STACKS_MAX : STACKS_MAX, &s);
	if (err != KP_OK)
		return err;
	if (p->tier != NULL)
		keep_tier(s, p->tier);
	stacks_json(b, s);
	stacks_free(s);
	return KP_OK;
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

/* ---- routes ---- */

#define PARAM_CHART (PARAM_RANGE | PARAM_IDENTITY | PARAM_TIER | PARAM_STEP)
#define PARAM_COMPARE (PARAM_RANGE | PARAM_IDENTITY | PARAM_VERSUS | PARAM_WHAT)

static const struct api_route routes[] = {
	{ "about", 0, api_about },
	{ "nodes", PARAM_SINCE | PARAM_UNTIL, api_nodes },
	{ "tiers", 0, api_tiers },
	{ "identities", PARAM_RANGE, api_identities },
	{ "report", PARAM_RANGE | PARAM_IDENTITY | PARAM_SORT, api_report },
	{ "compare", PARAM_COMPARE, api_compare },
	{ "series", PARAM_CHART, api_series },
	{ "heatmap", PARAM_CHART, api_heatmap },
	{ "load", PARAM_RANGE | PARAM_STEP, api_load },
	{ "losses", PARAM_RANGE, api_losses },
	{ "slow", PARAM_RANGE | PARAM_IDENTITY | PARAM_TIER | PARAM_SORT |
	    PARAM_LIMIT | PARAM_OFFSET | PARAM_OUTCOME, api_slow },
	{ "requests/", 0, api_tree },
	{ "events", PARAM_RANGE | PARAM_LIMIT, api_events },
	{ "stacks", PARAM_RANGE | PARAM_IDENTITY | PARAM_TIER, api_stacks },
	{ "memory", PARAM_RANGE, api_memory },
};
#define NROUTES (sizeof(routes) / sizeof(routes[0]))

const struct api_route *
api_find(const char *name)
{
	size_t n;

	for (size_t i = 0; i < NROUTES; i++) {
		n = strlen(routes[i].name);
		if (strncmp(name, routes[i].name, n) == 0 &&
		    (name[n] == '\0' || routes[i].name[n - 1] == '/'))
			return &routes[i];
	}
	return NULL;
}

void
api_error(struct api_answer *a, int status, const char *text)
{
	struct json j;

	a->status = status;
	kp_buf_reset(&a->b);
	json_open(&j, &a->b);
	json_string(&j, "error", text);
	json_close(&j);
}

/* Answers with the reason of an error. */
static void
reply_failure(struct api_answer *a, const struct kp_query *q, enum kp_err err)
{
	const char *why = kp_query_why(q);

	if (err == KP_ENOENT)
		api_error(a, 404, "there is no such tier, or request");
	else if (err == KP_ETIMEOUT)
		api_error(a, 503, "the answer takes more than 5 s: choose a "
		    "shorter range, or fewer nodes");
	else if (err == KP_EFORMAT && why[0] == '\0')
		api_error(a, 400, "'versus' is needed: FROM,TO");
	else if (err == KP_ELIMIT)
		api_error(a, 400, "the answer is too large: choose a shorter "
		    "range or a longer step");
	else
		api_error(a, err == KP_EBUSY ? 503 : 500,
		    why[0] != '\0' ? why : kp_err_str(err));
}

void
api_ask(struct api_answer *a, const struct kp_query_files *dbs,
    const struct api_route *route, const struct web_params *p,
    const atomic_bool *stop)
{
	struct kp_query *q;
	enum kp_err err;
	char *why;

	a->status = 200;
	kp_buf_init(&a->b, API_OUTPUT_MAX);
	if (kp_query_open_all(&q, dbs, &why) != KP_OK) {
		api_error(a, 503, why != NULL ? why : "out of memory");
		free(why);
		return;
	}
	kp_query_deadline(q, kp_mono_now() + QUERY_MAX, stop);
	err = route->fn(q, p, &a->b);
	if (err == KP_OK)
		err = a->b.err;
	if (err != KP_OK)
		reply_failure(a, q, err);
	kp_query_close(q);
}
