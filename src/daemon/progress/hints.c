/*
 * hints.c - logs, once each, why the first minute has no figures: no target is
 * attached, no entry is called, or none of its calls returns.
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/log.h"
#include "daemon/progress/progress.h"
#include "daemon/nodes/targets.h"
#include "report/advice.h"

#define PATIENCE (10 * KP_NS_PER_S)
#define HINT(what, ...) log_put(&(struct log_entry){ \
	.level = LOG_LEVEL_WARNING, .event = "hint", .target = (what) }, \
	__VA_ARGS__)

static void
hint_absent(struct progress *g, const struct parts *p)
{
	char text[ADVICE_MAX];

	if (g->began != 0 || g->logged_absent ||
	    kp_mono_now() - p->started < PATIENCE)
		return;
	g->logged_absent = true;
	advice_absent(text, sizeof(text));
	HINT(NULL, "%s", text);
}

/* Has a call of any entry been counted? */
static bool
any_called(const struct targets *ts)
{
	for (unsigned i = 0; i < targets_count(ts); i++)
		if (targets_at(ts, i)->status.entry_calls > 0 ||
		    targets_at(ts, i)->part.requests_ever > 0)
			return true;
	return false;
}

static void
hint_uncalled(struct progress *g, const struct parts *p)
{
	const struct target *t;
	char entries[700], text[ADVICE_MAX];

	if (g->began == 0 || g->logged_uncalled ||
	    kp_mono_now() - g->began < PATIENCE)
		return;
	/* said or not, the first seconds are over */
	g->logged_uncalled = true;
	if (any_called(p->targets))
		return;
	for (unsigned i = 0; i < targets_count(p->targets); i++) {
		t = targets_at(p->targets, i);
		if (agent_state(t->agent) != AGENT_ARMED)
			continue;
		progress_entries(agent_plan(t->agent), entries,
		    sizeof(entries));
		advice_uncalled(text, sizeof(text), entries, t->node);
		HINT(t->node, "%s: %s", t->node, text);
		return;
	}
}

/* Calls of entries were seen, and no request has ended. */
static void
hint_endless(struct target *t, kp_mono_ns now)
{
	uint64_t calls = kp_requests_entries(t->part.in->rs, t->part.index);
	char entries[700], text[ADVICE_MAX];

	if (t->part.ended_ever > 0 || calls == 0 ||
	    agent_state(t->agent) != AGENT_ARMED) {
		t->endless_since = 0;
		return;
	}
	if (t->endless_since == 0)
		t->endless_since = now;
	if (t->logged_endless || now - t->endless_since < PATIENCE)
		return;
	t->logged_endless = true;
	progress_entries(agent_plan(t->agent), entries, sizeof(entries));
	advice_endless(text, sizeof(text), calls, entries);
	HINT(t->node, "%s: %s", t->node, text);
}

void
progress_hints(struct progress *g, const struct parts *p)
{
	kp_mono_ns now = kp_mono_now();

	hint_absent(g, p);
	hint_uncalled(g, p);
	for (unsigned i = 0; i < targets_count(p->targets); i++)
		hint_endless(targets_at(p->targets, i), now);
}
