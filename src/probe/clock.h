/*
 * clock.h - the VM's time of an event, from the kernel's clock.
 *
 * Asking the VM for its time takes a readers' lock, which costs twice as much
 * as reading the kernel's clock.  The VM's time is the kernel's plus an offset,
 * which it corrects now and then, by at most 1 % of the time that passes.  So
 * both clocks are read from time to time, and times between two such moments
 * are interpolated.
 */
#ifndef KPROFD_PROBE_CLOCK_H
#define KPROFD_PROBE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_MOMENTS 256	/* kept, a power of two */

/* Starts as all zero. */
struct clock {
	struct moment {
		int64_t kernel, vm;	/* ns */
		double more;	/* by this factor more time passes for the VM,
				   until the next moment */
	} v[CLOCK_MOMENTS];
	uint64_t n;		/* moments so far */
};

/* ns since an arbitrary time. */
static inline int64_t
clock_kernel(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/*
 * Adds a moment, at which the clocks showed these times.  It is ignored unless
 * it is later than the one before.
 */
void clock_moment(struct clock *c, int64_t kernel, int64_t vm);
/*
 * Converts the kernel's time to the VM's, in ns; keeps the order of times.
 * Before the first moment and after the last their offsets hold.
 */
int64_t clock_vm(const struct clock *c, int64_t kernel);

#endif
