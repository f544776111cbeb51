/*
 * grid.h - a table of texts in aligned columns.
 *
 * Widths are those on a terminal.  Every text goes through text_put(), so
 * nothing that a target says can reach the terminal raw.  Where the columns
 * do not fit, the grid is written in blocks one below the other, each with
 * the first columns repeated.  Errors stick and show in what is written.
 */
#ifndef KP_REPORT_GRID_H
#define KP_REPORT_GRID_H

#include <stddef.h>

#include "kprofd/buf.h"

enum grid_align { GRID_LEFT, GRID_RIGHT };

/* Fields are private. */
struct grid {
	struct grid_col *cols;
	size_t ncols, nfixed;
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
/* Cells fill row after row. */
void grid_cell(struct grid *g, const char *text);
/* A line across, between two rows. */
void grid_rule(struct grid *g);

/* width: columns of the terminal; 0: no limit */
void grid_write(const struct grid *g, unsigned width, struct kp_buf *b);

#endif
