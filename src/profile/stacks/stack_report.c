/*
 * stack_report.c - writes sampled stacks as tables for people: the functions in
 * which processes work, and what groups of processes do; and notes.  And as JSON,
 * where what it has in common with the stacks of kprof report has the same names.
 *
 * A number of processes is an average: the time in a state that samples stand
 * for, divided by the time that was sampled.  Of a group it is no more than there
 * can be: a sample of a process that waits may stand for many others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "kprofd/fn_name.h"
#include "kprofd/request.h"
#include "report/usage.h"
#include "stack_report.h"
#include "text/grid.h"
#include "text/json.h"
#include "text/text.h"

#define FRAME_MAX 4096u
#define PID_MAX 40u

/* A row of either table. */
struct row {
	const char *name, *application;
	uint64_t procs;
	struct stack_figure all;	/* of the states that are shown */
	struct stack_figure by[KP_STACK_STATES];
	bool one;		/* one process at a time */
	double low, high;	/* of all states together, processes */
};

static void
row_add(struct row *r, const struct stack_view *v, const struct stack_cell *c)
{
	stack_figure_add(&r->by[c->state], &c->f);
	if (stack_is_shown(v, c))
		stack_figure_add(&r->all, &c->f);
}

/* The figures of all states. */
static struct stack_figure
whole(const struct row *r)
{
	struct stack_figure f = { 0 };

	for (unsigned i = 0; i < KP_STACK_STATES; i++)
		stack_figure_add(&f, &r->by[i]);
	return f;
}

static int
row_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->all.time != y->all.time)
		return x->all.time < y->all.time ? 1 : -1;
	if (whole(x).time != whole(y).time)
		return whole(x).time < whole(y).time ? 1 : -1;
	return strcmp(x->name, y->name);
}

static size_t
shown(const struct stack_view *v, size_t n)
{
	return v->rows > 0 && v->rows < n ? v->rows : n;
}

/* ---- cells of the tables ---- */

static void
average_cell(struct grid *g, const struct stack_view *v, kp_dur_ns time)
{
	char text[TEXT_MAX];

	if (time <= 0 || v->elapsed <= 0)
		grid_cell(g, "");
	else
		grid_cell(g, text_average(text, (double)time /
		    (double)v->elapsed));
}

static void
share_cells(struct grid *g, const struct row *r, const struct stack_figure *all)
{
	struct stack_share s = stack_share(&r->all, all);
	char low[TEXT_MAX], high[TEXT_MAX], text[2 * TEXT_MAX + 8];

	grid_cell(g, text_share(low, s.part));
	snprintf(text, sizeof(text), "%s to %s", text_share(low, s.low),
	    text_share(high, s.high));
	grid_cell(g, text);
}

/* Heads of states; index is enum kp_stack_state. */
static const char *const heads[KP_STACK_STATES] = { "RUNNING", "RUNNABLE",
	"COLLECTING", "IN A CALL", "ON A PORT", "WAITING", "NOT SEEN" };

static void
state_heads(struct grid *g, unsigned states)
{
	for (unsigned i = 0; i < KP_STACK_STATES; i++)
		if ((states >> i & 1) != 0)
			grid_col(g, heads[i], GRID_RIGHT);
}

static void
state_cells(struct grid *g, const struct stack_view *v, const struct row *r,
    unsigned states)
{
	for (unsigned i = 0; i < KP_STACK_STATES; i++)
		if ((states >> i & 1) != 0)
			average_cell(g, v, r->by[i].time);
}

void
stack_nothing(struct kp_buf *b, const struct stack_view *v)
{
	char text[256];
	size_t n = (size_t)snprintf(text, sizeof(text), "no process was seen in "
	    "these states:");

	for (unsigned i = 0; i < KP_STACK_STATES; i++)
		if ((v->states >> i & 1) != 0)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s,",
			    kp_stack_state_name((enum kp_stack_state)i));
	snprintf(text + n - 1, sizeof(text) - n + 1, " (see -states)");
	text_wrap(b, text, v->width, 0);
}

/* States that any row has. */
static unsigned
states_of(const struct row *all)
{
	unsigned states = 0;

	for (unsigned i = 0; i < KP_STACK_STATES; i++)
		states |= all->by[i].samples > 0 ? 1u << i : 0;
	return states;
}

/* ---- functions ---- */

static uint32_t
innermost(const struct stack_view *v, const struct stack_cell *c)
{
	uint32_t n, fns = kp_stack_table_fns(v->sum->table);
	const struct kp_stack_frame *f = kp_stack_frames(v->sum->table,
	    c->stack, &n);

	return n > 0 ? f[n - 1].fn : fns + (c->state == KP_STACK_NOT_SEEN);
}

static struct row *
function_rows(const struct stack_view *v, size_t *n, struct row *all)
{
	uint32_t fns = kp_stack_table_fns(v->sum->table);
	struct row *rows = calloc(fns + 2, sizeof(*rows));

	*n = 0;
	if (rows == NULL)
		return NULL;
	for (size_t i = 0; i < v->sum->ncells; i++) {
		const struct stack_cell *c = &v->sum->cells[i];

		if (!stack_is_shown(v, c))
			continue;
		row_add(&rows[innermost(v, c)], v, c);
		row_add(all, v, c);
	}
	for (uint32_t i = 0; i < fns + 2; i++) {
		if (rows[i].all.samples == 0)
			continue;
		rows[*n] = rows[i];
		rows[(*n)++].name = i < fns ? kp_stack_fn(v->sum->table, i) :
		    i == fns ? "(no stack)" : "(not seen)";
	}
	qsort(rows, *n, sizeof(*rows), row_order);
	return rows;
}

static void
put_functions(struct kp_buf *b, const struct stack_view *v)
{
	struct row all = { .name = "all" }, *rows;
	char text[TEXT_MAX], name[FN_NAME_MAX];
	unsigned states;
	struct grid g;
	size_t n;

	rows = function_rows(v, &n, &all);
	if (rows == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	states = states_of(&all);
	grid_init(&g);
	grid_col(&g, "FUNCTION", GRID_LEFT);
	grid_fix(&g);
	grid_col(&g, "%", GRID_RIGHT);
	grid_col(&g, "95 % INTERVAL", GRID_RIGHT);
	state_heads(&g, states);
	grid_col(&g, "SAMPLES", GRID_RIGHT);
	for (size_t i = 0; i < shown(v, n); i++) {
		grid_cell(&g, fn_read(name, sizeof(name), rows[i].name));
		share_cells(&g, &rows[i], &all.all);
		state_cells(&g, v, &rows[i], states);
		grid_cell(&g, text_count(text, rows[i].all.samples));
	}
	grid_rule(&g);
	grid_cell(&g, "all");
	grid_cell(&g, "");
	grid_cell(&g, "");
	state_cells(&g, v, &all, states);
	grid_cell(&g, text_count(text, all.all.samples));
	if (n > 0)
		grid_write(&g, v->width, b);
	else
		stack_nothing(b, v);
	grid_free(&g);
	free(rows);
	if (n > shown(v, n))
		kp_buf_printf(b, "%s more (see -n)\n", text_counted(text,
		    n - shown(v, n), "function"));
}

/* ---- groups ---- */

/* Rows of roots, in their order; the names are theirs. */
static struct row *
group_rows(const struct stack_view *v, const struct stack_roots *roots,
    struct row *all)
{
	const struct stack_sum *s = v->sum;
	struct row *rows = calloc(roots->n + 1, sizeof(*rows));
	bool *counted = calloc(STACK_GROUPS_MAX, sizeof(*counted));

	for (size_t i = 0; rows != NULL && counted != NULL && i < s->ncells;
	     i++) {
		const struct stack_cell *c = &s->cells[i];
		struct row *r = &rows[roots->of[i]];

		r->name = roots->names[roots->of[i]];
		r->one = s->by == STACK_BY_PROCESS ||
		    (s->by == STACK_BY_GROUP && s->groups[c->group].one);
		r->application = stack_group_application(s, c->group);
		row_add(r, v, c);
		if (!counted[c->group]) {
			r->procs += s->groups[c->group].procs;
			all->procs += s->groups[c->group].procs;
		}
		counted[c->group] = true;
	}
	free(counted);
	if (counted != NULL)
		return rows;
	free(rows);
	return NULL;
}

/*
 * The most processes that a group can have had on average: all that the node had,
 * less those that were seen in other groups.
 */
static double
most_of(const struct stack_view *v, const struct row *r, const struct row *all)
{
	double there = (double)v->time / (double)v->elapsed;

	if (r->one)
		return 1;
	return v->time <= 0 || v->sum->procs_full ? HUGE_VAL :
	    fmax((double)r->procs, there - (double)(all->procs - r->procs));
}

/* Takes what is too much from the states of which the fewest stacks are asked for. */
static void
row_cap(struct row *r, kp_dur_ns most)
{
	kp_dur_ns much = whole(r).time - most, take;

	for (unsigned i = KP_STACK_STATES; i-- > 0 && much > 0; much -= take) {
		take = much < r->by[i].time ? much : r->by[i].time;
		r->by[i].time -= take;
	}
}

/* Rows stay within what there can be, have intervals, and add up to *all. */
static void
bound_rows(const struct stack_view *v, struct row *rows, size_t n,
    struct row *all)
{
	struct stack_figure f, sum = { 0 };
	struct stack_share s;
	double most, average;

	for (size_t i = 0; i < n; i++) {
		f = whole(&rows[i]);
		stack_figure_add(&sum, &f);
	}
	for (size_t i = 0; i < n && v->elapsed > 0; i++) {
		most = most_of(v, &rows[i], all);
		f = whole(&rows[i]);
		s = stack_share(&f, &sum);
		if (most < (double)f.time / (double)v->elapsed)
			row_cap(&rows[i], llround(most * (double)v->elapsed));
		average = (double)whole(&rows[i]).time / (double)v->elapsed;
		rows[i].low = fmin(s.low * (double)sum.time /
		    (double)v->elapsed, average);
		rows[i].high = fmax(fmin(s.high * (double)sum.time /
		    (double)v->elapsed, most), average);
	}
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; k < KP_STACK_STATES; k++)
			stack_figure_add(&all->by[k], &rows[i].by[k]);
}

static void
group_cells(struct grid *g, const struct stack_view *v, const struct row *r,
    unsigned states)
{
	char low[TEXT_MAX], high[TEXT_MAX], text[2 * TEXT_MAX + 8];

	grid_cell(g, r->name);
	if (v->sum->by == STACK_BY_GROUP)
		grid_cell(g, r->application);
	if (v->sum->by != STACK_BY_PROCESS)
		grid_cell(g, text_count(text, r->procs));
	state_cells(g, v, r, states);
	snprintf(text, sizeof(text), "%s to %s", text_average(low, r->low),
	    text_average(high, r->high));
	grid_cell(g, r->high > 0 ? text : "");
}

static void
put_group_rows(struct kp_buf *b, const struct stack_view *v,
    const struct row *rows, size_t n, const struct row *all)
{
	unsigned states = states_of(all);
	char text[TEXT_MAX];
	struct grid g;

	grid_init(&g);
	grid_col(&g, v->sum->by == STACK_BY_PROCESS ? "PROCESS" :
	    v->sum->by == STACK_BY_APPLICATION ? "APPLICATION" : "PROCESSES",
	    GRID_LEFT);
	grid_fix(&g);
	if (v->sum->by == STACK_BY_GROUP)
		grid_col_optional(&g, "APPLICATION", GRID_LEFT, 1);
	if (v->sum->by != STACK_BY_PROCESS)
		grid_col(&g, "SEEN", GRID_RIGHT);
	state_heads(&g, states);
	grid_col(&g, "95 % INTERVAL", GRID_RIGHT);
	for (size_t i = 0; i < shown(v, n); i++)
		group_cells(&g, v, &rows[i], states);
	grid_rule(&g);
	group_cells(&g, v, all, states);
	grid_write(&g, v->width, b);
	grid_free(&g);
	if (n > shown(v, n))
		kp_buf_printf(b, "%s more (see -n)\n", text_count(text,
		    n - shown(v, n)));
}

static void
put_groups(struct kp_buf *b, const struct stack_view *v)
{
	struct row all = { .name = "all", .application = "" }, *rows = NULL;
	struct stack_roots roots;

	if (stack_roots_make(&roots, v->sum) == KP_OK)
		rows = group_rows(v, &roots, &all);
	if (rows == NULL) {
		b->err = KP_ENOMEM;
	} else {
		bound_rows(v, rows, roots.n, &all);
		qsort(rows, roots.n, sizeof(*rows), row_order);
		put_group_rows(b, v, rows, roots.n, &all);
	}
	free(rows);
	stack_roots_free(&roots);
}

/* ---- what they use ---- */

/* Rows of the last walk; to be freed with kp_query_usage_free(). */
static enum kp_err
usage_rows(const struct stack_view *v, struct kp_query_usage *to)
{
	const struct kp_usage *u = v->sum->usage;
	struct kp_query_used *row = calloc(u->n + 1, sizeof(*row) + PID_MAX);
	char *pid = (char *)&row[u->n];

	*to = (struct kp_query_usage){ .v = row };
	if (row == NULL)
		return KP_ENOMEM;
	for (; to->n < u->n; to->n++, row++, pid += PID_MAX) {
		*row = (struct kp_query_used){ .node = v->target,
			.row = u->rows[to->n], .process = pid,
			.estimated = u->estimated, .memory_then = -1,
			.binaries_then = -1 };
		if (row->row.proc != 0)
			kp_proc_text(row->row.proc, pid, PID_MAX);
	}
	return KP_OK;
}

static void
put_usage(struct kp_buf *b, const struct stack_view *v)
{
	struct kp_query_usage rows;

	if (v->sum->usage == NULL || b->err != KP_OK)
		return;
	b->err = usage_rows(v, &rows);
	if (b->err == KP_OK)
		usage_tables(b, &rows, v->rows, v->width);
	kp_query_usage_free(&rows);
}

/* Samples that the VM may have cut. */
static uint64_t
cut_samples(const struct stack_view *v)
{
	uint64_t cut = 0;
	uint32_t n;

	for (size_t i = 0; i < v->sum->ncells; i++) {
		kp_stack_frames(v->sum->table, v->sum->cells[i].stack, &n);
		if (stack_is_cut(v, n))
			cut += v->sum->cells[i].f.samples;
	}
	return cut;
}

/* ---- notes ---- */

void
stack_notes(struct kp_buf *b, const struct stack_view *v)
{
	const struct stack_sum *s = v->sum;
	char n[TEXT_MAX], m[TEXT_MAX], l[TEXT_MAX], share_text[TEXT_MAX];
	double share = v->elapsed > 0 ? (double)v->counts.busy /
	    (double)v->elapsed : -1;
	uint64_t other = s->overflow + kp_stack_table_overflow(s->table);
	uint64_t cut = cut_samples(v);
	char more[160] = "";

	if (share > 1.1 * v->share)
		snprintf(more, sizeof(more), ", more than the %s of -share (it "
		    "lists the processes once whatever that takes)",
		    text_share(n, v->share));
	text_note(b, v->width, "%s on '%s' (OTP %d, %u schedulers): %s of %s "
	    "looks at processes; sampling took %s of one scheduler%s",
	    text_dur(n, v->elapsed), v->target, v->otp, v->schedulers,
	    text_counted(m, s->samples, "sample"),
	    text_count(l, v->counts.looked), text_share(share_text, share),
	    more);
	if (s->not_seen > 0)
		text_note(b, v->width, "not seen: %s; the process did not "
		    "answer within 5 ms, as in native code, in a long garbage "
		    "collection, or where schedulers are short",
		    text_counted(n, s->not_seen, "sample"));
	if (v->time > 0 && (double)v->young >= 0.001 * (double)v->time)
		text_note(b, v->width, "not looked at: about %s of the time of "
		    "all processes, of those that came after the node's "
		    "processes were last listed",
		    text_share(n, (double)v->young / (double)v->time));
	if (v->counts.unsent > 0)
		text_note(b, v->width, "lost: %s; the connection was busy",
		    text_counted(n, v->counts.unsent, "sample"));
	if (other > 0)
		text_note(b, v->width, "without a stack of their own: %s, past "
		    "the limits of kprof", text_counted(n, other, "sample"));
	if (s->usage == NULL)
		text_note(b, v->width, "mailboxes and memory: not seen; a look at "
		    "all processes was not over (a longer -for shows them, or a "
		    "larger -share)");
	if (s->usage != NULL && s->usage->estimated)
		text_note(b, v->width, "sizes: %s of %s gave theirs, and stand "
		    "for the others", text_count(m, s->usage->sized),
		    text_counted(n, s->usage->sized_of, "process"));
	if (s->usage != NULL && s->usage->looked + s->usage->of / 50 <
	    s->usage->of)
		text_note(b, v->width, "messages: of %s of %s; the others were "
		    "not reached within the share (see -share)",
		    text_count(m, s->usage->looked), text_counted(n,
		    s->usage->of, "process"));
	if (s->procs_full)
		text_note(b, v->width, "more than %u processes were seen",
		    STACK_PROCS_MAX);
	text_note(b, v->width, "the VM shows the %u innermost frames "
	    "(backtrace_depth, which is the application's to set): %s of %s %s "
	    "that many, and may lack outer ones", v->depth, text_counted(n, cut,
	    "sample"), text_count(m, s->samples), cut == 1 ? "has" : "have");
	text_note(b, v->width, "a process that runs shows its stack when it is "
	    "next scheduled out or waits for a message: times inside a "
	    "function count for one that is called soon after it");
}

void
stack_tables(struct kp_buf *b, const struct stack_view *v)
{
	put_functions(b, v);
	kp_buf_u8(b, '\n');
	put_groups(b, v);
	kp_buf_u8(b, '\n');
	put_usage(b, v);
	text_wrap(b, "States are average numbers of processes, estimated; the "
	    "interval of a group is of all its states together. % is of the "
	    "functions' time in the states shown.", v->width, 0);
	stack_notes(b, v);
}

/* ---- JSON ---- */

static int
cell_order(const void *a, const void *b)
{
	const struct stack_cell *x = *(const struct stack_cell *const *)a;
	const struct stack_cell *y = *(const struct stack_cell *const *)b;

	if (x->f.time != y->f.time)
		return x->f.time < y->f.time ? 1 : -1;
	return x < y ? -1 : 1;
}

static void
put_frames(struct json *j, const struct kp_stack_table *t, uint32_t stack)
{
	const struct kp_stack_frame *f;
	char name[FN_NAME_MAX];
	struct kp_buf text;
	uint32_t n;

	f = kp_stack_frames(t, stack, &n);
	kp_buf_init(&text, FRAME_MAX);
	json_array(j, "frames");
	for (uint32_t i = 0; i < n; i++) {
		kp_buf_reset(&text);
		kp_buf_str(&text, fn_read(name, sizeof(name),
		    kp_stack_fn(t, f[i].fn)));
		if (f[i].line > 0)
			kp_buf_printf(&text, ":%u", f[i].line);
		json_string(j, NULL, kp_buf_cstr(&text));
	}
	json_end(j);
	kp_buf_free(&text);
}

static void
put_cell(struct json *j, const struct stack_view *v, const struct stack_cell *c)
{
	const struct stack_sum *s = v->sum;
	const char *app = stack_group_application(s, c->group);
	char pid[64];

	json_object(j, NULL);
	json_string(j, "node", v->target);
	json_string(j, "group", stack_group_name(s, c->group));
	json_string(j, "application", app[0] != '\0' ? app : NULL);
	if (s->by == STACK_BY_PROCESS) {
		snprintf(pid, sizeof(pid), "<0.%u.%u>", (unsigned)c->proc,
		    (unsigned)(c->proc >> 32));
		json_string(j, "process", pid);
	}
	json_string(j, "state", kp_stack_state_name(c->state));
	put_frames(j, s->table, c->stack);
	json_uint(j, "samples", c->f.samples);
	json_ms(j, "ms", c->f.time);
	json_end(j);
}

static void
put_figures(struct json *j, const struct stack_view *v)
{
	json_time(j, "from", v->from);
	json_time(j, "to", v->to);
	json_string(j, "target", v->target);
	json_int(j, "otp", v->otp);
	json_uint(j, "schedulers", v->schedulers);
	json_ms(j, "elapsed_ms", v->elapsed);
	json_ms(j, "sampling_ms", v->counts.busy);
	json_uint(j, "ticks", v->counts.ticks);
	json_uint(j, "looked", v->counts.looked);
	json_uint(j, "samples", v->sum->samples);
	json_uint(j, "not_seen", v->sum->not_seen);
	json_uint(j, "dropped", v->counts.unsent + v->sum->overflow +
	    kp_stack_table_overflow(v->sum->table));
	json_ms(j, "processes_ms", v->time);
	json_ms(j, "not_looked_at_ms", v->young);
	json_uint(j, "depth", v->depth);
	json_uint(j, "cut", cut_samples(v));
}

void
stack_json(struct kp_buf *b, const struct stack_view *v)
{
	const struct stack_sum *s = v->sum;
	const struct stack_cell **cells = malloc((s->ncells + 1) *
	    sizeof(*cells));
	struct kp_query_usage rows = { 0 };
	struct json j;

	if (cells == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	for (size_t i = 0; i < s->ncells; i++)
		cells[i] = &s->cells[i];
	qsort(cells, s->ncells, sizeof(*cells), cell_order);
	json_open(&j, b);
	put_figures(&j, v);
	json_array(&j, "stacks");
	for (size_t i = 0; i < s->ncells && b->err == KP_OK; i++)
		put_cell(&j, v, cells[i]);
	json_end(&j);
	if (s->usage != NULL && b->err == KP_OK)
		b->err = usage_rows(v, &rows);
	usage_json(&j, &rows);
	json_close(&j);
	kp_query_usage_free(&rows);
	free(cells);
}
