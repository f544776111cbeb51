/*
 * flight_stacks.c - keeps a table of waiting clients, and what the targets have
 * answered so far.
 *
 * The list is of the moment when the processes were asked.  An answer comes some
 * ms later, by way of the agent and thus behind the events of that time, which
 * show whether the process was still in the call that the list names: a busy one
 * is in the next request by then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/control/flight_stacks.h"
#include "daemon/control/status.h"
#include "daemon/nodes/targets.h"

#define ANSWER_MAX (1u << 20)	/* bytes: kprof takes no more */

/* What is asked for one client. */
struct flight_stacks {
	struct flight_asks *all;
	uint64_t client;
	bool busy, json;
	char glob[CONTROL_LINE_MAX];	/* several; "": all nodes */
	struct event *late;
	unsigned left;		/* targets that have not answered */
	struct {
		struct target *t;
		uint64_t number;	/* of agent_ask_stacks(); 0: answered */
		uint32_t n;
		uint64_t pid[AGENT_STACKS_MAX];
	} *v;			/* owned, while busy; TARGETS_MAX */
	unsigned n;
	struct kp_stack_table *table;	/* owned, while busy; so is list */
	struct flights *list;
};

struct flight_asks {
	const struct parts *p;
	struct flight_stacks v[CONTROL_CLIENTS_MAX];
};

/* ---- what was answered ---- */

uint32_t
flight_stack_depth(const struct flight_stacks *s, uint32_t stack)
{
	uint32_t n;

	kp_stack_frames(s->table, stack, &n);
	return n;
}

const char *
flight_stack_frame(const struct flight_stacks *s, uint32_t stack, uint32_t i,
    char *buf, size_t size)
{
	uint32_t n;
	const struct kp_stack_frame *v = kp_stack_frames(s->table, stack, &n);

	if (v[i].line == 0)
		snprintf(buf, size, "%s", kp_stack_fn(s->table, v[i].fn));
	else
		snprintf(buf, size, "%s:%u", kp_stack_fn(s->table, v[i].fn),
		    v[i].line);
	return buf;
}

/* Why requests of this target may be missing or have no stack; or NULL. */
static const char *
trouble(const struct flight_stacks *s, const struct target *t)
{
	enum agent_state st = agent_state(t->agent);

	for (unsigned i = 0; i < s->n; i++)
		if (s->v[i].t == t && s->v[i].number != 0)
			return "it did not answer within 2 s";
	return st == AGENT_ARMED ? NULL : st == AGENT_PAUSED ? "tracing is off "
	    "there: paused, so new requests are not seen" : st == AGENT_TRIPPED ?
	    "tracing is off there: it was overloaded, so new requests are not "
	    "seen" : "it is not attached or not armed now";
}

static void
each_trouble(const struct flight_stacks *s, struct kp_buf *b, struct json *j)
{
	const struct targets *ts = s->all->p->targets;
	const struct target *t;
	const char *why;
	char text[600];

	for (unsigned i = 0; i < targets_count(ts); i++) {
		t = targets_at(ts, i);
		why = t->in_set.over || (s->glob[0] != '\0' &&
		    !kp_globs(s->glob, t->node)) ? NULL : trouble(s, t);
		if (why == NULL)
			continue;
		snprintf(text, sizeof(text), "'%s': %s", t->node, why);
		if (j != NULL)
			json_string(j, NULL, text);
		else
			kp_buf_printf(b, "%s\n", text);
	}
}

void
flight_stacks_notes(const struct flight_stacks *s, struct kp_buf *b)
{
	each_trouble(s, b, NULL);
}

void
flight_stacks_json(const struct flight_stacks *s, struct json *j)
{
	json_array(j, "notes");
	each_trouble(s, NULL, j);
	json_end(j);
}

/* ---- clients ---- */

static void
stacks_free(struct flight_stacks *s)
{
	if (s->late != NULL)
		event_del(s->late);
	kp_stack_table_free(s->table);
	flights_free(s->list);
	free(s->v);
	s->table = NULL;
	s->list = NULL;
	s->v = NULL;
	s->busy = false;
}

static void
stacks_end(struct flight_stacks *s)
{
	struct control_client *c = control_client_get(s->all->p->control,
	    s->client);
	struct kp_buf b;

	if (c != NULL) {
		kp_buf_init(&b, ANSWER_MAX);
		flights_text(&b, s->list, s->json, s);
		control_answer(c, b.err == KP_OK, (const char *)b.p, b.len);
		kp_buf_free(&b);
	}
	stacks_free(s);
}

static void
on_late(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	stacks_end(ctx);
}

/* Notes a process that is to be asked. */
static void
on_process(void *ctx, struct target *t, uint64_t pid)
{
	struct flight_stacks *s = ctx;
	unsigned i = 0;

	while (i < s->n && s->v[i].t != t)
		i++;
	if (i == TARGETS_MAX)
		return;
	if (i == s->n)
		s->v[s->n++].t = t;
	for (uint32_t k = 0; k < s->v[i].n; k++)
		if (s->v[i].pid[k] == pid)
			return;
	if (s->v[i].n < AGENT_STACKS_MAX)
		s->v[i].pid[s->v[i].n++] = pid;
}

static struct flight_stacks *
free_place(struct flight_asks *fa)
{
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		if (!fa->v[i].busy)
			return &fa->v[i];
	return NULL;
}

void
flight_asks_add(struct flight_asks *fa, struct control_client *c,
    const char *glob, bool json, struct flights *fs)
{
	static const char busy[] = "too many wait already", mem[] = "no memory";
	const struct timeval tv = { FLIGHT_STACKS_MS / 1000, 0 };
	struct flight_stacks *s = free_place(fa);

	if (s == NULL) {
		flights_free(fs);
		control_answer(c, false, busy, strlen(busy));
		return;
	}
	s->list = fs;
	s->table = kp_stack_table_new();
	s->v = calloc(TARGETS_MAX, sizeof(*s->v));
	if (s->table == NULL || s->v == NULL) {
		stacks_free(s);
		control_answer(c, false, mem, strlen(mem));
		return;
	}
	s->busy = true;
	s->json = json;
	s->client = control_client_id(c);
	snprintf(s->glob, sizeof(s->glob), "%s", glob != NULL ? glob : "");
	s->n = s->left = 0;
	flights_processes(fs, on_process, s);
	for (unsigned i = 0; i < s->n; i++)
		s->left += agent_ask_stacks(s->v[i].t->agent, s->v[i].pid,
		    s->v[i].n, &s->v[i].number) == KP_OK;
	if (s->left == 0)
		stacks_end(s);
	else
		event_add(s->late, &tv);
}

struct taking {
	struct flight_stacks *s;
	const struct target *t;
};

static void
on_sample(void *ctx, const struct kp_stack_sample *sample)
{
	const struct taking *x = ctx;

	flights_sample(x->s->list, x->t, sample);
}

static void
take(struct flight_stacks *s, const struct target *t, struct kp_span message)
{
	static const struct kp_stack_ops ops = { .on_sample = on_sample };
	struct taking x = { s, t };
	struct kp_stack_message m = { .sent_at = 0 };
	struct kp_buf b;

	kp_buf_init(&b, message.n + 1);
	kp_buf_u8(&b, 131);	/* the version of an external term */
	kp_buf_put(&b, message.p, message.n);
	if (b.err == KP_OK && kp_stacks_decode(b.p, b.len, s->table, &m, &ops,
	    &x) != KP_OK)
		agent_malformed(t->agent, "stacks");
	kp_buf_free(&b);
}

/* The i-th target has answered, or will not. */
static void
is_in(struct flight_stacks *s, unsigned i)
{
	s->v[i].number = 0;
	if (--s->left == 0)
		stacks_end(s);
}

void
flight_asks_take(struct target *t, uint64_t number, struct kp_span message)
{
	struct flight_stacks *s = t->p->flights->v;

	for (; s < t->p->flights->v + CONTROL_CLIENTS_MAX; s++)
		for (unsigned i = 0; s->busy && i < s->n; i++)
			if (s->v[i].t == t && s->v[i].number == number) {
				take(s, t, message);
				is_in(s, i);
			}
}

/* Not at once, since the target is still among the others. */
void
flight_asks_gone(struct flight_asks *fa, const struct target *t)
{
	struct flight_stacks *s = fa->v;

	for (; s < fa->v + CONTROL_CLIENTS_MAX; s++) {
		if (s->busy)
			flights_forget(s->list, t);
		for (unsigned i = 0; s->busy && i < s->n; i++)
			if (s->v[i].t == t && s->v[i].number != 0) {
				s->v[i].t = NULL;
				s->v[i].number = 0;
				if (--s->left == 0)
					event_active(s->late, EV_TIMEOUT, 0);
			}
	}
}

void
flight_asks_end(struct flight_asks *fa)
{
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
		if (fa->v[i].busy)
			stacks_end(&fa->v[i]);
}

struct flight_asks *
flight_asks_new(struct event_base *base, const struct parts *p)
{
	struct flight_asks *fa = calloc(1, sizeof(*fa));

	if (fa == NULL)
		return NULL;
	fa->p = p;
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		fa->v[i].all = fa;
		fa->v[i].late = evtimer_new(base, on_late, &fa->v[i]);
		if (fa->v[i].late == NULL) {
			flight_asks_free(fa);
			return NULL;
		}
	}
	return fa;
}

void
flight_asks_free(struct flight_asks *fa)
{
	if (fa == NULL)
		return;
	for (int i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		stacks_free(&fa->v[i]);
		if (fa->v[i].late != NULL)
			event_free(fa->v[i].late);
	}
	free(fa);
}
