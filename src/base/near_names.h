/*
 * near_names.h - finds the name that a user meant, for "did you mean".
 */
#ifndef KPROFD_BASE_NEAR_NAMES_H
#define KPROFD_BASE_NEAR_NAMES_H

#include <stddef.h>

/*
 * Returns the shortest edit distance between two names (Damerau, adjacent
 * swaps), at most max + 1.
 */
unsigned kp_name_distance(const char *a, const char *b, unsigned max);

/* Defines near enough: the bounds keep short names apart. */
struct near_rule {
	unsigned edits;		/* maximum */
	unsigned share;		/* edits * share <= length of the given name */
	unsigned kept;		/* edits + kept <= length of the found name */
};

/* Returns the nearest of n names, stride bytes apart, or NULL: none is near. */
const char *near_name(const char *given, const void *names, size_t n,
    size_t stride, struct near_rule rule);

#endif
