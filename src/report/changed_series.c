/*
 * changed_series.c - cuts a series where its mean changes.  Pure.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "changed.h"

#define SIDE_STEPS 3	/* fewer on one side may be chance of any size */
#define SIDE_REQUESTS 20	/* that were measured */
#define OWN_STEPS 8	/* with fewer a side's error is that of the other, too */
#define CUT_DEPTH 2	/* so two cuts, and two in each of three parts */
_Static_assert(CHANGED_CUTS == 8, "cuts of two levels");
#define FAR 4		/* deviations */
#define MAD_TO_DEVIATION 1.4826	/* of a normal distribution */
#define EVEN 0.05	/* steps are no more even than this */
#define BACK 0.3	/* of a change: it has gone back if no more is left */

/* The steps that have requests. */
struct points {
	double x[KP_SERIES_STEPS_MAX], n[KP_SERIES_STEPS_MAX];	/* sum, number */
	double sampled[KP_SERIES_STEPS_MAX];
	size_t at[KP_SERIES_STEPS_MAX];
	size_t len;
	enum changed_what what;
	double least, alone;	/* errors that a difference has to be, in all series and
				   by itself */
};

/* Points from lo on, but [from, to). */
struct side {
	size_t lo, from, to;
	size_t points;		/* how many */
	double x, n, sampled;
};

/* Which of all points is point i of the side? */
static size_t
point_at(const struct side *s, size_t i)
{
	return s->lo + i < s->from ? s->lo + i : s->lo + i + s->to - s->from;
}

static struct side
side_without(const struct points *p, size_t lo, size_t hi, size_t from, size_t to)
{
	struct side s = { .lo = lo, .from = from, .to = to,
		.points = hi - lo - (to - from) };
	size_t at;

	for (size_t i = 0; i < s.points; i++) {
		at = point_at(&s, i);
		s.x += p->x[at];
		s.n += p->n[at];
		s.sampled += p->sampled[at];
	}
	return s;
}

static struct side
side_of(const struct points *p, size_t lo, size_t hi)
{
	return side_without(p, lo, hi, hi, hi);
}

static double
mean_of(const struct side *s)
{
	return s->n > 0 ? s->x / s->n : 0;
}

/*
 * The variance of a side's mean: as Newey and West, with weights that fall to 0 within
 * lags.  What lies on either side of a gap is taken for neighbours.
 */
static double
variance_of(const struct points *p, const struct side *s)
{
	size_t lags = (size_t)cbrt((double)s->points) + 1, n = s->points, at;
	double mean = mean_of(s), sum = 0, with = 0, *e = calloc(s->points, sizeof(*e));

	if (e == NULL)
		return INFINITY;
	for (size_t i = 0; i < n; i++) {
		at = point_at(s, i);
		e[i] = p->x[at] - mean * p->n[at];
	}
	for (size_t i = 0; i < n; i++) {
		sum += e[i] * e[i];
		for (size_t l = 1; l <= lags && l <= i; l++)
			with += 2 * (1 - (double)l / (double)(lags + 1)) * e[i] *
			    e[i - l];
	}
	free(e);
	/* that steps make up for each other may be chance in so few */
	sum += fmax(with, 0);
	sum *= n > 1 ? (double)n / (double)(n - 1) : 1;
	return sum > 0 ? sum / (s->n * s->n) : 0;
}

/*
 * Variances of two sides' means, in relation to them if they are times.  A side of few
 * points is as uneven as the other, at least.
 */
static void
variances(const struct points *p, const struct side *a, const struct side *b, double v[2])
{
	v[0] = variance_of(p, a);
	v[1] = variance_of(p, b);
	if (p->what != CHANGED_MEAN)
		return;
	v[0] /= mean_of(a) * mean_of(a);
	v[1] /= mean_of(b) * mean_of(b);
	if (a->points < OWN_STEPS)
		v[0] = fmax(v[0], v[1] * b->n / a->n);
	if (b->points < OWN_STEPS)
		v[1] = fmax(v[1], v[0] * a->n / b->n);
}

/* By Welch and Satterthwaite: that of the side that is more uneven counts most. */
static double
freedom(const struct side *a, const struct side *b, const double v[2])
{
	double all = (double)(a->points + b->points - 2);

	if (a->points < OWN_STEPS || b->points < OWN_STEPS || v[0] + v[1] <= 0)
		return all;
	return fmin((v[0] + v[1]) * (v[0] + v[1]) /
	    (v[0] * v[0] / (double)(a->points - 1) +
	    v[1] * v[1] / (double)(b->points - 1)), all);
}

/* A difference of so many errors, as one of an unlimited number of points. */
static double
errors_as_normal(double t, double freedom)
{
	return isinf(t) ? t : (8 * freedom + 1) / (8 * freedom + 3) *
	    sqrt(freedom * log1p(t * t / freedom));
}

static double
likelihood(double x, double n, double part)
{
	return (x > 0 ? x * log(part) : 0) +
	    (n > x && part < 1 ? (n - x) * log1p(-part) : 0);
}

/* The squares of what differs from the numbers that a side's part makes likely. */
static double
pearson(const struct points *p, const struct side *s)
{
	double part = mean_of(s), sum = 0, e;
	size_t at;

	for (size_t i = 0; i < s->points && part > 0 && part < 1; i++) {
		at = point_at(s, i);
		e = p->x[at] - part * p->n[at];
		sum += e * e / (p->n[at] * part * (1 - part));
	}
	return sum;
}

/*
 * How many errors the numbers of requests that raised differ by: the ratio of their
 * likelihoods, less where steps are more uneven than chance makes numbers, and where
 * one that was measured stands for others.
 */
static double
errors_of_numbers(const struct points *p, const struct side *a, const struct side *b)
{
	double part = (a->x + b->x) / (a->n + b->n), one = (a->n + b->n) /
	    (a->sampled + b->sampled);
	double uneven = (pearson(p, a) + pearson(p, b)) / one /
	    (double)(a->points + b->points - 2);

	return sqrt(fmax(2 * (likelihood(a->x, a->n, mean_of(a)) +
	    likelihood(b->x, b->n, mean_of(b)) -
	    likelihood(a->x + b->x, a->n + b->n, part)) / one, 0) /
	    fmax(uneven, 1));
}

static bool
is_enough(const struct points *p, double then, double now)
{
	if (p->what == CHANGED_MEAN)
		return then > 0 && now > 0 && fabs(now - then) >=
		    CHANGED_TIME * fmin(then, now);
	return fabs(now - then) >= CHANGED_ERRORS &&
	    fabs(now - then) >= CHANGED_TIME * fmin(then, now);
}

/* Is the difference of the two enough, and of so many errors at least? */
static bool
differ(const struct points *p, const struct side *a, const struct side *b, double least)
{
	double then = mean_of(a), now = mean_of(b), v[2], diff;

	if (a->sampled < SIDE_REQUESTS || b->sampled < SIDE_REQUESTS ||
	    !is_enough(p, then, now))
		return false;
	if (p->what == CHANGED_RAISED)
		return errors_of_numbers(p, a, b) >= least;
	variances(p, a, b, v);
	diff = fabs(log(now / then));
	diff = errors_as_normal(v[0] + v[1] > 0 ? diff / sqrt(v[0] + v[1]) : INFINITY,
	    freedom(a, b, v));
	return diff >= least;
}

/*
 * The part [*from, *to) of [lo, hi) that differs most from what is around it, by the squares
 * of both; false: there are too few points.
 */
static bool
best_part(const struct points *p, size_t lo, size_t hi, size_t *from, size_t *to)
{
	struct side all = side_of(p, lo, hi);
	double most = 0, x, n, between, diff;

	for (size_t i = lo; i + SIDE_STEPS <= hi; i++) {
		if (i > lo && i < lo + SIDE_STEPS)
			continue;
		x = n = 0;
		for (size_t k = i; k < hi; k++) {
			x += p->x[k];
			n += p->n[k];
			/* what is left is none, or enough on its side */
			if (k + 1 - i < SIDE_STEPS || (k + 1 < hi && k + 1 +
			    SIDE_STEPS > hi) || (i == lo && k + 1 == hi))
				continue;
			diff = x / n - (all.x - x) / (all.n - n);
			between = n * (all.n - n) / all.n * diff * diff;
			if (between > most) {
				most = between;
				*from = i;
				*to = k + 1;
			}
		}
	}
	return most > 0;
}

/* Puts the cuts of [lo, hi) behind the *n of v, in order. */
static void
cut_up(const struct points *p, size_t lo, size_t hi, int depth, double least, size_t *v,
    size_t *n)
{
	struct side in, out;
	size_t from, to;

	if (depth == 0 || !best_part(p, lo, hi, &from, &to))
		return;
	in = side_of(p, from, to);
	out = side_without(p, lo, hi, from, to);
	if (!differ(p, &in, &out, least))
		return;
	if (from > lo) {
		cut_up(p, lo, from, depth - 1, least, v, n);
		v[(*n)++] = from;
	}
	cut_up(p, from, to, depth - 1, least, v, n);
	if (to < hi) {
		v[(*n)++] = to;
		cut_up(p, to, hi, depth - 1, least, v, n);
	}
}

/* Takes away what is no difference between neighbours. */
static size_t
join_alike(const struct points *p, double least, size_t *v, size_t n)
{
	struct side a, b;

	for (size_t i = 1; i < n;) {
		a = side_of(p, v[i - 1], v[i]);
		b = side_of(p, v[i], i + 1 < n ? v[i + 1] : p->len);
		if (differ(p, &a, &b, least)) {
			i++;
			continue;
		}
		memmove(v + i, v + i + 1, (n - i - 1) * sizeof(*v));
		n--;
		i -= i > 1;	/* its side has grown */
	}
	return n;
}

/*
 * Returns the number of parts, which begin at v[0], v[1], ...  Of several changes each
 * makes what is around another uneven: so cuts are made lightly, and those are kept whose
 * neighbours, even in themselves, differ by enough.  A change that has no such place, as
 * one that comes little by little, is one by what is around it.
 */
static size_t
parts_of(const struct points *p, size_t *v)
{
	size_t n = 1;

	for (int lightly = 1; lightly >= 0 && n == 1; lightly--) {
		v[0] = 0;
		cut_up(p, 0, p->len, CUT_DEPTH, lightly ? p->alone : p->least, v, &n);
		n = join_alike(p, lightly ? p->least : p->alone, v, n);
	}
	return n;
}

/* Would a straight line leave smaller squares of [lo, hi) than a step at the cut? */
static bool
is_gradual(const struct points *p, size_t lo, size_t cut, size_t hi)
{
	double sw = 0, st = 0, sy = 0, tt = 0, ty = 0, slope, line = 0, step = 0, y, t;
	struct side a = side_of(p, lo, cut), b = side_of(p, cut, hi);

	for (size_t i = lo; i < hi; i++) {
		sw += p->n[i];
		st += p->n[i] * (double)p->at[i];
		sy += p->x[i];
	}
	for (size_t i = lo; i < hi; i++) {
		t = (double)p->at[i] - st / sw;
		tt += p->n[i] * t * t;
		ty += t * (p->x[i] - p->n[i] * sy / sw);
	}
	slope = tt > 0 ? ty / tt : 0;
	for (size_t i = lo; i < hi; i++) {
		y = p->x[i] / p->n[i];
		t = sy / sw + slope * ((double)p->at[i] - st / sw);
		line += p->n[i] * (y - t) * (y - t);
		t = mean_of(i < cut ? &a : &b);
		step += p->n[i] * (y - t) * (y - t);
	}
	return line < step;
}

/* Is b only the end of a, which was for the worse? */
static bool
goes_back(const struct changed_steps *a, const struct changed_steps *b)
{
	return a->to == b->from && a->now > a->then && b->now < b->then &&
	    fabs(b->now - a->then) < BACK * fabs(a->now - a->then);
}

static int
double_cmp(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

static double
median_of(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), double_cmp);
	return v[n / 2];
}

/*
 * Moves times that are far from those of most steps nearer, to so many deviations: a
 * few steps that the machine was slow in would hide a change of many.
 */
static void
tame(struct points *p)
{
	double *v = calloc(p->len + 1, sizeof(*v)), middle, far;

	if (v == NULL || p->len == 0) {
		free(v);
		return;
	}
	for (size_t i = 0; i < p->len; i++)
		v[i] = log(fmax(p->x[i] / p->n[i], 1));
	middle = median_of(v, p->len);
	for (size_t i = 0; i < p->len; i++)
		v[i] = fabs(log(fmax(p->x[i] / p->n[i], 1)) - middle);
	far = FAR * fmax(MAD_TO_DEVIATION * median_of(v, p->len), EVEN);
	for (size_t i = 0; i < p->len; i++)
		p->x[i] = p->n[i] * fmin(fmax(p->x[i] / p->n[i],
		    exp(middle - far)), exp(middle + far));
	free(v);
}

static void
take_points(struct points *p, const struct kp_step *v, size_t n)
{
	p->len = 0;
	for (size_t i = 0; i < n; i++) {
		if (changed_number(&v[i], p->what) <= 0)
			continue;
		p->x[p->len] = changed_sum(&v[i], p->what);
		p->n[p->len] = changed_number(&v[i], p->what);
		p->sampled[p->len] = (double)v[i].sampled;
		p->at[p->len++] = i;
	}
	if (p->what == CHANGED_MEAN)
		tame(p);
}

/* The number of steps, if there were requests to about the end. */
static size_t
last_of(const struct points *p, size_t n)
{
	size_t last = p->at[p->len - 1] + 1;

	return n - last > n / 10 ? last : n;
}

size_t
changed_find(const struct kp_step *v, size_t n, enum changed_what what, double tests,
    struct changed_steps *out)
{
	struct points *p = malloc(sizeof(*p));
	/* each level makes two cuts in each part of the one before */
	size_t cuts[CHANGED_CUTS + 2] = { 0 }, ncuts = 1, found = 0;
	struct changed_steps c;
	struct side a, b;
	double var[2];

	if (p == NULL || n > KP_SERIES_STEPS_MAX) {
		free(p);
		return 0;
	}
	p->what = what;
	take_points(p, v, n);
	p->alone = sqrt(-2 * log(CHANGED_CHANCE));
	/* the tail of the normal distribution is below exp(-x * x / 2) */
	p->least = sqrt(2 * log(fmax(tests * (double)p->len *
	    (double)p->len / 2, 1) / CHANGED_CHANCE));
	if (p->len >= CHANGED_STEPS)
		ncuts = parts_of(p, cuts);
	cuts[ncuts] = p->len;
	for (size_t i = 1; i < ncuts; i++) {
		a = side_of(p, cuts[i - 1], cuts[i]);
		b = side_of(p, cuts[i], cuts[i + 1]);
		variances(p, &a, &b, var);
		c = (struct changed_steps){ .base = p->at[cuts[i - 1]],
			.from = p->at[cuts[i]], .to = i + 1 < ncuts ?
			p->at[cuts[i + 1]] : last_of(p, n), .then = mean_of(&a),
			.now = mean_of(&b), .error = sqrt(var[0] + var[1]),
			.gradual = is_gradual(p, cuts[i - 1], cuts[i], cuts[i + 1]) };
		c.back = found > 0 && goes_back(&out[found - 1], &c);
		if (is_enough(p, c.then, c.now))
			out[found++] = c;
	}
	free(p);
	return found;
}
