/*
 * status.c - writes each section of the status as text and as JSON (cost,
 * overload, clock, messages, losses), and the metrics of the daemon, of its
 * outputs and of its targets, those of one name together.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "conn/channel.h"
#include "conn/address.h"
#include "daemon/control/commands.h"
#include "daemon/health.h"
#include "daemon/nodes/node_run.h"
#include "daemon/nodes/targets.h"
#include "export/metrics.h"
#include "kprofd/fn_name.h"
#include "report/losses.h"
#include "text/json.h"
#include "text/text.h"
#include "text/timefmt.h"

#define HELD_PERCENT 1	/* less is not reported */

/* The rate, why it is that, and since when it was reported. */
static void
put_sampling(struct kp_buf *b, const struct target *t)
{
	const char *why = target_rate_why(t);
	char since[TIMEFMT_MAX];

	if (t->sampler.one_in == 1)
		kp_buf_str(b, "sampling    every request\n");
	else
		kp_buf_printf(b, "sampling    one request in %" PRIu32 "%s%s%s%s\n",
		    t->sampler.one_in, kp_sampler_slices(&t->sampler) ?
		    ", all of some slices of time" : "",
		    t->run.conf_run->conf->slow_always ? ", the others timed" : "",
		    why[0] != '\0' ? ", " : "", why);
	if (t->rate.wall != 0)
		kp_buf_printf(b, "            changed last at %s\n",
		    timefmt_local(since, t->rate.wall));
}

static void
put_cost(struct kp_buf *b, const struct target *t)
{
	const struct overhead now = target_overhead(t), *s = &now;
	char text[300];

	kp_buf_printf(b, "cost        %s; budget %g\n", kp_cost_text(&s->last,
	    s->over, text, sizeof(text)), t->run.conf_run->conf->budget);
	kp_buf_printf(b, "            %" PRIu64 " us/s, of which the agent %"
	    PRIu64 "; %" PRIu64 " events/s, %" PRIu64 " armed calls/s, %" PRIu64
	    " processes scheduled/s\n",
	    overhead_rate(s, (uint64_t)kp_cost_total(&s->last) / 1000),
	    overhead_rate(s, (uint64_t)s->last.agent / 1000),
	    overhead_rate(s, s->last.events),
	    overhead_rate(s, s->last.armed_calls),
	    overhead_rate(s, s->last.switches));
	if (overhead_percent(s, s->held) >= HELD_PERCENT)
		kp_buf_printf(b, "            the agent waited for a processor "
		    "for %.0f %% of the time, which is not its cost: the host is "
		    "busy\n", overhead_percent(s, s->held));
	if (t->servers.drains[0] != '\0')
		kp_buf_printf(b, "types       %s\n", t->servers.drains);
	for (size_t i = 0; i < t->servers.n; i++) {
		kp_buf_str(b, "waits       ");
		kp_waits_put(&t->servers.v[i], t->run.conf_run->conf,
		    t->sampler.one_in == 1 || kp_sampler_slices(&t->sampler), b);
		kp_buf_u8(b, '\n');
	}
	if (t->tracing_cost.call > 0)
		kp_buf_printf(b, "tracing     adds %.1f us to a traced call, "
		    "and %.1f us more to its caller\n",
		    (double)t->tracing_cost.call / (double)KP_NS_PER_US,
		    (double)t->tracing_cost.caller / (double)KP_NS_PER_US);
}

static void
json_cost(struct json *j, const struct target *t)
{
	const struct overhead now = target_overhead(t), *s = &now;

	json_object(j, "cost");
	json_number(j, "scheduler_percent",
	    overhead_percent(s, kp_cost_total(&s->last)));
	json_uint(j, "us_per_s",
	    overhead_rate(s, (uint64_t)kp_cost_total(&s->last) / 1000));
	json_uint(j, "agent_us_per_s",
	    overhead_rate(s, (uint64_t)s->last.agent / 1000));
	json_uint(j, "agent_waited_us_per_s",
	    overhead_rate(s, (uint64_t)s->held / 1000));
	json_uint(j, "events_per_s", overhead_rate(s, s->last.events));
	json_uint(j, "sampled_per_s", overhead_rate(s, s->last.sampled));
	json_uint(j, "scheduled_per_s", overhead_rate(s, s->last.switches));
	json_uint(j, "armed_calls_per_s",
	    overhead_rate(s, s->last.armed_calls));
	json_number(j, "budget_percent", t->run.conf_run->conf->budget);
	json_number(j, "hot_share_percent", t->run.conf_run->conf->hot_share);
	json_ms(j, "traced_call_ms", t->tracing_cost.call > 0 ? t->tracing_cost.call : -1);
	json_ms(j, "traced_caller_ms", t->tracing_cost.call > 0 ?
	    t->tracing_cost.caller : -1);
	json_end(j);
}

static void
put_hot(struct kp_buf *b, const struct target *t)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	bool any = false;

	for (size_t i = 0; i < plan->n; i++) {
		if (!plan->v[i].hot)
			continue;
		kp_buf_str(b, any ? ", " : "too hot     ");
		text_put(b, plan->v[i].mod);
		kp_buf_u8(b, ':');
		text_put(b, plan->v[i].fun);
		kp_buf_printf(b, "/%" PRIu32, plan->v[i].arity);
		any = true;
	}
	if (any)
		kp_buf_str(b, ": called too often to be "
		    "traced (name the caller instead, or raise hot_share; then "
		    "kprof reload)\n");
}

static void
json_hot(struct json *j, const struct target *t)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	char text[FN_NAME_MAX];

	json_array(j, "too_hot");
	for (size_t i = 0; i < plan->n; i++) {
		if (!plan->v[i].hot)
			continue;
		json_string(j, NULL, fn_name(text, sizeof(text),
		    plan->v[i].mod, plan->v[i].fun, plan->v[i].arity));
	}
	json_end(j);
}

static void
put_guard(struct kp_buf *b, const struct target *t)
{
	const struct kp_guard *g = &t->overload.guard;
	char rate[64];

	kp_buf_printf(b, "kprofd's    %" PRIu64 " MiB of memory, %" PRId64
	    " ms behind, %" PRIu32 " %% of the room for unwritten windows\n",
	    t->overload.load.memory >> 20, t->overload.load.lag / KP_NS_PER_MS,
	    t->overload.load.backlog);
	if (g->trips == 0) {
		kp_buf_str(b, "overload    none so far\n");
		return;
	}
	kp_buf_printf(b, "overload    %" PRIu64 " so far, the last %" PRId64
	    " s ago: ", g->trips, (kp_mono_now() - t->overload.tripped) /
	    KP_NS_PER_S);
	text_put(b, t->overload.reason);
	kp_buf_printf(b, "; %s", g->resting ? "tracing is paused" : "now ");
	if (!g->resting)
		kp_buf_str(b, kp_one_in_text(rate, sizeof(rate),
		    t->sampler.one_in, kp_sampler_slices(&t->sampler)));
	kp_buf_u8(b, '\n');
	if (t->overload.usual[0] != '\0')
		kp_buf_printf(b, "            usual cause: %s\n",
		    t->overload.usual);
}

static void
json_guard(struct json *j, const struct target *t)
{
	const struct kp_guard *g = &t->overload.guard;

	json_object(j, "overload");
	json_uint(j, "memory_bytes", t->overload.load.memory);
	json_int(j, "lag_us", t->overload.load.lag / KP_NS_PER_US);
	json_uint(j, "backlog_percent", t->overload.load.backlog);
	json_uint(j, "trips", g->trips);
	json_string(j, "last_cause", t->overload.name != NULL ? t->overload.name :
	    kp_trip_name(KP_TRIP_NONE));
	json_string(j, "last_reason", t->overload.reason);
	json_bool(j, "resting", g->resting);
	json_int(j, "next_rest_s", (g->rest > 0 ? g->rest : g->limits.pause) /
	    KP_NS_PER_S);
	json_uint(j, "cut", g->cut);
	json_end(j);
}

/* Only where stacks are sampled. */
static void
put_stacks(struct kp_buf *b, const struct target *t)
{
	struct stack_totals s = node_run_stacks_totals(&t->run);
	char text[KP_QUEUE_TEXT_MAX];

	if (t->run.stacks == NULL)
		return;
	kp_buf_printf(b, "stacks      %" PRIu64 " samples, of these %" PRIu64
	    " not seen; %" PRIu64 " belong to requests, %" PRIu64
	    " to idle processes, %" PRIu32 " wait\n", s.sampler.taken,
	    s.sampler.not_seen, s.joined, s.idle, s.waiting);
	kp_buf_printf(b, "            sampling took %.3f s of a processor, in "
	    "%" PRIu64 " turns\n", (double)s.sampler.busy /
	    (double)KP_NS_PER_S, s.sampler.ticks);
	for (size_t i = 0; i < t->queues.n; i++) {
		kp_buf_str(b, i == 0 ? "mailboxes   " : "            ");
		text_put(b, kp_queue_text(&t->queues.v[i], kp_wall_now(), text,
		    sizeof(text)));
		kp_buf_u8(b, '\n');
	}
}

static void
json_stacks(struct json *j, const struct target *t)
{
	struct stack_totals s = node_run_stacks_totals(&t->run);
	const struct kp_queue *q;
	char pid[64];

	json_object(j, "stacks");
	json_bool(j, "sampled", t->run.stacks != NULL);
	json_uint(j, "ticks", s.sampler.ticks);
	json_uint(j, "looked", s.sampler.looked);
	json_uint(j, "taken", s.sampler.taken);
	json_uint(j, "not_seen", s.sampler.not_seen);
	json_uint(j, "unsent", s.sampler.unsent);
	json_int(j, "busy_us", s.sampler.busy / KP_NS_PER_US);
	json_uint(j, "joined", s.joined);
	json_uint(j, "idle", s.idle);
	json_uint(j, "waiting", s.waiting);
	json_uint(j, "lost", s.lost);
	json_array(j, "mailboxes");
	for (size_t i = 0; i < t->queues.n; i++) {
		q = &t->queues.v[i];
		json_object(j, NULL);
		json_string(j, "name", q->name);
		json_string(j, "process", kp_proc_text(q->proc, pid,
		    sizeof(pid)));
		json_uint(j, "messages", q->last);
		json_time(j, "since", q->since);
		json_uint(j, "messages_then", q->first);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void
put_losses(struct kp_buf *b, const struct target *t)
{
	bool any = false;

	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		if (t->lost_ever.n[i] == 0)
			continue;
		kp_buf_str(b, any ? "            " : "losses      ");
		losses_put(b, i, t->lost_ever.n[i]);
		kp_buf_u8(b, '\n');
		any = true;
	}
	if (!any)
		kp_buf_str(b, "losses      none\n");
}

static size_t
in_flight(const struct target *t)
{
	return kp_requests_running(t->run.conf_run->rs, t->run.slot);
}

/* All counters are of the run, whichever of its agents counted. */
static uint64_t
entry_calls(const struct target *t)
{
	return t->entry_calls_before + t->status.entry_calls;
}

static uint64_t
foreign(const struct target *t)
{
	return t->foreign_before + t->status.foreign;
}

/* Where it is connected to; "": it is not. */
static const char *
address(const struct target *t, char text[ADDRESS_TEXT_MAX])
{
	const struct channel *c = agent_channel(t->agent);

	return c != NULL ? address_of_peer(c->fd, text) : "";
}

/* "not encrypted", "TLSv1.3, not verified", and the like; "": not connected. */
static const char *
encryption(const struct target *t)
{
	const struct channel *c = agent_channel(t->agent);

	return c != NULL ? c->how : "";
}

/* ---- as text ---- */

static void
put_target(struct kp_buf *b, const struct target *t)
{
	char where[ADDRESS_TEXT_MAX];

	kp_buf_printf(b, "target      %s: %s%s%s\n", t->node,
	    t->in_set.failed ? "failed" :
	    agent_state_name(agent_state(t->agent)),
	    t->state_text[0] != '\0' ? ": " : "", t->state_text);
	if (t->in_set.over)
		return;
	if (t->hello.otp != 0)
		kp_buf_printf(b, "            OTP %d, %s, %s probe\n",
		    t->hello.otp, t->hello.session ? "trace session" :
		    "legacy tracing", t->native ? "native" : "relay");
	if (agent_channel(t->agent) != NULL)
		kp_buf_printf(b, "connection  %s, %s\n", address(t, where),
		    encryption(t));
	if (t->relay_why[0] != '\0')
		kp_buf_printf(b, "probe       relay: %s\n", t->relay_why);
	put_sampling(b, t);
	kp_buf_printf(b, "events      %" PRIu64 " in %" PRIu64 " batches; "
	    "agent's queue %" PRIu64 ", memory %" PRIu64 " KiB\n", t->events,
	    t->batches, t->status.queue, t->status.memory / 1024);
	kp_buf_printf(b, "requests    %" PRIu64 " assembled, %zu in flight (the node "
	    "had counted %" PRIu64 " calls of entries when last asked)\n",
	    t->run.requests_ever, in_flight(t), entry_calls(t));
	kp_buf_printf(b, "windows     %" PRIu64 " closed\n", t->windows);
	/* by this offset of the target's monotonic clock trees are laid out */
	if (t->run.timed)
		kp_buf_printf(b, "clock       %+.6f s to kprofd's, known to "
		    "%.3f ms\n", (double)t->run.offset / (double)KP_NS_PER_S,
		    (double)t->run.error / (double)KP_NS_PER_MS);
	if (t->run.conf_run->conf->messages)
		kp_buf_printf(b, "messages    %s%s\n", t->mailboxes.timed ?
		    "timed" : "not timed: ", t->mailboxes.timed ? "" :
		    t->mailboxes.why[0] != '\0' ? t->mailboxes.why :
		    "tracing is off");
	put_stacks(b, t);
	/* OTP 25, 26: another tool's trace patterns send their events to kprofd */
	if (foreign(t) > 0)
		kp_buf_printf(b, "foreign     %" PRIu64 " events of others' "
		    "patterns dropped; processes not traced because of them: %"
		    PRIu64 "\n", foreign(t), t->status.ceded);
}

static void
put_rest(struct kp_buf *b, const struct target *t)
{
	if (!t->in_set.over) {
		put_cost(b, t);
		put_hot(b, t);
		put_guard(b, t);
	}
	put_losses(b, t);
}

static bool
is_shown(const struct target *t, const char *glob)
{
	return glob == NULL || kp_globs(glob, t->node);
}

static void
status_plain(struct kp_buf *b, const struct parts *p, const char *glob)
{
	const struct targets *ts = p->targets;
	const struct target *t;
	unsigned shown = 0;

	kp_buf_printf(b, "kprofd      " KP_VERSION ", running %" PRId64
	    " s; what is counted below, is since then\n",
	    (kp_mono_now() - p->started) / KP_NS_PER_S);
	if (!targets_several(ts) && glob == NULL) {
		t = targets_at(ts, 0);
		put_target(b, t);
		store_put_text(b, p->store, p->o->db);
		push_put_text(b, p->push);
		put_rest(b, t);
		return;
	}
	kp_buf_printf(b, "targets     %u of %u armed\n", targets_armed(ts),
	    targets_count(ts));
	if (targets_more(ts) > 0)
		kp_buf_printf(b, "            %zu more have no room: %d are "
		    "profiled by one kprofd at most\n", targets_more(ts),
		    TARGETS_MAX);
	store_put_text(b, p->store, p->o->db);
	push_put_text(b, p->push);
	for (unsigned i = 0; i < targets_count(ts); i++) {
		t = targets_at(ts, i);
		if (!is_shown(t, glob))
			continue;
		kp_buf_u8(b, '\n');
		put_target(b, t);
		put_rest(b, t);
		shown++;
	}
	if (shown == 0 && glob != NULL)
		kp_buf_printf(b, "\nno target matches '%s'\n", glob);
}

/* ---- as JSON ---- */

static void
json_waits(struct json *j, const struct servers *w)
{
	char name[FN_NAME_MAX];

	json_string(j, "drains", w->drains);
	json_array(j, "waits");
	for (size_t i = 0; i < w->n; i++) {
		json_object(j, NULL);
		json_string(j, "server", w->v[i].server);
		json_uint(j, "waiting", w->v[i].waiting);
		json_string(j, "function", w->v[i].mod[0] == '\0' ? "" :
		    fn_name(name, sizeof(name), w->v[i].mod, w->v[i].fun,
		    w->v[i].arity));
		json_end(j);
	}
	json_end(j);
}

/* Into the object that is open. */
static void
json_target(struct json *j, const struct target *t)
{
	char where[ADDRESS_TEXT_MAX];

	json_string(j, "target", t->node);
	json_string(j, "state", t->in_set.failed ? "failed" :
	    agent_state_name(agent_state(t->agent)));
	json_string(j, "state_text", t->state_text);
	json_string(j, "address", address(t, where));
	json_string(j, "encryption", encryption(t));
	json_int(j, "otp", t->hello.otp);
	json_string(j, "probe", t->native ? "native" : "relay");
	json_string(j, "relay_why", t->relay_why);
	json_int(j, "one_in", t->sampler.one_in);
	json_string(j, "sampling_why", target_rate_why(t));
	json_uint(j, "events", t->events);
	json_uint(j, "batches", t->batches);
	json_uint(j, "agent_queue", t->status.queue);
	json_uint(j, "agent_memory_bytes", t->status.memory);
	json_uint(j, "requests", t->run.requests_ever);
	json_uint(j, "in_flight", in_flight(t));
	json_uint(j, "entry_calls", entry_calls(t));
	json_uint(j, "windows", t->windows);
	json_uint(j, "foreign_events", foreign(t));
	json_uint(j, "ceded_processes", t->status.ceded);
	json_object(j, "clock");
	json_bool(j, "known", t->run.timed);
	json_int(j, "offset_ns", t->run.offset);
	json_int(j, "error_ns", t->run.error);
	json_uint(j, "steps", t->offset.stepped);
	json_end(j);
	json_object(j, "messages");
	json_bool(j, "wanted", t->run.conf_run->conf->messages);
	json_bool(j, "timed", t->mailboxes.timed);
	json_string(j, "why", t->mailboxes.why);
	json_end(j);
	json_stacks(j, t);
	json_cost(j, t);
	json_waits(j, &t->servers);
	json_hot(j, t);
	json_guard(j, t);
	json_object(j, "losses");
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		json_uint(j, kp_loss_name(i), t->lost_ever.n[i]);
	json_end(j);
}

/* The figures of a single target are in the outer object, too. */
static void
status_json(struct kp_buf *b, const struct parts *p, const char *glob)
{
	const struct targets *ts = p->targets;
	struct json j;

	json_open(&j, b);
	json_string(&j, "version", KP_VERSION);
	json_int(&j, "up_s", (kp_mono_now() - p->started) / KP_NS_PER_S);
	if (!targets_several(ts))
		json_target(&j, targets_at(ts, 0));
	store_put_json(&j, p->store, p->o->db);
	push_put_json(&j, p->push);
	json_uint(&j, "armed", targets_armed(ts));
	json_uint(&j, "targets_without_room", targets_more(ts));
	json_array(&j, "targets");
	for (unsigned i = 0; i < targets_count(ts); i++) {
		if (!is_shown(targets_at(ts, i), glob))
			continue;
		json_object(&j, NULL);
		json_target(&j, targets_at(ts, i));
		json_end(&j);
	}
	json_end(&j);
	json_close(&j);
}

void
status_text(struct kp_buf *b, const struct parts *p, const char *glob,
    bool json)
{
	if (json)
		status_json(b, p, glob);
	else
		status_plain(b, p, glob);
}

/* ---- metrics ---- */

#define SECONDS(ns) ((double)(ns) / (double)KP_NS_PER_S)

struct figure {
	enum health which;
	double value;		/* less than 0: not measured, and left out */
};

#define TARGET_METRICS 18

static void
target_metrics(const struct target *t, struct figure v[TARGET_METRICS])
{
	const struct kp_guard *guard = &t->overload.guard;
	const bool stacks = t->run.stacks != NULL;
	const struct kp_stack_counts c = node_run_stacks_totals(&t->run).
	    sampler;
	const struct overhead spent = target_overhead(t);
	const struct figure all[TARGET_METRICS] = {
		{ HEALTH_ARMED, !t->in_set.over &&
		    agent_state(t->agent) == AGENT_ARMED },
		{ HEALTH_FAILED, t->in_set.failed },
		{ HEALTH_EVENTS, (double)t->events },
		{ HEALTH_BATCHES, (double)t->batches },
		{ HEALTH_QUEUE, (double)t->status.queue },
		{ HEALTH_AGENT_MEMORY, (double)t->status.memory },
		{ HEALTH_REQUESTS, (double)t->run.requests_ever },
		{ HEALTH_IN_FLIGHT, (double)kp_requests_running(
		    t->run.conf_run->rs, t->run.slot) },
		{ HEALTH_ONE_IN, t->sampler.one_in },
		{ HEALTH_LAG, SECONDS(t->overload.load.lag) },
		{ HEALTH_TRIPS, (double)guard->trips },
		{ HEALTH_RESTING, guard->resting },
		{ HEALTH_COST, overhead_percent(&spent,
		    kp_cost_total(&spent.last)) / 100 },
		{ HEALTH_TRACED_CALL, t->tracing_cost.call > 0 ?
		    SECONDS(t->tracing_cost.call) : -1 },
		{ HEALTH_CLOCK_ERROR, SECONDS(t->run.error) },
		{ HEALTH_STACKS, stacks ? (double)c.taken : -1 },
		{ HEALTH_STACKS_NOT_SEEN, stacks ? (double)c.not_seen : -1 },
		{ HEALTH_STACKS_BUSY, stacks ? SECONDS(c.busy) : -1 },
	};

	memcpy(v, all, sizeof(all));
}

void
self_metrics_text(struct kp_buf *b, const struct parts *p)
{
	const struct targets *ts = p->targets;
	unsigned n = targets_count(ts);
	struct figure v[TARGETS_MAX][TARGET_METRICS];

	/* Once for each target: the requests in flight take a walk. */
	for (unsigned i = 0; i < n; i++)
		target_metrics(targets_at(ts, i), v[i]);
	health_put(b, HEALTH_UPTIME, "", "",
	    SECONDS(kp_mono_now() - p->started));
	health_put(b, HEALTH_TARGETS, "", "", n);
	health_put(b, HEALTH_NO_ROOM, "", "", (double)targets_more(ts));
	store_put_metrics(b, p->store);
	push_put_metrics(b, p->push);
	for (int m = 0; m < TARGET_METRICS; m++)
		for (unsigned i = 0; i < n; i++)
			if (v[i][m].value >= 0)
				health_put(b, v[i][m].which,
				    targets_at(ts, i)->node, "",
				    v[i][m].value);
}
