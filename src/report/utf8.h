/*
 * utf8.h - characters: reading them strictly, how wide they are on a
 * terminal, and which must never reach one.
 */
#ifndef KP_REPORT_UTF8_H
#define KP_REPORT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_BAD UINT32_MAX	/* no character; one byte was taken */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/*
 * The character at s, of n > 0 bytes; *len bytes were taken.  Overlong forms,
 * surrogates and what lies past U+10FFFF are UTF8_BAD.
 */
uint32_t utf8_next(const char *s, size_t n, size_t *len);
/* Columns on a terminal: 0 (combining), 1 or 2 (East Asian wide, emoji). */
unsigned utf8_width(uint32_t c);
/*
 * Moves a terminal's cursor, changes its state, or makes text read other
 * than it is: C0, DEL, C1, line separators, bidirectional controls.
 */
bool utf8_unsafe(uint32_t c);

#endif
