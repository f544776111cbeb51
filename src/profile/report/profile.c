/*
 * profile.c - writes a profile as a table, as JSON and as CSV.
 *
 * A row is a function, or one process's calls of it.  Shares are of all rows,
 * shown or not: of the calls where calls were counted, else of time or words.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/fn_name.h"
#include "text/grid.h"
#include "text/json.h"
#include "profile.h"
#include "report/report.h"
#include "text/text.h"

#define LINE_BYTES_MAX 4096u

struct line {
	const struct kp_profile_fn *fn;
	const struct kp_profile_row *row;	/* NULL: all processes */
	uint64_t calls, value;
};

/* What is shown: lines in order, and the sums of all. */
struct sheet {
	const struct kp_profile *p;
	const struct profile_view *v;
	struct kp_profile_name *names;	/* p's, by process */
	struct line *lines;
	size_t n, shown;
	uint64_t calls, value;
};

/* ---- figures ---- */

static double
per_call(const struct line *l)
{
	return l->calls > 0 ? (double)l->value / (double)l->calls : 0;
}

static double
share(const struct sheet *s, uint64_t calls, uint64_t value)
{
	bool count = s->p->type == KP_PROFILE_COUNT;
	uint64_t all = count ? s->calls : s->value;

	return all > 0 ? (double)(count ? calls : value) / (double)all : 0;
}

static void
put_fn(struct kp_buf *b, const struct kp_profile_fn *fn)
{
	fn_name_put(b, fn->mod, fn->fun, fn->arity);
}

static void
put_pid(struct kp_buf *b, const struct kp_profile_proc *proc)
{
	if (proc->others)
		kp_buf_str(b, "others");
	else
		kp_buf_printf(b, "<0.%" PRIu32 ".%" PRIu32 ">", proc->id,
		    proc->serial);
}

/* ---- rows in order ---- */

static int
compare(double a, double b)
{
	return (a > b) - (a < b);
}

static int
by_name(const struct line *a, const struct line *b)
{
	int d = strcmp(a->fn->mod, b->fn->mod);

	if (d == 0)
		d = strcmp(a->fn->fun, b->fn->fun);
	return d != 0 ? d : compare(a->fn->arity, b->fn->arity);
}

static int
proc_order(const struct kp_profile_proc *x, const struct kp_profile_proc *y)
{
	if (x->others != y->others)
		return x->others ? 1 : -1;
	return x->serial != y->serial ? compare(x->serial, y->serial) :
	    compare(x->id, y->id);
}

static int
by_process(const struct line *a, const struct line *b)
{
	return a->row == NULL || b->row == NULL ? 0 :
	    proc_order(&a->row->proc, &b->row->proc);
}

static int
name_order(const void *pa, const void *pb)
{
	const struct kp_profile_name *a = pa, *b = pb;

	return proc_order(&a->proc, &b->proc);
}

static const char *
proc_name(const struct sheet *s, const struct kp_profile_proc *proc)
{
	const struct kp_profile_name key = { .proc = *proc }, *found;

	found = bsearch(&key, s->names, s->p->nnames, sizeof(key), name_order);
	return found != NULL && !proc->others ? found->name : NULL;
}

/* Names from the first, figures from the greatest. */
static int
by_key(const struct line *a, const struct line *b, enum profile_sort key,
    enum kp_profile_type type)
{
	switch (key) {
	case PROFILE_BY_FUNCTION:
		return by_name(a, b);
	case PROFILE_BY_PROCESS:
		return by_process(a, b);
	case PROFILE_BY_CALLS:
		break;
	case PROFILE_BY_SHARE:
	case PROFILE_BY_VALUE:
		if (type == KP_PROFILE_COUNT)
			break;
		return compare((double)b->value, (double)a->value);
	case PROFILE_BY_PER_CALL:
		return compare(per_call(b), per_call(a));
	}
	return compare((double)b->calls, (double)a->calls);
}

static int
in_order(const void *pa, const void *pb, void *ctx)
{
	const struct line *a = pa, *b = pb;
	const struct sheet *s = ctx;
	int d = by_key(a, b, s->v->sort, s->p->type);

	if (s->v->reverse)
		d = -d;
	/* What is equal comes in an order all the same. */
	if (d == 0)
		d = by_key(a, b, PROFILE_BY_VALUE, s->p->type);
	if (d == 0)
		d = by_name(a, b);
	return d != 0 ? d : by_process(a, b);
}

static void
sheet_free(struct sheet *s)
{
	free(s->lines);
	free(s->names);
}

static enum kp_err
sheet_make(struct sheet *s, const struct kp_profile *p,
    const struct profile_view *v)
{
	*s = (struct sheet){ .p = p, .v = v,
		.n = v->by_process ? p->nrows : p->nfns };
	s->lines = calloc(s->n + 1, sizeof(*s->lines));
	s->names = calloc(p->nnames + 1, sizeof(*s->names));
	if (s->lines == NULL || s->names == NULL) {
		sheet_free(s);
		return KP_ENOMEM;
	}
	if (p->nnames > 0)
		memcpy(s->names, p->names, p->nnames * sizeof(*s->names));
	qsort(s->names, p->nnames, sizeof(*s->names), name_order);
	for (size_t i = 0; i < s->n; i++) {
		struct line *l = &s->lines[i];

		l->row = v->by_process ? &p->rows[i] : NULL;
		l->fn = &p->fns[v->by_process ? l->row->fn : i];
		l->calls = v->by_process ? l->row->calls : l->fn->calls;
		l->value = v->by_process ? l->row->value : l->fn->value;
		s->calls += l->calls;
		s->value += l->value;
	}
	qsort_r(s->lines, s->n, sizeof(*s->lines), in_order, s);
	s->shown = v->top > 0 && v->top < s->n ? v->top : s->n;
	return KP_OK;
}

/* ---- the table ---- */

static void
cell(struct grid *g, struct kp_buf *text)
{
	grid_cell(g, kp_buf_cstr(text));
	kp_buf_reset(text);
}

static void
figure_cells(const struct sheet *s, struct grid *g, const struct line *l)
{
	char text[TEXT_MAX];

	grid_cell(g, text_count(text, l->calls));
	if (s->p->type == KP_PROFILE_TIME) {
		grid_cell(g, text_us(text, l->value));
		grid_cell(g, text_dur(text, (kp_dur_ns)(per_call(l) *
		    (double)KP_NS_PER_US)));
	} else if (s->p->type == KP_PROFILE_MEMORY) {
		grid_cell(g, text_count(text, l->value));
		grid_cell(g, text_average(text, per_call(l)));
	}
	grid_cell(g, text_share(text, share(s, l->calls, l->value)));
}

static void
proc_cell(const struct sheet *s, struct grid *g, const struct line *l)
{
	const char *name = proc_name(s, &l->row->proc);
	struct kp_buf text;

	kp_buf_init(&text, LINE_BYTES_MAX);
	put_pid(&text, &l->row->proc);
	if (name != NULL)
		kp_buf_printf(&text, " %s", name);
	cell(g, &text);
	kp_buf_free(&text);
}

static void
table_head(const struct sheet *s, struct grid *g)
{
	enum kp_profile_type type = s->p->type;

	grid_col(g, "FUNCTION", GRID_LEFT);
	grid_fix(g);
	if (s->v->by_process)
		grid_col(g, "PROCESS", GRID_LEFT);
	grid_col(g, "CALLS", GRID_RIGHT);
	if (type != KP_PROFILE_COUNT) {
		grid_col(g, type == KP_PROFILE_TIME ? "TIME" : "WORDS",
		    GRID_RIGHT);
		grid_col(g, "PER CALL", GRID_RIGHT);
	}
	grid_col(g, "%", GRID_RIGHT);
}

static void
table_rows(const struct sheet *s, struct grid *g)
{
	struct line all = { .calls = s->calls, .value = s->value };
	struct kp_buf text;

	kp_buf_init(&text, LINE_BYTES_MAX);
	for (size_t i = 0; i < s->shown; i++) {
		put_fn(&text, s->lines[i].fn);
		cell(g, &text);
		if (s->v->by_process)
			proc_cell(s, g, &s->lines[i]);
		figure_cells(s, g, &s->lines[i]);
	}
	kp_buf_free(&text);
	grid_rule(g);
	grid_cell(g, "all");
	if (s->v->by_process)
		grid_cell(g, "");
	figure_cells(s, g, &all);
}

static void
note(struct kp_buf *b, unsigned width, struct kp_buf *line)
{
	struct kp_buf clean;

	kp_buf_init(&clean, LINE_BYTES_MAX);
	text_put(&clean, kp_buf_cstr(line));
	text_wrap(b, kp_buf_cstr(&clean), width, 2);
	kp_buf_free(&clean);
	kp_buf_reset(line);
}

static void
put_notes(const struct sheet *s, struct kp_buf *b, unsigned width)
{
	const struct profile_view *v = s->v;
	char n[TEXT_MAX], m[TEXT_MAX];
	struct kp_buf line;

	kp_buf_init(&line, LINE_BYTES_MAX);
	kp_buf_printf(&line, "%s on '%s' (OTP %d): %s functions counted",
	    text_dur(n, s->p->elapsed), v->target, v->otp,
	    text_count(m, v->functions));
	if (s->shown < s->n)
		kp_buf_printf(&line, "; %s of %s rows shown (see -n)",
		    text_count(n, s->shown), text_count(m, s->n));
	if (v->paused)
		kp_buf_str(&line, "; paused");
	note(b, width, &line);
	if (v->limit != NULL) {
		profile_limit_put(&line, v->limit);
		note(b, width, &line);
	}
	if (v->ended != NULL) {
		kp_buf_str(&line, v->ended);
		note(b, width, &line);
	}
	if (s->p->gone > 0) {
		kp_buf_printf(&line, "%s functions: their module was loaded "
		    "anew meanwhile, and their counters went with it",
		    text_count(n, s->p->gone));
		note(b, width, &line);
	}
	if (s->p->merged > 0) {
		kp_buf_printf(&line, "%s rows of processes are added up in "
		    "'others' (see -max-rows)", text_count(n, s->p->merged));
		note(b, width, &line);
	}
	if (v->skipped > 0) {
		kp_buf_printf(&line, "%s processes that somebody else traces "
		    "are not counted", text_count(n, v->skipped));
		note(b, width, &line);
	}
	kp_buf_free(&line);
}

void
profile_table(struct kp_buf *b, const struct kp_profile *p,
    const struct profile_view *v, unsigned width)
{
	struct sheet s;
	struct grid g;

	if (sheet_make(&s, p, v) != KP_OK) {
		b->err = KP_ENOMEM;
		return;
	}
	grid_init(&g);
	table_head(&s, &g);
	table_rows(&s, &g);
	if (s.n > 0) {
		grid_write(&g, width, b);
		kp_buf_u8(b, '\n');
	} else {
		text_wrap(b, "none of these functions was called", width, 0);
	}
	grid_free(&g);
	put_notes(&s, b, width);
	sheet_free(&s);
}

/* ---- for programs ---- */

static void
json_limit(struct json *j, const struct profile_limit *l)
{
	if (l == NULL) {
		json_null(j, "limit");
		return;
	}
	json_object(j, "limit");
	json_array(j, "entries");
	for (size_t i = 0; i < l->nentries; i++)
		json_string(j, NULL, l->entries[i]);
	json_end(j);
	json_bool(j, "attached", l->attached);
	if (l->identity != NULL)
		json_string(j, "identity", l->identity);
	else
		json_null(j, "identity");
	if (l->tier != NULL)
		json_string(j, "tier", l->tier);
	else
		json_null(j, "tier");
	json_end(j);
}

static void
json_value(struct json *j, const struct sheet *s, const struct line *l)
{
	json_uint(j, "calls", l->calls);
	if (s->p->type != KP_PROFILE_COUNT) {
		json_uint(j, s->p->type == KP_PROFILE_TIME ? "us" : "words",
		    l->value);
		json_number(j, "per_call", per_call(l));
	}
}

static void
json_line(struct json *j, const struct sheet *s, const struct line *l)
{
	struct kp_buf pid;
	const char *name;

	json_object(j, NULL);
	json_string(j, "module", l->fn->mod);
	json_string(j, "function", l->fn->fun);
	json_uint(j, "arity", l->fn->arity);
	if (l->row != NULL) {
		kp_buf_init(&pid, 64);
		put_pid(&pid, &l->row->proc);
		json_string(j, "process", kp_buf_cstr(&pid));
		kp_buf_free(&pid);
		name = proc_name(s, &l->row->proc);
		if (name != NULL)
			json_string(j, "name", name);
		else
			json_null(j, "name");
	}
	json_value(j, s, l);
	json_number(j, "share", share(s, l->calls, l->value));
	json_end(j);
}

void
profile_json(struct kp_buf *b, const struct kp_profile *p,
    const struct profile_view *v)
{
	static const char *const types[] = { "count", "time", "memory" };
	struct line all = { 0 };
	struct sheet s;
	struct json j;

	if (sheet_make(&s, p, v) != KP_OK) {
		b->err = KP_ENOMEM;
		return;
	}
	json_begin(&j, b);
	json_object(&j, NULL);
	json_string(&j, "target", v->target);
	json_int(&j, "otp", v->otp);
	json_string(&j, "type", types[p->type]);
	json_ms(&j, "elapsed_ms", p->elapsed);
	json_limit(&j, v->limit);
	json_uint(&j, "functions", v->functions);
	json_uint(&j, "processes", v->processes);
	if (v->ended != NULL)
		json_string(&j, "ended", v->ended);
	else
		json_null(&j, "ended");
	json_bool(&j, "paused", v->paused);
	json_uint(&j, "gone", p->gone);
	json_uint(&j, "merged", p->merged);
	json_uint(&j, "skipped", v->skipped);
	json_object(&j, "all");
	all.calls = s.calls;
	all.value = s.value;
	json_value(&j, &s, &all);
	json_end(&j);
	json_array(&j, "rows");
	for (size_t i = 0; i < s.shown; i++)
		json_line(&j, &s, &s.lines[i]);
	json_end(&j);
	json_end(&j);
	kp_buf_u8(b, '\n');
	sheet_free(&s);
}

static void
csv_line(struct kp_buf *b, const struct sheet *s, const struct line *l)
{
	struct kp_buf text;

	kp_buf_init(&text, LINE_BYTES_MAX);
	put_fn(&text, l->fn);
	report_csv_text(b, kp_buf_cstr(&text));
	kp_buf_reset(&text);
	if (l->row != NULL) {
		put_pid(&text, &l->row->proc);
		kp_buf_u8(b, ',');
		report_csv_text(b, kp_buf_cstr(&text));
	}
	kp_buf_free(&text);
	kp_buf_printf(b, ",%" PRIu64, l->calls);
	if (s->p->type != KP_PROFILE_COUNT)
		kp_buf_printf(b, ",%" PRIu64 ",%.3f", l->value, per_call(l));
	kp_buf_printf(b, ",%.3f", 100 * share(s, l->calls, l->value));
	if (s->v->limit != NULL) {
		kp_buf_init(&text, LINE_BYTES_MAX);
		profile_limit_put(&text, s->v->limit);
		kp_buf_u8(b, ',');
		report_csv_text(b, kp_buf_cstr(&text));
		kp_buf_free(&text);
	}
	kp_buf_u8(b, '\n');
}

void
profile_csv(struct kp_buf *b, const struct kp_profile *p,
    const struct profile_view *v)
{
	struct sheet s;

	if (sheet_make(&s, p, v) != KP_OK) {
		b->err = KP_ENOMEM;
		return;
	}
	kp_buf_printf(b, "function%s,calls%s,percent%s\n",
	    v->by_process ? ",process" : "",
	    p->type == KP_PROFILE_COUNT ? "" :
	    p->type == KP_PROFILE_TIME ? ",us,us_per_call" :
	    ",words,words_per_call", v->limit != NULL ? ",limit" : "");
	for (size_t i = 0; i < s.shown; i++)
		csv_line(b, &s, &s.lines[i]);
	sheet_free(&s);
}
