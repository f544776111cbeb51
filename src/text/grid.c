/* grid.c - collects the rows and columns of a grid; grid_write.c writes it. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
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

/* Returns a copy that is safe to print, and the caller owns.  NULL: sets g->err. */
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

/* Returns false, and sets g->err, if there was no memory for an element. */
static bool
has_room(struct grid *g, enum kp_err room)
{
	if (room != KP_OK)
		g->err = room;
	return room == KP_OK;
}

void
grid_col_optional(struct grid *g, const char *head, enum grid_align align,
    unsigned rank)
{
	char *text;

	if (g->err != KP_OK || !has_room(g, vec_room_by_len(&g->cols,
	    g->ncols, VEC_NO_CAP)))
		return;
	text = clean(g, head);
	if (text != NULL)
		g->cols[g->ncols++] = (struct grid_col){ .head = text,
			.align = align, .width = text_width(text),
			.drop = rank };
}

void
grid_col(struct grid *g, const char *head, enum grid_align align)
{
	grid_col_optional(g, head, align, 0);
}

void
grid_fix(struct grid *g)
{
	g->nfixed = g->ncols;
}

void
grid_group(struct grid *g, const char *head)
{
	char *text;

	if (g->err != KP_OK || !has_room(g, vec_room_by_len(&g->groups,
	    g->ngroups, VEC_NO_CAP)))
		return;
	text = clean(g, head);
	if (text != NULL)
		g->groups[g->ngroups++] = (struct grid_group){ text, g->ncols };
}

void
grid_cut(struct grid *g)
{
	g->cut = g->ncols - 1;
}

static void
add_cell(struct grid *g, char *text)
{
	if (!has_room(g, vec_room_by_len(&g->cells, g->ncells,
	    VEC_NO_CAP))) {
		free(text);
		return;
	}
	g->cells[g->ncells++] = text;
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
