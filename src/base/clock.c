/* clock.c - the only place that reads this machine's clocks; and waits that get longer. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "kprofd/clock.h"

#define BACKOFF_FIRST (500 * KP_NS_PER_MS)
#define BACKOFF_LONGEST (30 * KP_NS_PER_S)

static int64_t
clock_read(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * KP_NS_PER_S + ts.tv_nsec;
}

kp_mono_ns
kp_mono_now(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

kp_wall_ns
kp_wall_now(void)
{
	return clock_read(CLOCK_REALTIME);
}

kp_dur_ns
kp_thread_worked(void)
{
	return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

struct kp_moment
kp_moment_now(void)
{
	return (struct kp_moment){ kp_wall_now(), kp_mono_now() };
}

kp_wall_ns
kp_wall_end(kp_wall_ns start, kp_dur_ns lasted, kp_wall_ns now)
{
	kp_wall_ns end = start + lasted;
	kp_dur_ns may = KP_CLOCK_SET + lasted / 1000;

	return now < start || now > end + may || now < end - may ? end : now;
}

/* ---- backoff ---- */

void
kp_backoff_works(struct kp_backoff *b, kp_mono_ns now)
{
	if (b->since == 0)
		b->since = now;
}

kp_dur_ns
kp_backoff_next(struct kp_backoff *b, kp_mono_ns now)
{
	if (b->since != 0 && now - b->since >= b->last)
		b->last = 0;
	b->since = 0;
	b->last = b->last == 0 ? BACKOFF_FIRST : 2 * b->last;
	if (b->last > BACKOFF_LONGEST)
		b->last = BACKOFF_LONGEST;
	return b->last;
}
