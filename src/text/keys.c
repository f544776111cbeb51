/*
 * keys.c - decodes single bytes, UTF-8 and escape sequences (ECMA-48, and what
 * xterm adds) to keys.
 */
#include "base/utf8.h"
#include "keys.h"

#define ESC 0x1b

/* The key of a sequence by its last byte: ESC [ A, or a keypad's ESC O A. */
static int
key_by_letter(uint8_t c)
{
	static const int keys[] = { ['A'] = KEY_UP, ['B'] = KEY_DOWN,
		['C'] = KEY_RIGHT, ['D'] = KEY_LEFT, ['H'] = KEY_HOME,
		['F'] = KEY_END };

	return c < sizeof(keys) / sizeof(keys[0]) && keys[c] != KEY_NONE ?
	    keys[c] : KEY_OTHER;
}

/* The key of a sequence by its number: ESC [ 5 ~ */
static int
key_by_number(unsigned number)
{
	static const int keys[] = { [1] = KEY_HOME, [4] = KEY_END,
		[5] = KEY_PAGE_UP, [6] = KEY_PAGE_DOWN, [7] = KEY_HOME,
		[8] = KEY_END };

	return number < sizeof(keys) / sizeof(keys[0]) &&
	    keys[number] != KEY_NONE ? keys[number] : KEY_OTHER;
}

/* p[0] and p[1] are ESC [: parameters follow, then one byte from 0x40 on. */
static int
key_csi(const uint8_t *p, size_t n, size_t *used)
{
	unsigned number = 0;
	bool first = true;

	for (size_t i = 2; i < n && i < KEY_BYTES_MAX; i++) {
		*used = i + 1;
		if (p[i] >= 0x40 && p[i] < 0x7f)
			return p[i] == '~' ? key_by_number(number) :
			    key_by_letter(p[i]);
		if (p[i] < 0x20 || p[i] > 0x3f)
			return KEY_OTHER;	/* malformed */
		first = first && p[i] >= '0' && p[i] <= '9';
		if (first && number < 100)
			number = 10 * number + (p[i] - (unsigned)'0');
	}
	if (n >= KEY_BYTES_MAX)
		return KEY_OTHER;
	*used = 0;
	return KEY_NONE;
}

static int
key_escape(const uint8_t *p, size_t n, bool quiet, size_t *used)
{
	int key = KEY_NONE;

	*used = 0;
	if (n >= 2 && p[1] == '[') {
		key = key_csi(p, n, used);
	} else if (n >= 3 && p[1] == 'O') {
		*used = 3;
		key = key_by_letter(p[2]);
	} else if (n >= 2 && p[1] != 'O') {
		*used = 1;		/* the next byte is another key */
		key = KEY_ESC;
	}
	if (key == KEY_NONE && quiet) {
		*used = n == 1 ? 1 : n;
		key = n == 1 ? KEY_ESC : KEY_OTHER;
	}
	return key;
}

int
key_decode(const uint8_t *p, size_t n, bool quiet, size_t *used)
{
	size_t len;

	if (p[0] == ESC)
		return key_escape(p, n, quiet, used);
	*used = 1;
	if (p[0] < 0x80)
		return p[0] != 0 ? p[0] : KEY_OTHER;
	utf8_next((const char *)p, n, &len);
	*used = len;
	return KEY_OTHER;
}
