/*
 * vec.h - makes room for one more element in an array that grows by doubling.
 *
 * The caller owns the array, which is NULL at first, and frees it with free().
 * Each function takes the address of the pointer to it, the number of elements
 * in use, and the largest number allowed (VEC_NO_CAP if the caller limits it
 * otherwise).  New elements are not cleared.
 *
 * KP_ELIMIT: max elements are in use.  KP_ENOMEM: no memory, or the size
 * overflows.  Both leave the array and its room as they were.
 */
#ifndef KPROFD_BASE_VEC_H
#define KPROFD_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/err.h"

#define VEC_FIRST 16		/* elements, at first */
#define VEC_NO_CAP SIZE_MAX

/*
 * Called by the macros when the array is full or at its cap: v is the address
 * of a pointer to elements of this size.
 */
enum kp_err vec_grow(void *v, size_t *room, size_t len, size_t size,
    size_t max);
enum kp_err vec_grow_by_len(void *v, size_t len, size_t size, size_t max);

/* *room, a size_t, is the array's capacity in elements; 0 at first. */
#define vec_room(v, room, len, max) \
	((len) < *(room) ? KP_OK : \
	    vec_grow((v), (room), (len), sizeof(**(v)), (max)))

/*
 * For an array without a member for its room: the room follows from the length,
 * as the array is full at powers of two.  Only this macro may grow it.
 */
#define vec_room_by_len(v, len, max) \
	(*(v) != NULL && !vec_full((len), (max)) ? KP_OK : \
	    vec_grow_by_len((v), (len), sizeof(**(v)), (max)))

/*
 * Grows an array so that it has element i, and clears the new elements.  *len,
 * a uint32_t, is the number of elements; 0 at first.
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
