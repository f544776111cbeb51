/*
 * utf8.h - decodes UTF-8 strictly, encodes it, and tests for characters that
 * must never reach a terminal.
 *
 * Source: RFC 3629.
 */
#ifndef KPROFD_BASE_UTF8_H
#define KPROFD_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/buf.h"

#define UTF8_BAD UINT32_MAX	/* not a character; takes one byte */
#define UTF8_REPLACEMENT 0xfffdu
#define UTF8_REPLACEMENT_TEXT "\xef\xbf\xbd"
#define UTF8_BYTES_MAX 4	/* of one character */

/*
 * Returns the character at p, of n > 0 bytes; *len is its length.  Overlong
 * forms, surrogates, incomplete characters and those past U+10FFFF are
 * UTF8_BAD.
 */
uint32_t utf8_next(const void *p, size_t n, size_t *len);
/* Returns whether all n bytes are whole characters. */
bool utf8_valid(const void *p, size_t n);
/* Returns whether c is not a surrogate, and not past U+10FFFF. */
bool utf8_is_char(uint32_t c);
/*
 * Writes c, or U+FFFD if it is not a character, without a NUL; returns the
 * number of bytes, at most UTF8_BYTES_MAX.
 */
size_t utf8_put(char *to, uint32_t c);
/* Returns the length of the whole characters that fit into max bytes. */
size_t utf8_fit(const char *s, size_t n, size_t max);

/*
 * Returns whether c moves a terminal's cursor, changes its state, is invisible,
 * or makes text look different: C0, DEL, C1, line separators, direction and
 * annotation controls, invisible operators, tags.  The joiners are text:
 * Persian and emoji need them.
 */
bool utf8_unsafe(uint32_t c);

/*
 * Appends a name from a target, until b has `until` bytes or some more.  Unsafe
 * characters become \xhh or \u{h}, as do bytes above 0x7f of a name that is not
 * UTF-8.
 */
void utf8_put_name(struct kp_buf *b, const uint8_t *p, size_t n, size_t until);

#endif
