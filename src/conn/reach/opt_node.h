/*
 * opt_node.h - converters of options that name a node: app@host, or with the port
 * of its distribution, app@host:4370.  The error for what is not a name lists the
 * nodes of this machine.
 */
#ifndef KPROFD_CONN_REACH_OPT_NODE_H
#define KPROFD_CONN_REACH_OPT_NODE_H

#include "text/options.h"

bool opt_node(struct opt_parser *p);		/* const char *, as typed */
bool opt_node_list(struct opt_parser *p);	/* struct opt_list, as typed */
/* Checks p->value alone. */
bool opt_is_node(struct opt_parser *p);

#endif
