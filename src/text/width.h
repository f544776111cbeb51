/* width.h - returns a character's width on a terminal, and its direction. */
#ifndef KPROFD_TEXT_WIDTH_H
#define KPROFD_TEXT_WIDTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns columns: 0 (combining), 1 or 2 (East Asian wide, emoji). */
unsigned char_width(uint32_t c);
/* Returns whether its script runs from right to left. */
bool char_rtl(uint32_t c);

#endif
