/*
 * fuzz_keys.c - what is typed or pasted into kprof top: it is taken key by
 * key, to its last byte, and in the same keys however it comes in pieces.
 */
#include <string.h>

#include "fuzz.h"
#include "text/keys.h"

#define KEYS_MAX 512		/* of one input */

/* Bytes come `piece` at a time into what a terminal's reader keeps. */
static size_t
decode(const uint8_t *p, size_t size, size_t piece, int *keys)
{
	uint8_t typed[KEY_BYTES_MAX];
	size_t n = 0, nkeys = 0, used, more;
	int key;

	while (size > 0 || n > 0) {
		more = sizeof(typed) - n < piece ? sizeof(typed) - n : piece;
		more = more < size ? more : size;
		memcpy(typed + n, p, more);
		n += more;
		p += more;
		size -= more;
		while (n > 0) {
			key = key_decode(typed, n, size == 0, &used);
			if (used == 0) {
				REQUIRE(key == KEY_NONE && size > 0);
				REQUIRE(n < sizeof(typed));
				break;
			}
			REQUIRE(key != KEY_NONE && used <= n);
			REQUIRE(key < KEY_UP || key <= KEY_OTHER);
			n -= used;
			memmove(typed, typed + used, n);
			if (nkeys < KEYS_MAX)
				keys[nkeys++] = key;
		}
	}
	return nkeys;
}

/* A character of several bytes may part: each piece of it is no key. */
static size_t
without_other(int *keys, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (keys[i] != KEY_OTHER)
			keys[kept++] = keys[i];
	return kept;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int whole[KEYS_MAX], parts[KEYS_MAX];
	size_t n, m;

	if (size > KEYS_MAX)
		return 0;
	n = without_other(whole, decode(data, size, KEY_BYTES_MAX, whole));
	m = without_other(parts, decode(data, size, 1, parts));
	REQUIRE(n == m);
	REQUIRE(memcmp(whole, parts, n * sizeof(*whole)) == 0);
	return 0;
}
