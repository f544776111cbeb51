/*
 * place.h - where a node is reached: by its name, by what was typed with it, and
 * by the options.  Pure.
 */
#ifndef KPROFD_CONN_REACH_PLACE_H
#define KPROFD_CONN_REACH_PLACE_H

#include "conn/reach/reach.h"
#include "kprofd/err.h"
#include "kprofd/nodes.h"

struct node_place {
	char node[KP_NODE_NAME_MAX + 1];	/* app@host, without a port */
	char host[KP_NODE_NAME_MAX + 1];	/* to connect to: a name or an address */
	unsigned port;				/* of its distribution; 0: epmd says */
	bool port_env;				/* that is $ERL_DIST_PORT */
	bool resolved;				/* host is -resolve's */
	char epmd_host[KP_NODE_NAME_MAX + 1];
	unsigned epmd_port;
	bool epmd_given;			/* by -epmd */
};

/*
 * Finds the place of a target: app@host, app@host:4370, app@::1 or
 * app@[::1]:4370.  An entry of -resolve for the node goes before one for its
 * host; a port that was typed with the target before that of -resolve, and that
 * before -dist-port.  KP_EFORMAT: why says what is wrong.
 */
enum kp_err node_place_find(struct node_place *p, const char *target,
    const struct reach *r, char *why, size_t n);

/* For a message about a port that was given: what to look at. */
const char *node_place_port_hint(const struct node_place *p);

#endif
