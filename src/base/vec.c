/*
 * vec.c - makes room for one more element in an array that grows by doubling.
 */
#include <stdlib.h>
#include <string.h>

#include "vec.h"

/* Copies the pointer: C forbids to read one of another type by void **. */
static void *
array_of(const void *v)
{
	void *p;

	memcpy(&p, v, sizeof(p));
	return p;
}

enum kp_err
vec_grow(void *v, size_t *room, size_t len, size_t size, size_t max)
{
	size_t want = *room > max / 2 ? max : 2 * *room, bytes;
	void *p;

	if (len >= max)
		return KP_ELIMIT;
	if (want < VEC_FIRST)
		want = max < VEC_FIRST ? max : VEC_FIRST;
	if (__builtin_mul_overflow(want, size, &bytes))
		return KP_ENOMEM;
	p = realloc(array_of(v), bytes);
	if (p == NULL)
		return KP_ENOMEM;
	memcpy(v, &p, sizeof(p));
	*room = want;
	return KP_OK;
}

enum kp_err
vec_grow_by_len(void *v, size_t len, size_t size, size_t max)
{
	size_t room = len;

	return vec_grow(v, &room, len, size, max);
}

enum kp_err
vec_grow_to(void *v, uint32_t *len, uint32_t i, size_t size)
{
	uint64_t want = *len > 0 ? *len : VEC_FIRST;
	uint8_t *p;

	while (want <= i)
		want *= 2;
	p = want <= UINT32_MAX ? reallocarray(array_of(v), want, size) : NULL;
	if (p == NULL)
		return KP_ENOMEM;
	memset(p + *len * size, 0, (want - *len) * size);
	memcpy(v, &p, sizeof(p));
	*len = (uint32_t)want;
	return KP_OK;
}
