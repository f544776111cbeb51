/*
 * vec.h - makes room for one more element in an array that grows by doubling.
 *
 * The caller owns the array, which is NULL at first, and frees it with free().
 * Each function here takes the address of the pointer to it, how many elements
 * are in use, and the named cap: the most that there may ever be (VEC_NO_CAP
 * where something else bounds them).  New elements are not cleared.
 *
 * KP_ELIMIT: max elements are in use.  KP_ENOMEM: no memory, or the size
 * overflows.  After either the array, and its room, are as they were.
 */
#ifndef KPROFD_BASE_VEC_H
#define KPROFD_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/err.h"

#define VEC_FIRST 16		/* elements that there is room for at first */
#define VEC_NO_CAP SIZE_MAX

/*
 * For the macros, when the array is full or at its cap: v is the address of a
 * pointer to elements of this size.
 */
enum kp_err vec_grow(void *v, size_t *room, size_t len, size_t size,
    size_t max);
enum kp_err vec_grow_by_len(void *v, size_t len, size_t size, size_t max);

/* *room, a size_t, is how many elements the array has room for; 0 at first. */
#define vec_room(v, room, len, max) \
	((len) < *(room) ? KP_OK : \
	    vec_grow((v), (room), (len), sizeof(**(v)), (max)))

/*
 * For an array whose room nobody notes: it follows from the length, as the
 * array is full at powers of two.  All of its room has to come from here.
 */
#define vec_room_by_len(v, len, max) \
	(*(v) != NULL && !vec_full((len), (max)) ? KP_OK : \
	    vec_grow_by_len((v), (len), sizeof(**(v)), (max)))

/*
 * Grows an array so that it has element i, and clears the new elements.  *len, a
 * uint32_t, is how many it has; 0 at first.
 */
#define vec_reach(v, len, i) \
	((i) < *(len) ? KP_OK : vec_grow_to((v), (len), (i), sizeof(**(v))))
enum kp_err vec_grow_to(void *v, uint32_t *len, uint32_t i, size_t size);

static inline bool
vec_full(size_t len, size_t max)
{
	return len >= max || (len >= VEC_FIRST && (len & (len - 1)) == 0);
}

#endif
