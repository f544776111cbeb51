/*
 * dur.h - parses durations as people write them: 10s, 500ms, 30m, 2h, 1d.
 */
#ifndef KPROFD_DUR_H
#define KPROFD_DUR_H

#include <stdbool.h>

#include "kprofd/clock.h"

/* Parses a whole number with a unit.  False: not one; *out is unchanged. */
bool kp_dur_parse(const char *s, kp_dur_ns *out);

#endif
