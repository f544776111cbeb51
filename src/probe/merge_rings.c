/*
 * merge_rings.c - takes the oldest events of all rings, one after the other,
 * with a heap.
 *
 * The heap holds the parts with a next event, ordered by its time; the other
 * parts stand behind it.  Events of a busy ring mostly follow each other, so
 * the heap is put in order only when a ring's next event is younger than that
 * of another ring.
 */
#include "probe/merge_rings.h"

static void
swap(struct ring_part *a, struct ring_part *b)
{
	struct ring_part c = *a;

	*a = *b;
	*b = c;
}

static void
sift(struct ring_part *v, unsigned n, unsigned i)
{
	unsigned below;

	while ((below = 2 * i + 1) < n) {
		if (below + 1 < n && v[below + 1].ts < v[below].ts)
			below++;
		if (v[i].ts <= v[below].ts)
			break;
		swap(&v[i], &v[below]);
		i = below;
	}
}

static bool
has_next(struct ring_part *part, int64_t until)
{
	return ring_follows(part) && part->ts <= until;
}

/* Moves parts with a next event to the front, as a heap; returns how many. */
static unsigned
gather(struct ring_part *part, unsigned n, int64_t until)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++)
		if (has_next(&part[i], until))
			swap(&part[i], &part[left++]);
	for (unsigned i = left / 2; i-- > 0; )
		sift(part, left, i);
	return left;
}

/* The time of the oldest next event of the other rings. */
static int64_t
next_of_others(const struct ring_part *part, unsigned left)
{
	int64_t ts = left > 1 ? part[1].ts : INT64_MAX;

	return left > 2 && part[2].ts < ts ? part[2].ts : ts;
}

bool
merge_oldest(struct ring_part *part, unsigned n, uint64_t max, int64_t until)
{
	unsigned left = gather(part, n, until);
	int64_t others = next_of_others(part, left), last = INT64_MIN;
	uint64_t taken = 0;

	while (left > 0 && (taken == 0 || part->ts == last ||
	    taken + (part->next - part->to) <= max)) {
		taken += part->next - part->to;
		last = part->ts;
		ring_take(part);
		if (!has_next(part, until))
			swap(part, &part[--left]);
		else if (part->ts <= others)
			continue;
		sift(part, left, 0);
		others = next_of_others(part, left);
	}
	return left > 0;
}
