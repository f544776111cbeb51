/*
 * accept.c - finds words and the q parameter in an element of a header.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "accept.h"

bool
accept_has(const char *p, size_t n, const char *what)
{
	size_t len = strlen(what), word;

	for (; n > 0; p += word, n -= word) {
		word = strcspn(p, "; \t,");
		if (word > n)
			word = n;
		if (word == len && strncasecmp(p, what, len) == 0)
			return true;
		if (word == 0)
			word = 1;
	}
	return false;
}

double
accept_quality(const char *p, size_t n)
{
	for (size_t i = 0; i + 3 < n; i++)
		if ((p[i] == ';' || p[i] == ' ') && (p[i + 1] | 0x20) == 'q' &&
		    p[i + 2] == '=')
			return strtod(p + i + 3, NULL);
	return 1;
}
