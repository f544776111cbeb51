/*
 * What changed in a range: false alarms of series without a change, what is found of
 * those with one and where, and the sentences of a night.
 */
#include <string.h>

#include "cases.h"
#include "night.h"
#include "report/changed.h"
#include "store_fixture.h"

#define STEPS 180

static struct kp_step v[STEPS];

/*
 * Steps of some 30 requests of 12 ms, whose times are exponential; a neighbour pulls a
 * step along by this part, and once in 30 steps one is four times as slow.
 */
static void
unchanged(double along, bool outliers)
{
	double last = 0, mean;

	for (int i = 0; i < STEPS; i++) {
		unsigned n = 25 + (unsigned)(night_uniform() * 10);

		last = along * last + 0.1 * (night_uniform() + night_uniform() +
		    night_uniform() - 1.5);
		mean = 12 * exp(last) * (outliers && night_uniform() < 1 / 30.0 ? 4 : 1);
		v[i] = (struct kp_step){ .sampled = (float)n, .requests = (float)n,
			.timed = (float)n };
		for (unsigned k = 0; k < n; k++) {
			v[i].total += (float)night_time(mean);
			v[i].raised += night_uniform() < 0.01;
		}
	}
}

static void
slower(size_t from, size_t to, double times)
{
	for (size_t i = from; i < to; i++)
		v[i].total *= (float)times;
}

static size_t
find(enum changed_what what, struct changed_steps *out)
{
	return changed_find(v, STEPS, what, 100, out);
}

#define SERIES 3000	/* 30 reports of 100 series */

TEST(nothing_changed)
{
	static const struct {
		double along;
		bool outliers;
	} kinds[] = { { 0, false }, { 0.5, false }, { 0, true }, { 0.5, true } };
	struct changed_steps c[CHANGED_CUTS];

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		size_t mean = 0, raised = 0;

		for (int i = 0; i < SERIES; i++) {
			unchanged(kinds[k].along, kinds[k].outliers);
			mean += find(CHANGED_MEAN, c);
			raised += find(CHANGED_RAISED, c);
		}
		print_message("%g, %d: %zu and %zu of %d\n", kinds[k].along,
		    kinds[k].outliers, mean, raised, SERIES);
		assert_true(raised <= 1 && mean <= 1);
	}
}

TEST(a_step)
{
	struct changed_steps c[CHANGED_CUTS];
	int found = 0, near = 0;

	for (int i = 0; i < 100; i++) {
		unchanged(0.5, false);
		slower(140, STEPS, 1.4);
		if (find(CHANGED_MEAN, c) != 1)
			continue;
		found++;
		near += c[0].from >= 135 && c[0].from <= 145;
		assert_true(c[0].base == 0 && c[0].to == STEPS);
		assert_true(c[0].now / c[0].then > 1.2 && c[0].now / c[0].then < 1.65);
		assert_false(c[0].gradual);
	}
	print_message("%d of 100, %d of them near\n", found, near);
	assert_true(found >= 80 && near >= 0.9 * found);
}

/* The last five steps are enough for a change that is large. */
TEST(a_late_step)
{
	struct changed_steps c[CHANGED_CUTS];
	int found = 0;

	for (int i = 0; i < 100; i++) {
		unchanged(0, false);
		slower(STEPS - 5, STEPS, 2.6);
		found += find(CHANGED_MEAN, c) == 1 && c[0].from >= STEPS - 6;
	}
	print_message("%d of 100\n", found);
	assert_true(found >= 75);
}

/* One that ends is one change, not two. */
TEST(there_and_back)
{
	struct changed_steps c[CHANGED_CUTS];

	unchanged(0, false);
	slower(60, 90, 2);
	assert_int_equal(find(CHANGED_MEAN, c), 2);
	assert_true(c[0].from >= 59 && c[0].from <= 61);
	assert_true(c[0].to >= 89 && c[0].to <= 91);
	assert_true(!c[0].back && c[1].back);
}

/* Slow, mended, and slow again: the second time is told, too. */
TEST(slow_again)
{
	struct changed_steps c[CHANGED_CUTS];

	unchanged(0, true);
	slower(0, 60, 2.5);
	slower(100, STEPS, 2.5);
	assert_int_equal(find(CHANGED_MEAN, c), 2);
	assert_true(c[0].now < c[0].then && c[1].now > c[1].then);
	assert_true(!c[1].back && c[1].from >= 94 && c[1].from <= 106);
}

/* An outage of ten steps in a series that never fails, which ends within a step. */
TEST(outage)
{
	struct changed_steps c[CHANGED_CUTS];

	unchanged(0, false);
	for (size_t i = 0; i < STEPS; i++)
		v[i].raised = i < 100 || i > 110 ? 0 : i == 110 ? 2 :
		    v[i].requests * 0.2f;
	assert_int_equal(find(CHANGED_RAISED, c), 2);
	assert_int_equal(c[0].from, 100);
	assert_true(c[0].to >= 110 && c[0].to <= 111);
	assert_true(c[0].now > 0.15 && !c[0].back && c[1].back);
}

/* A type that is no longer called is not slow until now. */
TEST(gone)
{
	struct changed_steps c[CHANGED_CUTS];

	unchanged(0, false);
	slower(60, STEPS, 2);
	memset(v + 120, 0, (STEPS - 120) * sizeof(*v));
	assert_int_equal(find(CHANGED_MEAN, c), 1);
	assert_int_equal(c[0].to, 120);
}

TEST(little_by_little)
{
	struct changed_steps c[CHANGED_CUTS];

	unchanged(0, false);
	for (size_t i = 0; i < STEPS; i++)
		slower(i, i + 1, 1 + (double)i / STEPS);
	assert_true(find(CHANGED_MEAN, c) >= 1);
	assert_true(c[0].gradual);
}

TEST(errors)
{
	struct changed_steps c[CHANGED_CUTS];

	unchanged(0, false);
	for (size_t i = 100; i < STEPS; i++)
		v[i].raised += v[i].requests * 0.1f;
	assert_int_equal(find(CHANGED_RAISED, c), 1);
	assert_true(c[0].from >= 99 && c[0].from <= 101);
	assert_true(c[0].now > 0.09 && c[0].then < 0.03);
	/* all or none: no step differs from its side */
	for (size_t i = 0; i < STEPS; i++)
		v[i].raised = i < 100 ? 0 : v[i].requests;
	assert_int_equal(find(CHANGED_RAISED, c), 1);
	assert_int_equal(c[0].from, 100);
}

/* Another probe sees how requests end: no more of them fail for that. */
TEST(outcomes_not_seen)
{
	struct changed_steps c[CHANGED_CUTS];

	for (size_t i = 0; i < STEPS; i++)
		v[i] = (struct kp_step){ .sampled = 1000, .requests = 1000, .timed = 1000,
			.total = 1e9f, .raised = i < 100 ? 0 : 20,
			.unseen = i < 100 ? 1000 : 10 };
	assert_int_equal(find(CHANGED_RAISED, c), 0);
	for (size_t i = 0; i < 100; i++)
		v[i].unseen = 10;
	assert_int_equal(find(CHANGED_RAISED, c), 1);
	assert_int_equal(c[0].from, 100);
}

/* Nothing, a little, and what is too little to tell. */
TEST(short_series)
{
	struct changed_steps c[CHANGED_CUTS];

	assert_int_equal(changed_find(v, 0, CHANGED_MEAN, 1, c), 0);
	memset(v, 0, sizeof(v));
	assert_int_equal(find(CHANGED_MEAN, c), 0);
	assert_int_equal(find(CHANGED_RAISED, c), 0);
	for (size_t i = 0; i < STEPS; i++)
		v[i] = (struct kp_step){ .sampled = 1, .requests = 1, .timed = 1,
			.total = i < 175 ? 1e6f : 9e6f };
	assert_int_equal(find(CHANGED_MEAN, c), 0);
}

/* ---- a night ---- */

static struct kp_buf text;

static struct kp_query *
put_night(bool changed)
{
	struct kp_db *db = keep_open(NULL);

	night_put(db, NOON, changed);
	db_close(db, 0);
	return open_query();
}

static const char *
said(struct kp_query *q, const struct kp_query_range *r, bool json)
{
	struct changes c;

	assert_int_equal(changes_from_db(q, r, &c), KP_OK);
	kp_buf_free(&text);
	kp_buf_init(&text, 1 << 20);
	if (json)
		changes_json(&text, &c);
	else
		changes_text(&text, &c, 0);
	changes_free(&c);
	return kp_buf_cstr(&text);
}

TEST(a_night)
{
	const struct kp_query_range hour = { .since = NOON + HOUR, .until = NOON +
		2 * HOUR }, quiet = { .since = NOON + HOUR / 2, .until = NOON + HOUR };
	struct kp_query *q = put_night(true);

	print_message("%s", said(q, &hour, false));
	assert_has(said(q, &hour, false), "update: +1");
	assert_has(said(q, &hour, true), "\"identity\":\"update\","
	    "\"nodes\":[\"web2@shop\"],\"all_nodes\":false,");
	assert_has(said(q, &hour, true), "\"since\":\"2023-11-15T13:23:");
	assert_has(said(q, &hour, true), "\"until\":null,\"gradual\":false,");
	assert_has(said(q, &hour, true), "\"in\":{\"tier\":\"formatter\","
	    "\"node\":\"web2@shop\",");
	assert_has(said(q, &hour, true), "\"what\":\"raised_share\","
	    "\"identity\":\"POST /orders\",\"nodes\":[\"web3@shop\"],");
	assert_has(said(q, &hour, true), "\"in\":{\"tier\":\"db\","
	    "\"node\":\"web3@shop\",");
	/* its cause: not the load of a module on another node */
	assert_has(said(q, &hour, false), ", on web2@shop. 3s before on web2@shop: module "
	    "formatter was loaded again\n");
	assert_has(said(q, &hour, false), ", on web3@shop\n");
	assert_has(said(q, &quiet, false), "nothing changed by more than chance: 4 "
	    "request types on 3 nodes");
	assert_has(said(q, &quiet, true), "\"changes\":[]}");
	kp_buf_free(&text);
	kp_query_close(q);
}

/* A range with nothing in it, and one with too little. */
TEST(little_of_a_night)
{
	const struct kp_query_range none = { .since = NOON - HOUR, .until = NOON - MIN },
	    little = { .since = NOON, .until = NOON + MIN };
	struct kp_query *q = put_night(false);

	assert_has(said(q, &none, false), "no window is stored in this range");
	assert_has(said(q, &little, false), "too little to tell: requests came in 6 steps of ");
	assert_has(said(q, &little, true), "\"too_few\":true,");
	kp_buf_free(&text);
	kp_query_close(q);
}

TESTS(setup, teardown)
