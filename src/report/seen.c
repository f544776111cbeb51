/*
 * seen.c - formats a count or a share as itself, as ">= N" or as "-", by how
 * much of it was seen.
 */
#include <stdio.h>

#include "seen.h"

const char *
seen_name(enum kp_seen seen)
{
	static const char *const names[] = { [KP_SEEN] = "known",
		[KP_SEEN_PART] = "at_least", [KP_NOT_SEEN] = "not_seen" };

	return names[seen];
}

const char *
seen_count(char *buf, enum kp_seen seen, uint64_t n, bool known)
{
	char text[TEXT_MAX];

	if (seen == KP_SEEN)
		return text_known(buf, n, known);
	text_known(text, n, known);
	if (seen == KP_NOT_SEEN)
		snprintf(buf, TEXT_MAX, "-");
	else if (known)
		snprintf(buf, TEXT_MAX, ">= %.40s", text);
	else
		snprintf(buf, TEXT_MAX, "%.30s or more", text);
	return buf;
}

const char *
seen_share(char *buf, enum kp_seen seen, uint64_t n, uint64_t of, bool known)
{
	if (seen != KP_SEEN)
		return seen_count(buf, seen, n, known);
	return text_share(buf, of == 0 ? -1 : (double)n / (double)of);
}
