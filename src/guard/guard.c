/*
 * guard.c - compares load with its limits, and sets the length of each pause
 * ("rest") and the cut of sampling.
 */
#include "kprofd/guard.h"

const char *
kp_trip_name(enum kp_trip cause)
{
	static const char *const names[] = {
		[KP_TRIP_NONE] = "none",
		[KP_TRIP_AGENT] = "agent",
		[KP_TRIP_MEMORY] = "kprofd_memory",
		[KP_TRIP_LATE] = "kprofd_late",
		[KP_TRIP_STORE] = "store_backlog",
	};

	return names[cause];
}

void
kp_guard_init(struct kp_guard *g, const struct kp_overload *limits)
{
	*g = (struct kp_guard){ .limits = *limits, .cut = 1 };
}

/* Limits that are checked whether tracing is on or off. */
static enum kp_trip
passed(const struct kp_guard *g, const struct kp_load *l)
{
	if (l->memory > g->limits.max_kprofd)
		return KP_TRIP_MEMORY;
	if (l->backlog > g->limits.max_backlog)
		return KP_TRIP_STORE;
	return KP_TRIP_NONE;
}

enum kp_trip
kp_guard_look(struct kp_guard *g, const struct kp_load *l, kp_mono_ns now)
{
	if (g->resting)
		return KP_TRIP_NONE;
	if (l->lag <= g->limits.max_lag) {
		g->late = false;
	} else if (!g->late) {
		g->late = true;
		g->late_since = now;
	} else if (now - g->late_since >= KP_LATE_GRACE) {
		return KP_TRIP_LATE;
	}
	return passed(g, l);
}

static kp_dur_ns
rest_max(const struct kp_guard *g)
{
	return g->limits.pause > KP_REST_MAX ? g->limits.pause : KP_REST_MAX;
}

/* Returns the length of this rest; doubles that of the next one. */
static kp_dur_ns
take_rest(struct kp_guard *g)
{
	kp_dur_ns rest = g->rest > 0 ? g->rest : g->limits.pause;

	g->rest = rest > rest_max(g) / 2 ? rest_max(g) : 2 * rest;
	return rest;
}

kp_dur_ns
kp_guard_trip(struct kp_guard *g, enum kp_trip cause, kp_mono_ns now)
{
	if (!g->resting && now - g->since >= KP_REST_QUIET)
		g->rest = 0;
	g->resting = true;
	g->late = false;
	g->since = now;
	g->cause = cause;
	g->trips++;
	/* Sampling fewer requests does not make fewer rows to write. */
	if (cause != KP_TRIP_STORE && g->cut < KP_CUT_MAX)
		g->cut *= KP_CUT_FACTOR;
	return take_rest(g);
}

kp_dur_ns
kp_guard_rested(struct kp_guard *g, const struct kp_load *l)
{
	enum kp_trip still = passed(g, l);

	if (still == KP_TRIP_NONE)
		return 0;
	g->cause = still;
	return take_rest(g);
}

void
kp_guard_resumed(struct kp_guard *g, kp_mono_ns now)
{
	g->resting = false;
	g->late = false;
	g->since = now;
	g->cut_at = now;
}

bool
kp_guard_tick(struct kp_guard *g, kp_mono_ns now)
{
	if (g->resting || g->cut == 1 || now - g->cut_at < KP_CUT_QUIET)
		return false;
	g->cut /= 2;
	g->cut_at = now;
	return true;
}
