/* test_vec.c - arrays that grow: room, caps, sizes that overflow, no memory. */
#include "cases.h"
#include "base/vec.h"

static bool no_memory;

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

void *
__wrap_realloc(void *p, size_t n)
{
	return no_memory ? NULL : __real_realloc(p, n);
}

TEST(test_growth)
{
	uint32_t *v = NULL, *by_len = NULL;
	size_t room = 0, times = 0, before;

	for (uint32_t n = 0; n < 10000; n++) {
		before = room;
		assert_int_equal(vec_room(&v, &room, n, VEC_NO_CAP), KP_OK);
		assert_int_equal(vec_room_by_len(&by_len, n, VEC_NO_CAP),
		    KP_OK);
		assert_true(room > n);
		times += room != before;
		v[n] = by_len[n] = n;
	}
	/* 16, 32, 64, ..., 16384 */
	assert_int_equal(times, 11);
	for (uint32_t n = 0; n < 10000; n++) {
		assert_int_equal(v[n], n);
		assert_int_equal(by_len[n], n);
	}
	free(v);
	free(by_len);
}

/* What shrinks, down to nothing, grows again, from index 1 on too. */
TEST(test_again)
{
	uint64_t *v = NULL;

	for (size_t from = 0; from < 20; from++)
		for (size_t n = from; n < 100; n++) {
			assert_int_equal(vec_room_by_len(&v, n, VEC_NO_CAP),
			    KP_OK);
			v[n] = n;
		}
	free(v);
}

TEST(test_cap)
{
	static const size_t caps[] = { 0, 1, 15, 16, 17, 24, 32, 33 };
	char *v, *by_len;
	size_t room;

	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		v = by_len = NULL;
		room = 0;
		for (size_t n = 0; n < caps[i]; n++) {
			assert_int_equal(vec_room(&v, &room, n, caps[i]),
			    KP_OK);
			assert_int_equal(vec_room_by_len(&by_len, n, caps[i]),
			    KP_OK);
			v[n] = by_len[n] = 'x';
		}
		assert_true(room <= caps[i]);
		assert_int_equal(vec_room(&v, &room, caps[i], caps[i]),
		    KP_ELIMIT);
		assert_int_equal(vec_room_by_len(&by_len, caps[i], caps[i]),
		    KP_ELIMIT);
		free(v);
		free(by_len);
	}
}

struct large {
	char bytes[1 << 20];
};

TEST(test_overflow)
{
	struct large *v = malloc(sizeof(*v)), *was = v;
	size_t room = SIZE_MAX / sizeof(*v) / 2 + 1, had = room;

	assert_non_null(v);
	/* twice as many elements are more bytes than there can be */
	assert_int_equal(vec_room(&v, &room, room, VEC_NO_CAP), KP_ENOMEM);
	assert_ptr_equal(v, was);
	assert_int_equal(room, had);
	/* and doubling the room would overflow itself */
	room = had = SIZE_MAX / 2 + 2;
	assert_int_equal(vec_room(&v, &room, room, VEC_NO_CAP), KP_ENOMEM);
	assert_ptr_equal(v, was);
	assert_int_equal(room, had);
	free(v);
}

TEST(test_no_memory)
{
	uint32_t *v = NULL, *by_len = NULL, *was;
	size_t room = 0;

	for (uint32_t n = 0; n < 100; n++) {
		was = v;
		no_memory = true;
		if (n == room) {
			assert_int_equal(vec_room(&v, &room, n, VEC_NO_CAP),
			    KP_ENOMEM);
			assert_int_equal(vec_room_by_len(&by_len, n,
			    VEC_NO_CAP), KP_ENOMEM);
			assert_int_equal(room, n);
		}
		assert_ptr_equal(v, was);
		for (uint32_t i = 0; i < n; i++)
			assert_true(v[i] == i && by_len[i] == i);
		no_memory = false;
		assert_int_equal(vec_room(&v, &room, n, VEC_NO_CAP), KP_OK);
		assert_int_equal(vec_room_by_len(&by_len, n, VEC_NO_CAP),
		    KP_OK);
		v[n] = by_len[n] = n;
	}
	free(v);
	free(by_len);
}

TESTS(NULL, NULL)
