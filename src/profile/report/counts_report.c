/*
 * counts_report.c - writes counters as a table, as JSON and as CSV.
 *
 * A row is a function, or one process's calls of it.  Its share is its part of
 * all rows, shown or not: of the calls where calls were counted, else of time
 * or words.  By process a row has its share of what its process did as well; in
 * the table the rows of a process stand together, below its sums.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts_report.h"
#include "kprofd/fn_name.h"
#include "report/report.h"
#include "text/grid.h"
#include "text/json.h"
#include "text/text.h"
#include "trace_report.h"

#define LINE_BYTES_MAX (3 * KP_ATOM_TEXT_MAX)
#define ENTRIES_NAMED 5

/* ---- the rows in the order in which they are shown, with their sums ---- */

struct sheet_line {
	const struct kp_counts_row *row;
	const struct kp_counts_row *section;	/* by process: its sums; or NULL */
};

struct sheet {
	const struct kp_counts *p;
	const struct counts_view *v;
	struct sheet_line *lines;
	size_t n, shown;
	struct kp_counts_row *sections;	/* a sum for each process */
	size_t nsections;
	struct kp_counts_row all;	/* sum of all rows, shown or not */
};

static double
sheet_per_call(const struct kp_counts_row *r)
{
	return r->calls > 0 ? (double)r->value / (double)r->calls : 0;
}

static uint64_t
figure(const struct sheet *s, const struct kp_counts_row *r)
{
	return s->p->type == KP_COUNTS_CALLS ? r->calls : r->value;
}

/* The part of `all` that r is: of its calls, or else of time or words. */
static double
sheet_share(const struct sheet *s, const struct kp_counts_row *r,
    const struct kp_counts_row *all)
{
	uint64_t whole = figure(s, all);

	return whole > 0 ? (double)figure(s, r) / (double)whole : 0;
}

static int
compare(double a, double b)
{
	return (a > b) - (a < b);
}

/* By number; "others" come last. */
static int
proc_order(const struct sheet *s, uint32_t a, uint32_t b)
{
	const struct kp_call_proc *x, *y;

	if (a == b)
		return 0;
	if (a >= KP_PROC_OTHERS || b >= KP_PROC_OTHERS)
		return a >= KP_PROC_OTHERS ? 1 : -1;
	x = &s->p->names->procs[a];
	y = &s->p->names->procs[b];
	return x->serial != y->serial ? compare(x->serial, y->serial) :
	    compare(x->id, y->id);
}

/* Names in ascending, figures in descending order. */
static int
by_key(const struct sheet *s, const struct kp_counts_row *a,
    const struct kp_counts_row *b, enum counts_sort key)
{
	switch (key) {
	case COUNTS_BY_FUNCTION:
		return kp_call_fn_order(s->p->names, a->fn, b->fn);
	case COUNTS_BY_PROCESS:
		return proc_order(s, a->proc, b->proc);
	case COUNTS_BY_CALLS:
		return compare((double)b->calls, (double)a->calls);
	case COUNTS_BY_PER_CALL:
		return compare(sheet_per_call(b), sheet_per_call(a));
	default:
		return compare((double)figure(s, b), (double)figure(s, a));
	}
}

static int
line_order(const void *pa, const void *pb, void *ctx)
{
	const struct kp_counts_row *a = ((const struct sheet_line *)pa)->row;
	const struct kp_counts_row *b = ((const struct sheet_line *)pb)->row;
	const struct sheet *s = ctx;
	int d = by_key(s, a, b, s->v->sort);

	if (s->v->reverse)
		d = -d;
	/* The rest makes the order of equal rows the same every time. */
	if (d == 0)
		d = by_key(s, a, b, COUNTS_BY_VALUE);
	if (d == 0)
		d = by_key(s, a, b, COUNTS_BY_FUNCTION);
	return d != 0 ? d : by_key(s, a, b, COUNTS_BY_PROCESS);
}

static int
by_proc_number(const void *pa, const void *pb)
{
	const struct kp_counts_row *a = pa, *b = pb;

	return (a->proc > b->proc) - (a->proc < b->proc);
}

/* Adds up the rows of each process. */
static void
make_sections(struct sheet *s)
{
	struct kp_counts_row *v = s->sections;
	size_t n = 0;

	if (s->n > 0)
		memcpy(v, s->p->rows, s->n * sizeof(*v));
	qsort(v, s->n, sizeof(*v), by_proc_number);
	for (size_t i = 0; i < s->n; i++) {
		if (n > 0 && v[n - 1].proc == v[i].proc) {
			v[n - 1].calls += v[i].calls;
			v[n - 1].value += v[i].value;
		} else {
			v[n++] = v[i];
		}
	}
	s->nsections = n;
	for (size_t i = 0; i < s->n; i++)
		s->lines[i].section = bsearch(s->lines[i].row, v, n,
		    sizeof(*v), by_proc_number);
}

static int
section_order(const void *pa, const void *pb, void *ctx)
{
	const struct kp_counts_row *a =
	    ((const struct sheet_line *)pa)->section;
	const struct kp_counts_row *b =
	    ((const struct sheet_line *)pb)->section;
	const struct sheet *s = ctx;
	int d = 0;

	if (a == b)
		return line_order(pa, pb, ctx);
	if (s->v->sort != COUNTS_BY_PROCESS)
		d = by_key(s, a, b, COUNTS_BY_VALUE);
	if (d == 0)
		d = proc_order(s, a->proc, b->proc);
	return s->v->reverse ? -d : d;
}

/*
 * Groups the lines shown by process.  Processes are in the order of their sums,
 * or by number if the user asked for that.
 */
static void
sheet_by_section(struct sheet *s)
{
	if (s->nsections > 0)
		qsort_r(s->lines, s->shown, sizeof(*s->lines), section_order,
		    s);
}

static void
sheet_free(struct sheet *s)
{
	free(s->lines);
	free(s->sections);
}

/* False after setting the error of b: there is nothing to be freed. */
static bool
sheet_make(struct sheet *s, const struct kp_counts *p,
    const struct counts_view *v, struct kp_buf *b)
{
	*s = (struct sheet){ .p = p, .v = v, .n = p->nrows };
	s->lines = calloc(s->n + 1, sizeof(*s->lines));
	s->sections = calloc(s->n + 1, sizeof(*s->sections));
	if (s->lines == NULL || s->sections == NULL) {
		sheet_free(s);
		b->err = KP_ENOMEM;
		return false;
	}
	for (size_t i = 0; i < s->n; i++) {
		s->lines[i].row = &p->rows[i];
		s->all.calls += p->rows[i].calls;
		s->all.value += p->rows[i].value;
	}
	if (p->by_process)
		make_sections(s);
	qsort_r(s->lines, s->n, sizeof(*s->lines), line_order, s);
	s->shown = v->top > 0 && v->top < s->n ? v->top : s->n;
	return true;
}

/* ---- texts ---- */

void
counts_limit_put(struct kp_buf *b, const struct counts_limit *l)
{
	kp_buf_str(b, "only in requests that ");
	if (l->attached)
		kp_buf_str(b, "a kprofd marks");
	for (size_t i = 0; i < l->nentries && i < ENTRIES_NAMED; i++) {
		kp_buf_str(b, i > 0 ? " or " : "");
		text_put(b, l->entries[i]);
	}
	if (l->nentries > ENTRIES_NAMED)
		kp_buf_printf(b, " or %zu others",
		    l->nentries - ENTRIES_NAMED);
	kp_buf_str(b, l->attached ? "" : l->nentries > 1 ? " begin" :
	    " begins");
	if (l->identity != NULL) {
		kp_buf_str(b, ", of type '");
		text_put(b, l->identity);
		kp_buf_u8(b, '\'');
	}
	if (l->tier != NULL) {
		kp_buf_str(b, ", while in a call of the tier '");
		text_put(b, l->tier);
		kp_buf_u8(b, '\'');
	}
}

/* <0.81.0>, or "others" */
static void
put_pid(struct kp_buf *b, const struct kp_counts *p, uint32_t proc)
{
	if (proc >= KP_PROC_OTHERS)
		kp_buf_str(b, "others");
	else
		trace_put_number(b, &p->names->procs[proc]);
}

/* The name it is registered by, or NULL. */
static const char *
proc_name(const struct kp_counts *p, uint32_t proc)
{
	return proc < KP_PROC_OTHERS ? p->names->procs[proc].name : NULL;
}

/* ---- the table ---- */

static void
figure_cells(const struct sheet *s, struct grid *g,
    const struct kp_counts_row *r)
{
	char text[TEXT_MAX];

	grid_cell(g, text_count(text, r->calls));
	if (s->p->type == KP_COUNTS_TIME) {
		grid_cell(g, text_us(text, r->value));
		grid_cell(g, text_dur(text, (kp_dur_ns)(sheet_per_call(r) *
		    (double)KP_NS_PER_US)));
	} else if (s->p->type == KP_COUNTS_MEMORY) {
		grid_cell(g, text_count(text, r->value));
		grid_cell(g, text_average(text, sheet_per_call(r)));
	}
	grid_cell(g, text_share(text, sheet_share(s, r, &s->all)));
}

static void
table_head(const struct sheet *s, struct grid *g)
{
	enum kp_counts_type type = s->p->type;

	grid_col(g, s->p->by_process ? "PROCESS, FUNCTION" : "FUNCTION",
	    GRID_LEFT);
	grid_fix(g);
	grid_col(g, "CALLS", GRID_RIGHT);
	if (type != KP_COUNTS_CALLS) {
		grid_col(g, type == KP_COUNTS_TIME ? "TIME" : "WORDS",
		    GRID_RIGHT);
		grid_col(g, "PER CALL", GRID_RIGHT);
	}
	grid_col(g, "%", GRID_RIGHT);
	if (s->p->by_process)
		grid_col(g, "% OF PROCESS", GRID_RIGHT);
}

static void
section_row(const struct sheet *s, struct grid *g,
    const struct kp_counts_row *sums)
{
	const char *name = proc_name(s->p, sums->proc);
	char shown[FN_NAME_MAX];
	struct kp_buf text;

	kp_buf_init(&text, LINE_BYTES_MAX);
	put_pid(&text, s->p, sums->proc);
	if (name != NULL)
		kp_buf_printf(&text, " %s", fn_shown(shown, sizeof(shown),
		    name));
	grid_cell(g, kp_buf_cstr(&text));
	kp_buf_free(&text);
	figure_cells(s, g, sums);
	grid_cell(g, "");
}

static void
line_row(const struct sheet *s, struct grid *g, const struct sheet_line *l)
{
	char share[TEXT_MAX];
	struct kp_buf text;

	kp_buf_init(&text, LINE_BYTES_MAX);
	kp_buf_str(&text, l->section != NULL ? "  " : "");
	trace_put_fn(&text, s->p->names, l->row->fn, true);
	grid_cell(g, kp_buf_cstr(&text));
	kp_buf_free(&text);
	figure_cells(s, g, l->row);
	if (l->section != NULL)
		grid_cell(g, text_share(share, sheet_share(s, l->row,
		    l->section)));
}

static void
table_rows(struct sheet *s, struct grid *g)
{
	const struct kp_counts_row *section = NULL;

	sheet_by_section(s);
	for (size_t i = 0; i < s->shown; i++) {
		if (s->lines[i].section != section) {
			section = s->lines[i].section;
			section_row(s, g, section);
		}
		line_row(s, g, &s->lines[i]);
	}
	grid_rule(g);
	grid_cell(g, "all");
	figure_cells(s, g, &s->all);
	if (s->p->by_process)
		grid_cell(g, "");
}

static bool
has_module(const struct kp_counts *p, const char *mod)
{
	for (size_t i = 0; i < p->nrows; i++)
		if (strcmp(p->names->fns[p->rows[i].fn].mod, mod) == 0)
			return true;
	return false;
}

/* Behind "3 modules". */
static const char *const why_missed[] = {
	[KP_COUNTS_AHEAD] = " loaded meanwhile: their calls are missing (see "
	    "-max-functions)",
	[KP_COUNTS_OTHERS] = " loaded meanwhile: their calls are missing, since "
	    "another tool has the node's setting for new code (on_load)",
	[KP_COUNTS_EXCLUDE] = " loaded meanwhile: their calls are missing (with "
	    "-exclude no new module is counted)"
};

static void
put_notes(const struct sheet *s, struct kp_buf *b, unsigned width)
{
	uint64_t deleted = s->p->deleted < s->p->gone ? s->p->deleted :
	    s->p->gone;
	const struct {
		uint64_t n;
		const char *before, *what, *after;
	} counted[] = {
		{ s->p->gone - deleted, "", "function", ": their module was "
		    "loaded again meanwhile, and their counters went with it" },
		{ deleted, "", "function", ": their module was deleted "
		    "meanwhile, and their counters went with it" },
		{ s->p->merged, "others: ", "row", " of processes, added up "
		    "(see -processes)" },
		{ s->v->skipped, "not counted: ", "process", " that another "
		    "tool traces" },
		{ s->p->came, "", "module", " loaded meanwhile, counted from "
		    "the first call" },
		{ s->p->missed, "", "module", why_missed[s->p->ahead] },
	};
	const struct counts_view *v = s->v;
	char n[TEXT_MAX], m[TEXT_MAX], l[TEXT_MAX], shown[3 * TEXT_MAX] = "";
	struct kp_buf line;

	if (s->shown < s->n)
		snprintf(shown, sizeof(shown), "; %s of %s rows shown (see -n)",
		    text_count(n, s->shown), text_count(m, s->n));
	text_note(b, width, "%s on '%s' (OTP %d): %s counted%s%s",
	    text_dur(n, s->p->elapsed), v->target, v->otp,
	    text_counted(l, v->functions, "function"), shown,
	    v->paused ? "; paused" : "");
	kp_buf_init(&line, LINE_BYTES_MAX);
	if (v->limit != NULL) {
		counts_limit_put(&line, v->limit);
		text_note(b, width, "%s", kp_buf_cstr(&line));
	}
	if (v->ended != NULL)
		text_note(b, width, "%s", v->ended);
	if (v->own_calls && has_module(s->p, "erlang"))
		text_note(b, width, "kprof looks at the node's memory twice a "
		    "second, by functions of erlang: these calls are counted "
		    "too (kprof time leaves them out)");
	if (v->unseen.n > 0) {
		kp_buf_reset(&line);
		kp_instructions_put(&line, &v->unseen, "counted");
		text_note(b, width, "%s", kp_buf_cstr(&line));
	}
	kp_buf_free(&line);
	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
		if (counted[i].n > 0)
			text_note(b, width, "%s%s%s", counted[i].before,
			    text_counted(n, counted[i].n, counted[i].what),
			    counted[i].after);
}

void
counts_table(struct kp_buf *b, const struct kp_counts *p,
    const struct counts_view *v, unsigned width)
{
	struct sheet s;
	struct grid g;

	if (!sheet_make(&s, p, v, b))
		return;
	grid_init(&g);
	table_head(&s, &g);
	table_rows(&s, &g);
	if (s.n > 0) {
		grid_write(&g, width, b);
		kp_buf_u8(b, '\n');
	} else {
		text_wrap(b, p->gone > 0 || p->missed > 0 || v->unseen.n > 0 ?
		    "no calls are known (see below)" : "none of these functions "
		    "was called", width, 0);
	}
	grid_free(&g);
	put_notes(&s, b, width);
	sheet_free(&s);
}

/* ---- for programs ---- */

static void
json_limit(struct json *j, const struct counts_limit *l)
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
	json_string(j, "identity", l->identity);
	json_string(j, "tier", l->tier);
	json_end(j);
}

static void
json_unseen(struct json *j, const struct kp_instructions *s)
{
	json_array(j, "compiled_to_instructions");
	for (size_t i = 0; i < s->n; i++) {
		json_object(j, NULL);
		json_string(j, "module", s->v[i]->mod);
		json_string(j, "function", s->v[i]->fun);
		json_uint(j, "arity", s->v[i]->arity);
		json_end(j);
	}
	json_end(j);
}

static void
json_figures(struct json *j, const struct sheet *s,
    const struct kp_counts_row *r)
{
	json_uint(j, "calls", r->calls);
	if (s->p->type != KP_COUNTS_CALLS) {
		json_uint(j, s->p->type == KP_COUNTS_TIME ? "us" : "words",
		    r->value);
		json_number(j, "per_call", sheet_per_call(r));
	}
}

static void
json_process(struct json *j, const struct sheet *s, uint32_t proc)
{
	struct kp_buf pid;

	kp_buf_init(&pid, 64);
	put_pid(&pid, s->p, proc);
	json_string(j, "process", kp_buf_cstr(&pid));
	kp_buf_free(&pid);
	json_string(j, "name", proc_name(s->p, proc));
}

/* The sums of each process that has a row. */
static void
json_sections(struct json *j, struct sheet *s)
{
	const struct kp_counts_row *sums = NULL;

	sheet_by_section(s);
	json_array(j, "sections");
	for (size_t i = 0; i < s->shown; i++) {
		if (s->lines[i].section == sums)
			continue;
		sums = s->lines[i].section;
		json_object(j, NULL);
		json_process(j, s, sums->proc);
		json_figures(j, s, sums);
		json_number(j, "share", sheet_share(s, sums, &s->all));
		json_end(j);
	}
	json_end(j);
}

static void
json_line(struct json *j, const struct sheet *s, const struct sheet_line *l)
{
	const struct kp_call_fn *fn = &s->p->names->fns[l->row->fn];

	json_object(j, NULL);
	json_string(j, "module", fn->mod);
	json_string(j, "function", fn->fun);
	json_uint(j, "arity", fn->arity);
	if (l->section != NULL)
		json_process(j, s, l->row->proc);
	json_figures(j, s, l->row);
	json_number(j, "share", sheet_share(s, l->row, &s->all));
	if (l->section != NULL)
		json_number(j, "process_share", sheet_share(s, l->row,
		    l->section));
	json_end(j);
}

void
counts_json(struct kp_buf *b, const struct kp_counts *p,
    const struct counts_view *v)
{
	struct sheet s;
	struct json j;

	if (!sheet_make(&s, p, v, b))
		return;
	json_open(&j, b);
	json_string(&j, "target", v->target);
	json_int(&j, "otp", v->otp);
	json_string(&j, "type", kp_counts_types[p->type]);
	json_ms(&j, "elapsed_ms", p->elapsed);
	json_limit(&j, v->limit);
	json_uint(&j, "functions", v->functions);
	json_uint(&j, "processes", v->processes);
	json_string(&j, "ended", v->ended);
	json_string(&j, "value", v->value);
	json_bool(&j, "paused", v->paused);
	json_uint(&j, "gone", p->gone);
	json_uint(&j, "deleted", p->deleted);
	json_uint(&j, "merged", p->merged);
	json_uint(&j, "skipped", v->skipped);
	json_uint(&j, "loaded_and_counted", p->came);
	json_uint(&j, "loaded_and_missing", p->missed);
	json_unseen(&j, &v->unseen);
	json_object(&j, "all");
	json_figures(&j, &s, &s.all);
	json_end(&j);
	json_array(&j, "rows");
	for (size_t i = 0; i < s.shown; i++)
		json_line(&j, &s, &s.lines[i]);
	json_end(&j);
	if (p->by_process)
		json_sections(&j, &s);
	json_close(&j);
	sheet_free(&s);
}

/* Appends text, which is cleared for the next field. */
static void
csv_field(struct kp_buf *b, struct kp_buf *text)
{
	report_csv_text(b, kp_buf_cstr(text));
	kp_buf_reset(text);
}

static void
csv_line(struct kp_buf *b, const struct sheet *s, const struct sheet_line *l)
{
	const struct kp_counts_row *r = l->row;
	struct kp_buf text;

	kp_buf_init(&text, LINE_BYTES_MAX);
	trace_put_fn(&text, s->p->names, r->fn, false);
	csv_field(b, &text);
	if (l->section != NULL) {
		put_pid(&text, s->p, r->proc);
		kp_buf_u8(b, ',');
		csv_field(b, &text);
	}
	kp_buf_printf(b, ",%" PRIu64, r->calls);
	if (s->p->type != KP_COUNTS_CALLS)
		kp_buf_printf(b, ",%" PRIu64 ",%.3f", r->value,
		    sheet_per_call(r));
	kp_buf_printf(b, ",%.3f", 100 * sheet_share(s, r, &s->all));
	if (l->section != NULL)
		kp_buf_printf(b, ",%.3f", 100 * sheet_share(s, r,
		    l->section));
	if (s->v->limit != NULL) {
		counts_limit_put(&text, s->v->limit);
		kp_buf_u8(b, ',');
		csv_field(b, &text);
	}
	kp_buf_u8(b, '\n');
	kp_buf_free(&text);
}

void
counts_csv(struct kp_buf *b, const struct kp_counts *p,
    const struct counts_view *v)
{
	struct sheet s;

	if (!sheet_make(&s, p, v, b))
		return;
	kp_buf_printf(b, "function%s,calls%s,percent%s%s\n",
	    p->by_process ? ",process" : "",
	    p->type == KP_COUNTS_CALLS ? "" :
	    p->type == KP_COUNTS_TIME ? ",us,us_per_call" :
	    ",words,words_per_call",
	    p->by_process ? ",percent_of_process" : "",
	    v->limit != NULL ? ",limit" : "");
	for (size_t i = 0; i < s.shown; i++)
		csv_line(b, &s, &s.lines[i]);
	sheet_free(&s);
}
