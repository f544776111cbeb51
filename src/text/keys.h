/*
 * keys.h - decodes the bytes that a terminal sends for keys.  Pure.
 *
 * The bytes are untrusted (a terminal's, or pasted text): any are accepted, and
 * a sequence ends after KEY_BYTES_MAX of them.
 */
#ifndef KPROFD_TEXT_KEYS_H
#define KPROFD_TEXT_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_BYTES_MAX 16u	/* of one key */

/* Printable ASCII, tab, newline and control characters are themselves. */
enum {
	KEY_NONE = 0,
	KEY_UP = 256,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_ESC,
	KEY_OTHER		/* any other key */
};

/*
 * Returns the first key of n bytes, at least one; *used is its length.
 * KEY_NONE and 0: it is incomplete.  quiet: nothing followed for a while, so
 * that an ESC is a key by itself.
 */
int key_decode(const uint8_t *p, size_t n, bool quiet, size_t *used);

#endif
