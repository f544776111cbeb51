/* grid.c - collects the rows and columns of a grid; grid_write.c writes it. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "grid_internal.h"
#include "text.h"

#define CELL_BYTES_MAX 8192u	/* of one text */

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
	for (size_t i = 0; i < g->ngroups; i++)
		free(g->groups[i].head);
	free(g->groups);
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
		v[g->ncols++] = (struct grid_col){ .head = text,
			.align = align, .width = text_width(text) };
}

void
grid_fix(struct grid *g)
{
	g->nfixed = g->ncols;
}

void
grid_group(struct grid *g, const char *head)
{
	struct grid_group *v;
	char *text;

	if (g->err != KP_OK)
		return;
	v = grow(g, g->groups, g->ngroups, sizeof(*v));
	if (v == NULL)
		return;
	g->groups = v;
	text = clean(g, head);
	if (text != NULL)
		v[g->ngroups++] = (struct grid_group){ text, g->ncols };
}

void
grid_drop(struct grid *g, unsigned rank)
{
	if (g->ncols > 0)
		g->cols[g->ncols - 1].drop = rank;
}

void
grid_cut(struct grid *g)
{
	g->cut = g->ncols - 1;
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
