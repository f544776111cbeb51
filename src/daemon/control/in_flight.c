/*
 * in_flight.c - collects the oldest requests of the targets, sorts them by age,
 * and writes them as a table or as JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "daemon/control/status.h"
#include "daemon/nodes/targets.h"
#include "kprofd/fn_name.h"
#include "kprofd/stacks.h"
#include "kprofd/nodes.h"
#include "text/grid.h"
#include "text/json.h"
#include "text/text.h"

struct flying {
	struct kp_flight f;
	const struct assembly_part *part;
	struct target *target;	/* of the process that it is in, or NULL */
	enum {
		NOT_SEEN,	/* the process was not asked, or has ended */
		GONE_ON,	/* when it was asked, it had left the call */
		SEEN
	} seen;
	uint32_t stack;		/* if SEEN */
	uint8_t state;		/* enum kp_stack_state */
};

struct flights {
	struct flying v[2 * KP_FLIGHT_MAX];
	size_t n, all;
	struct kp_flight of_node[KP_FLIGHT_MAX];	/* scratch */
};

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
		fs->all += kp_requests_running(t->part.in->rs,
		    t->part.index);
		n = assembly_oldest(&t->part, fs->of_node, KP_FLIGHT_MAX);
		for (size_t k = 0; k < n; k++)
			fs->v[fs->n + k] = (struct flying){
				.f = fs->of_node[k], .part = &t->part };
		fs->n += n;
		qsort(fs->v, fs->n, sizeof(fs->v[0]), age_cmp);
		if (fs->n > KP_FLIGHT_MAX)
			fs->n = KP_FLIGHT_MAX;
	}
}

struct flights *
flights_new(const struct targets *ts, const char *glob)
{
	struct flights *fs = calloc(1, sizeof(*fs));
	const struct assembly_part *at;
	struct flying *x;

	if (fs == NULL)
		return NULL;
	collect(fs, ts, glob);
	for (x = fs->v; x < fs->v + fs->n; x++) {
		at = x->f.fn != KP_NONE ? x->part->in->parts[x->f.node] : NULL;
		x->target = at != NULL ? at->target : NULL;
	}
	return fs;
}

void
flights_free(struct flights *fs)
{
	free(fs);
}

void
flights_forget(struct flights *fs, const struct target *t)
{
	size_t n = 0;

	for (size_t i = 0; i < fs->n; i++) {
		if (fs->v[i].target == t)
			fs->v[i].target = NULL;
		if (fs->v[i].part != &t->part)
			fs->v[n++] = fs->v[i];
	}
	fs->n = n;
}

void
flights_processes(const struct flights *fs,
    void (*f)(void *ctx, struct target *t, uint64_t pid), void *ctx)
{
	for (size_t i = 0; i < fs->n; i++)
		if (fs->v[i].target != NULL)
			f(ctx, fs->v[i].target, kp_proc_pid(fs->v[i].f.proc));
}

void
flights_sample(struct flights *fs, const struct target *t,
    const struct kp_stack_sample *s)
{
	struct flying *x;

	for (x = fs->v; x < fs->v + fs->n; x++) {
		if (x->target != t || kp_proc_pid(x->f.proc) != s->proc)
			continue;
		x->seen = kp_requests_in_call(x->part->in->rs, &x->f, s->at,
		    sat_add(s->at, s->took)) ? SEEN : GONE_ON;
		x->stack = s->stack;
		x->state = s->state;
	}
}

/* What the i-th open call is: its tier, or else its function. */
static const char *
step(const struct flying *x, unsigned i)
{
	const struct assembly_requests *in = x->part->in;
	const struct kp_fn *fn = kp_requests_fn(in->rs, x->f.path[i]);
	const char *tier = assembly_tier(in->conf, fn);

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
	const struct assembly_requests *in = x->part->in;
	const struct kp_requests *rs = in->rs;
	const struct kp_fn *fn = x->f.fn != KP_NONE ?
	    kp_requests_fn(rs, x->f.fn) : NULL;

	*n = (struct names_of){ .identity = kp_requests_identity(rs,
	    x->f.identity), .call = "", .tier = "", .process = "",
		.at = in->names[x->f.node] };
	if (fn == NULL)
		return;
	n->call = fn->text;
	n->tier = assembly_tier(in->conf, fn);
	n->process = kp_proc_text(x->f.proc, n->pid, sizeof(n->pid));
}

static void
put_stack_json(struct json *j, const struct flying *x,
    const struct flight_stacks *stacks)
{
	char frame[FLIGHT_FRAME_MAX];
	uint32_t n = x->seen == SEEN ? flight_stack_depth(stacks, x->stack) : 0;

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
		json_string(j, NULL, flight_stack_frame(stacks, x->stack, i,
		    frame, sizeof(frame)));
	json_end(j);
	json_bool(j, "gone_on", x->seen == GONE_ON);
}

static void
put_json(struct kp_buf *b, const struct flights *fs,
    const struct flight_stacks *stacks)
{
	struct names_of n;
	struct json j;

	json_begin(&j, b);
	json_object(&j, NULL);
	json_uint(&j, "in_flight", fs->all);
	json_array(&j, "requests");
	for (size_t i = 0; i < fs->n; i++) {
		const struct kp_flight *f = &fs->v[i].f;

		name(&n, &fs->v[i]);
		json_object(&j, NULL);
		json_string(&j, "node", fs->v[i].part->node);
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
	if (stacks != NULL)
		flight_stacks_json(stacks, &j);
	json_end(&j);
	kp_buf_u8(b, '\n');
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
		grid_cell(&g, fs->v[i].part->node);
		grid_cell(&g, n.call[0] != '\0' ?
		    fn_shown(call, sizeof(call), n.call) : "-");
		grid_cell(&g, f->fn != KP_NONE ? text_dur(text, f->in_call) :
		    "-");
		grid_cell(&g, n.process[0] != '\0' ? n.process : "-");
		grid_cell(&g, n.at);
	}
	grid_write(&g, 0, b);
	grid_free(&g);
	kp_buf_printf(b, "%zu in flight, the oldest %zu are shown\n", fs->all,
	    fs->n);
}

/* The innermost function first, as where it is. */
static void
put_stack(struct kp_buf *b, const struct flying *x,
    const struct flight_stacks *stacks)
{
	uint32_t n = x->seen == SEEN ? flight_stack_depth(stacks, x->stack) : 0;
	char text[TEXT_MAX], frame[FLIGHT_FRAME_MAX], call[FN_NAME_MAX];
	struct names_of n_of;

	name(&n_of, x);
	kp_buf_printf(b, "%s", text_dur(text, x->f.age));
	kp_buf_printf(b, "  %s  on %s\n", n_of.identity, x->part->node);
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
	    GONE_ON ? "(had gone on)" : "which has ended or could not be asked");
	for (; n > 0; n--)
		kp_buf_printf(b, "        %s\n", flight_stack_frame(stacks,
		    x->stack, n - 1, frame, sizeof(frame)));
	kp_buf_printf(b, "\n");
}

static void
put_stacks(struct kp_buf *b, const struct flights *fs,
    const struct flight_stacks *stacks)
{
	for (size_t i = 0; i < fs->n; i++)
		put_stack(b, &fs->v[i], stacks);
	flight_stacks_notes(stacks, b);
	kp_buf_printf(b, "%zu in flight, the oldest %zu are shown\n", fs->all,
	    fs->n);
}

void
flights_text(struct kp_buf *b, const struct flights *fs, bool json,
    const struct flight_stacks *stacks)
{
	if (json)
		put_json(b, fs, stacks);
	else if (stacks != NULL)
		put_stacks(b, fs, stacks);
	else
		put_plain(b, fs);
}
