/*
 * clock.h - the VM's time of an event, from the kernel's clock.
 *
 * Asking the VM for its time takes a readers' lock, which costs twice as much
 * as the reading of the clock that the VM does then.  The VM's time is the
 * kernel's plus an offset, which it corrects now and then, by 1 % of the time
 * that passes at most.  So both clocks are read from time to time, and times
 * between two such moments are on the line between them.
 */
#ifndef KP_PROBE_CLOCK_H
#define KP_PROBE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_MOMENTS 256	/* that are known, a power of two */

/* All zero: none is known. */
struct clock {
	struct moment {
		int64_t kernel, vm;	/* ns */
		double more;	/* so much more of what passes, by the VM's,
				   till the next one */
	} v[CLOCK_MOMENTS];
	uint64_t n;		/* known so far */
};

/* ns, from any time on. */
static inline int64_t
clock_kernel(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* Both at the same moment, later than all before; else it is passed over. */
void clock_moment(struct clock *c, int64_t kernel, int64_t vm);
/*
 * What the VM's time was.  Later for what was later; before all that is known
 * the offset is as at the first of it, and after that as at the last.
 */
int64_t clock_vm(const struct clock *c, int64_t kernel);

#endif
