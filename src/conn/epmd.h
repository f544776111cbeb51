/*
 * epmd.h - asks an epmd for the port of a node, or, for messages to people who named
 * another one, which nodes are registered with it.
 */
#ifndef KPROFD_CONN_EPMD_H
#define KPROFD_CONN_EPMD_H

#include <stdbool.h>
#include <stddef.h>

#include "conn/address.h"

#define EPMD_HINT_MAX 400	/* bytes of a hint */

/* The port of every epmd for which none is given: ERL_EPMD_PORT, or 4369. */
unsigned epmd_default_port(void);

/*
 * Asks the epmd at a:at for the port of the node that has this name before its '@'.
 * Returns 0, or ENOENT: no such node is registered; EBADMSG: something else than an
 * epmd answers; ETIMEDOUT; or the errno of the connection.  *reached: is there one?
 */
int epmd_node_port(const struct addresses *a, unsigned at, const char *alive,
    kp_mono_ns deadline, unsigned *port, bool *reached);

/*
 * Writes what the epmd at a:at knows to somebody who named the node `given`:
 * "did you mean 'shop@vm'?", "epmd lists shop@vm, db@vm", "epmd lists no node";
 * or "" if none answers before the deadline.  host: of these nodes; NULL: they
 * are on this machine, and each has the host that it was started with.
 */
void epmd_hint(char *text, size_t n, const char *given, const char *host,
    const struct addresses *a, unsigned at, kp_mono_ns deadline);

#endif
