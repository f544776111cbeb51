/*
 * utf8.h - characters as bytes: reads them strictly, writes them, and knows
 * which of them must never reach a terminal.
 *
 * Source: RFC 3629.
 */
#ifndef KP_BASE_UTF8_H
#define KP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/buf.h"

#define UTF8_BAD UINT32_MAX	/* no character; one byte was taken */
#define UTF8_REPLACEMENT 0xfffdu
#define UTF8_REPLACEMENT_TEXT "\xef\xbf\xbd"
#define UTF8_BYTES_MAX 4	/* of one character */

/*
 * The character at p, of n > 0 bytes; *len of them were taken.  Overlong
 * forms, surrogates, what is cut short and what lies past U+10FFFF are
 * UTF8_BAD.
 */
uint32_t utf8_next(const void *p, size_t n, size_t *len);
/* Are all n bytes whole characters? */
bool utf8_valid(const void *p, size_t n);
/* Not a surrogate, and not past U+10FFFF. */
bool utf8_is_char(uint32_t c);
/*
 * Writes c, or U+FFFD where that is not a character, at most UTF8_BYTES_MAX
 * bytes with no NUL; returns how many.
 */
size_t utf8_put(char *to, uint32_t c);
/* The most of n bytes of valid UTF-8 that fit into max, uncut at its end. */
size_t utf8_fit(const char *s, size_t n, size_t max);

/*
 * Moves a terminal's cursor, changes its state, cannot be seen, or makes
 * text read other than it is: C0, DEL, C1, separators of lines, controls of
 * direction and annotation, invisible operators, tags.  The joiners are
 * text: Persian and emoji need them.
 */
bool utf8_unsafe(uint32_t c);

/*
 * Appends a name that a target gave, until b has `until` bytes or some more;
 * what would move a terminal's cursor or turn its text around becomes
 * \xhh or \u{h}, as do the bytes above 0x7f of what is not UTF-8.
 */
void utf8_put_name(struct kp_buf *b, const uint8_t *p, size_t n, size_t until);

#endif
