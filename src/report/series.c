/*
 * series.c - a function for each column of figures, and the JSON objects made of
 * such columns.
 */
#include <string.h>

#include "text/json.h"
#include "series.h"
#include "report.h"

/* Writes one figure of a step; a column is that of every step. */
typedef void column_fn(struct json *j, const struct kp_series_step *v,
    size_t tier);

/*
 * Steps without windows are null; of what is COUNTED, also those in which no agent was
 * there to count calls.
 */
enum { MEASURED, COUNTED };

static void
put_column(struct json *j, const char *key, const struct kp_series *s,
    column_fn *put, size_t tier, int which)
{
	const struct kp_series_step *v;

	json_array(j, key);
	for (v = s->v; v < s->v + s->n; v++) {
		if (v->windows == 0 || (which == COUNTED && v->counted < 0))
			json_null(j, NULL);
		else
			put(j, v, tier);
	}
	json_end(j);
}

/* A column of a plain figure; t is the tier, or the cause of a loss. */
#define COLUMN(name, put, figure)                                        \
	static void                                                      \
	col_##name(struct json *j, const struct kp_series_step *v, size_t t) \
	{                                                                \
		(void)t;                                                 \
		put(j, NULL, figure);                                    \
	}
COLUMN(covered, json_number, (double)v->covered / (double)KP_NS_PER_S)
COLUMN(counted, json_number, (double)v->counted / (double)KP_NS_PER_S)
COLUMN(requests, json_uint, v->cells[t].w_requests)
COLUMN(calls, json_uint, v->cells[t].w_calls)
COLUMN(unfinished, json_uint, v->cells[t].w_unfinished)
COLUMN(unknown, json_uint, v->cells[t].w_unknown_outcomes)
COLUMN(self, json_ms, v->cells[t].w_self)
COLUMN(entries, json_uint, v->entry_calls)
COLUMN(sampled, json_uint, v->sampled)
COLUMN(events, json_uint, v->events)
COLUMN(agent, json_ms, v->agent)
COLUMN(cost, json_ms, v->cost)
COLUMN(lost, json_uint, v->losses.n[t])

static enum kp_seen
raised_seen(const struct kp_cell *c, bool request)
{
	return kp_raised_seen(kp_cell_raised(c, request),
	    kp_cell_unseen(c, request));
}

/* null where it is not seen; col_raised_seen() says more. */
static void
col_raised(struct json *j, const struct kp_series_step *v, size_t t)
{
	const struct kp_cell *c = &v->cells[t];

	if (raised_seen(c, t == 0) == KP_NOT_SEEN)
		json_null(j, NULL);
	else
		json_uint(j, NULL, kp_cell_raised(c, t == 0));
}

static void
col_raised_seen(struct json *j, const struct kp_series_step *v, size_t t)
{
	json_string(j, NULL, seen_name(raised_seen(&v->cells[t], t == 0)));
}

/* A time of one call: a member of struct report_cell. */
#define TIME_COLUMN(what)                                               \
	static void                                                     \
	col_##what(struct json *j, const struct kp_series_step *v, size_t t) \
	{                                                               \
		struct report_cell c = { 0 };                           \
                                                                        \
		report_take_cell(&c, &v->cells[t], t == 0);             \
		json_ms(j, NULL, c.what);                               \
	}
TIME_COLUMN(mean)
TIME_COLUMN(p50)
TIME_COLUMN(p90)
TIME_COLUMN(p99)
TIME_COLUMN(max)

static void
put_selves(struct json *j, const struct kp_series *s)
{
	json_array(j, "self");
	for (size_t t = 0; t <= s->tiers.n; t++) {
		json_object(j, NULL);
		json_string(j, "tier", t == 0 ? "_total" : s->tiers.v[t - 1]);
		put_column(j, "ms", s, col_self, t, COUNTED);
		json_end(j);
	}
	json_end(j);
}

/* 0: the request itself. */
static enum kp_err
find_tier(const struct kp_series *s, const char *name, size_t *tier)
{
	*tier = 0;
	if (name == NULL || strcmp(name, "_total") == 0)
		return KP_OK;
	for (size_t t = 0; t < s->tiers.n; t++)
		if (strcmp(s->tiers.v[t], name) == 0)
			*tier = t + 1;
	if (s->part != NULL)
		*tier = s->tiers.n + 1;
	return *tier > 0 ? KP_OK : KP_ENOENT;
}

/* Opens the object, with the members that all have.  KP_ENOENT: no such tier. */
static enum kp_err
begin(struct json *j, struct kp_buf *b, const struct kp_series *s,
    const char *identity, const char *tier, size_t *t)
{
	if (find_tier(s, tier, t) != KP_OK)
		return KP_ENOENT;
	json_open(j, b);
	json_number(j, "step_s", (double)s->step / (double)KP_NS_PER_S);
	json_string(j, "identity", identity != NULL ? identity : "_total");
	json_string(j, "tier", tier != NULL ? tier : "_total");
	json_array(j, "t");
	for (size_t i = 0; i < s->n; i++)
		json_time(j, NULL, s->start + (int64_t)i * s->step);
	json_end(j);
	put_column(j, "covered_s", s, col_covered, 0, MEASURED);
	put_column(j, "counted_s", s, col_counted, 0, COUNTED);
	return KP_OK;
}

enum kp_err
series_json(struct kp_buf *b, const struct kp_series *s,
    const char *identity, const char *tier)
{
	struct json j;
	size_t t;

	if (begin(&j, b, s, identity, tier, &t) != KP_OK)
		return KP_ENOENT;
	put_column(&j, "requests", s, col_requests, 0, COUNTED);
	put_column(&j, "raised", s, col_raised, 0, COUNTED);
	put_column(&j, "errors", s, col_raised, 0, COUNTED);	/* an earlier name */
	put_column(&j, "raised_seen", s, col_raised_seen, 0, COUNTED);
	put_column(&j, "unfinished", s, col_unfinished, 0, COUNTED);
	put_column(&j, "unknown_outcomes", s, col_unknown, 0, COUNTED);
	put_column(&j, "calls", s, col_calls, t, COUNTED);
	put_column(&j, "mean_ms", s, col_mean, t, MEASURED);
	put_column(&j, "p50_ms", s, col_p50, t, MEASURED);
	put_column(&j, "p90_ms", s, col_p90, t, MEASURED);
	put_column(&j, "p99_ms", s, col_p99, t, MEASURED);
	put_column(&j, "max_ms", s, col_max, t, MEASURED);
	put_selves(&j, s);
	json_close(&j);
	return KP_OK;
}

/* The coarser bucket that holds this one; their bounds coincide. */
static int32_t
coarse_bucket(int32_t bucket)
{
	const int32_t by = KP_HIST_PER_OCTAVE / SERIES_PER_OCTAVE;

	return (bucket - KP_HIST_MIN) / by + KP_HIST_MIN / by;
}

void
series_buckets_json(struct json *j, const char *key, const struct kp_hist *h)
{
	uint64_t sum = 0;
	int32_t at = 0;

	json_array(j, key);
	for (uint32_t i = 0; i < h->len; i++) {
		if (sum > 0 && coarse_bucket(h->lo + (int32_t)i) != at) {
			json_int(j, NULL, at);
			json_uint(j, NULL, sum);
			sum = 0;
		}
		at = coarse_bucket(h->lo + (int32_t)i);
		sum += h->n[i];
	}
	if (sum > 0) {
		json_int(j, NULL, at);
		json_uint(j, NULL, sum);
	}
	json_end(j);
}

static void
col_heat(struct json *j, const struct kp_series_step *v, size_t t)
{
	series_buckets_json(j, NULL, &v->cells[t].hist);
}

enum kp_err
series_heatmap_json(struct kp_buf *b, const struct kp_series *s,
    const char *identity, const char *tier)
{
	struct json j;
	size_t t;

	if (begin(&j, b, s, identity, tier, &t) != KP_OK)
		return KP_ENOENT;
	json_uint(&j, "per_octave", SERIES_PER_OCTAVE);
	/* of each step: bucket, count, bucket, count, ... */
	put_column(&j, "buckets", s, col_heat, t, MEASURED);
	json_close(&j);
	return KP_OK;
}

static bool
was_lost(const struct kp_series *s, int cause)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].losses.n[cause] > 0)
			return true;
	return false;
}

void
series_load_json(struct kp_buf *b, const struct kp_series *s)
{
	struct json j;
	size_t t;

	begin(&j, b, s, NULL, NULL, &t);
	put_column(&j, "entry_calls", s, col_entries, 0, COUNTED);
	put_column(&j, "sampled", s, col_sampled, 0, COUNTED);
	put_column(&j, "events", s, col_events, 0, MEASURED);
	put_column(&j, "agent_ms", s, col_agent, 0, MEASURED);
	put_column(&j, "cost_ms", s, col_cost, 0, MEASURED);
	json_array(&j, "losses");
	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		if (!was_lost(s, i))
			continue;
		json_object(&j, NULL);
		json_string(&j, "cause", kp_loss_name(i));
		json_string(&j, "unit", kp_loss_unit(i));
		json_string(&j, "help", kp_loss_help(i));
		put_column(&j, "lost", s, col_lost, (size_t)i, MEASURED);
		json_end(&j);
	}
	json_end(&j);
	json_close(&j);
}
