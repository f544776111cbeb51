/*
 * progress.c - logs the lines at the start and at the end of a run; and, once
 * each, why the first minute has no figures: no target is attached, no entry is
 * called, or none of its calls returns.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/nodes/targets.h"
#include "daemon/progress.h"
#include "daemon/health.h"
#include "kprofd/fn_name.h"
#include "report/advice.h"
#include "report/losses.h"
#include "text/text.h"

#define ENTRIES_NAMED 3
#define ENTRIES_MAX 700		/* bytes of their text */
#define WHERE_AFTER (2 * KP_NS_PER_S)	/* for other targets to attach */
#define PATIENCE (10 * KP_NS_PER_S)	/* before a hint */
#define HINT_MAX 4200	/* " -db " and a path */

/* What kprof needs to find the database: " -db FILE"; "": nothing. */
static const char *
db_option(char *buf, const char *db)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@%+=:,";
	const char *quote = db[strspn(db, plain)] != '\0' ? "'" : "";

	buf[0] = '\0';
	if (strcmp(db, DB_NAME) != 0)
		snprintf(buf, HINT_MAX, " -db %s%s%s", quote, db, quote);
	return buf;
}

/* ---- the start ---- */

/* The entries of a plan, such as "entry a:b/1". */
static void
put_entries(const struct kp_plan *plan, char text[ENTRIES_MAX])
{
	unsigned found = 0;
	struct kp_buf b;

	kp_buf_init(&b, KP_PLAN_MAX * FN_NAME_MAX);
	for (size_t i = 0; i < plan->n; i++) {
		if (!plan->v[i].entry)
			continue;
		if (found < ENTRIES_NAMED) {
			kp_buf_str(&b, found > 0 ? ", " : "");
			fn_name_put(&b, plan->v[i].mod, plan->v[i].fun,
			    plan->v[i].arity);
		}
		found++;
	}
	snprintf(text, ENTRIES_MAX, "%s %s", found == 1 ? "entry" : "entries",
	    kp_buf_cstr(&b));
	if (found > ENTRIES_NAMED && strlen(text) < ENTRIES_MAX)
		snprintf(text + strlen(text), ENTRIES_MAX - strlen(text), " and %u more",
		    found - ENTRIES_NAMED);
	kp_buf_free(&b);
}

static void
log_profiling(const struct target *t)
{
	const struct kp_plan *plan = agent_plan(t->agent);
	struct log_entry e = { .level = LOG_LEVEL_INFO, .event = "armed",
		.target = t->node, .fields = {
			{ .key = "otp", .number = t->hello.otp },
			{ .key = "functions" } } };
	char functions[TEXT_MAX], entries[ENTRIES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < plan->n; i++)
		n += !plan->v[i].disarmed && !plan->v[i].clears;
	e.fields[1].number = (int64_t)n;
	put_entries(plan, entries);
	log_put(&e, "profiling %s (OTP %d): %s, %s", t->node, t->hello.otp,
	    text_counted(functions, n, "function"), entries);
}

/* Will no other target say soon that it is profiled? */
static bool
is_settled(const struct targets *ts)
{
	const struct target *t;

	for (unsigned i = 0; i < targets_count(ts); i++) {
		t = targets_at(ts, i);
		if (!t->was_armed && !t->in_set.tried && !t->in_set.over)
			return false;
	}
	return true;
}

static void
log_where(struct progress *g, const struct parts *p)
{
	char option[HINT_MAX], in[TEXT_MAX];

	if (g->began == 0 || g->logged_where || (!is_settled(p->targets) &&
	    kp_mono_now() - g->began < WHERE_AFTER))
		return;
	g->logged_where = true;
	db_option(option, p->o->db);
	log_info("writing", NULL, "writing %s; first figures in %s. Look: "
	    "kprof report%s, kprof top%s", p->o->db, text_about(in,
	    p->o->interval), option, option);
}

/* ---- hints ---- */

static void
hint_absent(struct progress *g, const struct parts *p)
{
	char text[ADVICE_MAX];

	if (g->began != 0 || g->logged_absent ||
	    kp_mono_now() - p->started < PATIENCE)
		return;
	g->logged_absent = true;
	advice_absent(text, sizeof(text));
	log_warn("hint", NULL, "%s", text);
}

/* Has a call of any entry been counted? */
static bool
any_called(const struct targets *ts)
{
	for (unsigned i = 0; i < targets_count(ts); i++)
		if (targets_at(ts, i)->status.entry_calls > 0 ||
		    targets_at(ts, i)->run.requests_ever > 0)
			return true;
	return false;
}

static void
hint_uncalled(struct progress *g, const struct parts *p)
{
	const struct target *t;
	char entries[ENTRIES_MAX], text[ADVICE_MAX];

	if (g->began == 0 || g->logged_uncalled ||
	    kp_mono_now() - g->began < PATIENCE)
		return;
	/* checked once only */
	g->logged_uncalled = true;
	if (any_called(p->targets))
		return;
	for (unsigned i = 0; i < targets_count(p->targets); i++) {
		t = targets_at(p->targets, i);
		if (agent_state(t->agent) != AGENT_ARMED)
			continue;
		put_entries(agent_plan(t->agent), entries);
		advice_uncalled(text, sizeof(text), entries, t->node);
		log_warn("hint", t->node, "%s: %s", t->node, text);
		return;
	}
}

/* Calls of entries were seen, and no request has ended. */
static void
hint_endless(struct target *t, kp_mono_ns now)
{
	uint64_t calls = kp_requests_entries(t->run.conf_run->rs, t->run.slot);
	char entries[ENTRIES_MAX], text[ADVICE_MAX];

	if (t->run.ended_ever > 0 || calls == 0 ||
	    agent_state(t->agent) != AGENT_ARMED) {
		t->endless_since = 0;
		return;
	}
	if (t->endless_since == 0)
		t->endless_since = now;
	if (t->logged_endless || now - t->endless_since < PATIENCE)
		return;
	t->logged_endless = true;
	put_entries(agent_plan(t->agent), entries);
	advice_endless(text, sizeof(text), calls, entries);
	log_warn("hint", t->node, "%s: %s", t->node, text);
}

/* ---- while it runs ---- */

void
progress_armed(struct progress *g, struct target *t)
{
	if (g->began == 0)
		g->began = kp_mono_now();
	log_profiling(t);
	log_where(g, t->p);
}

void
progress_tick(struct progress *g, const struct parts *p)
{
	kp_mono_ns now = kp_mono_now();

	log_where(g, p);
	hint_absent(g, p);
	hint_uncalled(g, p);
	for (unsigned i = 0; i < targets_count(p->targets); i++)
		hint_endless(targets_at(p->targets, i), now);
}

static void
log_window(const struct progress *g, const struct target *t,
    const struct kp_window *w)
{
	int64_t requests = (int64_t)w->sampled;
	int64_t in_flight = (int64_t)kp_requests_running(t->run.conf_run->rs,
	    t->run.slot);
	int64_t ms = (w->end - w->start) / KP_NS_PER_MS;
	char n[TEXT_MAX];
	const char *node = targets_node_name(t);
	const struct log_entry e = { .event = "window",
		.target = t->node,
		.level = g->tty ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
		.fields = { { .key = "requests", .number = requests },
			{ .key = "ms", .number = ms },
			{ .key = "in_flight", .number = in_flight } } };

	log_put(&e, "%s%s%s in the last %.0f s, %" PRId64 " in flight",
	    node != NULL ? node : "", node != NULL ? ": " : "",
	    text_counted(n, w->sampled, "request"), (double)ms / 1e3,
	    in_flight);
}

void
progress_window(struct progress *g, const struct target *t,
    const struct kp_window *w)
{
	g->measured += w->sampled;
	g->calls += w->entry_calls;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		g->lost.n[i] += w->losses.n[i];
	if (agent_state(t->agent) == AGENT_ARMED)
		log_window(g, t, w);
}

/* ---- the end ---- */

/* Requests weigh more than times, and these more than single events. */
static int
rank(enum kp_loss cause)
{
	const char *unit = kp_loss_unit(cause);

	return strcmp(unit, "requests") == 0 ? 2 : strcmp(unit, "ms") == 0;
}

/* Sampling is meant, and what runs at the end has to end somewhere. */
static bool
is_expected(enum kp_loss cause)
{
	return cause == KP_LOSS_SAMPLED_OUT || cause == KP_LOSS_TIMED ||
	    cause == KP_LOSS_RUNNING || cause == KP_LOSS_RUNNING_CALLS || cause == KP_LOSS_WITH_REQUEST;
}

static void
put_nothing_lost(struct kp_buf *b, uint64_t running)
{
	char count[TEXT_MAX];

	kp_buf_str(b, "nothing lost");
	if (running > 0)
		kp_buf_printf(b, " (%s still running)",
		    text_counted(count, running, "request"));
}

/* Writes the worst loss, and how many others there are. */
static void
put_losses(struct kp_buf *b, const struct kp_losses *l)
{
	int worst = -1, kinds = 0;

	for (int i = 0; i < KP_LOSS_COUNT; i++) {
		if (l->n[i] == 0 || is_expected(i))
			continue;
		kinds++;
		if (worst < 0 || rank(i) > rank(worst) ||
		    (rank(i) == rank(worst) && l->n[i] > l->n[worst]))
			worst = i;
	}
	if (worst < 0) {
		put_nothing_lost(b, l->n[KP_LOSS_RUNNING]);
		return;
	}
	losses_put(b, worst, l->n[worst]);
	if (kinds > 1)
		kp_buf_printf(b, ", and %d other %s", kinds - 1,
		    kinds == 2 ? "loss" : "losses");
}

void
progress_done(const struct progress *g, const struct parts *p)
{
	kp_dur_ns lasted = kp_mono_now() - g->began;
	const struct log_entry e = { .level = LOG_LEVEL_INFO, .event = "done",
		.fields = { { .key = "requests",
			.number = (int64_t)g->measured },
			{ .key = "ms", .number = lasted / KP_NS_PER_MS } } };
	char option[HINT_MAX], in[TEXT_MAX], n[TEXT_MAX];
	char of[TEXT_MAX], calls[TEXT_MAX];
	struct kp_buf lost;

	if (g->began == 0) {
		log_info("done", NULL, "done: no target was attached, and "
		    "nothing was measured");
		return;
	}
	of[0] = '\0';
	if (g->lost.n[KP_LOSS_SAMPLED_OUT] > 0)
		snprintf(of, sizeof(of), " sampled of %.20s",
		    text_count(calls, g->calls));
	kp_buf_init(&lost, 1024);
	put_losses(&lost, &g->lost);
	if (kp_store_dropped(&g->store) > 0) {
		kp_buf_printf(&lost, "; not in %s: ", p->o->db);
		store_put_dropped(&lost, &g->store);
	}
	log_put(&e, "done: %s%s in %s, %s. See: kprof report%s",
	    text_counted(n, g->measured, "request"), of,
	    text_about(in, lasted), kp_buf_cstr(&lost),
	    db_option(option, p->o->db));
	kp_buf_free(&lost);
}
