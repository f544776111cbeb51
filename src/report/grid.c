/* grid.c - see the header. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "text.h"

#define GAP 2u			/* blanks between columns */
#define LABEL_MIN 12u		/* the first column is not cut below this */
#define CELL_BYTES_MAX 8192u	/* of one text */

struct grid_col {
	char *head;
	enum grid_align align;
	size_t width;
};

void
grid_init(struct grid *g)
{
	*g = (struct grid){ 0 };
}

void
grid_free(struct grid *g)
{
	for (size_t i = 0; i < g->ncols; i++)
		free(g->cols[i].head);
	for (size_t i = 0; i < g->ncells; i++)
		free(g->cells[i]);
	free(g->cols);
	free(g->cells);
	grid_init(g);
}

/* A clean copy, owned by the caller; NULL: noted as an error. */
static char *
clean(struct grid *g, const char *text)
{
	struct kp_buf b;
	char *copy = NULL;

	kp_buf_init(&b, CELL_BYTES_MAX);
	text_put(&b, text);
	if (b.err == KP_ELIMIT) {
		kp_buf_reset(&b);
		kp_buf_str(&b, "(too long)");
	}
	if (b.err == KP_OK)
		copy = strdup(kp_buf_cstr(&b));
	kp_buf_free(&b);
	if (copy == NULL)
		g->err = KP_ENOMEM;
	return copy;
}

/* Room for n more elements: at powers of two the array is full. */
static void *
grow(struct grid *g, void *v, size_t n, size_t size)
{
	void *new = v;

	if (n == 0 || (n & (n - 1)) == 0)
		new = reallocarray(v, n == 0 ? 1 : 2 * n, size);
	if (new == NULL)
		g->err = KP_ENOMEM;
	return new;
}

void
grid_col(struct grid *g, const char *head, enum grid_align align)
{
	struct grid_col *v;
	char *text;

	if (g->err != KP_OK)
		return;
	v = grow(g, g->cols, g->ncols, sizeof(*v));
	if (v == NULL)
		return;
	g->cols = v;
	text = clean(g, head);
	if (text != NULL)
		v[g->ncols++] = (struct grid_col){ text, align,
			text_width(text) };
}

void
grid_fix(struct grid *g)
{
	g->nfixed = g->ncols;
}

static void
add_cell(struct grid *g, char *text)
{
	char **v = grow(g, g->cells, g->ncells, sizeof(*v));

	if (v == NULL) {
		free(text);
		return;
	}
	g->cells = v;
	v[g->ncells++] = text;
}

void
grid_cell(struct grid *g, const char *text)
{
	struct grid_col *c;
	size_t width;
	char *copy;

	if (g->err != KP_OK || g->ncols == 0)
		return;
	copy = clean(g, text);
	if (copy == NULL)
		return;
	c = &g->cols[g->ncells % g->ncols];
	width = text_width(copy);
	c->width = width > c->width ? width : c->width;
	add_cell(g, copy);
}

void
grid_rule(struct grid *g)
{
	for (size_t i = 0; i < g->ncols && g->err == KP_OK; i++)
		add_cell(g, NULL);
}

/* Columns [0, nfixed) and [from, to), as they are written. */
struct block {
	const struct grid *g;
	size_t from, to;
	size_t label;		/* width of the first column */
	struct kp_buf *out;
};

static size_t
width_of(const struct block *k, size_t col)
{
	return col == 0 ? k->label : k->g->cols[col].width;
}

static bool
shown(const struct block *k, size_t col)
{
	return col < k->g->nfixed || (col >= k->from && col < k->to);
}

static void
pad(struct kp_buf *b, size_t n)
{
	while (n-- > 0)
		kp_buf_u8(b, ' ');
}

/* Cut to the column's width, where that was made less than the text's. */
static void
put_fitted(struct kp_buf *b, const char *s, size_t width)
{
	if (text_width(s) <= width) {
		kp_buf_str(b, s);
		return;
	}
	kp_buf_put(b, s, text_fit(s, width - 1));
	kp_buf_str(b, "\xe2\x80\xa6");	/* an ellipsis: one column */
}

/* texts: one for each column, every stride-th of the array */
static void
put_row(const struct block *k, char *const *texts)
{
	size_t want = 0, have = 0, width, w;
	const struct grid_col *c;
	const char *s;

	for (size_t i = 0; i < k->g->ncols; i++) {
		if (!shown(k, i))
			continue;
		c = &k->g->cols[i];
		s = texts != NULL ? texts[i] : c->head;
		width = width_of(k, i);
		w = text_width(s);
		w = w < width ? w : width;
		/* blanks are written when something follows them */
		if (c->align == GRID_RIGHT)
			want += width - w;
		if (w > 0) {
			pad(k->out, want - have);
			put_fitted(k->out, s, width);
			have = want += w;
		}
		want += GAP + (c->align == GRID_LEFT ? width - w : 0);
	}
	kp_buf_u8(k->out, '\n');
}

static void
put_rule(const struct block *k)
{
	size_t n = 0;

	for (size_t i = 0; i < k->g->ncols; i++)
		n += shown(k, i) ? width_of(k, i) + GAP : 0;
	for (n -= n >= GAP ? GAP : 0; n > 0; n--)
		kp_buf_u8(k->out, '-');
	kp_buf_u8(k->out, '\n');
}

static void
put_block(const struct block *k)
{
	const struct grid *g = k->g;

	put_row(k, NULL);
	put_rule(k);
	for (size_t i = 0; i + g->ncols <= g->ncells; i += g->ncols) {
		if (g->cells[i] == NULL)
			put_rule(k);
		else
			put_row(k, &g->cells[i]);
	}
}

/* The first column gives way to the widest other one, down to LABEL_MIN. */
static size_t
label_width(const struct grid *g, unsigned width)
{
	size_t rest = 0, widest = 0, label = g->cols[0].width;

	if (width == 0 || g->nfixed == 0)
		return label;
	for (size_t i = 1; i < g->ncols; i++) {
		if (i < g->nfixed)
			rest += g->cols[i].width + GAP;
		else if (g->cols[i].width + GAP > widest)
			widest = g->cols[i].width + GAP;
	}
	if (label + rest + widest <= width)
		return label;
	if (rest + widest + LABEL_MIN >= width)
		return label < LABEL_MIN ? label : LABEL_MIN;
	return width - rest - widest;
}

void
grid_write(const struct grid *g, unsigned width, struct kp_buf *b)
{
	struct block k = { .g = g, .from = g->nfixed, .out = b };
	size_t fixed = 0, used;

	if (g->err != KP_OK && b->err == KP_OK)
		b->err = g->err;
	if (b->err != KP_OK || g->ncols == 0)
		return;
	k.label = label_width(g, width);
	for (size_t i = 0; i < g->nfixed; i++)
		fixed += width_of(&k, i) + GAP;
	do {
		used = fixed;
		for (k.to = k.from; k.to < g->ncols; k.to++) {
			used += width_of(&k, k.to) + GAP;
			if (width > 0 && used - GAP > width && k.to > k.from)
				break;
		}
		if (k.from > g->nfixed)
			kp_buf_u8(b, '\n');
		put_block(&k);
		k.from = k.to;
	} while (k.from < g->ncols);
}
