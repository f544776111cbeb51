/*
 * test_ingest.c - from bytes to statistics nothing is allocated for an event:
 * where as much ends as begins, what ends makes room for what begins.
 */
#include "cases.h"
#include "../bench/load.h"
#include "../bench/stages.h"
#include "base/pool.h"

static uint64_t allocations;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *
__wrap_malloc(size_t n)
{
	allocations++;
	return __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
	allocations++;
	return __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t n)
{
	allocations++;
	return __real_realloc(p, n);
}

void *
__wrap_aligned_alloc(size_t align, size_t n)
{
	allocations++;
	return __real_aligned_alloc(align, n);
}

#define COUNTED 40	/* batches */

/* A request is forgotten 30 s after its end: by then all is as it will be. */
static void
steady(uint64_t flight, uint32_t idents, bool native)
{
	struct load l = { .flight = flight, .idents = idents,
		.native = native };
	size_t warm = 80 + flight * LOAD_EVENTS / LOAD_BATCH;
	uint64_t closed = 0, count = 0;
	struct stages r;
	struct kp_buf b;

	step = KP_NS_PER_MS;
	stages_init(&r, 1, native);
	kp_buf_init(&b, 1 << 22);
	for (size_t i = 0; i < warm + COUNTED; i++) {
		load_batch(&l, &b);
		if (i == warm)
			closed = r.requests;
		allocations = 0;
		stages_feed(&r, 0, &b);
		count += i >= warm ? allocations : 0;
	}
	assert_int_equal(r.events, (warm + COUNTED) * LOAD_BATCH);
	if (flight <= COUNTED * LOAD_BATCH / LOAD_EVENTS / 2)
		assert_true(r.requests > closed);
	assert_int_equal(r.calls, r.requests * LOAD_CALLS);
	assert_int_equal(count, 0);
	kp_buf_free(&b);
	stages_free(&r);
}

TEST(nothing_is_allocated)
{
	/* Then each request is allocated, so that its end can be watched. */
	if (POOL_PLAIN)
		skip();
	for (int native = 0; native < 2; native++) {
		steady(1, 1, native);
		steady(100, 3, native);
		steady(100, 167, native);
		steady(2000, 3, native);
	}
}

/* The counter counts: what allocates is seen to. */
TEST(allocations_are_counted)
{
	struct stages r;

	allocations = 0;
	stages_init(&r, 1, false);
	assert_true(allocations > 0);
	stages_free(&r);
}

TESTS(NULL, NULL)
