/*
 * timefmt.c - parses lengths of time, times of day and ISO 8601 times, and formats
 * times as UTC or local.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text.h"
#include "timefmt.h"

#define PIECE_MAX 24

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

/* Parses 30m, 1h30m: pieces, each a number and a unit. */
static bool
parse_span(const char *s, kp_dur_ns *out)
{
	char piece[PIECE_MAX];
	kp_dur_ns sum = 0, one;
	size_t n;

	do {
		n = strspn(s, "0123456789");
		if (n == 0 || n + 1 >= sizeof(piece) ||
		    strchr("smhd", s[n]) == NULL || s[n] == '\0')
			return false;
		memcpy(piece, s, n + 1);
		piece[n + 1] = '\0';
		if (!kp_dur_parse(piece, &one) || one > INT64_MAX - sum)
			return false;
		sum += one;
		s += n + 1;
	} while (*s != '\0');
	*out = sum;
	return true;
}

/* Parses exactly n digits, and advances *s. */
static bool
digits(const char **s, int n, int *out)
{
	int v = 0;

	for (int i = 0; i < n; i++) {
		if (!isdigit((unsigned char)(*s)[i]))
			return false;
		v = v * 10 + ((*s)[i] - '0');
	}
	*s += n;
	*out = v;
	return true;
}

static bool
literal(const char **s, char c)
{
	if (**s != c)
		return false;
	(*s)++;
	return true;
}

/* Parses HH:MM; :SS and .fff are optional. */
static bool
parse_clock(const char **s, struct tm *tm, int64_t *ns)
{
	int64_t unit = KP_NS_PER_S / 10;

	if (!digits(s, 2, &tm->tm_hour) || !literal(s, ':') ||
	    !digits(s, 2, &tm->tm_min))
		return false;
	if (!literal(s, ':'))
		return true;
	if (!digits(s, 2, &tm->tm_sec))
		return false;
	if (!literal(s, '.'))
		return true;
	if (!isdigit((unsigned char)**s))
		return false;
	for (; isdigit((unsigned char)**s); (*s)++, unit /= 10)
		*ns += (**s - '0') * unit;
	return true;
}

/* Parses Z, +01:00, +0100, or nothing: local. */
static bool
parse_zone(const char *s, bool *local, int *east)
{
	int sign = *s == '-' ? -1 : 1, h, m;

	*local = *s == '\0';
	*east = 0;
	if (*local || strcmp(s, "Z") == 0 || strcmp(s, "z") == 0)
		return true;
	if ((*s != '+' && *s != '-') || (s++, !digits(&s, 2, &h)))
		return false;
	literal(&s, ':');
	if (!digits(&s, 2, &m) || *s != '\0' || h > 14 || m > 59)
		return false;
	*east = sign * (h * 3600 + m * 60);
	return true;
}

/* Rejects 31 February, which the C library converts to 3 March. */
static bool
tm_valid(const struct tm *tm)
{
	struct tm day = { .tm_year = tm->tm_year, .tm_mon = tm->tm_mon,
		.tm_mday = tm->tm_mday };

	timegm(&day);
	return day.tm_mon == tm->tm_mon && day.tm_mday == tm->tm_mday &&
	    tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 61;
}

static bool
parse_iso(const char *s, kp_wall_ns *out)
{
	struct tm tm = { .tm_isdst = -1 };
	int64_t ns = 0;
	bool local;
	int east;
	time_t t;

	if (!digits(&s, 4, &tm.tm_year) || !literal(&s, '-') ||
	    !digits(&s, 2, &tm.tm_mon) || !literal(&s, '-') ||
	    !digits(&s, 2, &tm.tm_mday))
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	if ((literal(&s, 'T') || literal(&s, 't') || literal(&s, ' ')) &&
	    !parse_clock(&s, &tm, &ns))
		return false;
	/* 64 bits of ns since 1970 end in 2262 */
	if (!parse_zone(s, &local, &east) || !tm_valid(&tm) ||
	    tm.tm_year < 70 || tm.tm_year >= 362)
		return false;
	t = local ? mktime(&tm) : timegm(&tm) - east;
	*out = (kp_wall_ns)t * KP_NS_PER_S + ns;
	return true;
}

/*
 * A time of day: the last one before now; or where that is not after `after`, the next.
 * In an hour that the end of DST repeats there are two.
 */
static bool
parse_of_day(const char *s, kp_wall_ns now, kp_wall_ns after, kp_wall_ns *out)
{
	struct tm at = { 0 }, today, day;
	time_t seconds = (time_t)(now / KP_NS_PER_S);
	kp_wall_ns t, last = INT64_MIN, next = INT64_MAX;
	int64_t ns = 0;
	bool local;
	int east;

	if (!parse_clock(&s, &at, &ns) || !parse_zone(s, &local, &east) ||
	    at.tm_hour > 23 || at.tm_min > 59 || at.tm_sec > 60)
		return false;
	seconds += east;
	if (local)
		localtime_r(&seconds, &today);
	else
		gmtime_r(&seconds, &today);
	/* Yesterday, today, tomorrow; each as it comes (-1), without and with DST. */
	for (int i = 0; i < 9; i++) {
		day = (struct tm){ .tm_year = today.tm_year, .tm_mon = today.tm_mon,
			.tm_mday = today.tm_mday + i / 3 - 1, .tm_hour = at.tm_hour,
			.tm_min = at.tm_min, .tm_sec = at.tm_sec,
			.tm_isdst = i % 3 - 1 };
		t = (local ? mktime(&day) : timegm(&day) - east) * KP_NS_PER_S + ns;
		if (i % 3 != 0 && (day.tm_hour != at.tm_hour || day.tm_min != at.tm_min))
			continue;	/* that day's has it the other way */
		if (t <= now && t > last)
			last = t;
		if (t > after && t < next)
			next = t;
	}
	*out = last > after || next == INT64_MAX ? last : next;
	return true;
}

bool
timefmt_parse(const char *s, kp_wall_ns now, kp_wall_ns after, kp_wall_ns *out)
{
	kp_dur_ns d;

	/* -2h is the same as 2h: both are before now */
	if (!parse_span(s + (s[0] == '-'), &d))
		return parse_iso(s, out) || parse_of_day(s, now, after, out);
	*out = d < now ? now - d : 0;
	return true;
}

const char *
timefmt_parse_range(const char *s, kp_wall_ns now, struct timefmt_range *out)
{
	const char *comma = strchr(s, ',');
	size_t n = comma != NULL ? (size_t)(comma - s) : 0;
	struct timefmt_range r;
	char first[TIMEFMT_MAX];

	if (comma == NULL)
		return "give two times with a comma between them, such as "
		    "-2h,-1h";
	snprintf(first, sizeof(first), "%.*s", (int)(n < TIMEFMT_MAX ? n : 0),
	    s);
	if (!timefmt_parse(first, now, INT64_MIN, &r.since))
		return "the first is not " TIMEFMT_FORMS;
	if (!timefmt_parse(comma + 1, now, r.since, &r.until))
		return "the second is not " TIMEFMT_FORMS;
	if (r.since >= r.until)
		return "the first is not before the second";
	*out = r;
	return NULL;
}

/* Rounds down, so that a fraction is never negative. */
static time_t
seconds(kp_wall_ns t, int *ms)
{
	int64_t rest = t % KP_NS_PER_S;
	bool before = rest < 0;

	*ms = (int)((before ? rest + KP_NS_PER_S : rest) / KP_NS_PER_MS);
	return (time_t)(t / KP_NS_PER_S - before);
}

const char *
timefmt_iso(char *buf, kp_wall_ns t)
{
	struct tm tm;
	int ms;
	time_t s = seconds(t, &ms);
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(buf, TIMEFMT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, TIMEFMT_MAX - n, ".%03dZ", ms);
	return buf;
}

static void
local_format(char *buf, kp_wall_ns t, const char *format)
{
	struct tm tm;
	int ms;
	time_t s = seconds(t, &ms);
	size_t n;

	localtime_r(&s, &tm);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	n = strftime(buf, TIMEFMT_MAX, format, &tm);
#pragma GCC diagnostic pop
	buf[n] = '\0';
}

const char *
timefmt_local(char *buf, kp_wall_ns t)
{
	local_format(buf, t, "%Y-%m-%d %H:%M:%S");
	return buf;
}

const char *
timefmt_local_ms(char *buf, kp_wall_ns t)
{
	size_t n;
	int ms;

	timefmt_local(buf, t);
	n = strlen(buf);
	seconds(t, &ms);
	snprintf(buf + n, TIMEFMT_MAX - n, ".%03d", ms);
	return buf;
}

const char *
timefmt_zone(char *buf, kp_wall_ns t)
{
	local_format(buf, t, "%z");
	if (strcmp(buf, "+0000") == 0)
		strcpy(buf, "UTC");
	return buf;
}

void
timefmt_put_range(struct kp_buf *b, kp_wall_ns start, kp_wall_ns end)
{
	char from[TIMEFMT_MAX], to[TIMEFMT_MAX], zone[TIMEFMT_MAX], span[TEXT_MAX];
	kp_dur_ns length;
	bool same_day;

	/* A damaged file may hold any time. */
	if (__builtin_sub_overflow(end, start, &length))
		length = end > start ? INT64_MAX : 0;
	timefmt_local(from, start);
	timefmt_local(to, end);
	same_day = strncmp(from, to, strlen("2026-11-21")) == 0;
	kp_buf_printf(b, "%s to %s %s (%s)", from,
	    same_day ? to + strlen("2026-11-21 ") : to, timefmt_zone(zone, end),
	    text_span(span, length));
}
