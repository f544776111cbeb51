/*
 * grid.h - writes a table of texts in aligned columns.
 *
 * Widths are those on a terminal.  Every text goes through text_put(), so that
 * nothing a target sends reaches the terminal raw.  If the columns do not fit, the
 * optional ones are left out; then one is cut (grid_cut); then the grid
 * is written in blocks, one below the other, each with the first columns repeated.
 * Errors stick, and grid_write() passes them on.
 */
#ifndef KPROFD_TEXT_GRID_H
#define KPROFD_TEXT_GRID_H

#include <stddef.h>

#include "kprofd/buf.h"

enum grid_align { GRID_LEFT, GRID_RIGHT };

/* Fields are private. */
struct grid {
	struct grid_col *cols;
	size_t ncols, nfixed;
	size_t cut;		/* index of the column to cut */
	struct grid_group *groups;
	size_t ngroups;
	char **cells;		/* row by row; a row of NULLs is a rule */
	size_t ncells;
	enum kp_err err;
};

void grid_init(struct grid *g);
void grid_free(struct grid *g);

/* Adds a column.  Add all columns before the first cell. */
void grid_col(struct grid *g, const char *head, enum grid_align align);
/* Repeats the columns so far in every block. */
void grid_fix(struct grid *g);
/*
 * Starts a group: the columns up to the next group stay in one block, under this
 * head.
 */
void grid_group(struct grid *g, const char *head);
/*
 * Adds an optional column: if there is no room columns are left out, those of rank
 * 1 first, and named below the grid.  Rank 0: as grid_col().
 */
void grid_col_optional(struct grid *g, const char *head,
    enum grid_align align, unsigned rank);
/* Makes the last column the one to cut; without this call it is the first. */
void grid_cut(struct grid *g);
/* Adds a cell; cells fill one row after the other. */
void grid_cell(struct grid *g, const char *text);
/* Adds a line across, between two rows. */
void grid_rule(struct grid *g);

/* The highest rank of a column that grid_write() would leave out; 0: none. */
unsigned grid_drops(const struct grid *g, unsigned width);
/* width: columns of the terminal; 0: no limit */
void grid_write(const struct grid *g, unsigned width, struct kp_buf *b);

#endif
