/*
 * test_pool.c - pieces are apart from each other, are taken again, and blocks
 * of which nothing is in use go back, but for what waves need.
 */
#include "cases.h"
#include "base/pool.h"

#define PIECES 30000	/* of 500 bytes: some blocks */

static const size_t wanted[] = { 1, 192, 193, 500, 2048, 4096, 5000, 100000 };

TEST(pieces_are_apart)
{
	size_t n = sizeof(wanted) / sizeof(wanted[0]), bytes[8];
	struct pool p = { 0 };
	unsigned char *v[8];

	for (size_t i = 0; i < n; i++) {
		bytes[i] = wanted[i];
		v[i] = pool_get(&p, &bytes[i]);
		assert_non_null(v[i]);
		assert_true(bytes[i] >= wanted[i]);
		memset(v[i], (int)i + 1, bytes[i]);
	}
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < bytes[i]; j++)
			assert_int_equal(v[i][j], i + 1);
		pool_put(&p, v[i], bytes[i]);
	}
	pool_put(&p, NULL, 0);
	pool_free(&p);
}

static size_t
blocks(const struct pool *p)
{
	size_t n = 0;

	for (unsigned i = 0; i < POOL_SIZES; i++)
		n += p->class[i].blocks;
	return n;
}

/* Some are given back while others stay, in an order that is none. */
TEST(blocks_come_and_go)
{
	static unsigned char *v[PIECES];
	struct pool p = { 0 };
	size_t bytes = 500, most;

	if (POOL_PLAIN)
		skip();
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < PIECES; i++) {
			if (v[i] == NULL)
				v[i] = pool_get(&p, &bytes);
			assert_non_null(v[i]);
			assert_int_equal((uintptr_t)v[i] % POOL_LINE, 0);
			memset(v[i], (int)(i % 251), bytes);
		}
		most = blocks(&p);
		assert_true(most > 3);
		for (size_t k = 0; k < PIECES; k++) {
			size_t i = k * 7919 % PIECES;

			assert_int_equal(v[i][0], i % 251);
			assert_int_equal(v[i][bytes - 1], i % 251);
			if (round == 2 || k % 3 > 0) {
				pool_put(&p, v[i], bytes);
				v[i] = NULL;
			}
		}
		assert_true(blocks(&p) <= most);
	}
	assert_int_equal(blocks(&p), 1);
	pool_free(&p);
}

/*
 * What comes in waves stays for the next: as many blocks as are in use, and no
 * more, when nothing of them is.
 */
TEST(waves_keep_their_blocks)
{
	static unsigned char *v[2 * PIECES];
	struct pool p = { 0 };
	size_t bytes = 500, most, i;

	if (POOL_PLAIN)
		skip();
	for (i = 0; i < 2 * PIECES; i++)
		v[i] = pool_get(&p, &bytes);
	most = blocks(&p);
	for (int round = 0; round < 3; round++) {
		for (i = PIECES + PIECES / 4; i < 2 * PIECES; i++)
			pool_put(&p, v[i], bytes);
		assert_int_equal(blocks(&p), most);
		for (i = PIECES + PIECES / 4; i < 2 * PIECES; i++)
			v[i] = pool_get(&p, &bytes);
		assert_int_equal(blocks(&p), most);
	}
	for (i = PIECES / 4; i < 2 * PIECES; i++)
		pool_put(&p, v[i], bytes);
	assert_true(blocks(&p) <= most / 4 + 2);
	for (i = 0; i < PIECES / 4; i++)
		pool_put(&p, v[i], bytes);
	assert_int_equal(blocks(&p), 1);
	pool_free(&p);
}

TESTS(NULL, NULL)
