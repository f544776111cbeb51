/*
 * dial.h - finds a node's address and port, and opens a TCP connection to it.
 */
#ifndef KPROFD_CONN_REACH_DIAL_H
#define KPROFD_CONN_REACH_DIAL_H

#include "conn/reach/place.h"
#include "kprofd/clock.h"

/*
 * Resolves the place's host, asks epmd for the port unless it is known, and connects
 * to the first of its addresses that answers, IPv6 or IPv4.  Blocks, no longer than
 * until the deadline but for the resolver.  limit: how long the caller waits in all,
 * for messages.
 *
 * KP_OK: *fd is connected, non-blocking and close-on-exec; the caller closes it.
 * Else `why` is one line for people, with the remedy: KP_ENOENT host or node
 * unknown, KP_ETIMEOUT, KP_EIO.
 */
enum kp_err dial(const struct node_place *p, kp_mono_ns deadline, kp_dur_ns limit,
    int *fd, char *why, size_t n);

#endif
