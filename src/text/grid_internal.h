/* grid_internal.h - defines columns and groups for grid.c and grid_write.c. */
#ifndef KPROFD_TEXT_GRID_INTERNAL_H
#define KPROFD_TEXT_GRID_INTERNAL_H

#include "grid.h"

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

#endif
