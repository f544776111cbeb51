/*
 * grid.c - collects the rows and columns of a grid, lays it out in a given width, and
 * writes it: first it decides which columns to show and how wide; then each block takes as
 * many of them as fit.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "text/grid.h"
#include "text/text.h"

#define CELL_BYTES_MAX 8192u	/* of one text */
#define GAP 2u			/* blanks between columns */
#define CUT_MIN 12u		/* width that the cut column keeps */
#define DROPPED SIZE_MAX	/* as a width */

struct grid_col {
	char *head;
	enum grid_align align;
	size_t width;
	unsigned drop;		/* rank; 0: not optional */
};

struct grid_group {
	char *head;
	size_t from;		/* index of its first column */
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

/* ---- writing ---- */

struct layout {
	const struct grid *g;
	struct kp_buf *out;
	size_t *width;		/* of each column, or DROPPED */
	size_t from, to;	/* the block's columns, besides the fixed ones */
};

static bool
shown(const struct layout *l, size_t col)
{
	return l->width[col] != DROPPED && (col < l->g->nfixed ||
	    (col >= l->from && col < l->to));
}

static void
pad(struct kp_buf *b, char with, size_t n)
{
	while (n-- > 0)
		kp_buf_u8(b, (uint8_t)with);
}

/*
 * Writes the text, cut if it is wider than the column.  After right-to-left text a
 * terminal would also reverse the figures that follow: a left-to-right mark, which
 * takes no column, prevents that.
 */
static void
put_fitted(struct kp_buf *b, const char *s, size_t width)
{
	if (text_width(s) <= width) {
		kp_buf_str(b, s);
	} else {
		kp_buf_put(b, s, text_fit(s, width - 1));
		kp_buf_str(b, "\xe2\x80\xa6");	/* an ellipsis: one column */
	}
	if (text_has_rtl(s))
		kp_buf_str(b, "\xe2\x80\x8e");
}

/* texts: one for each column; NULL: the heads. */
static void
put_row(const struct layout *l, char *const *texts)
{
	size_t want = 0, have = 0, width, w;
	const struct grid_col *c;
	const char *s;

	for (size_t i = 0; i < l->g->ncols; i++) {
		if (!shown(l, i))
			continue;
		c = &l->g->cols[i];
		s = texts != NULL ? texts[i] : c->head;
		width = l->width[i];
		w = text_width(s);
		w = w < width ? w : width;
		/* blanks are written when something follows them */
		if (c->align == GRID_RIGHT)
			want += width - w;
		if (w > 0) {
			pad(l->out, ' ', want - have);
			put_fitted(l->out, s, width);
			have = want += w;
		}
		want += GAP + (c->align == GRID_LEFT ? width - w : 0);
	}
	kp_buf_u8(l->out, '\n');
}

static size_t
without_gap(size_t n)
{
	return n - (n >= GAP ? GAP : 0);
}

static void
put_rule(const struct layout *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->g->ncols; i++)
		n += shown(l, i) ? l->width[i] + GAP : 0;
	pad(l->out, '-', without_gap(n));
	kp_buf_u8(l->out, '\n');
}

static size_t
group_end(const struct grid *g, size_t group)
{
	return group + 1 < g->ngroups ? g->groups[group + 1].from : g->ncols;
}

/* Returns the width of columns from .. to - 1, not dropped, with their gaps. */
static size_t
columns_width(const struct layout *l, size_t from, size_t to)
{
	size_t n = 0;

	for (; from < to; from++)
		n += l->width[from] != DROPPED ? l->width[from] + GAP : 0;
	return n;
}

static size_t
group_width(const struct layout *l, size_t group)
{
	return without_gap(columns_width(l, l->g->groups[group].from,
	    group_end(l->g, group)));
}

/* Writes the heads of the block's groups: ---- http ---- */
static void
put_groups(const struct layout *l)
{
	const struct grid *g = l->g;
	size_t at = columns_width(l, 0, g->nfixed), width, w, left;

	for (size_t k = 0; k < g->ngroups; k++) {
		if (!shown(l, g->groups[k].from))
			continue;
		width = group_width(l, k);
		w = text_width(g->groups[k].head);
		left = (width - w - 2) / 2;
		pad(l->out, ' ', at);
		pad(l->out, '-', left);
		kp_buf_u8(l->out, ' ');
		put_fitted(l->out, g->groups[k].head, w);
		kp_buf_u8(l->out, ' ');
		pad(l->out, '-', width - w - 2 - left);
		at = GAP;
	}
	kp_buf_u8(l->out, '\n');
}

static void
put_block(const struct layout *l)
{
	const struct grid *g = l->g;

	if (g->ngroups > 0)
		put_groups(l);
	put_row(l, NULL);
	put_rule(l);
	for (size_t i = 0; i + g->ncols <= g->ncells; i += g->ncols) {
		if (g->cells[i] == NULL)
			put_rule(l);
		else
			put_row(l, &g->cells[i]);
	}
}

/* Widens the first column of a group whose head is wider than its columns. */
static void
fit_groups(struct layout *l)
{
	size_t have, want;

	for (size_t k = 0; k < l->g->ngroups; k++) {
		have = group_width(l, k);
		want = text_width(l->g->groups[k].head) + 4;
		if (have < want)
			l->width[l->g->groups[k].from] += want - have;
	}
}

static size_t
total_width(const struct layout *l)
{
	return without_gap(columns_width(l, 0, l->g->ncols));
}

/* Returns the shown optional column of the lowest rank; ncols: none. */
static size_t
next_to_drop(const struct layout *l)
{
	const struct grid *g = l->g;
	size_t found = g->ncols;

	for (size_t i = 0; i < g->ncols; i++) {
		if (g->cols[i].drop > 0 && l->width[i] != DROPPED &&
		    (found == g->ncols || g->cols[i].drop <
		    g->cols[found].drop))
			found = i;
	}
	return found;
}

/* Shows dropped columns again if there is room, those of a higher rank first. */
static void
restore_columns(struct layout *l, size_t width)
{
	const struct grid *g = l->g;
	unsigned rank = 0;

	for (size_t i = 0; i < g->ncols; i++)
		rank = g->cols[i].drop > rank ? g->cols[i].drop : rank;
	for (; rank > 0; rank--) {
		for (size_t i = 0; i < g->ncols; i++) {
			if (g->cols[i].drop != rank || l->width[i] != DROPPED)
				continue;
			l->width[i] = g->cols[i].width;
			if (total_width(l) > width)
				l->width[i] = DROPPED;
		}
	}
}

/* Drops as few columns as possible, with a third of the room for the cut one. */
static void
drop_columns(struct layout *l, size_t width)
{
	size_t *cut = &l->width[l->g->cut], full = *cut, col;
	size_t least = width / 3 > CUT_MIN ? width / 3 : CUT_MIN;

	*cut = full < least ? full : least;
	while (total_width(l) > width &&
	    (col = next_to_drop(l)) < l->g->ncols)
		l->width[col] = DROPPED;
	restore_columns(l, width);
	*cut = full;
}

/* Returns the end of the column's group; without one, the next column. */
static size_t
unit_end(const struct grid *g, size_t col)
{
	for (size_t k = 0; k < g->ngroups; k++) {
		if (col >= g->groups[k].from && col < group_end(g, k))
			return group_end(g, k);
	}
	return col + 1;
}

/*
 * Cuts the column so that all others fit beside it, if it keeps a third of the
 * width.  Else there will be blocks: it makes room for the widest group or column
 * that is not repeated, but keeps half of the width if it can.
 */
static void
cut_column(struct layout *l, size_t width)
{
	const struct grid *g = l->g;
	size_t *cut = &l->width[g->cut], all, fixed = 0, widest = 0, w, to;
	size_t room = width / 2;

	all = total_width(l) - *cut;
	for (size_t i = 0; i < g->ncols; i = to) {
		to = i < g->nfixed ? i + 1 : unit_end(g, i);
		w = i == g->cut ? 0 : columns_width(l, i, to);
		if (i < g->nfixed)
			fixed += w;
		else if (w > widest)
			widest = w;
	}
	if (all + width / 3 <= width || g->cut >= g->nfixed)
		room = all < width ? width - all : 0;
	else if (fixed + widest + room > width)
		room = fixed + widest < width ? width - fixed - widest : 0;
	room = room < CUT_MIN ? CUT_MIN : room;
	*cut = *cut > room ? room : *cut;
}

static void
put_blocks(struct layout *l, size_t width)
{
	const struct grid *g = l->g;
	size_t fixed = columns_width(l, 0, g->nfixed), used, end;

	l->from = g->nfixed;
	do {
		used = fixed;
		for (l->to = l->from; l->to < g->ncols; l->to = end) {
			end = unit_end(g, l->to);
			used += columns_width(l, l->to, end);
			if (width > 0 && used - GAP > width &&
			    l->to > l->from)
				break;
		}
		if (l->from > g->nfixed)
			kp_buf_u8(l->out, '\n');
		put_block(l);
		l->from = l->to;
	} while (l->from < g->ncols);
}

static void
put_dropped(const struct layout *l, unsigned width)
{
	struct kp_buf line;
	bool any = false;

	kp_buf_init(&line, 4096);
	for (size_t i = 0; i < l->g->ncols; i++) {
		if (l->width[i] != DROPPED)
			continue;
		kp_buf_printf(&line, "%s%s", any ? ", " :
		    "(no room for: ", l->g->cols[i].head);
		any = true;
	}
	if (any) {
		kp_buf_u8(&line, ')');
		text_wrap(l->out, kp_buf_cstr(&line), width, 1);
	}
	kp_buf_free(&line);
}

/* The widths of columns, before one is cut, or DROPPED.  NULL: out of memory. */
static size_t *
fitted_widths(const struct grid *g, unsigned width)
{
	struct layout l = { .g = g,
		.width = calloc(g->ncols + 1, sizeof(*l.width)) };

	for (size_t i = 0; l.width != NULL && i < g->ncols; i++)
		l.width[i] = g->cols[i].width;
	if (l.width != NULL) {
		fit_groups(&l);
		if (width > 0 && total_width(&l) > width)
			drop_columns(&l, width);
	}
	return l.width;
}

unsigned
grid_drops(const struct grid *g, unsigned width)
{
	size_t *widths = fitted_widths(g, width);
	unsigned rank = 0;

	for (size_t i = 0; widths != NULL && i < g->ncols; i++)
		if (widths[i] == DROPPED && g->cols[i].drop > rank)
			rank = g->cols[i].drop;
	free(widths);
	return rank;
}

void
grid_write(const struct grid *g, unsigned width, struct kp_buf *b)
{
	struct layout l = { .g = g, .out = b };

	if (g->err != KP_OK && b->err == KP_OK)
		b->err = g->err;
	if (b->err != KP_OK || g->ncols == 0)
		return;
	l.width = fitted_widths(g, width);
	if (l.width == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	if (width > 0 && total_width(&l) > width)
		cut_column(&l, width);
	put_blocks(&l, width);
	put_dropped(&l, width);
	free(l.width);
}
