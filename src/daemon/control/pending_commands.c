/*
 * pending_commands.c - keeps a table of waiting clients, collects each target's
 * verdict, and answers a client when its last one is in.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/control/pending_commands.h"

struct verdict {
	bool ok;
	char text[700];
};

/* Away: a state is a wish for when it is back, clearing is not. */
static void
verdict_away(struct verdict *v, enum wait_for want)
{
	v->ok = want != WAIT_CLEARED;
	if (!v->ok) {
		snprintf(v->text, sizeof(v->text), "the connection to the "
		    "target was lost before it said that it was done");
		return;
	}
	snprintf(v->text, sizeof(v->text), "not attached to the target just "
	    "now (kprof status): it will %s", want == WAIT_PAUSED ?
	    "pause as soon as it is" : "measure as soon as it is");
}

static void
verdict_end(struct verdict *v, const struct target *t, const char *text)
{
	const char *what = t->in_set.sources == 0 ? "it is no longer a target" :
	    "kprofd is ending";

	v->ok = false;
	snprintf(v->text, sizeof(v->text), "%s%s%s", what,
	    text[0] != '\0' ? ": " : "", text);
}

/* False: it is on its way there. */
static bool
verdict_find(struct verdict *v, enum wait_for want, const struct target *t,
    enum agent_state s, const char *text)
{
	switch (s) {
	case AGENT_PAUSED:
	case AGENT_ARMED:
		/* The other one of them is where it starts from. */
		v->ok = want == (s == AGENT_PAUSED ? WAIT_PAUSED :
		    WAIT_RESUMED);
		snprintf(v->text, sizeof(v->text), "%s",
		    want == WAIT_PAUSED ? "paused" : "resumed");
		return v->ok;
	case AGENT_TRIPPED:
		v->ok = false;
		snprintf(v->text, sizeof(v->text), "it was overloaded again: "
		    "%s; it resumes by itself", text);
		return want == WAIT_RESUMED;
	case AGENT_CONNECTING:
	case AGENT_LOST:
		verdict_away(v, want);
		return true;
	case AGENT_STOPPING:
	case AGENT_ENDED:
		verdict_end(v, t, text);
		return true;
	default:
		return false;
	}
}

/* All have answered: one with its own words, several as a sum. */
static void
wait_end(struct wait *o, struct control *control)
{
	static const char *const done[] = { "paused", "resumed",
		"tokens cleared" };
	struct control_client *c = control_client_get(control, o->client);
	bool ok = o->good == o->n;
	char text[1200];

	o->busy = false;
	if (c == NULL)
		return;
	if (o->n == 1)
		snprintf(text, sizeof(text), "%s", ok ? o->first : o->bad);
	else if (ok)
		snprintf(text, sizeof(text), "%s on %u targets%s%s",
		    done[o->want], o->n, strcmp(o->first, done[o->want]) == 0 ?
		    "" : "; ", strcmp(o->first, done[o->want]) == 0 ? "" :
		    o->first);
	else
		snprintf(text, sizeof(text), "%s on %u of %u targets; %s",
		    done[o->want], o->good, o->n, o->bad);
	if (ok)
		strcat(text, "\n");
	control_answer(c, ok, text, strlen(text));
}

/* What one target's answer is. */
static void
wait_take(struct wait *o, unsigned i, struct control *control,
    const struct verdict *v)
{
	const struct target *t = o->v[i].t;
	bool plain = v->ok && (strcmp(v->text, "paused") == 0 ||
	    strcmp(v->text, "resumed") == 0 ||
	    strcmp(v->text, "tokens cleared") == 0);
	char *to = v->ok ? o->first : o->bad;

	o->v[i].t = NULL;
	o->left--;
	o->good += v->ok;
	/* Of several the one that is not as it should be is told. */
	if (to[0] == '\0' || (v->ok && !plain)) {
		if (o->n == 1 || plain)
			snprintf(to, sizeof(o->bad), "%s", v->text);
		else
			snprintf(to, sizeof(o->bad), "'%s': %s", t->node,
			    v->text);
	}
	if (o->left == 0)
		wait_end(o, control);
}

static struct wait *
free_place(struct pending_commands *w, struct control *control)
{
	for (struct wait *o = w->v; o < w->v + PENDING_MAX; o++)
		/* Those who have gone leave their place. */
		if (!o->busy || control_client_get(control, o->client) == NULL)
			return o;
	return NULL;
}

void
pending_add(struct pending_commands *w, struct control *control, struct control_client *c,
    enum wait_for want, struct target *const *v, const uint64_t *numbers,
    unsigned n)
{
	static const char busy[] = "too many wait already";
	struct wait *o = free_place(w, control);
	struct verdict verdict;

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
	for (unsigned i = 0; i < n; i++) {
		if (want == WAIT_CLEARED && numbers[i] == 0) {
			verdict = (struct verdict){ .ok = false };
			snprintf(verdict.text, sizeof(verdict.text), "not "
			    "attached to the target just now (kprof status)");
			wait_take(o, i, control, &verdict);
		} else if (verdict_find(&verdict, want, v[i],
		    agent_state(v[i]->agent), "")) {
			wait_take(o, i, control, &verdict);
		}
	}
}

void
pending_state(struct pending_commands *w, struct control *control, const struct target *t,
    enum agent_state s, const char *text)
{
	struct verdict v;

	for (struct wait *o = w->v; o < w->v + PENDING_MAX; o++)
		for (unsigned i = 0; o->busy && i < o->n; i++)
			if (o->v[i].t == t &&
			    verdict_find(&v, o->want, t, s, text))
				wait_take(o, i, control, &v);
}

void
pending_cleared(struct pending_commands *w, struct control *control, const struct target *t,
    uint64_t number)
{
	struct verdict v = { true, "tokens cleared" };

	for (struct wait *o = w->v; o < w->v + PENDING_MAX; o++)
		for (unsigned i = 0; o->busy && i < o->n; i++)
			if (o->v[i].t == t && o->want == WAIT_CLEARED &&
			    o->v[i].number == number)
				wait_take(o, i, control, &v);
}
