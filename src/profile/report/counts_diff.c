/*
 * counts_diff.c - reads two profiles, pairs their rows by function, and writes
 * the differences.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "kprofd/fn_name.h"
#include "text/grid.h"
#include "text/json.h"
#include "counts_diff.h"
#include "text/text.h"

#define FIELD_MAX 8192u
#define FIELDS_MAX 8u
#define FIGURE_MAX (UINT64_C(1) << 43)	/* sums of all rows stay below 2^63 */

/* ---- kept profiles ---- */

struct reader {
	const char *p, *end;
	unsigned line;
	char field[FIELD_MAX];
};

/* Reads a field and unquotes it; *more: another one follows on the line. */
static bool
read_field(struct reader *r, bool *more)
{
	bool quoted = r->p < r->end && *r->p == '"';
	size_t n = 0;

	r->p += quoted;
	for (; r->p < r->end && n + 1 < sizeof(r->field); r->p++) {
		if (quoted && *r->p == '"' &&
		    (r->p + 1 == r->end || r->p[1] != '"'))
			break;
		if (!quoted && (*r->p == ',' || *r->p == '\n'))
			break;
		if (*r->p == '\0' || *r->p == '\n')
			return false;
		r->p += quoted && *r->p == '"';
		r->field[n++] = *r->p;
	}
	r->field[n] = '\0';
	if (quoted && (r->p == r->end || *r->p++ != '"'))
		return false;
	if (r->p == r->end || (*r->p != ',' && *r->p != '\n'))
		return false;
	*more = *r->p++ == ',';
	return true;
}

/* The number of a column; -1: there is none. */
struct columns {
	int function, calls, value, n;
};

static bool
read_head(struct reader *r, struct columns *c, enum kp_counts_type *type)
{
	bool more = true;

	*c = (struct columns){ -1, -1, -1, 0 };
	*type = KP_COUNTS_CALLS;
	for (; more && c->n < (int)FIELDS_MAX; c->n++) {
		if (!read_field(r, &more))
			return false;
		if (strcmp(r->field, "function") == 0) {
			c->function = c->n;
		} else if (strcmp(r->field, "calls") == 0) {
			c->calls = c->n;
		} else if (strcmp(r->field, "us") == 0) {
			c->value = c->n;
			*type = KP_COUNTS_TIME;
		} else if (strcmp(r->field, "words") == 0) {
			c->value = c->n;
			*type = KP_COUNTS_MEMORY;
		}
	}
	return !more && c->function >= 0 && c->calls >= 0;
}

static bool
read_figure(const char *s, uint64_t *v)
{
	*v = 0;
	if (*s == '\0')
		return false;
	for (; *s >= '0' && *s <= '9' && *v <= FIGURE_MAX; s++)
		*v = *v * 10 + (uint64_t)(*s - '0');
	return *s == '\0' && *v <= FIGURE_MAX;
}

/* Free row->fn after an error, too. */
static bool
read_line(struct reader *r, const struct columns *c,
    struct counts_kept_row *row)
{
	bool more = true, good = true;

	for (int i = 0; i < c->n; i++) {
		if (!more || !read_field(r, &more))
			return false;
		if (i == c->function)
			row->fn = strdup(r->field);
		else if (i == c->calls)
			good &= read_figure(r->field, &row->calls);
		else if (i == c->value)
			good &= read_figure(r->field, &row->value);
	}
	return good && !more && row->fn != NULL;
}

static int
by_name(const void *pa, const void *pb)
{
	const struct counts_kept_row *a = pa, *b = pb;

	return strcmp(a->fn, b->fn);
}

/* Adds up the rows of a function's processes. */
static void
add_up(struct counts_kept *k)
{
	struct counts_kept_row *last = NULL;
	size_t n = 0;

	if (k->n > 0)
		qsort(k->rows, k->n, sizeof(*k->rows), by_name);
	for (size_t i = 0; i < k->n; i++) {
		if (last != NULL && strcmp(last->fn, k->rows[i].fn) == 0) {
			last->calls += k->rows[i].calls;
			last->value += k->rows[i].value;
			free(k->rows[i].fn);
		} else {
			k->rows[n] = k->rows[i];
			last = &k->rows[n++];
		}
	}
	k->n = n;
}

enum kp_err
counts_kept_put(struct counts_kept *k, const char *fn, uint64_t calls,
    uint64_t value)
{
	enum kp_err e = vec_room(&k->rows, &k->room, k->n, COUNTS_KEPT_MAX);
	char *name = e == KP_OK ? strdup(fn) : NULL;

	if (e == KP_OK && name == NULL)
		e = KP_ENOMEM;
	if (e == KP_OK)
		k->rows[k->n++] = (struct counts_kept_row){ name, calls,
			value };
	return e;
}

static enum kp_err
read_lines(struct reader *r, const struct columns *c, struct counts_kept *k)
{
	enum kp_err e = KP_OK;

	while (e == KP_OK && r->p < r->end) {
		r->line++;
		e = vec_room(&k->rows, &k->room, k->n, COUNTS_KEPT_MAX);
		if (e != KP_OK)
			break;
		k->rows[k->n] = (struct counts_kept_row){ 0 };
		if (!read_line(r, c, &k->rows[k->n]))
			e = KP_EFORMAT;
		k->n++;
	}
	return e;
}

enum kp_err
counts_kept_read(struct counts_kept *k, const char *s, size_t n, char *why,
    size_t whylen)
{
	struct reader r = { .p = s, .end = s + n, .line = 1 };
	struct columns c;
	enum kp_err e = KP_EFORMAT;

	*k = (struct counts_kept){ 0 };
	if (read_head(&r, &c, &k->type))
		e = read_lines(&r, &c, k);
	if (e == KP_OK) {
		add_up(k);
		return KP_OK;
	}
	if (e == KP_EFORMAT)
		snprintf(why, whylen, "line %u is not one that kprof count, "
		    "time or memory write with -csv or -o", r.line);
	else
		snprintf(why, whylen, "%s", e == KP_ELIMIT ?
		    "it has too many lines" : kp_err_str(e));
	counts_kept_free(k);
	return e;
}

void
counts_kept_free(struct counts_kept *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->rows[i].fn);
	free(k->rows);
	*k = (struct counts_kept){ .type = k->type };
}

/* ---- side by side ---- */

struct pair {
	const char *fn;
	uint64_t calls, was_calls, value, was_value;
};

struct pairs {
	struct pair *v;
	size_t n, shown;
	enum kp_counts_type type;
	const struct counts_diff_view *view;
};

static int
sign(double d)
{
	return (d > 0) - (d < 0);
}

/* The figure that is compared: calls, or time or words. */
static double
now_of(const struct pairs *ps, const struct pair *p)
{
	return (double)(ps->type == KP_COUNTS_CALLS ? p->calls : p->value);
}

static double
was_of(const struct pairs *ps, const struct pair *p)
{
	return (double)(ps->type == KP_COUNTS_CALLS ? p->was_calls :
	    p->was_value);
}

static double
difference(const struct pairs *ps, const struct pair *p)
{
	double d = now_of(ps, p) - was_of(ps, p);

	return d < 0 ? -d : d;
}

static int
in_order(const void *pa, const void *pb, void *ctx)
{
	const struct pair *a = pa, *b = pb;
	const struct pairs *ps = ctx;
	int d = 0;

	if (ps->view->sort == COUNTS_DIFF_CHANGE)
		d = sign(difference(ps, b) - difference(ps, a));
	else if (ps->view->sort == COUNTS_DIFF_NOW)
		d = sign(now_of(ps, b) - now_of(ps, a));
	if (d == 0)
		d = strcmp(a->fn, b->fn);
	return ps->view->reverse ? -d : d;
}

/* False after setting the error of out. */
static bool
pairs_make(struct pairs *ps, const struct counts_kept *a,
    const struct counts_kept *b, const struct counts_diff_view *v,
    struct kp_buf *out)
{
	size_t i = 0, j = 0;
	struct pair *p;
	int d;

	*ps = (struct pairs){ .type = b->type, .view = v };
	ps->v = calloc(a->n + b->n + 1, sizeof(*ps->v));
	if (ps->v == NULL) {
		out->err = KP_ENOMEM;
		return false;
	}
	while (i < a->n || j < b->n) {
		d = i == a->n ? 1 : j == b->n ? -1 :
		    strcmp(a->rows[i].fn, b->rows[j].fn);
		p = &ps->v[ps->n++];
		p->fn = d <= 0 ? a->rows[i].fn : b->rows[j].fn;
		if (d <= 0) {
			p->was_calls = a->rows[i].calls;
			p->was_value = a->rows[i++].value;
		}
		if (d >= 0) {
			p->calls = b->rows[j].calls;
			p->value = b->rows[j++].value;
		}
	}
	if (ps->n > 0)
		qsort_r(ps->v, ps->n, sizeof(*ps->v), in_order, ps);
	ps->shown = v->top > 0 && v->top < ps->n ? v->top : ps->n;
	return true;
}

static void
change_cell(struct grid *g, double now, double was)
{
	char text[TEXT_MAX];

	grid_cell(g, was > 0 ? text_change(text, now / was - 1) :
	    now > 0 ? "new" : "-");
}

static void
value_cell(struct grid *g, enum kp_counts_type type, uint64_t v)
{
	char text[TEXT_MAX];

	grid_cell(g, type == KP_COUNTS_TIME ?
	    text_us(text, v) :
	    text_count(text, v));
}

static void
pair_cells(const struct pairs *ps, struct grid *g, const struct pair *p)
{
	char name[FN_NAME_MAX];

	grid_cell(g, fn_read(name, sizeof(name), p->fn));
	value_cell(g, KP_COUNTS_CALLS, p->calls);
	value_cell(g, KP_COUNTS_CALLS, p->was_calls);
	change_cell(g, (double)p->calls, (double)p->was_calls);
	if (ps->type == KP_COUNTS_CALLS)
		return;
	value_cell(g, ps->type, p->value);
	value_cell(g, ps->type, p->was_value);
	change_cell(g, (double)p->value, (double)p->was_value);
}

static void
diff_head(struct grid *g, enum kp_counts_type type)
{
	grid_col(g, "FUNCTION", GRID_LEFT);
	grid_fix(g);
	grid_col(g, "CALLS", GRID_RIGHT);
	grid_col(g, "BEFORE", GRID_RIGHT);
	grid_col(g, "CHANGE", GRID_RIGHT);
	if (type == KP_COUNTS_CALLS)
		return;
	grid_col(g, type == KP_COUNTS_TIME ? "TIME" : "WORDS", GRID_RIGHT);
	grid_col(g, "BEFORE", GRID_RIGHT);
	grid_col(g, "CHANGE", GRID_RIGHT);
}

void
counts_diff_table(struct kp_buf *b, const struct counts_kept *before,
    const struct counts_kept *now, const struct counts_diff_view *v,
    unsigned width)
{
	struct pair all = { .fn = "all" };
	struct pairs ps;
	struct grid g;

	if (!pairs_make(&ps, before, now, v, b))
		return;
	grid_init(&g);
	diff_head(&g, ps.type);
	for (size_t i = 0; i < ps.n; i++) {
		if (i < ps.shown)
			pair_cells(&ps, &g, &ps.v[i]);
		all.calls += ps.v[i].calls;
		all.was_calls += ps.v[i].was_calls;
		all.value += ps.v[i].value;
		all.was_value += ps.v[i].was_value;
	}
	grid_rule(&g);
	pair_cells(&ps, &g, &all);
	grid_write(&g, width, b);
	grid_free(&g);
	if (ps.shown < ps.n)
		kp_buf_printf(b, "\n%zu of %zu rows shown (see -n)\n",
		    ps.shown, ps.n);
	free(ps.v);
}

void
counts_diff_json(struct kp_buf *b, const struct counts_kept *before,
    const struct counts_kept *now, const struct counts_diff_view *v)
{
	static const char *const values[] = { "", "us", "words" };
	static const char *const befores[] = { "", "us_before",
		"words_before" };
	struct pairs ps;
	struct json j;

	if (!pairs_make(&ps, before, now, v, b))
		return;
	json_open(&j, b);
	json_array(&j, "rows");
	for (size_t i = 0; i < ps.shown; i++) {
		json_object(&j, NULL);
		json_string(&j, "function", ps.v[i].fn);
		json_uint(&j, "calls", ps.v[i].calls);
		json_uint(&j, "calls_before", ps.v[i].was_calls);
		if (ps.type != KP_COUNTS_CALLS) {
			json_uint(&j, values[ps.type], ps.v[i].value);
			json_uint(&j, befores[ps.type], ps.v[i].was_value);
		}
		json_end(&j);
	}
	json_end(&j);
	json_close(&j);
	free(ps.v);
}
