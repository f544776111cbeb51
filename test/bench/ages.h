/*
 * ages.h - how old events are when they arrive, by the clock of the one to whom
 * they come: the target's time is brought to it by the quickest of all round
 * trips, which is right to half of what that took.
 */
#ifndef BENCH_AGES_H
#define BENCH_AGES_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kprofd/native.h"

#define AGES_MAX (1u << 24)

struct ages {
	struct kp_native *names;
	int64_t *v;		/* arrival less the target's time */
	size_t n, cap;
	kp_dur_ns trip;		/* the quickest; 0: none yet */
	int64_t offset;		/* from the target's clock to ours, by that */
};

static inline bool
ages_init(struct ages *a, const char *target)
{
	*a = (struct ages){ .names = kp_native_new() };
	if (a->names == NULL)
		return false;
	kp_native_restart(a->names, target);
	return true;
}

static inline void
ages_clock(struct ages *a, kp_mono_ns sent, kp_target_ns there,
    kp_mono_ns received)
{
	if (a->trip > 0 && received - sent >= a->trip)
		return;
	a->trip = received - sent;
	a->offset = sent + a->trip / 2 - there;
}

static inline void
ages_add(struct ages *a, int64_t age)
{
	if (a->n == a->cap) {
		a->cap = a->cap > 0 ? 2 * a->cap : 4096;
		a->v = a->cap <= AGES_MAX ?
		    realloc(a->v, a->cap * sizeof(*a->v)) : NULL;
		if (a->v == NULL) {
			fprintf(stderr, "too many events\n");
			exit(1);
		}
	}
	a->v[a->n++] = age;
}

static inline void
ages_batch(struct ages *a, const uint8_t *p, size_t n, kp_mono_ns now)
{
	struct kp_batch b;
	struct kp_event ev;

	if (kp_batch_begin(&b, p, n) != KP_OK)
		return;
	while (kp_events_next(a->names, &b, &ev) == KP_OK)
		ages_add(a, now - ev.ts);
}

static inline int
ages_order(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* In ms, the part of them that is not older. */
static inline double
ages_at(const struct ages *a, double part)
{
	size_t i = (size_t)(part * (double)(a->n - 1));

	return (double)(a->v[i] - a->offset) / 1e6;
}

static inline void
ages_print(struct ages *a)
{
	if (a->n == 0) {
		printf("no events\n");
		return;
	}
	qsort(a->v, a->n, sizeof(*a->v), ages_order);
	printf("%zu events: median %.1f ms, 99 %% below %.1f, most %.1f "
	    "(clocks right to %.2f)\n", a->n, ages_at(a, 0.5), ages_at(a, 0.99),
	    ages_at(a, 1), (double)a->trip / 2e6);
	kp_native_free(a->names);
	free(a->v);
}

#endif
