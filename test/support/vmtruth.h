/*
 * vmtruth.h - feeds the programs of vmsim.h to the requests and stats stages
 * and fails the test where these say anything but the truth.
 */
#ifndef TEST_VMTRUTH_H
#define TEST_VMTRUTH_H

#include "vmfeed.h"

/* Since whoever runs the tests set it to zero. */
extern struct vmtruth_counts {
	uint64_t calls;		/* handed on */
	uint64_t loose;		/* of these: of which the VM does not tell */
	uint64_t summed;	/* requests whose selfs were added up */
	uint64_t crossed;	/* requests of several nodes */
	uint64_t outlasting;	/* calls that were open when theirs closed */
} vmtruth_counts;

/* After sim_make(); seed: to be named where a check fails. */
void vmtruth_begin(const struct sim_traits *t, uint64_t seed);
/* All of it, till nothing is left. */
void vmtruth_feed(const struct vmfeed_opts *o);

#endif
