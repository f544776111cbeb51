/*
 * targets_set.c - finds, counts and renames targets, and records events that concern
 * all.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/nodes/target_events.h"
#include "daemon/nodes/targets_internal.h"

unsigned
targets_count(const struct targets *ts)
{
	return ts->n;
}

struct target *
targets_at(const struct targets *ts, unsigned i)
{
	return ts->v[i];
}

bool
targets_several(const struct targets *ts)
{
	return ts->n > 1 || ts->p->o->seed != NULL ||
	    ts->p->o->target_file != NULL;
}

unsigned
targets_armed(const struct targets *ts)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ts->n; i++)
		n += agent_state(ts->v[i]->agent) == AGENT_ARMED;
	return n;
}

size_t
targets_more(const struct targets *ts)
{
	return ts->more_file + ts->more_cluster;
}

bool
targets_began(const struct targets *ts)
{
	return ts->armed_ever || ts->waits;
}

bool
targets_reached(const struct targets *ts)
{
	const struct target *t;
	bool reached = targets_began(ts);

	for (unsigned i = 0; i < ts->n && !reached; i++) {
		t = ts->v[i];
		log_error("failed", t->node, "'%s' was not reached in that "
		    "time: %s%s%s", t->node,
		    agent_state_name(agent_state(t->agent)),
		    t->state_text[0] != '\0' ? ": " : "", t->state_text);
	}
	return reached;
}

void
targets_pause_new(struct targets *ts, bool paused)
{
	ts->paused = paused;
}

void
targets_record(struct targets *ts, const char *kind, const char *text)
{
	struct kp_happening h = { .at = kp_wall_now(), .node = "",
		.kind = kind };

	if (ts->n == 1 && !targets_several(ts)) {
		target_record(ts->v[0], kind, text);
		return;
	}
	snprintf(h.text, sizeof(h.text), "%s", text);
	if (ts->p->store != NULL)
		kp_store_happening(ts->p->store, &h);
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

struct target *
targets_find(const struct targets *ts, const char *name)
{
	for (unsigned i = 0; i < ts->n; i++)
		if (target_is(ts->v[i], name))
			return ts->v[i];
	return NULL;
}
