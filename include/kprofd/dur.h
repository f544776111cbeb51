/*
 * dur.h - durations as people write them: 10s, 500ms, 30m, 2h, 1d.
 */
#ifndef KPROFD_DUR_H
#define KPROFD_DUR_H

#include <stdbool.h>

#include "kprofd/clock.h"

/* A whole number and a unit; false (and *out untouched) for anything else. */
bool kp_dur_parse(const char *s, kp_dur_ns *out);

#endif
