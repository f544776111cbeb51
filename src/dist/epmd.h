/*
 * epmd.h - asks an epmd which nodes are registered with it, for messages to
 * people who named another one.
 */
#ifndef KPROFD_DIST_EPMD_H
#define KPROFD_DIST_EPMD_H

#include <netinet/in.h>
#include <stddef.h>

#include "base/options.h"
#include "kprofd/clock.h"

#define EPMD_HINT_MAX 400	/* bytes of a hint */

/* Returns the port of every epmd: ERL_EPMD_PORT, or 4369. */
unsigned epmd_port(void);

/*
 * Writes what the epmd at addr knows to somebody who named the node `given`:
 * "did you mean 'shop@vm'?", "epmd lists shop@vm, db@vm", "epmd lists no node";
 * or "" if none answers before the deadline.  host: of these nodes; NULL: they
 * are on this machine, and each has the host that it was started with.
 */
void epmd_hint(char *text, size_t n, const char *given, const char *host,
    struct in_addr addr, kp_mono_ns deadline);

/*
 * Converters of options that name a node, app@host; *to is a const char *, or a
 * struct opt_list.  The error for any other name lists the nodes of this machine.
 */
bool opt_node(struct opt_parser *p);
bool opt_node_list(struct opt_parser *p);
/* Checks p->value alone. */
bool opt_is_node(struct opt_parser *p);

#endif
