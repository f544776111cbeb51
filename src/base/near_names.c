/* near_names.c - computes edit distances, and finds the nearest of names. */
#include <string.h>

#include "base/near_names.h"

#define NAME_MAX_LEN 255u	/* longer names count as far apart */

static unsigned
min2(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * Computes Damerau's distance with adjacent swaps (optimal string alignment).
 * It keeps three rows of the usual table, as no more are needed at a time.
 */
unsigned
kp_name_distance(const char *a, const char *b, unsigned max)
{
	unsigned rows[3][NAME_MAX_LEN + 1];
	unsigned *two = rows[0], *one = rows[1], *now = rows[2], *t, least;
	size_t na = strlen(a), nb = strlen(b), i, j;

	if (na > NAME_MAX_LEN || nb > NAME_MAX_LEN)
		return strcmp(a, b) == 0 ? 0 : max + 1;
	for (j = 0; j <= nb; j++)
		one[j] = (unsigned)j;
	for (i = 1; i <= na; i++) {
		least = now[0] = (unsigned)i;
		for (j = 1; j <= nb; j++) {
			now[j] = min2(min2(one[j], now[j - 1]) + 1,
			    one[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				now[j] = min2(now[j], two[j - 2] + 1);
			least = min2(least, now[j]);
		}
		/* A swap looks back two rows, so one row over is not enough. */
		if (least > max + 1)
			return max + 1;
		t = two;
		two = one;
		one = now;
		now = t;
	}
	return min2(one[nb], max + 1);
}

const char *
near_name(const char *given, const void *names, size_t n, size_t stride,
    struct near_rule rule)
{
	const char *best = NULL, *one;
	unsigned least = rule.edits + 1, d;

	for (size_t i = 0; i < n; i++) {
		memcpy(&one, (const char *)names + i * stride, sizeof(one));
		d = kp_name_distance(given, one, rule.edits);
		if (d < least && d * rule.share <= strlen(given) &&
		    d + rule.kept <= strlen(one)) {
			least = d;
			best = one;
		}
	}
	return best;
}
