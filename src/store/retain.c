/*
 * retain.c - parses the values of -retain and -max-db-size, and ignores a wall
 * clock that was set far ahead until it has been so for a day.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/timefmt.h"
#include "retain.h"

#define ITEM_MAX 64

static bool
add_step(struct kp_retain *r, const char *length, kp_dur_ns age)
{
	struct kp_retain_step s = { .age = age }, *last;

	if (r->n == KP_RETAIN_STEPS || !kp_dur_parse(length, &s.length) ||
	    s.length == 0 || s.length % KP_NS_PER_S != 0 || age < s.length)
		return false;
	if (r->n > 0) {
		last = &r->step[r->n - 1];
		if (s.length <= last->length || s.age <= last->age ||
		    s.length % last->length != 0)
			return false;
	}
	r->step[r->n++] = s;
	return true;
}

/* Parses one "10s:2h" or "slow:14d". */
static bool
add_item(struct kp_retain *r, char *item)
{
	char *colon = strchr(item, ':');
	kp_dur_ns age;

	if (colon == NULL || !kp_dur_parse(colon + 1, &age) || age == 0)
		return false;
	*colon = '\0';
	if (strcmp(item, "slow") == 0) {
		r->slow = age;
		return true;
	}
	if (strcmp(item, "events") == 0) {
		r->events = age;
		return true;
	}
	return add_step(r, item, age);
}

bool
kp_retain_parse(const char *s, struct kp_retain *out)
{
	struct kp_retain r = { .n = 0 };
	char item[ITEM_MAX];
	kp_dur_ns last;
	size_t n;

	for (;; s += n + 1) {
		n = strcspn(s, ",");
		if (n >= sizeof(item))
			return false;
		memcpy(item, s, n);
		item[n] = '\0';
		if (!add_item(&r, item))
			return false;
		if (s[n] == '\0')
			break;
	}
	if (r.n == 0)
		return false;
	last = r.step[r.n - 1].age;
	if (r.slow == 0)
		r.slow = last < KP_RETAIN_SLOW_MAX ? last : KP_RETAIN_SLOW_MAX;
	if (r.events == 0)
		r.events = last;
	*out = r;
	return true;
}

bool
kp_retain_bytes(const char *s, uint64_t *out)
{
	static const char units[] = "KMGT";
	unsigned long long n;
	const char *unit;
	char *end;
	int shift = 0;

	if (!isdigit((unsigned char)s[0]))
		return false;
	errno = 0;
	n = strtoull(s, &end, 10);
	if (errno != 0)
		return false;
	if (*end != '\0') {
		unit = strchr(units, *end);
		if (unit == NULL || end[1] != '\0')
			return false;
		shift = 10 * (int)(unit - units + 1);
	}
	/* SQL's integers are signed, so only half of the range fits */
	if (n > (UINT64_MAX / 2) >> shift)
		return false;
	n <<= shift;
	if (n > 0 && n < (1u << 20))
		return false;
	*out = n;
	return true;
}

kp_dur_ns
kp_retain_longest(const struct kp_retain *r)
{
	kp_dur_ns longest;

	if (r->n == 0 || r->slow == 0 || r->events == 0)
		return 0;
	longest = r->step[r->n - 1].age;
	if (r->slow > longest)
		longest = r->slow;
	return r->events > longest ? r->events : longest;
}

void
hold_begin(struct hold *h, kp_wall_ns newest, kp_wall_ns wall, kp_mono_ns mono)
{
	*h = (struct hold){ .known = newest > 0 ? newest : wall, .at = mono };
}

kp_wall_ns
hold_now(struct hold *h, kp_wall_ns wall, kp_mono_ns mono)
{
	kp_wall_ns would = h->known + (mono - h->at);
	kp_dur_ns ahead = wall - would;

	if (ahead > HOLD_AHEAD) {
		/* it was set again since the last call */
		if (h->ahead == 0 || ahead - h->ahead > HOLD_AHEAD ||
		    h->ahead - ahead > HOLD_AHEAD) {
			h->since = mono;
			h->ahead = ahead;
		}
		if (mono - h->since < HOLD_TIME)
			return would;
	}
	h->ahead = 0;
	if (ahead > 0) {
		h->known = wall;
		h->at = mono;
	}
	return wall;
}
