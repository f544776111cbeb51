/*
 * grid.h - a table of texts in aligned columns.
 *
 * Widths are those on a terminal.  Every text goes through text_put(), so
 * nothing that a target sends can reach the terminal raw.  Where the columns
 * do not fit, those that may be left out are (grid_drop); then one is cut
 * (grid_cut); then the grid is written in blocks one below the other, each with
 * the first columns repeated.  Errors stick and show in what is written.
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
	size_t cut;		/* the column that is cut */
	struct grid_group *groups;
	size_t ngroups;
	char **cells;		/* row by row; a row of NULLs is a rule */
	size_t ncells;
	enum kp_err err;
};

void grid_init(struct grid *g);
void grid_free(struct grid *g);

/* All columns come before the first cell. */
void grid_col(struct grid *g, const char *head, enum grid_align align);
/* The columns so far are repeated in every block. */
void grid_fix(struct grid *g);
/*
 * The columns from here on, up to the next group, belong together: they stay
 * in one block, and this stands above them.
 */
void grid_group(struct grid *g, const char *head);
/*
 * The last column may go where there is no room: those of rank 1 first.  That
 * it is missing is said below the grid.
 */
void grid_drop(struct grid *g, unsigned rank);
/* The last column is the one to be cut; else it is the first. */
void grid_cut(struct grid *g);
/* Cells fill row after row. */
void grid_cell(struct grid *g, const char *text);
/* A line across, between two rows. */
void grid_rule(struct grid *g);

/* width: columns of the terminal; 0: no limit */
void grid_write(const struct grid *g, unsigned width, struct kp_buf *b);

#endif
