/*
 * Intervals of sampled figures, against truth: in a node that is played here, with
 * layers, bursts, a batch each second, and requests that outlast many slices, the true
 * figure lies in the interval in 95 of 100 ranges, however requests were sampled.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "pick.h"
#include "report/report.h"
#include "store_fixture.h"

#define TRIALS 200
#define SAID_MIN 100	/* of fewer ranges nothing is concluded */
#define WINDOWS 20
#define RANGE (WINDOWS * 10 * S)

enum { PAGE, ORDER, BATCH, EXPORT, TYPES };
enum { REQUEST, POOL, QUERY, LAYERS };
static const char *const types[] = { "page", "order", "batch", "export", "_total" };
static const char *const layers[] = { "_total", "web", "db" };

static double
uniform(void)
{
	return ((double)rnd(1u << 30) + 0.5) / (1u << 30);
}

static double
exponential(double mean)
{
	return -mean * log(uniform());
}

/* ---- what happens in a node ---- */

struct request {
	kp_wall_ns start;
	kp_dur_ns time[LAYERS];
	unsigned type, queries;
	bool raised;
};

static struct request *node;
static size_t requests;
#define REQUESTS_MAX 100000

static void
happen(unsigned type, double start, double pool, double query, unsigned queries,
    double errors)
{
	struct request *r = &node[requests++];
	double queried = 0;

	for (unsigned i = 0; i < queries; i++)
		queried += exponential(query);
	*r = (struct request){ .start = T0 + (kp_wall_ns)(start * 1e9), .type = type,
		.queries = queries, .raised = uniform() < errors };
	r->time[QUERY] = 1000 + (kp_dur_ns)(queried * 1e9);
	r->time[POOL] = 1000 + (kp_dur_ns)(exponential(pool) * 1e9);
	r->time[REQUEST] = r->time[QUERY] + r->time[POOL] +
	    (kp_dur_ns)(exponential(0.001) * 1e9);
}

/*
 * Pages at a rate that swings; bursts of orders that wait for a pool and fail; ten
 * slow jobs at the beginning of each second; and exports that last some seconds.
 */
static void
live(void)
{
	double end = RANGE / 1e9, burst_end = 0, next_burst = exponential(2);
	double rate = 60;

	requests = 0;
	for (double t = 0; t < end; t += exponential(1 / rate)) {
		rate = 60 * (1 + 0.5 * sin(t / 25)) * (t < burst_end ? 3 : 1);
		if (t > next_burst) {
			burst_end = t + exponential(0.3);
			next_burst = burst_end + exponential(2);
		}
		happen(t < burst_end && uniform() < 0.7 ? ORDER : PAGE, t,
		    t < burst_end ? 0.02 : 0.0005, 0.002, 1 + (unsigned)rnd(3),
		    t < burst_end ? 0.2 : 0.02);
	}
	for (double t = 0.01; t < end; t += 1)
		for (int i = 0; i < 10; i++)
			happen(BATCH, t + exponential(0.02), 0.01, 0.01, 5, 0.01);
	for (double t = 0; t < end; t += exponential(0.7))
		happen(EXPORT, t, 0.001, 0.1, 20, 0.05);
}

/* ---- what kprofd sees of it ---- */

enum kind { ALL, ONE_IN, PER_SECOND, SLICES, RARE_SLICES, KINDS };

/* A slice in each cycle, at any place in it: 1 in 8 of 0.4 s, 1 in 16 of 3.2 s. */
struct slices {
	int64_t cycle;
	kp_dur_ns at;
};

static bool
in_slice(struct slices *s, kp_dur_ns now, kp_dur_ns cycle, unsigned one_in)
{
	kp_dur_ns length = cycle / one_in;

	if (s->cycle != now / cycle + 1) {
		s->cycle = now / cycle + 1;
		s->at = (kp_dur_ns)rnd((uint64_t)(cycle - length));
	}
	now %= cycle;
	return now >= s->at && now < s->at + length;
}

/* What one measured request stands for; 0: it is not measured. */
static uint32_t
weight(enum kind kind, struct slices *s, const struct request *r)
{
	kp_dur_ns now = r->start - T0;
	uint32_t n;

	switch (kind) {
	case ONE_IN:
		return rnd(8) == 0 ? 8 : 0;
	case PER_SECOND:	/* at each time another rate */
		n = 4 + (uint32_t)(now / (30 * S) % 4) * 3;
		return rnd(n) == 0 ? n : 0;
	case SLICES:
		return in_slice(s, now, 400 * KP_NS_PER_MS, 8) ? 8 : 0;
	case RARE_SLICES:
		return in_slice(s, now, 3200 * KP_NS_PER_MS, 16) ? 16 : 0;
	default:
		return 1;
	}
}

static void
count(struct kp_cell *c, const struct request *r, unsigned layer, uint32_t w)
{
	unsigned calls = layer == QUERY ? r->queries : 1;
	bool raised = r->raised && layer != POOL;

	c->requests++, c->w_requests += w;
	c->share_requests++, c->w_share_requests += w;
	c->calls += calls, c->w_calls += calls * w;
	c->timed += calls, c->w_timed += calls * w;
	c->raised += raised, c->w_raised += raised ? w : 0;
	c->total += r->time[layer], c->w_total += r->time[layer] * w;
	c->self += r->time[layer], c->w_self += r->time[layer] * w;
	c->busy += r->time[layer], c->w_busy += r->time[layer] * w;
	c->share_busy = c->busy, c->w_share_busy = c->w_busy;
	for (unsigned i = 0; i < calls; i++) {
		kp_dur_ns d = r->time[layer] / calls;

		c->min = c->min < 0 || d < c->min ? d : c->min;
		c->max = d > c->max ? d : c->max;
		assert_int_equal(kp_hist_add(&c->hist, d, w), KP_OK);
	}
}

static struct kp_window *
empty_window(kp_wall_ns start)
{
	struct kp_window *w = new_window("app@host", start, (TYPES + 1) * LAYERS);

	w->entry_calls = w->sampled = 0;
	for (size_t k = 0; k < w->ncells; k++)
		w->cells[k] = (struct kp_cell){ .min = -1, .tier = layers[k % LAYERS],
			.identity = types[k / LAYERS] };
	return w;
}

/* The requests of the range that are measured, as windows from `at` on. */
static void
measure(struct kp_db *db, enum kind kind, kp_wall_ns at)
{
	struct kp_window *w[WINDOWS], *in;
	struct slices s = { 0 };
	const struct request *r;
	uint32_t n;

	for (unsigned i = 0; i < WINDOWS; i++)
		w[i] = empty_window(at + i * 10 * S);
	for (r = node; r < node + requests; r++) {
		in = w[(r->start - T0) / (10 * S)];
		in->entry_calls++;
		n = weight(kind, &s, r);
		in->sampled += n > 0;
		for (unsigned l = 0; l < LAYERS && n > 0; l++) {
			count(&in->cells[r->type * LAYERS + l], r, l, n);
			count(&in->cells[TYPES * LAYERS + l], r, l, n);
		}
	}
	for (unsigned i = 0; i < WINDOWS; i++) {
		keep_put(db, w[i]);
		kp_window_free(w[i]);
	}
}

/* ---- the truth, and what is said of it ---- */

static int
dur_cmp(const void *pa, const void *pb)
{
	kp_dur_ns a = *(const kp_dur_ns *)pa, b = *(const kp_dur_ns *)pb;

	return a < b ? -1 : a > b;
}

/* Of a type (TYPES: of all) and a layer. */
static void
truth(unsigned type, unsigned layer, double of[REPORT_OFS])
{
	kp_dur_ns *v = calloc(requests * 20, sizeof(*v));
	double n = 0, calls = 0, total = 0, raised = 0, time = 0;
	const struct request *r;
	size_t nv = 0;

	assert_non_null(v);
	for (r = node; r < node + requests; r++) {
		unsigned k = layer == QUERY ? r->queries : 1;

		time += (double)r->time[REQUEST];
		if (type != TYPES && r->type != type)
			continue;
		n++;
		calls += k;
		total += (double)r->time[layer];
		raised += r->raised && layer != POOL;
		for (unsigned i = 0; i < k; i++)
			v[nv++] = r->time[layer] / k;
	}
	qsort(v, nv, sizeof(*v), dur_cmp);
	of[REPORT_OF_REQUESTS] = n;
	of[REPORT_OF_MEAN] = total / calls;
	of[REPORT_OF_P50] = (double)v[(size_t)(0.50 * (double)nv)];
	of[REPORT_OF_P90] = (double)v[(size_t)(0.90 * (double)nv)];
	of[REPORT_OF_P99] = (double)v[(size_t)(0.99 * (double)nv)];
	of[REPORT_OF_CALLS] = calls / n;
	of[REPORT_OF_SELF] = of[REPORT_OF_TOTAL] = of[REPORT_OF_BUSY] = total / n;
	of[REPORT_OF_RAISED] = raised / calls;
	of[REPORT_OF_SHARE] = total / time;
	free(v);
}

struct score {
	unsigned said, held;
};

static void
judge_cell(const struct report_cell *c, const double true_of[REPORT_OFS],
    struct score of[REPORT_OFS])
{
	const struct report_interval *v;

	for (int i = 0; i < REPORT_OFS; i++) {
		v = &c->interval[i];
		of[i].said += v->high > 0;
		of[i].held += v->high > 0 && v->low <= true_of[i] && true_of[i] <= v->high;
	}
}

static void
judge(const struct report *r, struct score of[TYPES + 1][LAYERS][REPORT_OFS])
{
	double true_of[REPORT_OFS];

	for (size_t i = 0; i < r->nrows; i++)
		for (unsigned t = 0; t <= TYPES; t++)
			for (unsigned l = 0; l < LAYERS; l++) {
				if (strcmp(r->rows[i].identity, types[t]) != 0)
					continue;
				truth(t, l, true_of);
				judge_cell(&r->rows[i].cells[l], true_of, of[t][l]);
			}
}

/* So many of n hold at least in 999 of 1,000 cases, if each does in 95 of 100. */
static double
held_least(double n)
{
	return 0.95 * n - 3.09 * sqrt(n * 0.95 * 0.05);
}

/* Returns how many figures hold too seldom; adds to *judged how many were looked at. */
static int
check_score(const char *name, unsigned type, unsigned layer,
    const struct score of[REPORT_OFS], int *judged)
{
	static const char *const figures[] = { "requests", "mean", "p50", "p90", "p99",
		"calls", "self", "total", "busy", "errors", "share" };

	const struct score *s;
	int bad = 0;

	for (s = of; s < of + REPORT_OFS; s++) {
		*judged += s->said >= SAID_MIN;
		if (s->said < SAID_MIN || s->held >= held_least(s->said))
			continue;
		print_message("%s: %s of %s, %s: %u of %u hold\n", name,
		    figures[s - of], layers[layer], types[type], s->held, s->said);
		bad++;
	}
	return bad;
}

static void
trials(enum kind kind, const char *name)
{
	static struct score score[TYPES + 1][LAYERS][REPORT_OFS];
	struct kp_query_range range = { .exact = true };
	struct kp_db *db = keep_open(NULL);
	struct kp_query *q = open_query();
	struct report *r;
	int bad = 0, judged = 0;

	memset(score, 0, sizeof(score));
	node = calloc(REQUESTS_MAX, sizeof(*node));
	assert_non_null(node);
	for (unsigned i = 0; i < TRIALS; i++) {
		range.since = T0 + i * RANGE;
		range.until = range.since + RANGE;
		live();
		measure(db, kind, range.since);
		assert_int_equal(report_from_db(q, &range, &r), KP_OK);
		judge(r, score);
		report_free(r);
	}
	kp_query_close(q);
	db_close(db, 0);
	free(node);
	for (unsigned t = 0; t <= TYPES; t++)
		for (unsigned l = 0; l < LAYERS; l++)
			bad += check_score(name, t, l, score[t][l], &judged);
	assert_int_equal(bad, 0);
	/* of 165, those of which there is enough */
	assert_true(kind == ALL ? judged == 0 : judged > 100);
}

/* Nothing is estimated where all requests are measured. */
TEST(test_all)
{
	trials(ALL, "all");
}

/* Half of the calls that the type makes after its requests raise. */
static void
add_after(struct kp_cell *c)
{
	c->async_calls += 20, c->w_async_calls += 80;
	c->async_raised += 10, c->w_async_raised += 40;
}

/*
 * A range of ten and a half of the sums that could be read for it: each sum is in one
 * tenth, with the time that it has.  The load swings once, which is no chance.
 */
TEST(test_tenths_of_sums)
{
	const struct kp_query_range range = { .since = NOON, .until = NOON +
		630 * 10 * S, .exact = true };
	struct kp_db *db = keep_open("10s:1d,1m:2d,10m:3d,1h:4d");
	const struct request r = { .time = { S, S, S }, .type = PAGE, .queries = 1 };
	const struct report_interval *v;
	struct kp_query *q;
	struct report *report;
	struct kp_window *w;
	unsigned n, all_of = 0;

	for (int i = 0; i < 630; i++) {
		n = (unsigned)(20 + 15 * sin(i / 100.0));
		all_of += 4 * n;
		w = empty_window(NOON + i * 10 * S);
		w->entry_calls = 4 * n;
		w->sampled = n;
		for (unsigned k = 0; k < n * LAYERS; k++) {
			count(&w->cells[PAGE * LAYERS + k % LAYERS], &r, k % LAYERS, 4);
			count(&w->cells[TYPES * LAYERS + k % LAYERS], &r, k % LAYERS, 4);
		}
		add_after(&w->cells[PAGE * LAYERS + POOL]);
		keep_put(db, w);
		kp_window_free(w);
	}
	keep_settle(db, NOON + 2 * HOUR);
	assert_true(atoi(sql_text("select count(*) from level_sum where level = 600")) > 10);
	q = open_query();
	assert_int_equal(report_from_db(q, &range, &report), KP_OK);
	v = &report->rows[1].cells[0].interval[REPORT_OF_REQUESTS];
	assert_int_equal(report->rows[1].cells[0].requests, all_of);
	assert_true(v->low > 0.96 * all_of && v->high < 1.04 * all_of);
	/* of all calls, as the share of errors is */
	v = &report->rows[1].cells[POOL].interval[REPORT_OF_RAISED];
	assert_true(v->low < 630 * 40.0 / (630 * 80 + all_of) &&
	    v->high > 630 * 40.0 / (630 * 80 + all_of) && v->high < 0.5);
	report_free(report);
	kp_query_close(q);
	db_close(db, 0);
}

TEST(test_one_in)
{
	trials(ONE_IN, "one_in");
}

TEST(test_per_second)
{
	trials(PER_SECOND, "per_second");
}

TEST(test_slices)
{
	trials(SLICES, "slices");
}

TEST(test_rare_slices)
{
	trials(RARE_SLICES, "rare slices");
}

TESTS(setup, teardown)
