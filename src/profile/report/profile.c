/*
 * profile.c - writes a profile as a table, as JSON and as CSV.
 *
 * A row is a function, or one process's calls of it.  Shares are of all rows,
 * shown or not: of the calls where calls were counted, else of time or words.
 * By process rows have shares of what their process did as well; in the table
 * those of one process are together, below its sums.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/fn_name.h"
#include "text/grid.h"
#include "text/json.h"
#include "profile.h"
#include "profile_sheet.h"
#include "report/report.h"
#include "text/text.h"
#include "kprofd/term.h"

#define LINE_BYTES_MAX (3 * KP_ATOM_TEXT_MAX)

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
		grid_cell(g, text_dur(text, (kp_dur_ns)(sheet_per_call(l) *
		    (double)KP_NS_PER_US)));
	} else if (s->p->type == KP_PROFILE_MEMORY) {
		grid_cell(g, text_count(text, l->value));
		grid_cell(g, text_average(text, sheet_per_call(l)));
	}
	grid_cell(g, text_share(text, sheet_share(s, l->calls, l->value)));
}

static void
table_head(const struct sheet *s, struct grid *g)
{
	enum kp_profile_type type = s->p->type;

	grid_col(g, s->v->by_process ? "PROCESS, FUNCTION" : "FUNCTION",
	    GRID_LEFT);
	grid_fix(g);
	grid_col(g, "CALLS", GRID_RIGHT);
	if (type != KP_PROFILE_COUNT) {
		grid_col(g, type == KP_PROFILE_TIME ? "TIME" : "WORDS",
		    GRID_RIGHT);
		grid_col(g, "PER CALL", GRID_RIGHT);
	}
	grid_col(g, "%", GRID_RIGHT);
	if (s->v->by_process)
		grid_col(g, "% OF PROCESS", GRID_RIGHT);
}

static void
section_row(const struct sheet *s, struct grid *g, const struct section *of)
{
	struct line sums = { .calls = of->calls, .value = of->value };
	const char *name = sheet_name(s, of->proc);
	struct kp_buf text;

	kp_buf_init(&text, LINE_BYTES_MAX);
	put_pid(&text, of->proc);
	if (name != NULL)
		kp_buf_printf(&text, " %s", name);
	cell(g, &text);
	kp_buf_free(&text);
	figure_cells(s, g, &sums);
	grid_cell(g, "");
}

static void
line_row(const struct sheet *s, struct grid *g, const struct line *l)
{
	char share[TEXT_MAX];
	struct kp_buf text;

	kp_buf_init(&text, LINE_BYTES_MAX);
	kp_buf_str(&text, l->section != NULL ? "  " : "");
	put_fn(&text, l->fn);
	cell(g, &text);
	kp_buf_free(&text);
	figure_cells(s, g, l);
	if (l->section != NULL)
		grid_cell(g, text_share(share, sheet_section_share(s, l)));
}

static void
table_rows(struct sheet *s, struct grid *g)
{
	struct line all = { .calls = s->calls, .value = s->value };
	const struct section *of = NULL;

	sheet_by_section(s);
	for (size_t i = 0; i < s->shown; i++) {
		if (s->lines[i].section != of) {
			of = s->lines[i].section;
			section_row(s, g, of);
		}
		line_row(s, g, &s->lines[i]);
	}
	grid_rule(g);
	grid_cell(g, "all");
	figure_cells(s, g, &all);
	if (s->v->by_process)
		grid_cell(g, "");
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
		profile_limit_put(&line, v->limit);
		note(b, width, &line);
	}
	if (v->ended != NULL) {
		kp_buf_str(&line, v->ended);
		note(b, width, &line);
	}
	if (s->p->gone > 0) {
		kp_buf_printf(&line, "%s: their module was loaded "
		    "again meanwhile, and their counters went with it",
		    text_counted(n, s->p->gone, "function"));
		note(b, width, &line);
	}
	if (s->p->merged > 0) {
		kp_buf_printf(&line, "others: %s of processes, added up (see "
		    "-max-rows)", text_counted(n, s->p->merged, "row"));
		note(b, width, &line);
	}
	if (v->skipped > 0) {
		kp_buf_printf(&line, "not counted: %s that another tool traces",
		    text_counted(n, v->skipped, "process"));
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
		json_number(j, "per_call", sheet_per_call(l));
	}
}

static void
json_process(struct json *j, const struct sheet *s,
    const struct kp_profile_proc *proc)
{
	const char *name = sheet_name(s, proc);
	struct kp_buf pid;

	kp_buf_init(&pid, 64);
	put_pid(&pid, proc);
	json_string(j, "process", kp_buf_cstr(&pid));
	kp_buf_free(&pid);
	if (name != NULL)
		json_string(j, "name", name);
	else
		json_null(j, "name");
}

/* Of those that have a row. */
static void
json_sections(struct json *j, struct sheet *s)
{
	const struct section *of = NULL;
	struct line sums;

	sheet_by_section(s);
	json_array(j, "sections");
	for (size_t i = 0; i < s->shown; i++) {
		if (s->lines[i].section == of)
			continue;
		of = s->lines[i].section;
		sums = (struct line){ .calls = of->calls, .value = of->value };
		json_object(j, NULL);
		json_process(j, s, of->proc);
		json_value(j, s, &sums);
		json_number(j, "share", sheet_share(s, of->calls, of->value));
		json_end(j);
	}
	json_end(j);
}

static void
json_line(struct json *j, const struct sheet *s, const struct line *l)
{
	json_object(j, NULL);
	json_string(j, "module", l->fn->mod);
	json_string(j, "function", l->fn->fun);
	json_uint(j, "arity", l->fn->arity);
	if (l->row != NULL)
		json_process(j, s, &l->row->proc);
	json_value(j, s, l);
	json_number(j, "share", sheet_share(s, l->calls, l->value));
	if (l->section != NULL)
		json_number(j, "process_share", sheet_section_share(s, l));
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
	if (v->value != NULL)
		json_string(&j, "value", v->value);
	else
		json_null(&j, "value");
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
	if (v->by_process)
		json_sections(&j, &s);
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
		kp_buf_printf(b, ",%" PRIu64 ",%.3f", l->value, sheet_per_call(l));
	kp_buf_printf(b, ",%.3f", 100 * sheet_share(s, l->calls, l->value));
	if (l->section != NULL)
		kp_buf_printf(b, ",%.3f", 100 * sheet_section_share(s, l));
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
	kp_buf_printf(b, "function%s,calls%s,percent%s%s\n",
	    v->by_process ? ",process" : "",
	    p->type == KP_PROFILE_COUNT ? "" :
	    p->type == KP_PROFILE_TIME ? ",us,us_per_call" :
	    ",words,words_per_call",
	    v->by_process ? ",percent_of_process" : "",
	    v->limit != NULL ? ",limit" : "");
	for (size_t i = 0; i < s.shown; i++)
		csv_line(b, &s, &s.lines[i]);
	sheet_free(&s);
}
