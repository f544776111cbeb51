/*
 * slo.c - reads the objectives of the last tiers.conf in a database, counts what met them
 * by histograms, and writes that as a table and as JSON.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "config/tiers_file.h"
#include "report/losses.h"
#include "slo.h"
#include "text/grid.h"

#define RUNS 20
#define MISSED_MIN 5		/* measured; of fewer there is no interval */
#define NEARLY 20		/* a window may be shorter by a part of this */

static const struct {
	const char *name;
	kp_dur_ns length;
} burns[SLO_BURNS] = {
	{ "5m", 300 * KP_NS_PER_S }, { "1h", 3600 * KP_NS_PER_S },
	{ "6h", 6 * 3600 * KP_NS_PER_S }, { "3d", 72 * 3600 * KP_NS_PER_S },
};

/* ---- figures ---- */

void
slo_take(struct slo_row *row, const struct kp_cell *c)
{
	uint64_t low, high;
	double n, within;

	if (c == NULL || c->hist.count == 0)
		return;
	n = (double)c->hist.count;
	within = kp_hist_within(&c->hist, row->of->limit, &low, &high);
	if (c->max <= row->of->limit)
		within = n, low = high = c->hist.count;
	else if (c->min > row->of->limit)
		within = 0, low = high = 0;
	row->requests = c->hist.count;
	row->sampled = c->timed;
	row->endless = c->w_calls > c->w_timed ? c->w_calls - c->w_timed : 0;
	/* also of a tier those in requests, as the histogram has no others */
	row->failed = c->w_raised;
	row->failed_seen = kp_raised_seen(c->w_raised, kp_cell_unseen(c, true));
	row->slow = n - within;
	row->exact = low == high;
	row->missed = fmin(n, row->slow + (double)row->failed);
	row->low = fmax(n - (double)high, (double)row->failed);
	row->high = fmin(n, n - (double)low + (double)row->failed);
}

double
slo_burned(const struct slo_row *row)
{
	return row->requests == 0 ? -1 : row->missed / (double)row->requests /
	    (1 - row->of->percent / 100);
}

static bool
is_sampled(const struct slo_row *row)
{
	return row->sampled < row->requests;
}

static bool
is_known(const struct slo_row *row)
{
	return !is_sampled(row) && row->low >= row->high &&
	    row->failed_seen == KP_SEEN;
}

static struct kp_query_key
key_of(const struct kp_objective *o)
{
	return o->tier ? (struct kp_query_key){ o->name, "_total" } :
	    (struct kp_query_key){ "_total", o->name };
}

static const struct kp_cell *
cell_of(const struct kp_query_sum *s, const struct kp_objective *o)
{
	struct kp_query_key key = key_of(o);

	return kp_query_cell(s, key.tier, key.identity);
}

/* Of an objective, in each tenth. */
struct parts {
	const struct kp_objective *of;
	double missed[KP_TENTHS], requests[KP_TENTHS];
};

struct taking {
	struct parts *v;
	size_t n;
};

static bool
take(void *ctx, size_t tenth, const struct kp_cell *c)
{
	const struct taking *t = ctx;
	struct kp_query_key key;
	struct slo_row one;

	for (struct parts *p = t->v; p < t->v + t->n; p++) {
		key = key_of(p->of);
		if (strcmp(key.tier, c->tier) != 0 || strcmp(key.identity, c->identity) != 0)
			continue;
		one = (struct slo_row){ .of = p->of };
		slo_take(&one, c);
		p->missed[tenth] += one.missed;
		p->requests[tenth] += (double)one.requests;
	}
	return true;
}

/* What the requests that were passed over may change; tenths: how many have a window. */
static void
take_interval(struct slo_row *row, const struct parts *p, size_t tenths)
{
	double n = (double)row->requests, part = row->missed / n;
	double measured = (double)row->sampled, by = 0, error;

	if (is_sampled(row)) {
		error = part * measured < MISSED_MIN || tenths == 0 ? 0 :
		    report_tenths_error(p->missed, p->requests, tenths,
		    (1 - part) / (part * measured));
		by = REPORT_ERRORS * sqrt(1 - measured / n) * error;
		if (by <= 0)
			return;
	}
	row->interval = (struct report_interval){ row->low / n * exp(-by),
		fmin(row->high / n * exp(by), 1) };
}

/* The cells of all objectives; two may be of the same.  NULL: out of memory. */
static struct kp_query_key *
keys_of(const struct kp_conf *conf, size_t *n)
{
	struct kp_query_key *v = calloc(conf->nslo, sizeof(*v)), key;
	size_t i;

	*n = 0;
	for (const struct kp_objective *o = conf->slo; v != NULL &&
	    o < conf->slo + conf->nslo; o++) {
		key = key_of(o);
		for (i = 0; i < *n && (strcmp(v[i].tier, key.tier) != 0 ||
		    strcmp(v[i].identity, key.identity) != 0); i++)
			;
		if (i == *n)
			v[(*n)++] = key;
	}
	return v;
}

/* The rows of all objectives in one range; step: from one objective's to the next. */
static enum kp_err
measure(struct kp_query *q, const struct kp_query_range *r, const struct kp_conf *conf,
    struct slo_row *rows, size_t step)
{
	struct kp_query_sum sum = { 0 };
	struct kp_tenths tenths = { .n = 0 };
	struct taking t = { calloc(conf->nslo, sizeof(*t.v)), conf->nslo };
	enum kp_err err = t.v == NULL ? KP_ENOMEM : kp_query_sum(q, r, &sum);
	bool sampled = false;

	for (size_t i = 0; i < conf->nslo && err == KP_OK; i++) {
		t.v[i].of = &conf->slo[i];
		slo_take(&rows[i * step], cell_of(&sum, &conf->slo[i]));
		sampled |= is_sampled(&rows[i * step]);
	}
	if (err == KP_OK && sampled)
		err = kp_query_tenths(q, r, sum.ncells, 0, &tenths, take, &t);
	for (size_t i = 0; i < conf->nslo && err == KP_OK; i++)
		if (rows[i * step].requests > 0)
			take_interval(&rows[i * step], &t.v[i], tenths.n);
	free(t.v);
	kp_query_sum_free(&sum);
	return err;
}

/* Burn rates of the times before the end of the range that lie in it, for these rows. */
static enum kp_err
measure_burns(struct kp_query *q, const struct kp_query_range *r, const struct slo *s,
    struct slo_row *rows, size_t step)
{
	struct kp_query_range of = *r;
	struct kp_query_sum sum;
	struct slo_row one;
	enum kp_err err = KP_OK;

	of.until = s->cover.end;
	of.exact = true;
	for (size_t k = 0; k < SLO_BURNS && err == KP_OK; k++) {
		of.since = of.until - burns[k].length;
		if (s->cover.start > of.since + burns[k].length / NEARLY)
			break;
		err = kp_query_sum(q, &of, &sum);
		if (err != KP_OK)
			break;
		/* older windows are longer, and none may begin in it */
		for (size_t i = 0; i < s->conf->nslo &&
		    sum.start <= of.since + burns[k].length / NEARLY; i++) {
			one = (struct slo_row){ .of = &s->conf->slo[i] };
			slo_take(&one, cell_of(&sum, one.of));
			rows[i * step].burn[k] = slo_burned(&one);
		}
		kp_query_sum_free(&sum);
	}
	return err;
}

/* ---- the objectives in force ---- */

static enum kp_err
read_conf(struct kp_query *q, struct kp_conf **out)
{
	struct kp_query_runs runs = { 0 };
	enum kp_err err = kp_query_runs(q, RUNS, &runs);
	struct kp_diags diags;
	size_t i = 0;

	while (i < runs.n && runs.v[i].failed[0] != '\0')
		i++;
	/* one that this version cannot read has none */
	if (i < runs.n) {
		kp_conf_parse(out, runs.v[i].tiers_text, strlen(runs.v[i].tiers_text),
		    &diags);
		kp_diags_free(&diags);
	}
	kp_query_runs_free(&runs);
	return err;
}

static enum kp_err
make_rows(struct slo *s, size_t step)
{
	struct slo_row *row;

	s->rows = calloc(s->conf->nslo * step, sizeof(*s->rows));
	if (s->rows == NULL)
		return KP_ENOMEM;
	s->nrows = s->conf->nslo * step;
	for (size_t i = 0; i < s->nrows; i++) {
		row = &s->rows[i];
		row->of = &s->conf->slo[i / step];
		row->node = i % step == 0 ? NULL : s->nodes.v[i % step - 1];
		for (size_t k = 0; k < SLO_BURNS; k++)
			row->burn[k] = -1;
	}
	return KP_OK;
}

static enum kp_err
fill(struct kp_query *q, const struct kp_query_range *r, struct slo *s)
{
	struct kp_query_range of = *r;
	size_t step;
	enum kp_err err = kp_query_cover(q, r, &s->cover);
	struct kp_query_key *keys = keys_of(s->conf, &of.nkeys);

	if (err == KP_OK && keys == NULL)
		err = KP_ENOMEM;
	of.keys = keys;

	if (err == KP_OK && r->by_node)
		err = kp_query_nodes(q, r, &s->nodes);
	step = s->nodes.n + 1;
	if (err == KP_OK)
		err = make_rows(s, step);
	for (size_t i = 0; i < step && err == KP_OK; i++) {
		if (i > 0)
			of.node = s->nodes.v[i - 1];
		err = measure(q, &of, s->conf, s->rows + i, step);
		if (err == KP_OK && s->cover.windows > 0)
			err = measure_burns(q, &of, s, s->rows + i, step);
	}
	free(keys);
	return err;
}

enum kp_err
slo_from_db(struct kp_query *q, const struct kp_query_range *r, struct slo *out)
{
	struct slo s = { .conf = NULL };
	enum kp_err err;

	kp_query_hold(q);	/* so that all are of the same windows */
	err = read_conf(q, &s.conf);
	if (err == KP_OK && s.conf != NULL && s.conf->nslo > 0)
		err = fill(q, r, &s);
	kp_query_release(q);
	if (err == KP_OK)
		*out = s;
	else
		slo_free(&s);
	return err;
}

void
slo_free(struct slo *s)
{
	kp_conf_free(s->conf);
	kp_query_nodes_free(&s->nodes);
	kp_query_sum_free(&s->cover);
	free(s->rows);
}

/* ---- for people ---- */

/*
 * A percentage with a digit more than the objective's, cut and not rounded: 100 % is
 * where nothing missed.
 */
static const char *
attained_text(char buf[TEXT_MAX], const struct slo_row *row, double missed,
    const char *mark)
{
	double left = 100 - row->of->percent, scale = 10;
	int digits = 1;

	for (; left < 0.95 && digits < 6; left *= 10, digits++)
		scale *= 10;
	snprintf(buf, TEXT_MAX, "%s%.*f %%", mark, digits,
	    floor(100 * (1 - missed) * scale + 1e-6) / scale);
	return buf;
}

static const char *
count_text(char buf[TEXT_MAX], double n, bool known)
{
	return text_known(buf, (uint64_t)(n + 0.5), known);
}

/* 0.34, 1.2, 14: how many times as fast as the budget allows. */
static const char *
burn_text(char buf[TEXT_MAX], double burn, bool known)
{
	if (burn < 0)
		return "-";
	snprintf(buf, TEXT_MAX, "%s%.*f", known ? "" : "~", burn >= 9.95 ? 0 :
	    burn >= 0.995 || burn == 0 ? 1 : 2, burn);
	return buf;
}

/* Does it say how far off the estimate may be? */
static bool
has_interval(const struct slo_row *row)
{
	return row->requests > 0 && !is_known(row) &&
	    row->interval.high > row->interval.low;
}

static void
put_row(struct grid *g, const struct slo_row *row, bool nodes, bool between,
    size_t nburns)
{
	bool known = is_known(row), counted = !is_sampled(row);
	const struct report_interval *v = &row->interval;
	char text[TEXT_MAX], other[TEXT_MAX], both[2 * TEXT_MAX + 8] = "";
	double burned = slo_burned(row);

	if (nodes)
		grid_cell(g, row->node != NULL ? row->node : "all nodes");
	grid_cell(g, text_known(text, row->requests, counted));
	if (row->requests == 0) {
		for (size_t i = 0; i < 5 + between + nburns; i++)
			grid_cell(g, "-");
		return;
	}
	grid_cell(g, count_text(text, row->slow, counted && row->exact));
	grid_cell(g, row->failed_seen == KP_NOT_SEEN ? "-" :
	    row->failed_seen == KP_SEEN_PART ? seen_share(text, KP_SEEN_PART,
	    row->failed, row->requests, counted) :
	    text_known(text, row->failed, counted));
	grid_cell(g, count_text(text, row->missed, known));
	grid_cell(g, attained_text(text, row, row->missed / (double)row->requests,
	    known ? "" : "~"));
	if (has_interval(row))
		snprintf(both, sizeof(both), "%s to %s", attained_text(text, row, v->high,
		    ""), attained_text(other, row, v->low, ""));
	if (between)
		grid_cell(g, both);
	snprintf(text, sizeof(text), "%s%.*f %%", known ? "" : "~", burned > 0 &&
	    burned < 0.0995 ? 1 : 0, 100 * burned);
	grid_cell(g, text);
	for (size_t k = 0; k < nburns; k++)
		grid_cell(g, burn_text(text, row->burn[k], known));
}

/* The figures that stand above need these words. */
static void
put_notes(struct kp_buf *b, const struct slo *s, size_t nburns, unsigned width)
{
	bool unseen = false, endless = false, between = false;
	char n[TEXT_MAX];

	for (const struct slo_row *row = s->rows; row < s->rows + s->nrows; row++) {
		unseen |= row->requests > 0 && row->failed_seen != KP_SEEN;
		endless |= row->endless > 0;
		between |= row->requests > 0 && !is_known(row);
	}
	text_wrap(b, "missed: slower than the limit, or failed, whatever its time. "
	    "Budget burned: 100 % is as many as may miss in this time", width, 2);
	if (between)
		text_wrap(b, "~: estimated: requests were sampled, or the limit is inside "
		    "a bucket of the histogram (2.2 % wide), or failed ones may have been "
		    "slow, too, and count twice then",
		    width, 2);
	if (unseen)
		text_wrap(b, "failed: not seen of all; the native probe sees it "
		    "(kprof status: -probe-library), and exact for the entry's tier",
		    width, 2);
	for (const struct slo_row *row = s->rows; row < s->rows + s->nrows; row++)
		if (endless && row->endless > 0 && row->node == NULL)
			text_note(b, width, "%s: %s without an end that was seen, which "
			    "neither met nor missed it", row->of->text,
			    text_counted(n, row->endless, row->of->tier ? "call" :
			    "request"));
	if (nburns > 0)
		text_wrap(b, "burn: how many times as fast as the budget allows, over so "
		    "long a time before the end", width, 2);
}

void
slo_text(struct kp_buf *b, const struct slo *s, unsigned width)
{
	bool nodes = s->nodes.n > 0, between = false;
	size_t nburns = 0;
	struct kp_buf name;
	char head[16];
	struct grid g;

	if (s->nrows == 0) {
		text_wrap(b, "no objectives: {slo, [{\"GET /orders\", 200, 99.9}]} in "
		    "tiers.conf, and kprof reload, set one", width, 2);
		return;
	}
	for (size_t i = 0; i < s->nrows; i++) {
		between |= has_interval(&s->rows[i]);
		for (size_t k = nburns; k < SLO_BURNS; k++)
			if (s->rows[i].burn[k] >= 0)
				nburns = k + 1;
	}
	grid_init(&g);
	grid_col(&g, "objective", GRID_LEFT);
	grid_fix(&g);
	if (nodes)
		grid_col(&g, "node", GRID_LEFT);
	grid_col(&g, "requests", GRID_RIGHT);
	grid_col_optional(&g, "slow", GRID_RIGHT, 5);
	grid_col_optional(&g, "failed", GRID_RIGHT, 5);
	grid_col_optional(&g, "missed", GRID_RIGHT, 6);
	grid_col(&g, "attained", GRID_RIGHT);
	if (between)
		grid_col_optional(&g, "between", GRID_RIGHT, 4);
	grid_col(&g, "budget burned", GRID_RIGHT);
	for (size_t k = 0; k < nburns; k++) {
		snprintf(head, sizeof(head), "burn %s", burns[k].name);
		grid_col_optional(&g, head, GRID_RIGHT, k < 2 ? 3 : 2);
	}
	kp_buf_init(&name, 4 * KP_IDENT_BYTES_MAX);
	for (size_t i = 0; i < s->nrows; i++) {
		kp_buf_reset(&name);
		kp_buf_printf(&name, "%.10g %% of %s", s->rows[i].of->percent,
		    s->rows[i].of->text);
		grid_cell(&g, s->rows[i].node != NULL ? "" : kp_buf_cstr(&name));
		put_row(&g, &s->rows[i], nodes, between, nburns);
	}
	kp_buf_free(&name);
	grid_write(&g, width, b);
	grid_free(&g);
	kp_buf_u8(b, '\n');
	put_notes(b, s, nburns, width);
	losses_cover_text(b, "", &s->cover, width);
}

/* ---- for programs ---- */

static void
json_row(struct json *j, const struct slo_row *row)
{
	double n = (double)row->requests;

	json_uint(j, "requests", row->requests);
	json_bool(j, "requests_known", !is_sampled(row));
	json_uint(j, "without_end", row->endless);
	json_uint(j, "slow", (uint64_t)(row->slow + 0.5));
	if (row->failed_seen == KP_NOT_SEEN)
		json_null(j, "failed");
	else
		json_uint(j, "failed", row->failed);
	json_string(j, "failed_seen", seen_name(row->failed_seen));
	json_uint(j, "missed", (uint64_t)(row->missed + 0.5));
	json_uint(j, "missed_low", (uint64_t)row->low);
	json_uint(j, "missed_high", (uint64_t)row->high);
	json_bool(j, "attained_known", row->requests > 0 && is_known(row));
	if (row->requests > 0)
		json_double(j, "attained_percent", 100 * (1 - row->missed / n));
	else
		json_null(j, "attained_percent");
	if (row->requests > 0 && (row->interval.high > 0 || !is_sampled(row))) {
		json_array(j, "attained_interval");
		json_double(j, NULL, 100 * (1 - row->interval.high));
		json_double(j, NULL, 100 * (1 - row->interval.low));
		json_end(j);
	} else {
		json_null(j, "attained_interval");
	}
	json_number(j, "budget_burned", slo_burned(row));
	json_array(j, "burn_rates");
	for (size_t k = 0; k < SLO_BURNS; k++) {
		json_object(j, NULL);
		json_string(j, "over", burns[k].name);
		json_number(j, "rate", row->burn[k]);
		json_end(j);
	}
	json_end(j);
}

void
slo_json(struct kp_buf *b, const struct slo *s)
{
	size_t step = s->nodes.n + 1;
	struct json j;

	json_open(&j, b);
	json_array(&j, "objectives");
	for (size_t i = 0; i < s->nrows; i += step) {
		json_object(&j, NULL);
		objective_json(&j, s->rows[i].of);
		json_row(&j, &s->rows[i]);
		json_array(&j, "nodes");
		for (size_t k = 1; k < step; k++) {
			json_object(&j, NULL);
			json_string(&j, "node", s->rows[i + k].node);
			json_row(&j, &s->rows[i + k]);
			json_end(&j);
		}
		json_end(&j);
		json_end(&j);
	}
	json_end(&j);
	losses_cover_json(&j, &s->cover);
	json_close(&j);
}
