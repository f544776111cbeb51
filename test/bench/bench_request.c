/*
 * bench_request.c - what it costs to put requests together.
 *
 *	build/bench/bench_request [rounds [least in flight]]
 *
 * First how much memory requests in flight take, if all is measured.  Then
 * requests of ten calls each, over two processes, from bytes to statistics:
 * decode, requests, stats; as the relay sends them and as the native probe
 * does.  With few in flight and with many, which take turns event by event, so
 * that no event finds what the one before it has fetched; with few series and
 * many; with one target and ten.  Batches are made while the clock stands,
 * which counts this thread's CPU time; what is printed is the median of the
 * batches.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "load.h"
#include "stages.h"

#define IDENTS_FEW 3
/* With `_total` and five tiers that is 1,002 series. */
#define IDENTS_MANY 167

static int64_t
cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * KP_NS_PER_S + ts.tv_nsec;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of the second half: by then as many are closed as begin. */
static double
measure(const struct load *like, uint32_t targets, size_t batches)
{
	double *v = calloc(batches, sizeof(*v)), median;
	struct load l[KP_NODES_MAX];
	struct stages r;
	struct kp_buf b;
	int64_t start;
	uint32_t t;

	if (v == NULL)
		exit(1);
	stages_init(&r, targets, like->native);
	kp_buf_init(&b, 1 << 22);
	for (t = 0; t < targets; t++) {
		l[t] = *like;
		l[t].label = (uint64_t)t << 40;
		l[t].flight = like->flight / targets > 0 ?
		    like->flight / targets : 1;
	}
	for (size_t i = 0; i < 2 * batches; i++) {
		t = (uint32_t)(i % targets);
		node = NODES[t];
		load_batch(&l[t], &b);
		start = cpu_now();
		stages_feed(&r, t, &b);
		if (i >= batches)
			v[i - batches] = (double)(cpu_now() - start) /
			    LOAD_BATCH;
	}
	qsort(v, batches, sizeof(*v), by_size);
	median = v[batches / 2];
	stages_free(&r);
	kp_buf_free(&b);
	free(v);
	return median;
}

static void
bench(const char *what, struct load like, uint32_t targets, long rounds)
{
	/* All that is in flight comes round once and a half at least. */
	uint64_t least = like.flight * LOAD_EVENTS * 3 / 2 / LOAD_BATCH;
	size_t batches = (size_t)rounds * 100;
	double ns[2];

	if (batches < least)
		batches = least;
	for (int native = 0; native < 2; native++) {
		like.native = native == 1;
		ns[native] = measure(&like, targets, batches);
	}
	printf("requests: %s relay %4.0f ns/event (%4.1f M/s), native %4.0f "
	    "(%4.1f M/s)\n", what, ns[0], 1e3 / ns[0], ns[1], 1e3 / ns[1]);
}

static long
resident_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kib;
}

/* Each with all ten calls made and none finished. */
static void
bench_memory(uint64_t flight)
{
	struct load l = { .flight = flight, .idents = IDENTS_FEW };
	long before = resident_kib(), more;
	struct stages r;
	struct kp_buf b;

	stages_init(&r, 1, l.native);
	kp_buf_init(&b, 1 << 22);
	while (l.next < flight * (LOAD_EVENTS - 1)) {
		load_batch(&l, &b);
		stages_feed(&r, 0, &b);
	}
	more = resident_kib() - before;
	printf("requests: %zu in flight, of %d calls: %.1f MiB more resident, "
	    "%.1f in all, %.0f bytes a request\n",
	    kp_requests_in_flight(r.rs, 0), LOAD_CALLS, (double)more / 1024,
	    (double)resident_kib() / 1024,
	    (double)more * 1024 / (double)flight);
	kp_buf_free(&b);
	stages_free(&r);
}

int
main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 20;
	struct load l = { .idents = IDENTS_FEW };
	char what[64];

	if (rounds < 1)
		return 1;
	if (argc < 3) {
		bench_memory(10000);
		bench_memory(100000);
	}
	l.flight = argc > 2 ? (uint64_t)atol(argv[2]) : 1;
	for (; l.flight <= 100000; l.flight *= 10) {
		snprintf(what, sizeof(what), "%6" PRIu64 " in flight,",
		    l.flight);
		bench(what, l, 1, rounds);
	}
	l.flight = 100;
	l.idents = IDENTS_MANY;
	bench("1000 series, 100 in flight,", l, 1, rounds);
	l.idents = IDENTS_FEW;
	bench("10 targets, 100 in flight,", l, 10, rounds);
	return 0;
}
