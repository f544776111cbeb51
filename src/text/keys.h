/*
 * keys.h - decodes the bytes that a terminal sends for keys.  Pure.
 *
 * The bytes come from outside (a terminal, or text pasted into it): any bytes
 * are accepted, and a sequence that has KEY_BYTES_MAX of them ends there.
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
	KEY_OTHER		/* none of these */
};

/*
 * The first key of n bytes, 1 at least; *used are its.  KEY_NONE and 0: it is
 * not whole yet.  quiet: nothing has followed for a while, so that an ESC is
 * a key by itself.
 */
int key_decode(const uint8_t *p, size_t n, bool quiet, size_t *used);

#endif
