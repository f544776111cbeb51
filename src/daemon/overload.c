/*
 * overload.c - measures kprofd's memory, lag and store backlog, passes them to
 * the guard, and writes the messages about overloads.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/overload.h"
#include "text/text.h"

#define MEASURE_EVERY (100 * KP_NS_PER_MS)	/* it takes some microseconds */

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
	kp_trip_text(cause, &w->load, &w->guard.limits, text, n);
}

kp_dur_ns
overload_trip(struct overload *w, const struct overload_cause *c,
    const struct agent_status *st, size_t in_flight, kp_mono_ns now)
{
	w->tripped = now;
	snprintf(w->reason, sizeof(w->reason), "%s", c->reason);
	w->usual = c->usual;
	w->before = *st;
	w->in_flight = in_flight;
	w->unreported = true;
	kp_lag_reset(&w->lag);
	return kp_guard_trip(&w->guard, c->trip, now);
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

/* Appends what the pause has cost, as far as there is something. */
static void
put_lost(const struct overload *w, const struct agent_status *st,
    struct kp_buf *b)
{
	const struct {
		uint64_t n;
		const char *noun, *what;
	} lost[] = {
		{ w->in_flight, "request", " in flight" },
		{ grown(st->dropped, w->before.dropped), "event", " dropped" },
		{ grown(st->unarmed_calls, w->before.unarmed_calls),
		    "request", " not traced meanwhile" },
	};
	const char *sep = ". Lost: ";
	char n[TEXT_MAX];

	for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
		if (lost[i].n == 0)
			continue;
		kp_buf_printf(b, "%s%s%s", sep,
		    text_counted(n, lost[i].n, lost[i].noun), lost[i].what);
		sep = ", ";
	}
}

bool
overload_after(struct overload *w, const struct agent_status *st,
    uint32_t one_in, kp_mono_ns now, char *text, size_t n)
{
	const struct kp_paused p = { .over = true, .lasts = now - w->tripped,
		.one_in = one_in, .reason = w->reason, .usual = w->usual };
	struct kp_buf b;

	if (!w->unreported || w->guard.resting)
		return false;
	w->unreported = false;
	kp_paused_text(&p, text, n);
	kp_buf_init(&b, 4096);
	kp_buf_str(&b, text);
	put_lost(w, st, &b);
	snprintf(text, n, "%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
	return true;
}
