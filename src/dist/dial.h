/*
 * dial.h - finds a node's address and port, and opens a TCP connection to it.
 */
#ifndef KPROFD_DIST_DIAL_H
#define KPROFD_DIST_DIAL_H

#include "dist/place.h"
#include "kprofd/clock.h"
#include "kprofd/err.h"

/*
 * Resolves the place's host, asks epmd for the port unless it is known, and tries
 * the addresses in turn, IPv6 and IPv4, each for its share of the time that is
 * left.  Blocks, no longer than until the deadline but for the resolver.
 *
 * KP_OK: *fd is connected, non-blocking and close-on-exec; the caller closes it.
 * Else `why` is one line for people, with the remedy: KP_ENOENT host or node
 * unknown, KP_ETIMEOUT, KP_EIO.
 */
enum kp_err dial(const struct place *p, kp_mono_ns deadline, int *fd, char *why,
    size_t n);

#endif
