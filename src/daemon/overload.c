/*
 * overload.c - measures kprofd's memory, lag and store backlog, passes them to
 * the guard, and writes the messages about overloads.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/overload.h"

#define MEASURE_EVERY (100 * KP_NS_PER_MS)	/* it takes some microseconds */
#define MIB (1u << 20)

void
overload_init(struct overload *w, const struct kp_overload *limits)
{
	*w = (struct overload){ 0 };
	kp_guard_init(&w->guard, limits);
}

/* Resident bytes of this process; 0: unknown. */
static uint64_t
memory_now(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	uint64_t pages;
	int n;

	if (f == NULL)
		return 0;
	n = fscanf(f, "%*s %" SCNu64, &pages);
	fclose(f);
	return n == 1 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint32_t
backlog_now(struct kp_store *store)
{
	struct kp_store_status st;
	size_t windows, bytes;

	kp_store_status(store, &st);
	windows = st.windows * 100 / KP_STORE_QUEUE_MAX;
	bytes = st.bytes * 100 / KP_STORE_BYTES_MAX;
	return (uint32_t)(windows > bytes ? windows : bytes);
}

static void
measure(struct overload *w, struct kp_store *store, kp_mono_ns now)
{
	w->measured = now;
	w->load.memory = memory_now();
	w->load.backlog = store != NULL ? backlog_now(store) : 0;
}

enum kp_trip
overload_check(struct overload *w, struct kp_store *store, kp_target_ns sent,
    kp_mono_ns now)
{
	w->load.lag = kp_lag_see(&w->lag, sent, now);
	if (now - w->measured >= MEASURE_EVERY)
		measure(w, store, now);
	return kp_guard_look(&w->guard, &w->load, now);
}

bool
overload_full(const struct overload *w)
{
	return w->load.memory > w->guard.limits.max_kprofd;
}

void
overload_text(const struct overload *w, enum kp_trip cause, char *text, size_t n)
{
	const struct kp_overload *l = &w->guard.limits;

	switch (cause) {
	case KP_TRIP_MEMORY:
		snprintf(text, n, "kprofd has %" PRIu64 " MiB of memory, more "
		    "than max_kprofd_mb, %" PRIu64, w->load.memory / MIB,
		    l->max_kprofd / MIB);
		break;
	case KP_TRIP_LATE:
		snprintf(text, n, "kprofd is %" PRId64 " ms behind, more than "
		    "max_lag_ms, %" PRId64, w->load.lag / KP_NS_PER_MS,
		    l->max_lag / KP_NS_PER_MS);
		break;
	case KP_TRIP_STORE:
		snprintf(text, n, "what waits to be written fills %" PRIu32
		    " %% of its room, more than max_backlog_percent, %" PRIu32,
		    w->load.backlog, l->max_backlog);
		break;
	default:
		snprintf(text, n, "%s", kp_trip_name(cause));
	}
}

kp_dur_ns
overload_trip(struct overload *w, enum kp_trip cause, const struct agent_status *st,
    size_t in_flight, kp_mono_ns now)
{
	w->tripped = now;
	w->before = *st;
	w->in_flight = in_flight;
	w->unreported = true;
	kp_lag_reset(&w->lag);
	return kp_guard_trip(&w->guard, cause, now);
}

kp_dur_ns
overload_rested(struct overload *w, struct kp_store *store, kp_mono_ns now)
{
	/* returns the memory of the requests in flight to the system */
	malloc_trim(0);
	measure(w, store, now);
	return kp_guard_rested(&w->guard, &w->load);
}

void
overload_forget(struct overload *w)
{
	w->unreported = false;
	kp_lag_reset(&w->lag);
}

static uint64_t
grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

bool
overload_after(struct overload *w, const struct agent_status *st, kp_mono_ns now,
    char *text, size_t n)
{
	const struct agent_status *b = &w->before;

	if (!w->unreported || w->guard.resting)
		return false;
	w->unreported = false;
	snprintf(text, n, "after %.1f s; lost: %zu requests in flight, %" PRIu64
	    " events dropped, %" PRIu64 " entry calls unseen",
	    (double)(now - w->tripped) / (double)KP_NS_PER_S, w->in_flight,
	    grown(st->dropped, b->dropped),
	    grown(st->unarmed_calls, b->unarmed_calls));
	return true;
}
