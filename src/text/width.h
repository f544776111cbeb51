/* width.h - the width of a character on a terminal, and its direction. */
#ifndef KPROFD_TEXT_WIDTH_H
#define KPROFD_TEXT_WIDTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns: 0 (combining), 1 or 2 (East Asian wide, emoji). */
unsigned char_width(uint32_t c);
/* Is it of a script that runs from right to left? */
bool char_rtl(uint32_t c);

#endif
