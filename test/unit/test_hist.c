/* Histograms: buckets exact at every border, quantiles, the stored form. */
#include <math.h>

#include "cases.h"
#include "kprofd/hist.h"

/*
 * 2^(i/32) s in ns to about 60 bits; the borders that are whole ns (i a
 * multiple of 32, i >= -288) come out exact.
 */
static long double
border_ns(int32_t i)
{
	return exp2l((long double)i / 32) * 1e9L;
}

static uint64_t
rnd(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/*
 * Past 2^56 ns a long double cannot tell a border from its neighbours by
 * more than rounding; those are compared a little away from the border.
 */
TEST(test_borders)
{
	kp_dur_ns last, slack;
	long double b;

	for (int32_t i = KP_HIST_MIN; i < KP_HIST_MAX; i++) {
		b = border_ns(i + 1);
		last = (kp_dur_ns)floorl(b);
		if (last < 1)
			continue;
		slack = last > (INT64_C(1) << 56) ? 16 : 0;
		/* two borders may have no whole ns between them */
		if (last - slack > (kp_dur_ns)floorl(border_ns(i)))
			assert_int_equal(kp_hist_bucket(last - slack), i);
		if (last + 1 + slack <= (kp_dur_ns)floorl(border_ns(i + 2)))
			assert_int_equal(kp_hist_bucket(last + 1 + slack),
			    i + 1);
	}
}

TEST(test_whole_borders)
{
	kp_dur_ns d = KP_NS_PER_S;

	for (int32_t s = 0; s < 33; s++) {
		assert_int_equal(kp_hist_bucket(d << s), 32 * s - 1);
		assert_int_equal(kp_hist_bucket((d << s) + 1), 32 * s);
	}
	for (int32_t s = 0; s <= 9; s++) {
		assert_int_equal(kp_hist_bucket(d >> s), -32 * s - 1);
		assert_int_equal(kp_hist_bucket((d >> s) + 1), -32 * s);
	}
	assert_int_equal(kp_hist_bucket(1), -957);
	assert_int_equal(kp_hist_bucket(0), -957);
	assert_int_equal(kp_hist_bucket(-5), -957);
	assert_int_equal(kp_hist_bucket(INT64_MIN), -957);
	assert_int_equal(kp_hist_bucket(INT64_MAX), KP_HIST_MAX);
}

TEST(test_random_durations)
{
	kp_dur_ns d;
	long double x;
	int32_t i;

	for (int k = 0; k < 2000000; k++) {
		d = (kp_dur_ns)(rnd() >> (1 + rnd() % 63));
		if (d < 1)
			continue;
		i = kp_hist_bucket(d);
		x = log2l((long double)d / 1e9L) * 32;
		/* within rounding of a border, test_borders decides */
		if (fabsl(x - roundl(x)) < 1e-14L)
			continue;
		assert_int_equal(i, (int32_t)ceill(x) - 1);
	}
}

TEST(test_bounds)
{
	assert_true(kp_hist_upper(-1) == 1.0);
	assert_true(kp_hist_lower(0) == 1.0);
	assert_true(kp_hist_upper(31) == 2.0);
	assert_true(kp_hist_lower(-32) == 0.5);
}

static int
dur_cmp(const void *a, const void *b)
{
	kp_dur_ns x = *(const kp_dur_ns *)a, y = *(const kp_dur_ns *)b;

	return (x > y) - (x < y);
}

/* Any quantile of any merge is right to about 1.1 %. */
TEST(test_quantiles_of_a_merge)
{
	static const double qs[] = { 0, 0.5, 0.9, 0.95, 0.99, 0.999, 1 };
	enum { N = 20000 };
	static kp_dur_ns all[N];
	struct kp_hist part[7], sum;
	double q, want, got;

	kp_hist_init(&sum);
	for (size_t i = 0; i < 7; i++)
		kp_hist_init(&part[i]);
	for (size_t i = 0; i < N; i++) {
		/* from 1 us to 1000 s, evenly by logarithm */
		all[i] = (kp_dur_ns)(1e3 * pow(10, (double)(rnd() % 9000000)
		    / 1e6));
		assert_int_equal(kp_hist_add(&part[i % 7], all[i], 1), KP_OK);
	}
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(kp_hist_merge(&sum, &part[i]), KP_OK);
	assert_int_equal(sum.count, N);
	qsort(all, N, sizeof(all[0]), dur_cmp);
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
		q = qs[i];
		want = (double)all[q <= 0 ? 0 : (size_t)ceil(q * N) - 1];
		got = (double)kp_hist_quantile(&sum, q);
		assert_true(fabs(got / want - 1) < 0.0110);
	}
	for (size_t i = 0; i < 7; i++)
		kp_hist_free(&part[i]);
	kp_hist_free(&sum);
}

TEST(test_few_and_weights)
{
	struct kp_hist h;
	kp_dur_ns p;

	kp_hist_init(&h);
	assert_int_equal(kp_hist_quantile(&h, 0.5), 0);
	kp_hist_add(&h, 10 * KP_NS_PER_MS, 99);
	kp_hist_add(&h, 10 * KP_NS_PER_S, 1);
	assert_int_equal(h.count, 100);
	p = kp_hist_quantile(&h, 0.99);
	assert_in_range(p, 9890000, 10110000);
	p = kp_hist_quantile(&h, 1);
	assert_in_range(p, INT64_C(9890000000), INT64_C(10110000000));
	kp_hist_free(&h);

	kp_hist_add(&h, INT64_MAX, 1);
	assert_true(kp_hist_quantile(&h, 0.5) > INT64_MAX / 100 * 98);
	kp_hist_free(&h);
	kp_hist_add(&h, 0, 1);
	assert_int_equal(kp_hist_quantile(&h, 0.5), 1);
	kp_hist_free(&h);
}

static void
same(const struct kp_hist *a, const struct kp_hist *b)
{
	assert_int_equal(a->count, b->count);
	for (int32_t i = KP_HIST_MIN; i <= KP_HIST_MAX; i++) {
		uint64_t x = i >= a->lo && i < a->lo + (int32_t)a->len ?
		    a->n[i - a->lo] : 0;
		uint64_t y = i >= b->lo && i < b->lo + (int32_t)b->len ?
		    b->n[i - b->lo] : 0;

		assert_int_equal(x, y);
	}
}

TEST(test_write_and_read)
{
	struct kp_hist h, back;
	struct kp_buf buf;

	kp_buf_init(&buf, 1 << 16);
	kp_hist_init(&back);
	for (int round = 0; round < 200; round++) {
		kp_hist_init(&h);
		for (int i = 0; i < round; i++)
			kp_hist_add(&h, (kp_dur_ns)(rnd() >> (rnd() % 64)),
			    rnd() >> (10 + rnd() % 54));
		kp_buf_reset(&buf);
		kp_hist_write(&h, &buf);
		assert_int_equal(buf.err, KP_OK);
		assert_int_equal(kp_hist_read(&back, buf.p, buf.len), KP_OK);
		same(&h, &back);
		/* what was read takes more */
		assert_int_equal(kp_hist_merge(&back, &h), KP_OK);
		assert_int_equal(back.count, 2 * h.count);
		kp_hist_free(&h);
	}
	kp_hist_free(&back);
	kp_buf_free(&buf);
}

TEST(test_stored_form)
{
	struct kp_hist h;
	struct kp_buf buf;

	kp_hist_init(&h);
	kp_buf_init(&buf, 64);
	kp_hist_write(&h, &buf);
	assert_int_equal(buf.len, 3);
	assert_memory_equal(buf.p, "\x01\x00\x00", 3);

	/* 1 s is the last of bucket -1, 1 s + 1 ns the first of 0 */
	kp_hist_add(&h, KP_NS_PER_S, 3);
	kp_hist_add(&h, KP_NS_PER_S + 1, 300);
	kp_buf_reset(&buf);
	kp_hist_write(&h, &buf);
	assert_int_equal(buf.len, 6);
	assert_memory_equal(buf.p, "\x01\x01\x02\x03\xac\x02", 6);
	kp_buf_free(&buf);
	kp_hist_free(&h);
}

TEST(test_read_refuses)
{
	static const struct {
		const char *p;
		size_t n;
		enum kp_err err;
	} bad[] = {
		{ "", 0, KP_ESHORT },
		{ "\x02\x00\x00", 3, KP_EFORMAT },	/* version */
		{ "\x01", 1, KP_ESHORT },
		{ "\x01\x00", 2, KP_ESHORT },
		{ "\x01\x00\x02\x01", 4, KP_ESHORT },
		{ "\x01\x00\x01\x01\x00", 5, KP_EFORMAT }, /* a byte more */
		{ "\x01\x81\x0f\x01\x01", 5, KP_EFORMAT }, /* too low */
		{ "\x01\xc6\x10\x02\x01\x01", 6, KP_EFORMAT }, /* too high */
		/* a varint of more than 64 bits */
		{ "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00", 12,
		    KP_EFORMAT },
		/* counts that add up to more than 64 bits */
		{ "\x01\x00\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
		  "\x01", 14, KP_EFORMAT },
	};
	struct kp_hist h;

	kp_hist_init(&h);
	kp_hist_add(&h, 5, 7);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(kp_hist_read(&h, bad[i].p, bad[i].n),
		    bad[i].err);
		assert_int_equal(h.count, 7);
	}
	kp_hist_free(&h);
}

/* What was merged is taken back, to the last count; nothing else is. */
TEST(test_take)
{
	struct kp_hist a = { 0 }, b = { 0 }, both = { 0 };
	struct kp_buf x, y;

	for (int i = 0; i < 1000; i++) {
		kp_hist_add(&a, (kp_dur_ns)(rnd() % 1000000), 1 + rnd() % 9);
		kp_hist_add(&b, (kp_dur_ns)(rnd() % 100000000), 1);
	}
	assert_int_equal(kp_hist_merge(&both, &a), KP_OK);
	assert_int_equal(kp_hist_take(&both, &b), KP_EFORMAT);
	assert_int_equal(both.count, a.count);
	assert_int_equal(kp_hist_merge(&both, &b), KP_OK);
	assert_int_equal(kp_hist_take(&both, &a), KP_OK);
	kp_buf_init(&x, 1 << 20);
	kp_buf_init(&y, 1 << 20);
	kp_hist_write(&both, &x);
	kp_hist_write(&b, &y);
	assert_int_equal(x.len, y.len);
	assert_memory_equal(x.p, y.p, x.len);
	assert_int_equal(kp_hist_take(&both, &b), KP_OK);
	assert_int_equal(both.count, 0);
	assert_int_equal(kp_hist_take(&both, &b), KP_EFORMAT);
	kp_buf_free(&x);
	kp_buf_free(&y);
	kp_hist_free(&a);
	kp_hist_free(&b);
	kp_hist_free(&both);
}

/* A count that would start again at 0 is refused, and nothing changes. */
TEST(test_counts_end)
{
	struct kp_hist a = { 0 }, b = { 0 };

	assert_int_equal(kp_hist_add(&a, 5, UINT64_MAX - 1), KP_OK);
	assert_int_equal(kp_hist_add(&a, 7, 2), KP_ELIMIT);
	assert_int_equal(kp_hist_add(&b, 7, 2), KP_OK);
	assert_int_equal(kp_hist_merge(&a, &b), KP_ELIMIT);
	assert_int_equal(a.count, UINT64_MAX - 1);
	assert_int_equal(kp_hist_add(&a, 7, 1), KP_OK);
	assert_int_equal(a.count, UINT64_MAX);
	kp_hist_free(&a);
	kp_hist_free(&b);
}

TEST(test_deviation)
{
	struct kp_hist h = { 0 };
	double mean;

	assert_true(kp_hist_deviation(&h, &mean) <= 0 && mean <= 0);
	kp_hist_add(&h, 1000000, 7);
	assert_true(kp_hist_deviation(&h, &mean) < 1);
	/* half 1 ms, half 3 ms: 1 ms about a mean of 2 ms */
	kp_hist_add(&h, 3000000, 7);
	assert_true(fabs(kp_hist_deviation(&h, &mean) - 1e6) < 2e4);
	assert_true(fabs(mean - 2e6) < 4e4);
	kp_hist_free(&h);
}

/* How many are no longer than a limit: known where no bucket reaches across it. */
TEST(test_within)
{
	static const kp_dur_ns ms[] = { 5, 9, 250, 251, 4000 };
	static const struct {
		kp_dur_ns limit;
		uint64_t low, high;
	} v[] = {
		{ 250 * KP_NS_PER_MS, 3, 3 },	/* 2^-2 s is the end of a bucket */
		{ 250 * KP_NS_PER_MS - 1, 2, 3 }, { 252 * KP_NS_PER_MS, 3, 4 },
		{ 10 * KP_NS_PER_MS, 2, 2 }, { 0, 0, 0 }, { 1, 0, 0 },
		{ INT64_MAX, 5, 5 },
	};
	struct kp_hist h;
	uint64_t low, high;
	double n;

	kp_hist_init(&h);
	n = kp_hist_within(&h, KP_NS_PER_S, &low, &high);
	assert_true(n == 0 && low == 0 && high == 0);
	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++)
		assert_int_equal(kp_hist_add(&h, ms[i] * KP_NS_PER_MS, 1), KP_OK);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		n = kp_hist_within(&h, v[i].limit, &low, &high);
		assert_int_equal(low, v[i].low);
		assert_int_equal(high, v[i].high);
		assert_true((double)low <= n && n <= (double)high);
	}
	kp_hist_free(&h);
}

/* The borders of octaves are those of buckets: 2^-2 s is the end of 28. */
TEST(test_octaves)
{
	struct kp_hist h;
	uint64_t sum = 0;

	assert_int_equal(kp_hist_octave(-5), kp_hist_octave(1));
	assert_int_equal(kp_hist_octave(1), 1);
	assert_int_equal(kp_hist_octave(250 * KP_NS_PER_MS), 28);
	assert_int_equal(kp_hist_octave(250 * KP_NS_PER_MS + 1), 29);
	assert_int_equal(kp_hist_octave(KP_NS_PER_S), 30);
	assert_int_equal(kp_hist_octave(INT64_MAX), KP_HIST_OCTAVES);
	assert_int_equal(kp_hist_octave_end(0), 0);
	assert_int_equal(kp_hist_octave_end(28), 250 * KP_NS_PER_MS);
	assert_int_equal(kp_hist_octave_end(KP_HIST_OCTAVES), INT64_MAX);
	kp_hist_init(&h);
	for (unsigned o = 1; o < KP_HIST_OCTAVES; o++) {
		if (kp_hist_octave_end(o) == kp_hist_octave_end(o - 1))
			continue;
		assert_int_equal(kp_hist_octave(kp_hist_octave_end(o)), o);
		assert_int_equal(kp_hist_octave(kp_hist_octave_end(o) + 1), o + 1);
		assert_int_equal(kp_hist_add(&h, kp_hist_octave_end(o), o), KP_OK);
		sum += o;
		assert_int_equal(kp_hist_octaves(&h, o, o), o);
		assert_int_equal(kp_hist_octaves(&h, 1, o), sum);
	}
	assert_int_equal(kp_hist_octaves(&h, 5, 7), 5 + 6 + 7);
	kp_hist_free(&h);
}

TESTS(NULL, NULL)
