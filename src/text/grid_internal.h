/* grid_internal.h - what the two files of the grid share. */
#ifndef KPROFD_TEXT_GRID_INTERNAL_H
#define KPROFD_TEXT_GRID_INTERNAL_H

#include "grid.h"

struct grid_col {
	char *head;
	enum grid_align align;
	size_t width;
	unsigned drop;		/* rank; 0: it stays */
};

struct grid_group {
	char *head;
	size_t from;		/* its first column */
};

#endif
