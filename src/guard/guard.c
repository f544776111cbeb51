/*
 * guard.c - compares load with its limits, sets the length of each pause ("rest") and the
 * cut of sampling, says in words why tracing pauses, and estimates the age of batches.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kprofd/guard.h"

#define MIB (1u << 20)

/* The agent passes on an event in less, on any machine. */
#define EVENT_MOST (20 * KP_NS_PER_US)
/* It waits that long for a batch to fill, and for its turn in the VM. */
#define AGE_USUAL 100	/* ms */
/* This many calls for a request are a loop; this many a second are a burden. */
#define HOT_IN_REQUEST 100
#define HOT_A_SECOND 10000

#define DRIFT 50	/* one part in 50 */

const char *
kp_trip_name(enum kp_trip cause)
{
	static const char *const names[] = {
		[KP_TRIP_NONE] = "none",
		[KP_TRIP_AGENT] = "agent",
		[KP_TRIP_MEMORY] = "max_kprofd_mb",
		[KP_TRIP_LATE] = "max_lag_ms",
		[KP_TRIP_STORE] = "max_backlog_percent",
	};

	return names[cause];
}

const char *
kp_trip_agent_name(const char *limit)
{
	static const char *const names[][2] = { { "age_ms", "max_age_ms" },
		{ "queue", "max_queue" }, { "memory", "max_memory_mb" },
		{ "rings_full", "rings" }, { "nosuspend", "connection" },
		{ "noconnect", "connection" } };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(limit, names[i][0]) == 0)
			return names[i][1];
	return kp_trip_name(KP_TRIP_AGENT);
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

/* ---- in words, for the log, the events and the status alike ---- */

/*
 * Was the agent without a processor, rather than behind?  In the time for which the
 * oldest event waited it could have passed on all that waited many times over.
 */
static bool
unscheduled(const struct kp_trip_limit *t)
{
	return strcmp(t->name, "age_ms") == 0 && t->value > AGE_USUAL &&
	    t->waiting >= 0 &&
	    t->waiting < t->value * (KP_NS_PER_MS / EVENT_MOST);
}

bool
kp_trip_agent_text(const struct kp_trip_limit *t, const struct kp_overload *l,
    char *text, size_t n)
{
	const char *limit = t->name;
	int64_t value = t->value;

	if (unscheduled(t))
		snprintf(text, n, "the agent got no processor: an event waited "
		    "for %" PRId64 " ms, with only %" PRId64 " behind it "
		    "(max_age_ms, %" PRId64 ")", value, t->waiting,
		    l->max_age / KP_NS_PER_MS);
	else if (strcmp(limit, "age_ms") == 0)
		snprintf(text, n, "events came faster than the agent could pass "
		    "them on: the oldest had waited %" PRId64 " ms "
		    "(max_age_ms, %" PRId64 ")", value,
		    l->max_age / KP_NS_PER_MS);
	else if (strcmp(limit, "queue") == 0)
		snprintf(text, n, "events came faster than the agent could take "
		    "them: %" PRId64 " waited in its queue (max_queue, %" PRIu32
		    ")", value, l->max_queue);
	else if (strcmp(limit, "memory") == 0)
		snprintf(text, n, "events that waited took %" PRId64 " MiB of "
		    "the agent's memory (max_memory_mb, %" PRIu64 ")",
		    value / MIB, l->max_memory / MIB);
	else if (strcmp(limit, "rings_full") == 0)
		snprintf(text, n, "events came faster than the agent could take "
		    "them: %" PRId64 " found no room in the native probe's "
		    "rings", value);
	else if (strcmp(limit, "nosuspend") == 0)
		snprintf(text, n, "events came faster than the connection could "
		    "take them");
	else if (strcmp(limit, "noconnect") == 0)
		snprintf(text, n, "the connection to kprofd was lost while "
		    "events came");
	else
		return false;
	return true;
}

void
kp_trip_text(enum kp_trip cause, const struct kp_load *load,
    const struct kp_overload *l, char *text, size_t n)
{
	switch (cause) {
	case KP_TRIP_MEMORY:
		snprintf(text, n, "kprofd had %" PRIu64 " MiB of memory, more "
		    "than max_kprofd_mb, %" PRIu64, load->memory / MIB,
		    l->max_kprofd / MIB);
		break;
	case KP_TRIP_LATE:
		snprintf(text, n, "events came faster than kprofd could follow: "
		    "it was %" PRId64 " ms behind, more than max_lag_ms, %"
		    PRId64, load->lag / KP_NS_PER_MS,
		    l->max_lag / KP_NS_PER_MS);
		break;
	case KP_TRIP_STORE:
		snprintf(text, n, "figures came faster than they were written: "
		    "they filled %" PRIu32 " %% of the room for those that wait, "
		    "more than max_backlog_percent, %" PRIu32, load->backlog,
		    l->max_backlog);
		break;
	default:
		snprintf(text, n, "%s", kp_trip_name(cause));
	}
}

const char *
kp_trip_usual(enum kp_trip cause)
{
	static const char *const usual[] = {
		[KP_TRIP_NONE] = "",
		[KP_TRIP_AGENT] = "",
		[KP_TRIP_MEMORY] = "requests with very many calls, or without "
		    "an end: see kprof flight",
		[KP_TRIP_LATE] = "too little CPU for kprofd, or more events than "
		    "it can follow: sample less",
		[KP_TRIP_STORE] = "a slow or full disk, or a program that keeps "
		    "the database locked: see kprof status",
	};

	return usual[cause];
}

const char *
kp_trip_agent_usual(const struct kp_trip_limit *t, uint64_t calls,
    uint64_t requests)
{
	if (unscheduled(t))
		return "a host whose processors are all busy, or a container "
		    "that is out of its quota";
	if (calls >= HOT_A_SECOND && calls / HOT_IN_REQUEST >= requests)
		return "a very hot function in a tier: see kprofd -check";
	if (strcmp(t->name, "nosuspend") == 0)
		return "a slow network, or a kprofd without a processor";
	return "";
}

const char *
kp_one_in_text(char *text, size_t n, uint32_t one_in, bool sliced)
{
	if (one_in <= 1)
		snprintf(text, n, "every request is measured");
	else
		snprintf(text, n, "1 request in %" PRIu32 " is sampled%s", one_in,
		    sliced ? ", in slices of time" : "");
	return text;
}

void
kp_paused_text(const struct kp_paused *p, char *text, size_t n)
{
	char rate[80];

	snprintf(text, n, "tracing %s paused for %.0f s: %s; %s %s%s%s",
	    p->over ? "was" : "is", (double)p->lasts / (double)KP_NS_PER_S,
	    p->reason, p->over ? "now" : "then",
	    kp_one_in_text(rate, sizeof(rate), p->one_in, p->sliced),
	    p->usual[0] != '\0' ? ". Usual cause: " : "", p->usual);
}

/*
 * ---- the age of batches, without a common clock ----
 *
 * The base follows clocks that drift apart: it rises by 1 / DRIFT of the time,
 * and falls at once to any smaller difference.  A VM that corrects its clock
 * runs up to 1 % off meanwhile, so the base rises at twice that rate.  A delay
 * that grows more slowly is not detected here; the agent detects it when
 * buffers are full.
 */

kp_dur_ns
kp_lag_see(struct kp_lag *g, kp_target_ns sent, kp_mono_ns now)
{
	kp_dur_ns diff;

	/* A target may send any time, so the difference may overflow. */
	if (__builtin_sub_overflow(now, sent, &diff))
		return 0;
	if (!g->known) {
		*g = (struct kp_lag){ .known = true, .base = diff, .at = now };
		return 0;
	}
	if (now > g->at && __builtin_add_overflow(g->base,
	    (now - g->at) / DRIFT, &g->base))
		g->base = diff;
	g->at = now;
	if (diff < g->base)
		g->base = diff;
	if (__builtin_sub_overflow(diff, g->base, &diff))
		return INT64_MAX;
	return diff;
}

void
kp_lag_reset(struct kp_lag *g)
{
	g->known = false;
}
