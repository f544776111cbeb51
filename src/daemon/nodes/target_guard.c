/*
 * target_guard.c - adds up what profiling costs, changes the sampling rate, pauses
 * tracing on overload and resumes it, and reports functions too hot to trace.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kprofd/fn_name.h"
#include "daemon/log.h"
#include "daemon/nodes/slices.h"
#include "daemon/nodes/targets.h"
#include "text/text.h"

#define MEASURE_EVERY (100 * KP_NS_PER_MS)	/* it takes some microseconds */
#define HOT_NAMED 5	/* functions named in one line */
#define RATE_REPORT_EVERY (10 * KP_NS_PER_S)
/* Above either, calls a second in all and outside of requests, tiers give no tokens. */
#define GIVE_CALLS_MAX 20000
#define GIVE_OUTSIDE_MAX 2000
/* Calls of requests from before tracing began are outside, too: for a status or two. */
#define GIVE_MANY 3
#define GIVE_SOON (10 * KP_NS_PER_S)	/* after a reload: calls are counted then */
#define GIVE_AGAIN (60 * KP_NS_PER_S)	/* the first wait, and the longest */
#define GIVE_AGAIN_MAX (3600 * KP_NS_PER_S)

/* ---- overhead ---- */

static uint64_t
grown(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

void
overhead_status(struct overhead *s, bool native, bool whole, uint64_t sampled,
    const struct agent_status *before, const struct agent_status *st)
{
	struct kp_cost c = {
		.events = grown(st->sent + st->dropped,
		    before->sent + before->dropped),
		.armed_calls = grown(st->tier_calls, before->tier_calls) +
		    grown(grown(st->entry_calls, st->unarmed_calls),
		    grown(before->entry_calls, before->unarmed_calls)),
		.agent = st->busy > before->busy ? st->busy - before->busy : 0,
		.switches = grown(st->switches, before->switches),
		.sampled = grown(sampled, s->sampled),
	};

	c.ring_events = native ? c.events : 0;
	s->requests = grown(st->entry_calls, before->entry_calls);
	c.marked = whole || c.sampled >= s->requests ? c.switches :
	    (uint64_t)((double)c.switches * (double)c.sampled /
	    (double)s->requests);
	kp_cost_add(&s->window, &c);
	s->last = c;
	s->sampled = sampled;
	s->held = st->held > before->held ? st->held - before->held : 0;
	s->over = before->now != 0 && st->now > before->now ?
	    st->now - before->now : 0;
}

double
overhead_percent(const struct overhead *s, kp_dur_ns part)
{
	return s->over > 0 ? 100 * (double)part / (double)s->over : 0;
}

uint64_t
overhead_rate(const struct overhead *s, uint64_t n)
{
	return s->over > 0 ? (uint64_t)((double)n * (double)KP_NS_PER_S /
	    (double)s->over) : 0;
}

bool
target_in_slices(const struct target *t)
{
	return kp_sampler_slices(&t->sampler) &&
	    slices_in_force(targets_slices(t->p->targets));
}

/* Of slices that of a whole one and the time to the next. */
struct overhead
target_overhead(const struct target *t)
{
	struct overhead o = t->overhead;

	if (target_in_slices(t) && t->slice.last_over > 0) {
		o.held = o.over > 0 ? (kp_dur_ns)((double)o.held *
		    (double)t->slice.last_over / (double)o.over) : 0;
		o.last = t->slice.last;
		o.over = t->slice.last_over;
	}
	return o;
}

/* ---- sampling and overload ---- */

const char *
target_rate_why(const struct target *t)
{
	const struct kp_sampler *s = &t->sampler;

	if (s->one_in == 1)
		return "";
	if (s->cut > 1)
		return "after an overload";
	if (s->frugal > s->rated)
		return "to keep to the budget";
	return s->conf.kind == KP_SAMPLE_PER_SECOND ?
	    "to keep to {sampling, {per_second, N}}" : "";
}

/* Noise around a rate is no change. */
static bool
rate_changed(uint32_t was, uint32_t now)
{
	return was != now && (was == 1 || now == 1 || now / 2 >= was ||
	    was / 2 >= now);
}

/*
 * Logs and records each change of the rate by a factor of two or more, and each new
 * reason, with what profiling costs then.  It follows the load, so those within
 * RATE_REPORT_EVERY are one.
 */
static void
report_rate(struct target *t)
{
	const struct kp_sampler *s = &t->sampler;
	kp_mono_ns now = kp_mono_now();
	const char *why = target_rate_why(t);
	const struct overhead spent = target_overhead(t);
	char rate[80], cost[300], text[700];

	if (t->overload.guard.resting || agent_state(t->agent) != AGENT_ARMED)
		return;
	if (t->rate.one_in == 0) {
		/* From now on it is compared with what tiers.conf asks for. */
		t->rate.one_in = s->conf.kind == KP_SAMPLE_ONE_IN ?
		    s->conf.n : 1;
		t->rate.why = "";
	}
	if (!rate_changed(t->rate.one_in, s->one_in) &&
	    (s->one_in == t->rate.one_in || strcmp(why, t->rate.why) == 0))
		return;
	if (t->rate.at != 0 && now - t->rate.at < RATE_REPORT_EVERY)
		return;
	t->rate.at = now;
	t->rate.wall = kp_wall_now();
	t->rate.one_in = s->one_in;
	t->rate.why = why;
	snprintf(text, sizeof(text), "now %s%s%s; profiling costs %s, of a budget "
	    "of %g", kp_one_in_text(rate, sizeof(rate), s->one_in,
	    kp_sampler_slices(s)),
	    why[0] != '\0' ? ", " : "", why, kp_cost_text(&spent.last,
	    spent.over, cost, sizeof(cost)), t->run.conf_run->conf->budget);
	log_put(&(struct log_entry){ .level = LOG_LEVEL_INFO,
	    .event = "sampling", .target = t->node,
	    .fields = { { .key = "one_in", .number = s->one_in } } },
	    "%s: %s", t->node, text);
	target_record(t, "sampling", text);
}

/* Sends the rate after a change. */
static void
resample(struct target *t)
{
	log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
	    .event = "sampling", .target = t->node,
	    .fields = { { .key = "one_in", .number = t->sampler.one_in } } },
	    "%s: sampling one request in %u", t->node,
	    t->sampler.one_in);
	if (!t->overload.guard.resting)
		t->ledger.sampling |= t->sampler.one_in > 1;
	if (!kp_sampler_slices(&t->sampler))
		agent_sample(t->agent, t->sampler.one_in);
	slices_look(targets_slices(t->p->targets));
	target_give_tokens(t);
}

/* Before the first events their cost is foreseen. */
void
target_sample_plan(struct target *t, uint64_t entries)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	const struct kp_conf *conf = t->run.conf_run->conf;
	struct kp_cost c, timed = { 0 };
	double calls = 0, fixed;
	bool changed;

	for (size_t i = 0; i < plan->n; i++)
		if (!plan->v[i].disarmed && plan->v[i].rate > 0)
			calls += (double)plan->v[i].rate;
	c = kp_cost_foresee(calls, (double)entries, 1, t->native);
	if (conf->slow_always)
		timed = kp_cost_foresee((double)entries, (double)entries, 1, t->native);
	timed.marked = 0;	/* there are no tokens */
	fixed = (double)kp_cost_total(&timed) * 100 / (double)KP_NS_PER_S;
	if (kp_sampler_slices(&t->sampler))
		changed = kp_sampler_spent(&t->sampler, (double)
		    kp_cost_total(&c) * 100 / (double)KP_NS_PER_S /
		    t->sampler.one_in + fixed, fixed, conf->budget);
	else
		changed = kp_sampler_rate(&t->sampler, entries, KP_NS_PER_S);
	if (changed)
		resample(t);
	else if (kp_sampler_slices(&t->sampler))
		slices_look(targets_slices(t->p->targets));
}

/* ---- overload ---- */

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

/* store may be NULL. */
static void
measure(struct overload *w, struct kp_store *store, kp_mono_ns now)
{
	struct kp_store_status st = { .windows = 0 };
	size_t windows, bytes;

	if (store != NULL)
		kp_store_status(store, &st);
	windows = st.windows * 100 / KP_STORE_QUEUE_MAX;
	bytes = st.bytes * 100 / KP_STORE_BYTES_MAX;
	w->measured = now;
	w->load.memory = memory_now();
	w->load.backlog = (uint32_t)(windows > bytes ? windows : bytes);
}

kp_dur_ns
target_trip(struct target *t, const struct overload_cause *c)
{
	struct kp_paused p = { .reason = c->reason, .usual = c->usual };
	struct overload *w = &t->overload;
	char text[1200];

	t->tokens.dear |= agent_gives_tokens(t->agent) &&
	    (c->trip == KP_TRIP_AGENT || c->trip == KP_TRIP_LATE);
	w->tripped = kp_mono_now();
	snprintf(w->reason, sizeof(w->reason), "%s", c->reason);
	w->name = c->name;
	w->usual = c->usual;
	w->before = t->status;
	w->in_flight = kp_requests_running(t->run.conf_run->rs, t->run.slot);
	w->unreported = true;
	kp_lag_reset(&w->lag);
	p.lasts = kp_guard_trip(&w->guard, c->trip, w->tripped);
	if (kp_sampler_cut(&t->sampler, t->overload.guard.cut))
		resample(t);
	p.one_in = t->rate.one_in = t->sampler.one_in;
	p.sliced = kp_sampler_slices(&t->sampler);
	t->rate.why = target_rate_why(t);
	kp_paused_text(&p, text, sizeof(text));
	target_report(t, "trip", text);
	return p.lasts;
}

void
target_check_overload(struct target *t, kp_target_ns sent)
{
	struct overload *w = &t->overload;
	kp_mono_ns now = kp_mono_now();
	struct overload_cause c;
	enum kp_trip trip;
	char why[200];

	w->load.lag = kp_lag_see(&w->lag, sent, now);
	if (now - w->measured >= MEASURE_EVERY)
		measure(w, t->p->store, now);
	trip = kp_guard_look(&w->guard, &w->load, now);
	if (trip == KP_TRIP_NONE || agent_state(t->agent) != AGENT_ARMED)
		return;
	kp_trip_text(trip, &w->load, &w->guard.limits, why, sizeof(why));
	c = (struct overload_cause){ trip, kp_trip_name(trip), why,
		kp_trip_usual(trip) };
	agent_pause_for(t->agent, target_trip(t, &c), why);
}

kp_dur_ns
target_pause_over(struct target *t)
{
	struct overload *w = &t->overload;
	char why[200], text[256];
	kp_dur_ns more;

	/* returns the memory of the requests in flight to the system */
	malloc_trim(0);
	measure(w, t->p->store, kp_mono_now());
	more = kp_guard_rested(&w->guard, &w->load);
	if (more == 0)
		return 0;
	w->name = kp_trip_name(w->guard.cause);
	kp_trip_text(w->guard.cause, &w->load, &w->guard.limits, why,
	    sizeof(why));
	snprintf(text, sizeof(text), "tracing is paused for %.0f s more: %s",
	    (double)more / (double)KP_NS_PER_S, why);
	target_report(t, "rest", text);
	return more;
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

void
target_recover(struct target *t, const struct agent_status *st)
{
	struct overload *w = &t->overload;
	kp_mono_ns now = kp_mono_now();
	const struct kp_paused p = { .over = true, .lasts = now - w->tripped,
		.one_in = t->sampler.one_in,
		.sliced = kp_sampler_slices(&t->sampler),
		.reason = w->reason, .usual = w->usual };
	char text[800];
	struct kp_buf b;

	/* once after each overload */
	if (w->unreported && !w->guard.resting) {
		w->unreported = false;
		kp_paused_text(&p, text, sizeof(text));
		kp_buf_init(&b, 4096);
		kp_buf_str(&b, text);
		put_lost(w, st, &b);
		snprintf(text, sizeof(text), "%s", kp_buf_cstr(&b));
		kp_buf_free(&b);
		log_info("resume", t->node, "%s: %s", t->node, text);
		target_record(t, "resume", text);
	}
	if (kp_guard_tick(&t->overload.guard, now) &&
	    kp_sampler_cut(&t->sampler, t->overload.guard.cut))
		resample(t);
}

void
target_sample_batch(struct target *t, kp_target_ns sent)
{
	if (kp_sampler_quick(&t->sampler, sent))
		resample(t);
}

static void
count_outside(struct target *t)
{
	uint64_t n = kp_requests_outside(t->run.conf_run->rs, t->run.slot);

	if (!target_in_slices(t) && n > t->tokens.outside &&
	    overhead_rate(&t->overhead, n - t->tokens.outside) >
	    GIVE_OUTSIDE_MAX)
		t->tokens.many++;
	else
		t->tokens.many = 0;
	t->tokens.outside = n;
}

/* What it costs while nothing is armed, at the least; it follows a rise slowly. */
#define IDLE_RISES 1.05

/*
 * Applies the budget to what was spent since the last slice began.  Between slices
 * nothing is spent but what the agent takes to be there, and entries with {slow, always}.
 */
static void
spend_slices(struct target *t)
{
	const struct overhead *s = &t->overhead;
	bool rests = target_in_slices(t) && s->last.sampled == 0 &&
	    (s->last.events == 0 || t->run.conf_run->conf->slow_always);
	double least = overhead_percent(s, rests ? kp_cost_total(&s->last) :
	    s->last.agent), spent;

	if (agent_state(t->agent) != AGENT_ARMED) {
		t->slice.cost = (struct kp_cost){ 0 };
		t->slice.over = 0;
		return;
	}
	if (rests || !target_in_slices(t) || t->slice.idle == 0)
		t->slice.idle = t->slice.idle == 0 ||
		    least < t->slice.idle * IDLE_RISES ? least :
		    t->slice.idle * IDLE_RISES;
	kp_cost_add(&t->slice.cost, &s->last);
	t->slice.over += s->over;
	if (target_in_slices(t) && !t->slice.cycle_over)
		return;
	spent = t->slice.over > 0 ? 100 * (double)kp_cost_total(&t->slice.cost) /
	    (double)t->slice.over - t->slice.idle : 0;
	/* All targets have the slices of the one that needs fewest. */
	if (target_in_slices(t) && t->slice.weight > t->sampler.one_in)
		spent *= (double)t->slice.weight / t->sampler.one_in;
	if (t->slice.over > 0)
		kp_sampler_spent(&t->sampler, spent > 0 ? spent + t->slice.idle :
		    t->slice.idle, t->slice.idle,
		    t->run.conf_run->conf->budget);
	t->slice.last = t->slice.cost;
	t->slice.last_over = t->slice.over;
	t->slice.cost = (struct kp_cost){ 0 };
	t->slice.over = 0;
	t->slice.cycle_over = false;
}

void
target_sample_status(struct target *t, const struct agent_status *st)
{
	kp_dur_ns over = st->now - t->status.now;
	const struct overhead *s = &t->overhead;
	uint32_t was = t->sampler.one_in;

	count_outside(t);
	if (t->status.now == 0 || st->entry_calls < t->status.entry_calls)
		return;
	kp_sampler_rate(&t->sampler, st->entry_calls - t->status.entry_calls,
	    over);
	if (kp_sampler_slices(&t->sampler))
		spend_slices(t);
	else
		kp_sampler_spent(&t->sampler,
		    overhead_percent(s, kp_cost_total(&s->last)),
		    overhead_percent(s, kp_cost_fixed(&s->last)),
		    t->run.conf_run->conf->budget);
	t->tokens.dear |= t->sampler.frugal > 1 &&
	    !kp_sampler_slices(&t->sampler) && agent_gives_tokens(t->agent);
	if (t->sampler.one_in != was)
		resample(t);
	report_rate(t);
	target_give_tokens(t);
}

void
target_sampling(struct target *t, const struct kp_sampling *now)
{
	const struct kp_sampling *was = &t->sampler.conf;

	if (was->kind == now->kind && was->n == now->n)
		return;
	kp_sampler_init(&t->sampler, now);
	kp_sampler_cut(&t->sampler, t->overload.guard.cut);
	resample(t);
}

/* ---- tokens for processes that have none ---- */

/* Calls of tiers a second: as counted last, or as measured before arming; -1: unknown. */
static int64_t
tier_rate(const struct target *t)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	int64_t calls = 0;

	if (agent_state(t->agent) == AGENT_ARMED && t->overhead.over > 0)
		return (int64_t)overhead_rate(&t->overhead,
		    t->overhead.last.armed_calls);
	for (size_t i = 0; i < plan->n; i++) {
		if (plan->v[i].entry || plan->v[i].disarmed)
			continue;
		if (plan->v[i].rate < 0)
			return -1;
		calls += plan->v[i].rate;
	}
	return calls;
}

static bool
may_give_tokens(const struct target *t)
{
	const struct kp_conf *conf = t->run.conf_run->conf;
	int64_t calls = tier_rate(t);

	if (t->check != NULL || conf->messages || conf->scheduling ||
	    kp_conf_gc(conf, t->hello.gc_shared))
		return false;
	return target_in_slices(t) || (t->sampler.one_in == 1 && !t->tokens.dear &&
	    t->tokens.many < GIVE_MANY &&
	    (calls >= 0 ? calls <= GIVE_CALLS_MAX : t->tokens.given));
}

void
target_give_tokens(struct target *t)
{
	bool gives = agent_gives_tokens(t->agent), give = may_give_tokens(t);
	kp_mono_ns now = kp_mono_now();

	if (t->tokens.given && !gives)
		t->tokens.due = now + GIVE_SOON;	/* a reload has ended it */
	t->tokens.given = gives;
	if (give && !gives && agent_state(t->agent) == AGENT_ARMED &&
	    now < t->tokens.due && !target_in_slices(t))
		return;
	agent_give_tokens(t->agent, give);
	t->tokens.given = agent_gives_tokens(t->agent);
	if (gives == t->tokens.given)
		return;
	log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
	    .event = "tokens", .target = t->node }, "%s: tiers give %stokens",
	    t->node, gives ? "no " : "");
	if (!gives)
		return;
	/* Every change sets all tiers again, so it waits longer each time. */
	t->tokens.wait = t->tokens.wait == 0 ? GIVE_AGAIN :
	    t->tokens.wait < GIVE_AGAIN_MAX ? 2 * t->tokens.wait : GIVE_AGAIN_MAX;
	t->tokens.due = now + t->tokens.wait;
}

/* ---- functions too hot to trace ---- */

/* Names the first functions, and counts the rest. */
static void
hot_names(const struct kp_plan *plan, struct kp_buf *b)
{
	const struct kp_plan_item *p;
	unsigned n = 0;

	for (p = plan->v; p < plan->v + plan->n; p++) {
		if (!p->hot)
			continue;
		if (n < HOT_NAMED) {
			kp_buf_str(b, n > 0 ? ", " : "");
			fn_name_put(b, p->mod, p->fun, p->arity);
		}
		n++;
	}
	if (n > HOT_NAMED)
		kp_buf_printf(b, " and %u more", n - HOT_NAMED);
}

void
target_hot(struct target *t, bool reported)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	size_t n = 0;
	struct kp_buf b;

	for (size_t i = 0; i < plan->n; i++)
		n += plan->v[i].hot;
	if (n > t->hot && !reported && t->p->store != NULL) {
		kp_buf_init(&b, KP_PLAN_MAX);
		kp_buf_str(&b, "too hot to trace by the rates that were "
		    "measured, and not traced: ");
		hot_names(plan, &b);
		target_report(t, "hot", kp_buf_cstr(&b));
		kp_buf_free(&b);
	}
	t->hot = n;
}
