/*
 * own_name.h - the names under which we connect to a node.
 */
#ifndef KPROFD_CONN_OWN_NAME_H
#define KPROFD_CONN_OWN_NAME_H

#include <stddef.h>

#include "kprofd/err.h"
#include "kprofd/nodes.h"

struct own_name {
	char alive[KP_NODE_NAME_MAX + 1];	/* before the '@' */
	char host[KP_NODE_NAME_MAX + 1];
	char full[KP_NODE_NAME_MAX + 1];	/* both */
};

/*
 * Finds our host for connections to this node (app@host): that of `given`, "name",
 * "name@host" or NULL; else the name of this machine, short or fully qualified
 * like the node's.  On an error `why` is one line for people.
 */
enum kp_err own_host(struct own_name *o, const char *given, const char *node,
    char *why, size_t n);
/* Completes it: with the name that was given, or without one kprofdSLOT. */
enum kp_err own_name(struct own_name *o, const char *given, unsigned slot,
    char *why, size_t n);

#endif
