/*
 * timefmt.h - parses lengths of time, and parses and formats points in time.
 */
#ifndef KPROFD_TEXT_TIMEFMT_H
#define KPROFD_TEXT_TIMEFMT_H

#include <stdbool.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"

#define TIMEFMT_MAX 48

/*
 * Parses a whole number with a unit: 10s, 500ms, 30m, 2h, 1d.  False: not one; *out is
 * unchanged.
 */
bool kp_dur_parse(const char *s, kp_dur_ns *out);

/* The forms that timefmt_parse() accepts, for error messages. */
#define TIMEFMT_FORMS "a length of time such as 30m, 2h or 1h30m, or a time " \
	"such as 21:53, 2026-11-21, 2026-11-21T10:00 or 2026-11-21T09:00:00Z"

/*
 * Parses a length of time before now (s, m, h, d; -2h is the same as 2h), an ISO 8601
 * date or time, or a time of day: local, unless it ends in Z or +01:00.  A time of day is
 * the last one before now; or where that is not after `after` (INT64_MIN: it is), which a
 * range begins with, the next one.
 */
bool timefmt_parse(const char *s, kp_wall_ns now, kp_wall_ns after, kp_wall_ns *out);

struct timefmt_range {
	kp_wall_ns since, until;
};

/* Parses "A,B": from A up to B.  Returns NULL, or an error text. */
const char *timefmt_parse_range(const char *s, kp_wall_ns now,
    struct timefmt_range *out);

/* 2026-11-21T10:00:00.123Z.  All return buf, of TIMEFMT_MAX bytes. */
const char *timefmt_iso(char *buf, kp_wall_ns t);
/* 2026-11-21 10:00:00, local */
const char *timefmt_local(char *buf, kp_wall_ns t);
/* 2026-11-21 10:00:00.123, local */
const char *timefmt_local_ms(char *buf, kp_wall_ns t);
/* UTC or +0100: the local zone at that time */
const char *timefmt_zone(char *buf, kp_wall_ns t);
/* 2026-11-21 10:00:00 to 10:30:00 UTC (30m) */
void timefmt_put_range(struct kp_buf *b, kp_wall_ns start, kp_wall_ns end);

#endif
