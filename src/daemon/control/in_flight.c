/*
 * in_flight.c - collects the oldest requests of the targets, sorts them by age,
 * and writes them as a table or as JSON; asks targets for the stacks of their
 * processes.
 *
 * The list is of the moment when the processes were asked.  An answer comes some
 * ms later, by way of the agent and thus behind the events of that time, which
 * show whether the process was still in the call that the list names: a busy one
 * is in the next request by then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_msg.h"
#include "base/sat.h"
#include "daemon/control/in_flight.h"
#include "daemon/nodes/node_run.h"
#include "daemon/nodes/slices.h"
#include "daemon/nodes/targets.h"
#include "kprofd/fn_name.h"
#include "kprofd/nodes.h"
#include "kprofd/stacks.h"
#include "text/grid.h"
#include "text/json.h"
#include "text/text.h"

/* A target's answers that take longer are not waited for. */
#define PATIENCE_MS 2000
/* Bytes of a frame's text: two names, arity and line. */
#define FRAME_MAX 640
#define NOTE_MAX 80

struct flying {
	struct kp_flight f;
	const struct node_run *run;
	struct target *target;	/* of the process that it is in, or NULL */
	enum {
		NOT_SEEN,	/* the process could not be asked, or has ended */
		NOT_ASKED,	/* AGENT_STACKS_MAX others of its target are */
		GONE_ON,	/* when it was asked, it had left the call */
		SEEN
	} seen;
	uint32_t stack;		/* if SEEN */
	uint8_t state;		/* enum kp_stack_state */
};

/*
 * The list is of the moment when it was made, and borrows names of the targets'
 * requests: so it forgets a target before that is freed, and does not outlive a
 * reload.
 */
struct flights {
	struct flying v[2 * KP_FLIGHT_MAX];
	size_t n, all;
	size_t most;		/* of v */
	struct kp_flight of_node[KP_FLIGHT_MAX];	/* scratch */
};

/* The questions for one client. */
struct flight_stacks {
	struct flight_asks *all;
	uint64_t client;
	bool busy, json;
	char glob[CONTROL_LINE_MAX];	/* several; "": all nodes */
	struct event *late;
	unsigned left;		/* targets that have not answered */
	struct {
		struct target *t;
		uint64_t number;	/* of the question; 0: answered */
		uint32_t n;
		bool more;	/* than are asked */
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

/* ---- the list ---- */

static int
age_cmp(const void *pa, const void *pb)
{
	const struct flying *a = pa, *b = pb;

	return a->f.age < b->f.age ? 1 : a->f.age > b->f.age ? -1 : 0;
}

static void
collect(struct flights *fs, const struct targets *ts, const char *glob)
{
	const struct target *t;
	size_t n;

	for (unsigned i = 0; i < targets_count(ts); i++) {
		t = targets_at(ts, i);
		if (glob != NULL && !kp_globs(glob, t->node))
			continue;
		fs->all += kp_requests_running(t->run.conf_run->rs,
		    t->run.slot);
		n = node_run_oldest(&t->run, fs->of_node, fs->most);
		for (size_t k = 0; k < n; k++)
			fs->v[fs->n + k] = (struct flying){
				.f = fs->of_node[k], .run = &t->run };
		fs->n += n;
		qsort(fs->v, fs->n, sizeof(fs->v[0]), age_cmp);
		if (fs->n > fs->most)
			fs->n = fs->most;
	}
}

static struct flights *
flights_new(const struct targets *ts, const struct flight_opts *o)
{
	struct flights *fs = calloc(1, sizeof(*fs));
	const struct node_run *at;
	struct flying *x;

	if (fs == NULL)
		return NULL;
	fs->most = o->rows == 0 || o->rows > KP_FLIGHT_MAX ? KP_FLIGHT_MAX : o->rows;
	collect(fs, ts, o->glob);
	for (x = fs->v; x < fs->v + fs->n; x++) {
		at = x->f.fn != KP_NONE ? x->run->conf_run->runs[x->f.node] : NULL;
		x->target = at != NULL ? at->target : NULL;
	}
	return fs;
}

/* ---- stacks of it ---- */

static uint32_t
stack_depth(const struct flight_stacks *s, const struct flying *x)
{
	uint32_t n = 0;

	if (x->seen == SEEN)
		kp_stack_frames(s->table, x->stack, &n);
	return n;
}

/* The i-th frame, from the outermost. */
static const char *
stack_frame(const struct flight_stacks *s, uint32_t stack, uint32_t i,
    char buf[FRAME_MAX])
{
	char text[FN_NAME_MAX];
	const char *name;
	uint32_t n;
	const struct kp_stack_frame *v = kp_stack_frames(s->table, stack, &n);

	name = fn_read(text, sizeof(text), kp_stack_fn(s->table, v[i].fn));
	if (v[i].line == 0)
		snprintf(buf, FRAME_MAX, "%s", name);
	else
		snprintf(buf, FRAME_MAX, "%s:%u", name, v[i].line);
	return buf;
}

/* Why requests of this target may be missing or have no stack; or NULL. */
static const char *
trouble(const struct flight_stacks *s, const struct target *t, char buf[NOTE_MAX])
{
	enum agent_state st = agent_state(t->agent);
	bool more = false;

	for (unsigned i = 0; i < s->n; i++) {
		if (s->v[i].t == t && s->v[i].number != 0)
			return "it did not answer within 2 s";
		more |= s->v[i].t == t && s->v[i].more;
	}
	if (st == AGENT_ARMED && !more &&
	    slices_in_force(targets_slices(t->p->targets)))
		return "requests are measured in slices of time: only those that "
		    "began in the last one are seen";
	if (st == AGENT_ARMED) {
		snprintf(buf, NOTE_MAX, "only %d processes were asked, those of its "
		    "oldest requests", AGENT_STACKS_MAX);
		return more ? buf : NULL;
	}
	return st == AGENT_PAUSED ? "tracing is off "
	    "there: paused, so new requests are not seen" : st == AGENT_TRIPPED ?
	    "tracing is off there: it was overloaded, so new requests are not "
	    "seen" : "it is not attached or not armed now";
}

/*
 * Writes a line for each target whose requests may not be all there, and why: to
 * b, or into j, if that is not NULL.
 */
static void
each_trouble(const struct flight_stacks *s, struct kp_buf *b, struct json *j)
{
	const struct targets *ts = s->all->p->targets;
	const struct target *t;
	const char *why;
	char text[600], buf[NOTE_MAX];

	for (unsigned i = 0; i < targets_count(ts); i++) {
		t = targets_at(ts, i);
		why = t->in_set.over || (s->glob[0] != '\0' &&
		    !kp_globs(s->glob, t->node)) ? NULL : trouble(s, t, buf);
		if (why == NULL)
			continue;
		snprintf(text, sizeof(text), "'%s': %s", t->node, why);
		if (j != NULL)
			json_string(j, NULL, text);
		else
			kp_buf_printf(b, "%s\n", text);
	}
}

/* ---- as text and as JSON ---- */

/* The i-th open call: its tier, or else its function. */
static const char *
step(const struct flying *x, unsigned i)
{
	const struct conf_run *in = x->run->conf_run;
	const struct kp_fn *fn = kp_requests_fn(in->rs, x->f.path[i]);
	const char *tier = node_run_tier(in->conf, fn);

	return tier[0] != '\0' ? tier : fn->text;
}

/* Texts of a request; they live as long as its struct kp_requests. */
struct names_of {
	const char *identity, *call, *tier, *process, *at;
	char pid[48];
};

static void
name(struct names_of *n, const struct flying *x)
{
	const struct conf_run *in = x->run->conf_run;
	const struct kp_requests *rs = in->rs;
	const struct kp_fn *fn = x->f.fn != KP_NONE ?
	    kp_requests_fn(rs, x->f.fn) : NULL;

	*n = (struct names_of){ .identity = kp_requests_identity(rs,
	    x->f.identity), .call = "", .tier = "", .process = "",
		.at = in->names[x->f.node] };
	if (fn == NULL)
		return;
	n->call = fn->text;
	n->tier = node_run_tier(in->conf, fn);
	n->process = kp_proc_text(x->f.proc, n->pid, sizeof(n->pid));
}

static void
put_stack_json(struct json *j, const struct flying *x,
    const struct flight_stacks *stacks)
{
	char frame[FRAME_MAX];
	uint32_t n = stack_depth(stacks, x);

	json_array(j, "path");
	for (unsigned i = 0; i < x->f.npath; i++)
		json_string(j, NULL, step(x, i));
	json_end(j);
	if (x->seen == SEEN)
		json_string(j, "state", kp_stack_state_name(x->state));
	else
		json_null(j, "state");
	json_array(j, "frames");
	for (uint32_t i = 0; i < n; i++)
		json_string(j, NULL, stack_frame(stacks, x->stack, i, frame));
	json_end(j);
	json_bool(j, "gone_on", x->seen == GONE_ON);
}

static void
put_json(struct kp_buf *b, const struct flights *fs,
    const struct flight_stacks *stacks)
{
	struct names_of n;
	struct json j;

	json_open(&j, b);
	json_uint(&j, "in_flight", fs->all);
	json_array(&j, "requests");
	for (size_t i = 0; i < fs->n; i++) {
		const struct kp_flight *f = &fs->v[i].f;

		name(&n, &fs->v[i]);
		json_object(&j, NULL);
		json_string(&j, "node", fs->v[i].run->node);
		json_string(&j, "identity", n.identity);
		json_ms(&j, "age_ms", f->age);
		json_uint(&j, "calls", f->ncalls);
		json_uint(&j, "weight", f->weight);
		json_string(&j, "call", n.call);
		json_string(&j, "tier", n.tier);
		json_string(&j, "process", n.process);
		json_string(&j, "at", n.at);
		json_ms(&j, "call_ms", f->fn != KP_NONE ? f->in_call : -1);
		if (stacks != NULL)
			put_stack_json(&j, &fs->v[i], stacks);
		json_end(&j);
	}
	json_end(&j);
	if (stacks != NULL) {
		json_array(&j, "notes");
		each_trouble(stacks, NULL, &j);
		json_end(&j);
	}
	json_close(&j);
}

static void
put_plain(struct kp_buf *b, const struct flights *fs)
{
	char text[TEXT_MAX], call[FN_NAME_MAX];
	struct names_of n;
	struct grid g;

	grid_init(&g);
	grid_col(&g, "age", GRID_RIGHT);
	grid_col(&g, "identity", GRID_LEFT);
	grid_col(&g, "node", GRID_LEFT);
	grid_col(&g, "is in", GRID_LEFT);
	grid_col(&g, "for", GRID_RIGHT);
	grid_col(&g, "process", GRID_LEFT);
	grid_col(&g, "on", GRID_LEFT);
	for (size_t i = 0; i < fs->n; i++) {
		const struct kp_flight *f = &fs->v[i].f;

		name(&n, &fs->v[i]);
		grid_cell(&g, text_dur(text, f->age));
		grid_cell(&g, n.identity);
		grid_cell(&g, fs->v[i].run->node);
		grid_cell(&g, n.call[0] != '\0' ?
		    fn_shown(call, sizeof(call), n.call) : "-");
		grid_cell(&g, f->fn != KP_NONE ? text_dur(text, f->in_call) :
		    "-");
		grid_cell(&g, n.process[0] != '\0' ? n.process : "-");
		grid_cell(&g, n.at);
	}
	grid_write(&g, 0, b);
	grid_free(&g);
}

/* The innermost function first, as where it is. */
static void
put_stack(struct kp_buf *b, const struct flying *x,
    const struct flight_stacks *stacks)
{
	uint32_t n = stack_depth(stacks, x);
	char text[TEXT_MAX], frame[FRAME_MAX], call[FN_NAME_MAX];
	struct names_of n_of;

	name(&n_of, x);
	kp_buf_printf(b, "%s", text_dur(text, x->f.age));
	kp_buf_printf(b, "  %s  on %s\n", n_of.identity, x->run->node);
	if (x->f.fn == KP_NONE) {
		kp_buf_printf(b, "    in no call of a tier\n\n");
		return;
	}
	kp_buf_printf(b, "    ");
	for (unsigned i = 0; i < x->f.npath; i++)
		kp_buf_printf(b, "%s%s", i > 0 ? " > " : "",
		    fn_shown(call, sizeof(call), step(x, i)));
	kp_buf_printf(b, ", for %s", text_dur(text, x->f.in_call));
	kp_buf_printf(b, "\n    process %s on %s, %s\n", n_of.process, n_of.at,
	    x->seen == SEEN ? kp_stack_state_name(x->state) : x->seen ==
	    GONE_ON ? "(had gone on)" : x->seen == NOT_ASKED ? "which was not asked" :
	    "which has ended or could not be asked");
	for (; n > 0; n--)
		kp_buf_printf(b, "        %s\n", stack_frame(stacks, x->stack,
		    n - 1, frame));
	kp_buf_printf(b, "\n");
}

/* Answers the client, if it is still there.  stacks: as answered; or NULL. */
static void
answer(struct control_client *c, const struct flights *fs, bool json,
    const struct flight_stacks *stacks)
{
	struct kp_buf b;

	if (c == NULL)
		return;
	kp_buf_init(&b, CONTROL_ANSWER_MAX);
	if (json) {
		put_json(&b, fs, stacks);
	} else {
		if (stacks == NULL)
			put_plain(&b, fs);
		for (size_t i = 0; stacks != NULL && i < fs->n; i++)
			put_stack(&b, &fs->v[i], stacks);
		if (stacks != NULL)
			each_trouble(stacks, &b, NULL);
		kp_buf_printf(&b, "%zu in flight, the oldest %zu are shown%s\n",
		    fs->all, fs->n, fs->n < fs->most || fs->n >= fs->all ? "" :
		    fs->most == KP_FLIGHT_MAX ? ", which is the most" :
		    " (see -n)");
	}
	control_answer_buf(c, &b);
}

/* ---- clients ---- */

static void
stacks_free(struct flight_stacks *s)
{
	if (s->late != NULL)
		event_del(s->late);
	kp_stack_table_free(s->table);
	free(s->list);
	free(s->v);
	s->table = NULL;
	s->list = NULL;
	s->v = NULL;
	s->busy = false;
}

static void
stacks_end(struct flight_stacks *s)
{
	answer(control_client_get(s->all->p->control, s->client), s->list,
	    s->json, s);
	stacks_free(s);
}

static void
on_late(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	stacks_end(ctx);
}

/* Notes the process of a request as one that is to be asked. */
static void
note_process(struct flight_stacks *s, struct flying *x)
{
	uint64_t pid = kp_proc_pid(x->f.proc);
	unsigned i = 0;

	while (i < s->n && s->v[i].t != x->target)
		i++;
	if (i == TARGETS_MAX)
		return;
	if (i == s->n)
		s->v[s->n++].t = x->target;
	for (uint32_t k = 0; k < s->v[i].n; k++)
		if (s->v[i].pid[k] == pid)
			return;
	if (s->v[i].n < AGENT_STACKS_MAX) {
		s->v[i].pid[s->v[i].n++] = pid;
		return;
	}
	s->v[i].more = true;
	x->seen = NOT_ASKED;
}

/* ---- answers of targets ---- */

struct taking {
	struct flight_stacks *s;
	const struct target *t;
};

/*
 * The stack of a process, for the requests whose call it was in all the time until
 * the stack was read.  All events of then have come.
 */
static void
on_sample(void *ctx, const struct kp_stack_sample *sample)
{
	const struct taking *taking = ctx;
	struct flights *fs = taking->s->list;
	struct flying *x;

	for (x = fs->v; x < fs->v + fs->n; x++) {
		if (x->target != taking->t ||
		    kp_proc_pid(x->f.proc) != sample->proc)
			continue;
		x->seen = kp_requests_in_call(x->run->conf_run->rs, &x->f,
		    sample->at, sat_add(sample->at, sample->took)) ? SEEN :
		    GONE_ON;
		x->stack = sample->stack;
		x->state = sample->state;
	}
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

/* A kprof_stacks, without its version byte, of those that live. */
static void
on_stacks(void *ctx, uint64_t number, struct kp_term *answer)
{
	struct target *t = ctx;
	struct flight_stacks *s = t->p->flights->v;
	struct kp_span message;

	if (answer == NULL)
		return;		/* on_late() follows */
	message = kp_term_raw(answer);
	if (message.n == 0)
		return;
	for (; s < t->p->flights->v + CONTROL_CLIENTS_MAX; s++)
		for (unsigned i = 0; s->busy && i < s->n; i++)
			if (s->v[i].t == t && s->v[i].number == number) {
				take(s, t, message);
				s->v[i].number = 0;
				if (--s->left == 0)
					stacks_end(s);
			}
}

/* ---- questions ---- */

/* Asks for the stacks of the list, which it takes over. */
static void
ask_stacks(struct flight_asks *fa, struct control_client *c,
    const struct flight_opts *o, struct flights *fs)
{
	const struct timeval tv = { PATIENCE_MS / 1000, 0 };
	struct flight_stacks *s = fa->v;
	struct kp_buf b;

	while (s < fa->v + CONTROL_CLIENTS_MAX && s->busy)
		s++;
	if (s == fa->v + CONTROL_CLIENTS_MAX) {
		free(fs);
		control_refuse(c, "too many wait already");
		return;
	}
	s->list = fs;
	s->table = kp_stack_table_new();
	s->v = calloc(TARGETS_MAX, sizeof(*s->v));
	if (s->table == NULL || s->v == NULL) {
		stacks_free(s);
		control_refuse(c, "no memory");
		return;
	}
	s->busy = true;
	s->json = o->json;
	s->client = control_client_id(c);
	snprintf(s->glob, sizeof(s->glob), "%s", o->glob != NULL ? o->glob : "");
	s->n = s->left = 0;
	for (size_t i = 0; i < fs->n; i++)
		if (fs->v[i].target != NULL)
			note_process(s, &fs->v[i]);
	for (unsigned i = 0; i < s->n; i++) {
		agent_ask_begin(s->v[i].t->agent, &b);
		msg_procs(&b, "stacks", s->v[i].pid, s->v[i].n);
		s->v[i].number = agent_ask(s->v[i].t->agent, &b, on_stacks,
		    s->v[i].t, AGENT_ANSWER_S);
		s->left += s->v[i].number != 0;
	}
	if (s->left == 0)
		stacks_end(s);
	else
		event_add(s->late, &tv);
}

void
flight_answer(struct flight_asks *fa, struct control_client *c,
    const struct flight_opts *o)
{
	struct flights *fs = flights_new(fa->p->targets, o);

	if (fs == NULL) {
		control_refuse(c, "no memory");
	} else if (o->stacks) {
		ask_stacks(fa, c, o, fs);
	} else {
		answer(c, fs, o->json, NULL);
		free(fs);
	}
}

static void
forget_target(struct flights *fs, const struct target *t)
{
	size_t n = 0;

	for (size_t i = 0; i < fs->n; i++) {
		if (fs->v[i].target == t)
			fs->v[i].target = NULL;
		if (fs->v[i].run != &t->run)
			fs->v[n++] = fs->v[i];
	}
	fs->n = n;
}

/* Not at once, since the target is still among the others. */
void
flight_asks_gone(struct flight_asks *fa, const struct target *t)
{
	struct flight_stacks *s = fa->v;

	for (; s < fa->v + CONTROL_CLIENTS_MAX; s++) {
		if (s->busy)
			forget_target(s->list, t);
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
