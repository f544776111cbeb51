/*
 * counts_report.c - writes counters as a table, as JSON and as CSV.
 *
 * A row is a function, or one process's calls of it.  Its share is its part of
 * all rows, shown or not: of the calls where calls were counted, else of time
 * or words.  By process a row has its share of what its process did as well; in
 * the table the rows of a process stand together, below its sums.
 */
#include <inttypes.h>
#include <string.h>

#include "kprofd/fn_name.h"
#include "trace_internal.h"
#include "counts_report.h"
#include "counts_sheet.h"
#include "report/report.h"
#include "text/grid.h"
#include "text/json.h"
#include "text/text.h"

#define LINE_BYTES_MAX (3 * KP_ATOM_TEXT_MAX)
#define ENTRIES_NAMED 5

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
	trace_put_fn(&text, s->p->names, l->row->fn);
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

/* Appends a line, which is cleared for the next one. */
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
		    "(see -max-rows)" },
		{ s->v->skipped, "not counted: ", "process", " that another "
		    "tool traces" },
		{ s->p->came, "", "module", " loaded meanwhile, counted from "
		    "the first call" },
		{ s->p->missed, "", "module", why_missed[s->p->ahead] },
	};
	const struct counts_view *v = s->v;
	char n[TEXT_MAX], m[TEXT_MAX];
	struct kp_buf line;

	kp_buf_init(&line, LINE_BYTES_MAX);
	kp_buf_printf(&line, "%s on '%s' (OTP %d): %s counted",
	    text_dur(n, s->p->elapsed), v->target, v->otp,
	    text_counted(m, v->functions, "function"));
	if (s->shown < s->n)
		kp_buf_printf(&line, "; %s of %s rows shown (see -n)",
		    text_count(n, s->shown), text_count(m, s->n));
	if (v->paused)
		kp_buf_str(&line, "; paused");
	note(b, width, &line);
	if (v->limit != NULL) {
		counts_limit_put(&line, v->limit);
		note(b, width, &line);
	}
	if (v->ended != NULL) {
		kp_buf_str(&line, v->ended);
		note(b, width, &line);
	}
	if (v->own_calls && has_module(s->p, "erlang")) {
		kp_buf_str(&line, "kprof looks at the node's memory twice a "
		    "second, by functions of erlang: these calls are counted "
		    "too (kprof time leaves them out)");
		note(b, width, &line);
	}
	if (v->unseen.n > 0) {
		kp_instructions_put(&line, &v->unseen, "counted");
		note(b, width, &line);
	}
	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
		if (counted[i].n == 0)
			continue;
		kp_buf_printf(&line, "%s%s%s", counted[i].before,
		    text_counted(n, counted[i].n, counted[i].what),
		    counted[i].after);
		note(b, width, &line);
	}
	kp_buf_free(&line);
}

void
counts_table(struct kp_buf *b, const struct kp_counts *p,
    const struct counts_view *v, unsigned width)
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

	if (sheet_make(&s, p, v) != KP_OK) {
		b->err = KP_ENOMEM;
		return;
	}
	json_begin(&j, b);
	json_object(&j, NULL);
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
	json_end(&j);
	kp_buf_u8(b, '\n');
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
	trace_put_fn(&text, s->p->names, r->fn);
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

	if (sheet_make(&s, p, v) != KP_OK) {
		b->err = KP_ENOMEM;
		return;
	}
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
