/*
 * offset.h - estimates what to add to a node's time to get the daemon's.  Pure.
 *
 * Estimated from round trips: a message sent at t1, a reply received at t4,
 * both by the daemon's clock, and the node's time in it, t2 = t3.  Wherever on
 * the way the time went, the node's clock read that at some moment between t1
 * and t4; in the middle of them, if both ways took as long.  So a round trip
 * gives the offset to within half its own length, and the shortest of the last
 * ones gives it best; but clocks drift apart, so the error of an old one grows
 * by as much as they may have drifted since.  One that contradicts those
 * before it - no offset is possible by both - shows that the node's clock is
 * another one now (its VM was restarted), or was stepped: they are forgotten.
 *
 * Source: RFC 5905 (NTPv4), section 8, for offset and delay, and section 10
 * and A.5.2, the clock filter: the last KP_OFFSET_TRIPS samples by their
 * distance, delay / 2 + PHI * age.  PHI is 15 ppm there; a VM that corrects
 * its time does so by up to 1 %, mostly by far less.
 */
#ifndef KPROFD_OFFSET_H
#define KPROFD_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

#include "kprofd/clock.h"

#define KP_OFFSET_TRIPS 16	/* remembered: a quarter of a minute of leases */
#define KP_OFFSET_DRIFT_PPM 100
/* One that took longer says nothing that would be of use. */
#define KP_OFFSET_TRIP_MAX (10 * KP_NS_PER_S)

struct kp_offset_trip {
	kp_mono_ns at;		/* the middle of it */
	kp_dur_ns offset, delay;
};

/* All zero to begin with, and again to forget. */
struct kp_offset {
	struct kp_offset_trip v[KP_OFFSET_TRIPS];
	uint32_t n, next;
	uint64_t stepped;	/* how often the node's clock was another one */
};

/*
 * A round trip: sent and received by the daemon's clock, `there` the node's
 * time between the two.  One that ends before it begins, or lasts longer than
 * KP_OFFSET_TRIP_MAX, is ignored.
 */
void kp_offset_trip(struct kp_offset *o, kp_mono_ns sent, kp_target_ns there,
    kp_mono_ns received);
/*
 * The best estimate at this time: true if there is any.  *offset is to be
 * added to the node's time, and is right to within *error ns where clocks keep
 * to KP_OFFSET_DRIFT_PPM.
 */
bool kp_offset_get(const struct kp_offset *o, kp_mono_ns now,
    kp_dur_ns *offset, kp_dur_ns *error);

#endif
