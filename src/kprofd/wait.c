/* wait.c - see the header. */
#include <stdio.h>
#include <string.h>

#include "kprofd/wait.h"

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
	    "now (kprof status): it will %s\n", want == WAIT_PAUSED ?
	    "pause as soon as it is" : "measure as soon as it is");
}

/* False: it is on its way there. */
static bool
verdict_find(struct verdict *v, enum wait_for want, enum agent_state s,
    const char *text)
{
	switch (s) {
	case AGENT_PAUSED:
	case AGENT_ARMED:
		/* The other one of them is where it starts from. */
		v->ok = want == (s == AGENT_PAUSED ? WAIT_PAUSED :
		    WAIT_RESUMED);
		snprintf(v->text, sizeof(v->text), "%s\n",
		    want == WAIT_PAUSED ? "paused" : "resumed");
		return v->ok;
	case AGENT_TRIPPED:
		v->ok = false;
		snprintf(v->text, sizeof(v->text), "it tripped again: %s; it "
		    "resumes by itself", text);
		return want == WAIT_RESUMED;
	case AGENT_CONNECTING:
	case AGENT_LOST:
		verdict_away(v, want);
		return true;
	case AGENT_STOPPING:
	case AGENT_ENDED:
		v->ok = false;
		snprintf(v->text, sizeof(v->text), "kprofd is ending%s%s",
		    text[0] != '\0' ? ": " : "", text);
		return true;
	default:
		return false;
	}
}

void
waits_add(struct waits *w, struct control *control, struct control_client *c,
    enum wait_for want, uint64_t number, enum agent_state s)
{
	static const char busy[] = "too many wait already";
	struct verdict v;

	if (verdict_find(&v, want, s, "")) {
		control_answer(c, v.ok, v.text, strlen(v.text));
		return;
	}
	for (struct wait *o = w->v; o < w->v + WAITS_MAX; o++) {
		/* Those who have gone leave their place. */
		if (o->busy && control_client_get(control, o->client) != NULL)
			continue;
		*o = (struct wait){ .client = control_client_id(c),
			.want = want, .number = number, .busy = true };
		return;
	}
	control_answer(c, false, busy, strlen(busy));
}

static void
wait_end(struct wait *o, struct control *control, bool ok, const char *text)
{
	struct control_client *c = control_client_get(control, o->client);

	o->busy = false;
	if (c != NULL)
		control_answer(c, ok, text, strlen(text));
}

void
waits_state(struct waits *w, struct control *control, enum agent_state s,
    const char *text)
{
	struct verdict v;

	for (struct wait *o = w->v; o < w->v + WAITS_MAX; o++)
		if (o->busy && verdict_find(&v, o->want, s, text))
			wait_end(o, control, v.ok, v.text);
}

void
waits_cleared(struct waits *w, struct control *control, uint64_t number)
{
	for (struct wait *o = w->v; o < w->v + WAITS_MAX; o++)
		if (o->busy && o->want == WAIT_CLEARED && o->number == number)
			wait_end(o, control, true, "tokens cleared\n");
}
