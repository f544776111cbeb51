/*
 * slices.c - the clock of the slices of time in which requests are measured.
 *
 *	rest      nothing is armed but the counters of entries
 *	ready     tiers are armed everywhere, then
 *	open      requests begin: the slice
 *	close     no request begins any more
 *	drain     those that have begun go on: tiers stay armed until all are over
 *
 * How many requests one of a slice stands for, its weight, is chosen first; the slice
 * then lasts as long as the time since the last one, divided by that weight less one.
 * Where it ends late the next is shorter.  So the weights of a long time add up to all
 * its requests.
 * Rests are of random length: nothing that the target does regularly falls into more
 * slices, or fewer, than its share.
 */
#include <stdlib.h>
#include <sys/random.h>

#include "daemon/log.h"
#include "daemon/nodes/slices.h"
#include "daemon/nodes/targets.h"

#define SLICE_MAX (500 * KP_NS_PER_MS)	/* on average */
#define SLICE_LEAST (10 * KP_NS_PER_MS)
/* More of them in a window show more of its course, and cost more arming. */
#define SLICES_A_WINDOW 2
/* After a change of the weight a slice may be longer than planned, up to this. */
#define SLICE_LIMIT (2 * SLICE_MAX)
/* A slice and the rest behind it take no more windows than these, if it can be so short. */
#define CYCLE_WINDOWS 6
/* The others do not wait longer for a target's answer. */
#define STEP_MAX (2 * KP_NS_PER_S)
/* How long requests of a slice are followed after its end, at most. */
#define DRAIN_MAX (5 * KP_NS_PER_S)
#define DRAIN_LOOK (20 * KP_NS_PER_MS)
#define AGAIN (200 * KP_NS_PER_MS)	/* no target could take part */

enum phase { NONE, RESTING, READYING, OPENING, OPEN, CLOSING, DRAINING, ENDING };

struct slices {
	const struct targets *ts;
	struct event *timer;
	kp_dur_ns interval;	/* of windows */
	enum phase phase;
	uint32_t weight;	/* of the slice under way, */
	uint32_t planned;	/* and of the next, when it was planned */
	kp_mono_ns begun;	/* the first step was taken; 0: all was measured before */
	kp_mono_ns opened, closed;	/* these steps were, last */
	kp_dur_ns ahead;	/* so much more time has been stood for than has passed */
	kp_mono_ns quiet;	/* no request runs since then; 0: some do */
	kp_dur_ns beside;	/* what the last slice took besides its own time */
	uint64_t random;
};

static void
timer_set(struct slices *s, kp_dur_ns d)
{
	struct timeval tv = { 0 };

	if (d > 0)
		tv = (struct timeval){ d / KP_NS_PER_S,
			d % KP_NS_PER_S / 1000 };
	event_add(s->timer, &tv);
}

/* One that is lost has no load by which its rate could fall again. */
static bool
is_there(const struct target *t)
{
	enum agent_state state = agent_state(t->agent);

	return state != AGENT_CONNECTING && state != AGENT_AWAY &&
	    state != AGENT_LOST && state != AGENT_ENDED;
}

static uint32_t
wanted(const struct slices *s)
{
	uint32_t most = 1;
	const struct target *t;

	for (unsigned i = 0; i < targets_count(s->ts); i++) {
		t = targets_at(s->ts, i);
		if (kp_sampler_slices(&t->sampler) && is_there(t) &&
		    t->sampler.one_in > most)
			most = t->sampler.one_in;
	}
	return most;
}

/* splitmix64, as a number from 0.5 to 1.5 */
static double
about_one(struct slices *s)
{
	uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return 0.5 + (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* How long a slice of this weight should be. */
static kp_dur_ns
slice_length(const struct slices *s, uint32_t weight)
{
	kp_dur_ns length = s->interval / SLICES_A_WINDOW / weight;
	kp_dur_ns most = s->interval * CYCLE_WINDOWS / weight;

	if (length < s->beside)
		length = s->beside;
	if (length > most)
		length = most;
	if (length < SLICE_LEAST)
		length = SLICE_LEAST;
	return length > SLICE_MAX ? SLICE_MAX : length;
}

static void
rest_begin(struct slices *s)
{
	uint32_t weight = wanted(s);
	double rest = weight > 1 ? (double)slice_length(s, weight) *
	    (weight - 1) * about_one(s) : 0;

	s->phase = RESTING;
	s->planned = weight;
	timer_set(s, s->closed + (kp_dur_ns)rest - kp_mono_now());
}

/* ---- steps ---- */

static void step_done(struct slices *s);

static void
step_take(struct slices *s, enum agent_slice step, enum phase phase)
{
	struct target *t;
	bool asked = false;

	s->phase = phase;
	for (unsigned i = 0; i < targets_count(s->ts); i++) {
		t = targets_at(s->ts, i);
		t->slice.asked = t->slice.in && agent_slice(t->agent, step,
		    s->weight > 1 ? s->weight : t->sampler.one_in);
		t->slice.in = t->slice.asked;
		asked |= t->slice.asked;
	}
	if (!asked)
		step_done(s);
	else if (step != AGENT_SLICE_OPEN || s->weight == 1)
		timer_set(s, STEP_MAX);
}

static bool
any_in(const struct slices *s)
{
	for (unsigned i = 0; i < targets_count(s->ts); i++)
		if (targets_at(s->ts, i)->slice.in)
			return true;
	return false;
}

/* From now on arming and resuming wait for a slice, or not. */
static void
sliced_all(struct slices *s, bool sliced)
{
	for (unsigned i = 0; i < targets_count(s->ts); i++)
		agent_sliced(targets_at(s->ts, i)->agent, sliced);
}

static void
slice_begin(struct slices *s)
{
	kp_mono_ns now = kp_mono_now();
	uint32_t least = (uint32_t)((now - s->closed) / SLICE_LIMIT) + 1;

	s->weight = wanted(s);
	s->begun = now;
	if (s->weight > 1 && s->weight < least)
		s->weight = least;
	sliced_all(s, s->weight > 1);
	for (unsigned i = 0; i < targets_count(s->ts); i++)
		targets_at(s->ts, i)->slice.in = true;
	step_take(s, AGENT_SLICE_READY, READYING);
}

/* Is there a target that rests, since it could not take a step? */
static bool
any_resting(const struct slices *s)
{
	const struct target *t;

	for (unsigned i = 0; i < targets_count(s->ts); i++) {
		t = targets_at(s->ts, i);
		if (agent_state(t->agent) == AGENT_ARMED && !t->slice.in)
			return true;
	}
	return false;
}

/* All requests are measured from now on. */
static void
slices_over(struct slices *s)
{
	struct target *t;

	sliced_all(s, false);
	for (unsigned i = 0; i < targets_count(s->ts); i++) {
		t = targets_at(s->ts, i);
		agent_sample(t->agent, t->sampler.one_in);
	}
	if (any_resting(s)) {
		s->phase = RESTING;
		timer_set(s, AGAIN);
		return;
	}
	s->phase = NONE;
	log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
	    .event = "slices" }, "requests are measured all the time");
}

static void
slice_open(struct slices *s)
{
	kp_mono_ns now = kp_mono_now();
	struct target *t;

	for (unsigned i = 0; i < targets_count(s->ts); i++) {
		t = targets_at(s->ts, i);
		t->slice.cycle_over |= t->slice.in;
		t->slice.weight = s->weight;
	}
	s->opened = now;
	if (s->weight > 1)
		timer_set(s, (now - s->closed - s->ahead) / (s->weight - 1));
	step_take(s, AGENT_SLICE_OPEN, OPENING);
}

static void
slice_close(struct slices *s)
{
	kp_mono_ns now = kp_mono_now();

	if (s->phase != NONE)
		s->ahead += s->weight * (now - s->opened) - (now - s->closed);
	s->closed = now;
	s->quiet = 0;
	step_take(s, AGENT_SLICE_CLOSE, CLOSING);
}

static bool
any_running(const struct slices *s)
{
	struct target *t;

	for (unsigned i = 0; i < targets_count(s->ts); i++) {
		t = targets_at(s->ts, i);
		if (t->slice.in && kp_requests_running(t->run.conf_run->rs,
		    t->run.slot) > 0)
			return true;
	}
	return false;
}

/* What a request leaves to others is followed for KP_HORIZON, as always. */
static void
drain_look(struct slices *s)
{
	kp_mono_ns now = kp_mono_now();

	s->phase = DRAINING;
	if (any_running(s))
		s->quiet = 0;
	else if (s->quiet == 0)
		s->quiet = now;
	if ((s->quiet != 0 && now - s->quiet >= KP_HORIZON) ||
	    now - s->closed >= DRAIN_MAX || !any_in(s))
		step_take(s, AGENT_SLICE_REST, ENDING);
	else
		timer_set(s, DRAIN_LOOK);
}

static double
ms(kp_dur_ns d)
{
	return (double)d / (double)KP_NS_PER_MS;
}

static void
slice_end(struct slices *s)
{
	struct target *t;

	for (unsigned i = 0; i < targets_count(s->ts); i++) {
		t = targets_at(s->ts, i);
		if (t->slice.in)
			kp_requests_abandon(t->run.conf_run->rs, t->run.slot,
			    KP_LOSS_SLICE);
		t->slice.in = false;
	}
	if (s->begun != 0 && s->opened >= s->begun) {
		s->beside = s->opened - s->begun + kp_mono_now() - s->closed;
		log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
		    .event = "slice", .fields = {
		    { .key = "weight", .number = s->weight } } },
		    "a slice of %.1f ms, %.1f after it began to be armed; at rest "
		    "after %.1f more", ms(s->closed - s->opened),
		    ms(s->opened - s->begun), ms(kp_mono_now() - s->closed));
	}
	rest_begin(s);
}

/* All targets have taken it, or cannot any more, or take too long. */
static void
step_done(struct slices *s)
{
	switch (s->phase) {
	case READYING:
		if (any_in(s)) {
			slice_open(s);
			return;
		}
		/* No request stands for a time in which none could be measured. */
		s->closed = kp_mono_now();
		s->phase = RESTING;
		timer_set(s, AGAIN);
		break;
	case OPENING:
		s->phase = OPEN;
		if (s->weight == 1)
			slices_over(s);
		break;
	case CLOSING:
		drain_look(s);
		break;
	case ENDING:
		slice_end(s);
		break;
	case NONE:
	case RESTING:
	case OPEN:
	case DRAINING:
		break;
	}
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct slices *s = ctx;

	(void)fd, (void)what;
	if (s->phase == NONE && wanted(s) > 1)
		slices_look(s);
	else if (s->phase == RESTING)
		slice_begin(s);
	else if (s->weight > 1 && (s->phase == OPEN || s->phase == OPENING))
		slice_close(s);
	else if (s->phase == DRAINING)
		drain_look(s);
	else if (s->phase != NONE)
		step_done(s);	/* some have not answered in time */
}

static void
step_answered(struct slices *s, struct target *t)
{
	t->slice.asked = false;
	for (unsigned i = 0; i < targets_count(s->ts); i++)
		if (targets_at(s->ts, i)->slice.asked)
			return;
	step_done(s);
}

void
slices_on_step(struct slices *s, struct target *t)
{
	if (t->slice.asked)
		step_answered(s, t);
}

void
slices_on_state(struct slices *s, struct target *t)
{
	bool asked = t->slice.asked;

	t->slice.in = false;
	/* Requests of before are none of the next slice's. */
	if (s->phase == RESTING && agent_state(t->agent) == AGENT_ARMED &&
	    targets_armed(s->ts) == 1)
		s->closed = kp_mono_now();
	if (asked)
		step_answered(s, t);
}

/* ---- beginning and end ---- */

static bool
any_counts(const struct slices *s)
{
	for (unsigned i = 0; i < targets_count(s->ts); i++)
		if (agent_counts(targets_at(s->ts, i)->agent))
			return true;
	return false;
}

void
slices_look(struct slices *s)
{
	uint32_t weight = wanted(s);
	struct target *t;

	if (s->phase == NONE && weight == 1) {
		for (unsigned i = 0; i < targets_count(s->ts); i++) {
			t = targets_at(s->ts, i);
			if (kp_sampler_slices(&t->sampler))
				agent_sample(t->agent, 1);
		}
		return;
	}
	if (s->phase != NONE) {
		if (s->phase == RESTING && weight < s->planned)
			rest_begin(s);
		/* At the end of slices they stay as they are told then. */
		if (s->weight > 1 || s->phase == RESTING)
			sliced_all(s, true);
		return;
	}
	/* What is armed now would take its counters with it. */
	if (any_counts(s)) {
		timer_set(s, AGAIN);
		return;
	}
	sliced_all(s, true);
	log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
	    .event = "slices" }, "requests are measured in slices of time");
	/* What is armed is as if in a slice. */
	for (unsigned i = 0; i < targets_count(s->ts); i++) {
		t = targets_at(s->ts, i);
		t->slice.in = agent_state(t->agent) == AGENT_ARMED;
	}
	s->begun = 0;
	s->ahead = 0;
	slice_close(s);
}

bool
slices_in_force(const struct slices *s)
{
	return s->phase != NONE;
}

struct slices *
slices_new(struct event_base *base, const struct targets *ts, kp_dur_ns interval)
{
	struct slices *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->ts = ts;
	s->interval = interval;
	s->timer = event_new(base, -1, 0, on_timer, s);
	if (s->timer == NULL ||
	    getrandom(&s->random, sizeof(s->random), 0) != sizeof(s->random)) {
		slices_free(s);
		return NULL;
	}
	return s;
}

void
slices_free(struct slices *s)
{
	if (s == NULL)
		return;
	if (s->timer != NULL)
		event_free(s->timer);
	free(s);
}
