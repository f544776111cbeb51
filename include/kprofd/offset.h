/*
 * offset.h - estimates the offset from a node's time to the daemon's.  Pure.
 *
 * It uses round trips: a message sent at t1, a reply received at t4, both by
 * the daemon's clock, and the node's time in it, t2 = t3.  The node's clock
 * read that at some moment between t1 and t4; in the middle, if both ways took
 * equally long.  So a round trip gives the offset to within half its own
 * length, and the shortest of the last ones is the best; but clocks drift
 * apart, so the error of an old one grows by the drift that is possible since.
 * If a round trip contradicts those before it, so that no offset fits both, the
 * node has another clock now (its VM was restarted), or its clock was stepped:
 * the old ones are discarded.
 *
 * Source: RFC 5905 (NTPv4), section 8, for offset and delay, and section 10
 * and A.5.2, the clock filter: the last KP_OFFSET_TRIPS samples by their
 * distance, delay / 2 + PHI * age.  PHI is 15 ppm there; a VM may correct its
 * time by up to 1 %, though mostly by far less.
 */
#ifndef KPROFD_OFFSET_H
#define KPROFD_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"

#define KP_OFFSET_TRIPS 16	/* kept: leases of a quarter of a minute */
#define KP_OFFSET_DRIFT_PPM 100
/* A longer round trip is too inexact to be of use. */
#define KP_OFFSET_TRIP_MAX (10 * KP_NS_PER_S)

struct kp_offset_trip {
	kp_mono_ns at;		/* its middle */
	kp_dur_ns offset, delay;
};

/* All zero is empty, to begin with or to forget. */
struct kp_offset {
	struct kp_offset_trip v[KP_OFFSET_TRIPS];
	uint32_t n, next;
	uint64_t stepped;	/* number of times that the clock changed */
};

/*
 * Adds a round trip: sent and received by the daemon's clock, `there` the
 * node's time between the two.  Ignores one that ends before it begins, or
 * lasts longer than KP_OFFSET_TRIP_MAX.
 */
void kp_offset_trip(struct kp_offset *o, kp_mono_ns sent, kp_target_ns there,
    kp_mono_ns received);
/*
 * Gets the best estimate at this time.  False: there is none.  Add *offset to
 * the node's time; it is right to within *error ns if clocks drift by no more
 * than KP_OFFSET_DRIFT_PPM.
 */
bool kp_offset_get(const struct kp_offset *o, kp_mono_ns now,
    kp_dur_ns *offset, kp_dur_ns *error);

#endif
