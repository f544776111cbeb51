/* dur.c - parses a number and one unit, from us to d. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/dur.h"

bool
kp_dur_parse(const char *s, kp_dur_ns *out)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
		{ "us", KP_NS_PER_US },
		{ "ms", KP_NS_PER_MS },
		{ "s", KP_NS_PER_S },
		{ "m", 60 * KP_NS_PER_S },
		{ "h", 3600 * KP_NS_PER_S },
		{ "d", 86400 * KP_NS_PER_S },
	};
	char *end;
	long long n;

	if (!isdigit((unsigned char)s[0]))
		return false;
	errno = 0;
	n = strtoll(s, &end, 10);
	if (errno != 0)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].name) == 0 &&
		    n <= INT64_MAX / units[i].ns) {
			*out = n * units[i].ns;
			return true;
		}
	return false;
}
