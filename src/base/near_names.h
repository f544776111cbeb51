/*
 * near_names.h - which name was meant, for "did you mean".
 */
#ifndef KPROFD_BASE_NEAR_NAMES_H
#define KPROFD_BASE_NEAR_NAMES_H

#include <stddef.h>

/*
 * The shortest edit distance between two names (Damerau, adjacent swaps),
 * at most max + 1.
 */
unsigned kp_name_distance(const char *a, const char *b, unsigned max);

/* How near is near enough: each bound keeps short names apart. */
struct near_rule {
	unsigned edits;		/* the most */
	unsigned share;		/* times the edits: not more than was given */
	unsigned kept;		/* letters of the name beyond the edits */
};

/* Of n names, stride bytes apart, the one near enough to be meant; or NULL. */
const char *near_name(const char *given, const void *names, size_t n,
    size_t stride, struct near_rule rule);

#endif
