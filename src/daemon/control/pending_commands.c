/*
 * pending_commands.c - keeps a table of waiting clients, collects the outcome on
 * each target, and answers a client when the last one is in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/pending_commands.h"

/* LATER: the target will do it when it is attached again. */
enum outcome { DONE, LATER, FAILED };

struct result {
	enum outcome how;
	char text[700];		/* if not DONE: why */
};

struct wait {
	uint64_t client;
	enum wait_for want;
	bool busy;
	unsigned n, left;	/* targets, and those without an outcome */
	unsigned failed;
	char later[1024], bad[1024];	/* the first text of each; "": none */
	struct {
		const struct target *t;	/* NULL: its outcome is in */
		uint64_t number;	/* of agent_clear_tokens() */
	} v[TARGETS_MAX];
};

struct pending {
	const struct parts *p;
	struct wait v[CONTROL_CLIENTS_MAX];
};

static void
not_attached(struct result *r, enum wait_for want)
{
	r->how = want == WAIT_CLEARED ? FAILED : LATER;
	if (want == WAIT_CLEARED)
		snprintf(r->text, sizeof(r->text), "the connection to the "
		    "target was lost before it said that it was done");
	else
		snprintf(r->text, sizeof(r->text), "not attached to the target "
		    "just now (kprof status): it will %s as soon as it is",
		    want == WAIT_PAUSED ? "pause" : "measure");
}

/* Is state s an outcome for a client that wants this? */
static bool
result_of(struct result *r, enum wait_for want, const struct target *t,
    enum agent_state s, const char *text)
{
	switch (s) {
	case AGENT_PAUSED:
		r->how = DONE;
		return want == WAIT_PAUSED;
	case AGENT_ARMED:
		r->how = DONE;
		return want == WAIT_RESUMED;
	case AGENT_TRIPPED:
		r->how = FAILED;
		snprintf(r->text, sizeof(r->text), "it was overloaded again: "
		    "%s; it resumes by itself", text);
		return want == WAIT_RESUMED;
	case AGENT_CONNECTING:
	case AGENT_LOST:
		not_attached(r, want);
		return true;
	case AGENT_STOPPING:
	case AGENT_ENDED:
		r->how = FAILED;
		snprintf(r->text, sizeof(r->text), "%s%s%s",
		    t->in_set.sources == 0 ? "it is no longer a target" :
		    "kprofd is ending", text[0] != '\0' ? ": " : "", text);
		return true;
	default:
		return false;
	}
}

/* Answers when all outcomes are in: of one target its text, of several a sum. */
static void
wait_end(const struct pending *w, struct wait *o)
{
	static const char *const done[] = { "paused", "resumed",
		"tokens cleared" };
	struct control_client *c = control_client_get(w->p->control, o->client);
	bool ok = o->failed == 0;
	const char *why = ok ? o->later : o->bad;
	char text[1200];

	o->busy = false;
	if (c == NULL)
		return;
	if (o->n == 1)
		snprintf(text, sizeof(text), "%s%s", why[0] != '\0' ? why :
		    done[o->want], ok ? "\n" : "");
	else if (ok)
		snprintf(text, sizeof(text), "%s on %u targets%s%s\n",
		    done[o->want], o->n, why[0] != '\0' ? "; " : "", why);
	else
		snprintf(text, sizeof(text), "%s on %u of %u targets; %s",
		    done[o->want], o->n - o->failed, o->n, why);
	control_answer(c, ok, text, strlen(text));
}

/* Takes the outcome on the i-th target. */
static void
wait_take(const struct pending *w, struct wait *o, unsigned i,
    const struct result *r)
{
	const struct target *t = o->v[i].t;
	char *to = r->how == FAILED ? o->bad : o->later;

	o->v[i].t = NULL;
	o->left--;
	o->failed += r->how == FAILED;
	if (r->how != DONE && to[0] == '\0') {
		if (o->n == 1)
			snprintf(to, sizeof(o->bad), "%s", r->text);
		else
			snprintf(to, sizeof(o->bad), "'%s': %s", t->node,
			    r->text);
	}
	if (o->left == 0)
		wait_end(w, o);
}

/* A client that has gone leaves its place. */
static struct wait *
free_place(struct pending *w)
{
	for (struct wait *o = w->v; o < w->v + CONTROL_CLIENTS_MAX; o++)
		if (!o->busy ||
		    control_client_get(w->p->control, o->client) == NULL)
			return o;
	return NULL;
}

void
pending_add(struct pending *w, struct control_client *c, enum wait_for want,
    struct target *const *v, const uint64_t *numbers, unsigned n)
{
	static const char busy[] = "too many wait already";
	const struct result away = { FAILED, "not attached to the target just "
	    "now (kprof status)" };
	struct wait *o = free_place(w);
	struct result r;

	if (o == NULL) {
		control_answer(c, false, busy, strlen(busy));
		return;
	}
	*o = (struct wait){ .client = control_client_id(c), .want = want,
		.busy = true, .n = n, .left = n };
	for (unsigned i = 0; i < n; i++) {
		o->v[i].t = v[i];
		o->v[i].number = numbers[i];
	}
	for (unsigned i = 0; i < n; i++)
		if (want == WAIT_CLEARED && numbers[i] == 0)
			wait_take(w, o, i, &away);
		else if (result_of(&r, want, v[i], agent_state(v[i]->agent),
		    ""))
			wait_take(w, o, i, &r);
}

void
pending_state(struct pending *w, const struct target *t, enum agent_state s,
    const char *text)
{
	struct result r;

	for (struct wait *o = w->v; o < w->v + CONTROL_CLIENTS_MAX; o++)
		for (unsigned i = 0; o->busy && i < o->n; i++)
			if (o->v[i].t == t &&
			    result_of(&r, o->want, t, s, text))
				wait_take(w, o, i, &r);
}

void
pending_cleared(struct target *t, uint64_t number)
{
	struct pending *w = t->p->pending;
	const struct result done = { .how = DONE };

	for (struct wait *o = w->v; o < w->v + CONTROL_CLIENTS_MAX; o++)
		for (unsigned i = 0; o->busy && i < o->n; i++)
			if (o->v[i].t == t && o->want == WAIT_CLEARED &&
			    o->v[i].number == number)
				wait_take(w, o, i, &done);
}

struct pending *
pending_new(const struct parts *p)
{
	struct pending *w = calloc(1, sizeof(*w));

	if (w != NULL)
		w->p = p;
	return w;
}

void
pending_free(struct pending *w)
{
	free(w);
}
