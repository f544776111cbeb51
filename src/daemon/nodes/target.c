/*
 * target.c - has the batches of a target's agent decoded and gives the events to the
 * requests, keeps its windows and its losses, and reacts to its state.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "conn/channel.h"
#include "daemon/check/check.h"
#include "daemon/control/reload.h"
#include "daemon/log.h"
#include "daemon/nodes/slices.h"
#include "daemon/nodes/target.h"
#include "daemon/nodes/targets.h"
#include "kprofd/fn_name.h"
#include "kprofd/native.h"
#include "text/text.h"

/* The largest count of a window, so that sums of windows fit SQL's integers. */
#define FIGURE_MAX (UINT64_C(1) << 40)

/* The consequence of having no native probe. */
#define WITH_RELAY "how calls end is seen in exact tiers alone: "

/* Decoded at once, so that kp_requests_events() can fetch memory ahead.  22 KiB. */
#define EVENTS_AT_ONCE 128

/* ---- what is logged, and stored as an event ---- */

/* A token bucket that counts what it turns away. */
bool
rate_limit_may(struct rate_limit *h, kp_mono_ns now)
{
	int64_t more = (now - h->at) / (KP_NS_PER_S / RATE_LIMIT_A_SECOND);

	if (more >= h->spent) {
		h->spent = 0;
		h->at = now;
	} else if (more > 0) {
		h->spent -= (uint32_t)more;
		h->at += more * (KP_NS_PER_S / RATE_LIMIT_A_SECOND);
	}
	if (h->spent == RATE_LIMIT_BURST) {
		h->skipped++;
		return false;
	}
	h->spent++;
	return true;
}

uint64_t
rate_limit_take(struct rate_limit *h)
{
	uint64_t n = h->skipped;

	h->skipped = 0;
	return n;
}

/*
 * The name of a target that was never attached may not be a node's: it goes into
 * the text.
 */
static void
record(struct target *t, const char *kind, const char *text, kp_dur_ns ago)
{
	bool known = t->hello.otp != 0;
	struct kp_happening h = { .at = kp_wall_now() - ago,
		.node = known ? t->node : "", .kind = kind };
	struct kp_buf b;
	const char *clean;

	if (t->p->store == NULL)
		return;
	kp_buf_init(&b, 16 * sizeof(h.text));
	if (!known && strstr(text, t->node) == NULL)
		kp_buf_printf(&b, "'%s'%s", t->node,
		    text[0] != '\0' ? ": " : "");
	text_put_n(&b, text, strnlen(text, sizeof(h.text)));
	clean = kp_buf_cstr(&b);
	memcpy(h.text, clean, utf8_fit(clean, b.len, sizeof(h.text) - 1));
	kp_buf_free(&b);
	kp_store_happening(t->p->store, &h);
}

void
target_record(struct target *t, const char *kind, const char *text)
{
	record(t, kind, text, 0);
}

/*
 * "trip", "rest": whole sentences.  "modules", "loads": nodes that load code on
 * demand do that all the time, so no warning.
 */
static void
report(struct target *t, const char *kind, const char *text, kp_dur_ns ago)
{
	if (!rate_limit_may(&t->rate_limit, kp_mono_now()))
		return;
	if (strcmp(kind, "trip") == 0 || strcmp(kind, "rest") == 0)
		log_warn(kind, t->node, "%s: %s", t->node, text);
	else if (strcmp(kind, "modules") == 0 || strcmp(kind, "loads") == 0 ||
	    strcmp(kind, "changed") == 0)
		log_info(kind, t->node, "'%s': %s: %s", t->node,
		    kind, text);
	else
		log_warn(kind, t->node, "'%s': %s: %s", t->node,
		    kind, text);
	record(t, kind, text, ago);
}

void
target_report(struct target *t, const char *kind, const char *text)
{
	report(t, kind, text, 0);
}

static void
report_suppressed(struct target *t)
{
	uint64_t n = rate_limit_take(&t->rate_limit);
	char text[100], count[TEXT_MAX];

	if (n == 0)
		return;
	snprintf(text, sizeof(text), "not logged: %s, too many at once",
	    text_counted(count, n, "notice"));
	log_warn("hushed", t->node, "'%s': %s", t->node, text);
	target_record(t, "hushed", text);
}

/*
 * Who may answer in its place depends on the files of each connection.  A check's
 * warnings are about tiers.conf.
 */
static void
report_doubt(struct target *t)
{
	const struct channel *c = agent_channel(t->agent);
	const char *doubt = c != NULL ? c->doubt : NULL;

	if (doubt != NULL && doubt != t->doubt && t->check == NULL)
		log_warn("unverified", t->node, "'%s': unverified: %s", t->node,
		    doubt);
	t->doubt = doubt;
}

/* ---- what kp_requests finds ---- */

void
target_on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn)
{
	struct target *t = node_run_target(ctx, node);
	char name[FN_NAME_MAX], text[512];

	snprintf(text, sizeof(text), "%.200s never returns, as far as is seen: "
	    "no longer traced (if it is a server's loop, name the function "
	    "that it calls for each request%s)",
	    fn_shown(name, sizeof(name), fn->text), t->native ? "" :
	    "; if exceptions end it, mark it exact or use -probe native");
	target_report(t, "runaway", text);
	agent_disarm(t->agent, fn->text);
}

void
target_on_unbounded(void *ctx, uint32_t node, uint32_t line, bool label)
{
	struct target *t = node_run_target(ctx, node);
	char text[200];

	snprintf(text, sizeof(text), "%s named _other by the clause "
	    "on line %" PRIu32 " of tiers.conf: its answer is longer than %d "
	    "bytes, or nothing to name them by", label ? "labels of calls are" :
	    "requests are", line, KP_IDENT_BYTES_MAX);
	target_report(t, "identity", text);
}

static uint64_t
entries(const struct target *t)
{
	return kp_requests_entries(t->run.conf_run->rs, t->run.slot);
}

/*
 * When the target sent its last message, by our clock: time in which we were
 * stopped, or the message was in transit, counts as silence.
 */
static kp_mono_ns
silent_since(const struct target *t)
{
	kp_mono_ns now = kp_mono_now(), at;
	kp_dur_ns offset, error;

	if (t->last_sent == 0 || !kp_offset_get(&t->offset, now, &offset, &error) ||
	    __builtin_add_overflow(t->last_sent, offset, &at))
		return now;
	return at < now ? at : now;
}

/* ---- what a target lacks, by position in tiers.conf ---- */

void
unresolved_set(struct unresolved *m, const struct kp_diags *diags)
{
	size_t kept = 0;

	*m = (struct unresolved){ .known = true };
	for (size_t i = 0; i < diags->n; i++) {
		if (diags->v[i].warning)
			continue;
		kept++;
		if (m->n < KP_DIAG_MAX)
			m->v[m->n++] = diags->v[i].pos;
	}
	m->more = diags->errors > kept;
}

static bool
has(const struct unresolved *m, struct kp_pos pos)
{
	if (!m->known || m->more)
		return false;
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].line == pos.line && m->v[i].col == pos.col)
			return false;
	return true;
}

bool
unresolved_elsewhere(const struct unresolved *m,
    const struct unresolved *const *others, size_t n)
{
	bool found;

	if (m->more)
		return false;
	for (size_t i = 0; i < m->n; i++) {
		found = false;
		for (size_t j = 0; j < n && !found; j++)
			found = has(others[j], m->v[i]);
		if (!found)
			return false;
	}
	return true;
}

/* ---- what the agent reports ---- */

/*
 * A message that is sent while a connection is set up goes without its token: nobody
 * knows which requests sent one.
 */
static void
on_connected(struct target *t, const char *node)
{
	size_t n = kp_requests_running(t->run.conf_run->rs, t->run.slot);
	char text[KP_NODE_NAME_MAX + 300], count[TEXT_MAX];

	t->ledger.lost.n[KP_LOSS_CONNECTING] += n;
	snprintf(text, sizeof(text), "this node connected to %s: messages sent to "
	    "it meanwhile arrived without their request, and calls may be missing "
	    "from %s in flight", node, text_counted(count, n, "request"));
	if (n > 0)
		target_report(t, "connected", text);
	else if (rate_limit_may(&t->rate_limit, kp_mono_now()))
		target_record(t, "connected", text);
}

static kp_dur_ns
on_trip(struct target *t, const struct agent_event *e)
{
	const struct overhead *o = &t->overhead;
	const struct overload_cause c = { KP_TRIP_AGENT, e->word, e->text,
		e->limit == NULL ? "" : kp_trip_agent_usual(e->limit,
		overhead_rate(o, o->last.armed_calls),
		overhead_rate(o, o->requests)) };

	ledger_unarmed(&t->ledger, silent_since(t));
	return target_trip(t, &c);
}

/* The calls that measure tracing are of no request. */
static void
take_events(struct target *t, struct kp_event *ev, size_t n, bool paused)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (tracing_cost_wants(&t->tracing_cost, &ev[i]) &&
		    tracing_cost_event(&t->tracing_cost, &ev[i]))
			continue;
		if (paused)
			kp_requests_pass(t->run.conf_run->rs, t->run.slot,
			    &ev[i]);
		else if (ev[i].kind == KP_EV_ENTRY)
			kp_sampler_seen(&t->sampler, ev[i].weight);
		if (kept != i)
			ev[kept] = ev[i];
		kept++;
	}
	if (t->check != NULL)
		check_events(t->check, ev, kept);
	if (paused)
		return;
	kp_requests_events(t->run.conf_run->rs, t->run.slot, ev, kept);
	t->events += kept;
}

/*
 * The agent dropped events, which it may do while it is armed, as when it changes patterns on
 * a busy node: ends of requests may be among them, and what begins there next would seem to
 * be inside of these.  With slices it drops what comes between two of them, which says nothing.
 */
static void
note_dropped(struct target *t, uint64_t dropped)
{
	if (dropped > t->dropped && !target_in_slices(t))
		kp_requests_abandon(t->run.conf_run->rs, t->run.slot,
		    KP_LOSS_TRIPPED);
	t->dropped = dropped;
}

static void
on_batch(struct target *t, struct kp_span message)
{
	struct kp_batch b;
	struct kp_event ev[EVENTS_AT_ONCE];
	enum kp_err e;
	size_t have;
	/* also what comes while it is armed again: that is from before the pause */
	bool paused = agent_state(t->agent) == AGENT_TRIPPED ||
	    agent_state(t->agent) == AGENT_ARMING ||
	    t->overload.load.memory > t->overload.guard.limits.max_kprofd;

	if (kp_batch_begin(&b, message.p, message.n) != KP_OK) {
		/* the ledger will see that its number is missing */
		agent_malformed(t->agent, "a batch of events");
		return;
	}
	t->last_sent = b.sent_at;
	ledger_batch(&t->ledger, b.seq);
	note_dropped(t, b.dropped);
	t->batches++;
	do {
		have = 0;
		e = KP_OK;
		while (have < EVENTS_AT_ONCE && (e = kp_events_next(t->decoder,
		    &b, &ev[have])) == KP_OK)
			have++;
		take_events(t, ev, have, paused);
		t->lost.n[KP_LOSS_BAD_EVENT] += e == KP_ENOENT;
	} while (e == KP_OK || e == KP_ENOENT);
	if (e != KP_END) {
		t->lost.n[KP_LOSS_BAD_EVENT] += b.left + 1;
		agent_malformed(t->agent, "a batch of events");
	}
	kp_requests_close_due(t->run.conf_run->rs, t->run.slot, b.sent_at);
	mailboxes_ask(t);
	target_sample_batch(t, b.sent_at);
	target_check_overload(t, b.sent_at);
}

/* After a change of plan or probe: what events can show, and what is too hot. */
static void
apply_plan(struct target *t)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	bool all_exact = true, hot = false;

	for (size_t i = 0; i < plan->n; i++) {
		all_exact &= plan->v[i].exact;
		hot |= plan->v[i].hot;
	}
	ledger_hot(&t->ledger, hot, kp_mono_now());
	node_run_probe(&t->run, t->hello.otp, t->hello.gc_shared, t->native,
	    t->native && all_exact);
}

static void
on_probe(struct target *t, bool native, const char *why)
{
	char text[2100];

	t->native = native;
	t->relay_why[0] = '\0';
	apply_plan(t);
	if (!native)
		snprintf(t->relay_why, sizeof(t->relay_why), WITH_RELAY "%s",
		    why);
	snprintf(text, sizeof(text), "%s%s", !native ? "relay: " :
	    why != NULL ? "native: its library was sent, since " : "native",
	    !native ? t->relay_why : why != NULL ? why : "");
	if (native && why == NULL)
		log_debug("probe", t->node, "probe of '%s': %s", t->node, text);
	else if (native)
		log_info("probe", t->node, "probe of '%s': %s", t->node, text);
	else
		log_warn("probe", t->node, "probe of '%s': %s", t->node, text);
	target_record(t, "probe", text);
}

/* A node that has left keeps its slot while requests have calls on it. */
static void
find_slot(struct target *t)
{
	if (!node_run_join(&t->run) && !t->no_slot)
		target_report(t, "no_room", "requests of as many nodes as kprofd can "
		    "have are in flight: until some end, requests of this node "
		    "are not followed");
	t->no_slot = t->run.slot == KP_NONE;
}

static void
on_clock(struct target *t, kp_mono_ns sent, kp_target_ns there,
    kp_mono_ns received)
{
	kp_dur_ns offset, error;

	kp_offset_trip(&t->offset, sent, there, received);
	if (kp_offset_get(&t->offset, received, &offset, &error))
		node_run_offset(&t->run, offset, error);
}

static void
on_hello(struct target *t, const struct agent_hello *h)
{
	const struct log_entry e = { .level = LOG_LEVEL_DEBUG,
		.event = "attach", .target = t->node,
		.fields = { { .key = "otp", .number = h->otp },
			{ .key = "session", .number = h->session } } };
	char text[400];

	t->hello = *h;
	t->entry_calls_before += t->status.entry_calls;
	t->foreign_before += t->status.foreign;
	t->status = (struct agent_status){ 0 };	/* its counters start from zero */
	t->last_sent = 0;
	t->dropped = 0;
	t->tracing_cost = (struct tracing_cost){ 0 };
	servers_restart(t);
	t->overload.unreported = false;	/* what an overload cost is lost, too */
	kp_lag_reset(&t->overload.lag);
	/*
	 * The node's own name: 'app@localhost' and 'app@127.0.0.1' may be the same
	 * node, and its pids carry one name.
	 */
	if (kp_node_name_ok(h->node, strlen(h->node))) {
		node_run_rename(&t->run, h->node, &t->lost);
		t->node = t->run.node;
	}
	find_slot(t);
	ledger_restart(&t->ledger, entries(t));
	t->native = false;
	mailboxes_restart(&t->mailboxes);
	node_run_stacks_restart(&t->run);
	t->queues = (struct kp_queues){ .n = 0 };
	kp_native_restart(t->decoder, h->node);
	apply_plan(t);
	t->run.time_offset = h->time_offset;
	t->offset = (struct kp_offset){ 0 };
	t->run.timed = false;	/* it may be another VM's clock */
	snprintf(text, sizeof(text), "attached to '%s' (OTP %d, %s)", h->node,
	    h->otp, h->session ? "own trace session" : "legacy tracing");
	log_put(&e, "%s", text);
	target_record(t, "attach", text);
	report_doubt(t);
}

static void
on_status(struct target *t, const struct agent_status *st, bool last)
{
	t->run.time_offset = t->hello.time_offset = st->time_offset;
	find_slot(t);
	if (!t->overload.guard.resting)
		t->ledger.sampling |= t->sampler.one_in > 1;
	t->ledger.slices = (agent_state(t->agent) == AGENT_ARMED ||
	    agent_state(t->agent) == AGENT_STOPPING) && target_in_slices(t);
	ledger_status(&t->ledger, st, entries(t), last);
	overhead_status(&t->overhead, t->native, target_in_slices(t), entries(t),
	    &t->status, st);
	if (!last)
		target_sample_status(t, st);
	if (agent_state(t->agent) == AGENT_ARMED)
		target_recover(t, st);
	t->status = *st;
	t->last_sent = st->now;
	note_dropped(t, st->dropped);
	kp_requests_close_due(t->run.conf_run->rs, t->run.slot, st->now);
	node_run_stacks_expire(&t->run, st->now);
	target_check_overload(t, st->now);
	if (last)
		servers_end(t);
	else if (agent_state(t->agent) == AGENT_ARMED)
		servers_ask(t, KP_NS_PER_S / 2);
}

/*
 * A target that is down all night gets one line and one event.  The way out, in
 * brackets, may differ: it lists nodes.
 */
static bool
is_reported(struct target *t, const char *text)
{
	const char *brackets = strstr(text, " (");
	size_t n = brackets != NULL ? (size_t)(brackets - text) : strlen(text);

	if (n >= sizeof(t->lost_reported))
		n = sizeof(t->lost_reported) - 1;
	if (strlen(t->lost_reported) == n &&
	    memcmp(t->lost_reported, text, n) == 0)
		return true;
	memcpy(t->lost_reported, text, n);
	t->lost_reported[n] = '\0';
	return false;
}

static void
report_lost(struct target *t, const char *text)
{
	const struct log_entry e = { .level = LOG_LEVEL_WARNING,
		.event = t->was_armed ? "lost" : "absent", .target = t->node,
		.fields = { { .key = "cause", .text = text } } };

	if (is_reported(t, text))
		return;
	if (t->was_armed)
		log_put(&e, "lost '%s': %s; trying again", t->node, text);
	else
		log_put(&e, "%s; trying again", text);
	target_record(t, e.event, text);
}

/* text: why; empty after a goodbye. */
static void
ended(struct target *t, enum agent_end end, const char *text)
{
	const char *broken = NULL;
	char why[600];

	ledger_lost(&t->ledger, entries(t));
	if (end != AGENT_STOPPED) {
		kp_requests_abandon(t->run.conf_run->rs, t->run.slot,
		    KP_LOSS_DISCONNECTED);
		node_run_stacks_drop(&t->run);
		target_record(t, "failed", text);
		targets_on_ended(t, end, text);
		return;
	}
	if (t->check != NULL)
		broken = check_ended(t->check);
	if (text[0] != '\0' && t->hello.otp != 0)
		log_put(&(struct log_entry){ .level = LOG_LEVEL_WARNING,
		    .event = "detach", .target = t->node,
		    .fields = { { .key = "cause", .text = text } } },
		    "'%s' was not detached cleanly: %s (its agent leaves by "
		    "itself within 5 s)", t->node, text);
	target_record(t, "detach", text);
	if (t->unfit) {
		snprintf(why, sizeof(why), "'%s' does not fit '%s': see the "
		    "errors above", t->opts.conf_path, t->node);
		broken = why;
	}
	targets_on_ended(t, broken != NULL ? AGENT_FAILED : AGENT_STOPPED, broken);
}

static void
on_state(struct target *t, enum agent_state s, enum agent_end end, const char *text)
{
	snprintf(t->state_text, sizeof(t->state_text), "%s", text);
	log_put(&(struct log_entry){ .level = LOG_LEVEL_DEBUG,
	    .event = "state", .target = t->node,
	    .fields = { { .key = "state", .text = agent_state_name(s) } } },
	    "%s: %s %s", t->node, agent_state_name(s), text);
	switch (s) {
	case AGENT_ARMED:
		kp_guard_resumed(&t->overload.guard, kp_mono_now());
		if (t->sampler.one_in > 1)
			ledger_sampling(&t->ledger);
		ledger_armed(&t->ledger, kp_mono_now());
		if (t->run.conf_run->conf->messages && !t->native)
			mailboxes_timed(t, false, "they need the native probe "
			    "(the event probe says why it is not there)");
		t->was_armed = true;
		t->lost_reported[0] = '\0';
		target_record(t, "armed", "");
		break;
	case AGENT_PAUSED:
		log_info("paused", t->node, "'%s' is paused: tracing is off "
		    "until kprof resume", t->node);
		target_record(t, "paused", "");
		/* fallthrough */
	case AGENT_TRIPPED:
		ledger_unarmed(&t->ledger, kp_mono_now());
		kp_requests_abandon(t->run.conf_run->rs, t->run.slot,
		    KP_LOSS_TRIPPED);
		break;
	case AGENT_AWAY:
	case AGENT_LOST:
		if (s == AGENT_LOST) {
			report_lost(t, text);
		} else {
			log_info("trace", t->node, "'%s': %s", t->node, text);
			target_record(t, "trace", text);
		}
		if (t->last_sent != 0)
			ledger_left(&t->ledger, silent_since(t));
		ledger_lost(&t->ledger, entries(t));
		kp_requests_abandon(t->run.conf_run->rs, t->run.slot,
		    s == AGENT_AWAY ? KP_LOSS_TRIPPED : KP_LOSS_DISCONNECTED);
		node_run_stacks_drop(&t->run);
		break;
	default:
		break;
	}
	targets_on_state(t, s);
	daemon_on_state(t, s, text);
	if (s == AGENT_ENDED)
		ended(t, end, text);
}

/* The call rates that were measured give the first sampling rate. */
static void
on_plan(struct target *t)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	uint64_t rate = 0;
	bool measured = false;

	apply_plan(t);
	target_hot(t, false);
	for (size_t i = 0; i < plan->n; i++)
		if (plan->v[i].entry && plan->v[i].rate >= 0) {
			rate += (uint64_t)plan->v[i].rate;
			measured = true;
		}
	/* After a lost connection the rate is right already. */
	if (measured)
		target_sample_plan(t, rate);
	target_give_tokens(t);
	daemon_on_plan(t, plan);
}

static void
on_queue(void *ctx, const char *text)
{
	target_report(ctx, "mailbox", text);
}

static void
on_stacks(struct target *t, struct kp_span message)
{
	struct kp_usage *u;

	if (node_run_stacks(&t->run, message, &u) != KP_OK)
		agent_malformed(t->agent, "samples of stacks");
	else if (u != NULL)
		kp_queues_look(&t->queues, u, kp_wall_now(), on_queue, t);
}

/* What the agent reports: struct agent_event says when, and what is answered. */
static int64_t
on_agent_event(struct target *t, const struct agent_event *e)
{
	switch (e->kind) {
	case AGENT_ON_BATCH:
		on_batch(t, e->message);
		break;
	case AGENT_ON_STATE:
		on_state(t, e->state, e->end, e->text);
		break;
	case AGENT_ON_HELLO:
		on_hello(t, e->hello);
		break;
	case AGENT_ON_PROBE:
		on_probe(t, e->native, e->text);
		break;
	case AGENT_ON_UNREACHED:
		return targets_on_unreached(t);
	case AGENT_ON_MISSING:
		return targets_on_missing(t, e->diags);
	case AGENT_ON_DIAGS:
		daemon_on_diags(t, e->diags);
		break;
	case AGENT_ON_PLAN:
		on_plan(t);
		break;
	case AGENT_ON_REPLANNED:
		apply_plan(t);
		target_hot(t, true);
		break;
	case AGENT_ON_RELOADED:
		apply_plan(t);
		target_hot(t, false);
		reload_done(t, e->reloaded);
		break;
	case AGENT_ON_STACKS:
		on_stacks(t, e->message);
		break;
	case AGENT_ON_CLOCK:
		on_clock(t, e->sent, e->there, e->received);
		break;
	case AGENT_ON_STATUS:
		on_status(t, e->status, e->last);
		break;
	case AGENT_ON_CALLS:
		kp_stats_counted(t->run.stats, 0, e->entries);
		for (uint32_t i = 0; i < KP_TIER_MAX; i++)
			kp_stats_counted(t->run.stats, i + 1, e->tiers[i]);
		break;
	case AGENT_ON_MESSAGES:
		mailboxes_timed(t, e->timed, e->text);
		break;
	case AGENT_ON_REPORT:
		if (e->gap > 0)
			ledger_gap(&t->ledger, e->gap, kp_mono_now());
		report(t, e->word, e->text, e->ago);
		break;
	case AGENT_ON_CONNECTED:
		on_connected(t, e->text);
		break;
	case AGENT_ON_TRIP:
		return on_trip(t, e);
	case AGENT_ON_SLICE:
		slices_on_step(targets_slices(t->p->targets), t);
		break;
	case AGENT_ON_PAUSE_OVER:
		return target_pause_over(t);
	}
	return 0;
}

struct target *
target_new(struct event_base *base, const struct agent_opts *o,
    const struct parts *p)
{
	struct target *t = calloc(1, sizeof(*t));
	char node[KP_NODE_NAME_MAX + 1];

	if (t == NULL)
		return NULL;
	t->opts = *o;
	snprintf(t->typed, sizeof(t->typed), "%s", o->target);
	t->opts.target = t->typed;
	t->p = p;
	kp_sampler_init(&t->sampler, o->check_only ? &check_sampling :
	    &o->conf->sampling);
	kp_guard_init(&t->overload.guard, &o->conf->overload);
	t->decoder = kp_native_new();
	if (t->decoder == NULL || node_run_begin(&t->run, targets_runs(p->targets),
	    kp_node_bare(t->typed, node), t) != KP_OK) {
		kp_native_free(t->decoder);
		free(t);
		return NULL;
	}
	t->node = t->run.node;
	t->agent = agent_new(base, &t->opts, on_agent_event, t);
	if (o->check_only)
		t->check = check_new(base, t);
	if (t->agent == NULL || (o->check_only && t->check == NULL)) {
		node_run_leave(&t->run, KP_LOSS_DISCONNECTED);
		target_free(t);
		return NULL;
	}
	return t;
}

void
target_free(struct target *t)
{
	if (t == NULL)
		return;
	check_free(t->check);
	agent_free(t->agent);
	kp_native_free(t->decoder);
	node_run_end(&t->run);
	free(t);
}

bool
target_is(const struct target *t, const char *name)
{
	return kp_node_same(t->node, name) ||
	    kp_node_same(t->opts.target, name);
}

/* A thread that connects has a copy of the old one (connect.c). */
bool
target_retype(struct target *t, const char *name, bool keep)
{
	struct kp_node_at at, old;

	if (kp_node_split(name, strlen(name), &at) != NULL ||
	    (at.port == 0 && keep) ||
	    kp_node_split(t->typed, strlen(t->typed), &old) != NULL)
		return false;
	snprintf(t->typed, sizeof(t->typed), "%s", name);
	return at.port != old.port;
}

/* ---- windows ---- */

static void
bound(uint64_t *n)
{
	if (*n > FIGURE_MAX)
		*n = FIGURE_MAX;
}

/* Adds to w what the target itself knows of it. */
static void
complete(struct kp_window *w, const struct target *t, struct ledger *l,
    struct kp_cost cost)
{
	ledger_take(l, kp_mono_now(), entries(t),
	    kp_requests_undecided(t->run.conf_run->rs, t->run.slot),
	    &w->entry_calls, &w->losses);
	w->cost = cost;
	w->cost.traced_call = t->tracing_cost.call;
	w->cost.traced_caller = t->tracing_cost.caller;
	bound(&w->entry_calls);
	bound(&w->cost.events);
	bound(&w->cost.armed_calls);
	bound(&w->cost.switches);
	bound(&w->cost.sampled);
	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		w->losses.n[i] += t->lost.n[i];
		bound(&w->losses.n[i]);
	}
}

struct kp_window *
target_running(const struct target *t, struct kp_moment at)
{
	struct ledger copy = t->ledger;
	struct kp_window *w = t->hello.otp == 0 ? NULL :
	    node_run_copy(&t->run, at);

	if (w != NULL)
		complete(w, t, &copy, t->overhead.window);
	return w;
}

void
target_rotate(struct target *t, struct kp_moment at)
{
	struct kp_window *w = node_run_rotate(&t->run, at);

	if (w == NULL)
		return;	/* it began later, or there is no memory: it goes on */
	if (t->hello.otp == 0) {
		kp_window_free(w);	/* of a node that was never attached */
		return;
	}
	complete(w, t, &t->ledger, t->overhead.window);
	t->overhead.window = (struct kp_cost){ 0 };
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		t->lost_ever.n[i] += w->losses.n[i];
	t->lost = (struct kp_losses){ 0 };
	report_suppressed(t);
	t->windows++;
	daemon_on_window(t, w);
	if (t->p->store != NULL)
		kp_store_window(t->p->store, w);
	else
		kp_window_free(w);
}

/* ---- another configuration ---- */

void
target_switch(struct target *t)
{
	kp_requests_abandon(t->run.conf_run->rs, t->run.slot, KP_LOSS_RELOADED);
	node_run_stacks_drop(&t->run);
	target_rotate(t, kp_moment_now());
	ledger_recount(&t->ledger, entries(t));
	node_run_switch(&t->run);
	if (t->hello.otp != 0)
		apply_plan(t);
	target_sampling(t, &t->run.conf_run->conf->sampling);
	t->overload.guard.limits = t->run.conf_run->conf->overload;
}
