/*
 * clock.c - keeps moments at which both clocks were read in a ring buffer, and
 * interpolates between two of them.
 */
#include "probe/clock.h"

static const struct moment *
moment_at(const struct clock *c, uint64_t i)
{
	return &c->v[i % CLOCK_MOMENTS];
}

void
clock_moment(struct clock *c, int64_t kernel, int64_t vm)
{
	struct moment *last = &c->v[(c->n - 1) % CLOCK_MOMENTS];
	int64_t passed = kernel - last->kernel;

	if (c->n > 0 && (passed <= 0 || vm < last->vm))
		return;
	if (c->n > 0)
		last->more = (double)(vm - last->vm - passed) / (double)passed;
	c->v[c->n++ % CLOCK_MOMENTS] = (struct moment){ kernel, vm, 0 };
}

/* Returns the last moment that is not later, or the first if all are later. */
static const struct moment *
moment_before(const struct clock *c, int64_t kernel)
{
	uint64_t first = c->n > CLOCK_MOMENTS ? c->n - CLOCK_MOMENTS : 0;
	uint64_t i = c->n - 1;

	/* Nearly all events came after the last moment but one. */
	while (i > first && moment_at(c, i)->kernel > kernel)
		i--;
	return moment_at(c, i);
}

int64_t
clock_vm(const struct clock *c, int64_t kernel)
{
	const struct moment *from;
	int64_t since;

	if (c->n == 0)
		return kernel;
	from = moment_before(c, kernel);
	since = kernel - from->kernel;
	return from->vm + since +
	    (since > 0 ? (int64_t)((double)since * from->more) : 0);
}
