/* loose.c - an array of samples, in no order. */
#include <stdlib.h>

#include "base/vec.h"
#include "stacks/loose.h"

void
loose_samples_free(struct loose_samples *l)
{
	free(l->v);
	*l = (struct loose_samples){ 0 };
}

bool
loose_samples_put(struct loose_samples *l, const struct kp_stack_sample *s)
{
	if (vec_room(&l->v, &l->room, l->n, LOOSE_SAMPLES_MAX) != KP_OK)
		return false;
	l->v[l->n++] = *s;
	return true;
}

void
loose_samples_drop(struct loose_samples *l, size_t i)
{
	l->v[i] = l->v[--l->n];
}
