/*
 * dial.h - where a node is reached, by its name, by what was typed with it and by the
 * options; and a TCP connection to it.
 */
#ifndef KPROFD_CONN_DIAL_H
#define KPROFD_CONN_DIAL_H

#include <stdio.h>

#include "conn/reach.h"
#include "kprofd/clock.h"
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
	bool known;				/* see struct node_opts; false */
};

/*
 * Finds the place of a target: app@host, app@host:4370, app@::1 or
 * app@[::1]:4370.  An entry of -resolve for the node overrides one for its
 * host; a port that was typed with the target overrides that of -resolve, which
 * overrides -dist-port.  KP_EFORMAT: why says what is wrong.
 */
enum kp_err node_place_find(struct node_place *p, const char *target,
    const struct reach *r, char *why, size_t n);

/* For a message about a port that was given: what to look at. */
const char *node_place_port_hint(const struct node_place *p);

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

/*
 * Writes why the node cannot be reached; its value is e.  A macro, so that the program has
 * each sentence whole: the man page has them, too (test/packaging/options_test.sh).
 */
#define cannot_connect(place, e, why, n, text, ...) \
	(snprintf(why, n, "cannot connect to '%s': " text, (place)->node, \
	    ##__VA_ARGS__), (enum kp_err)(e))
/* The same for a node that is silent; KP_ETIMEOUT. */
enum kp_err no_answer(const struct node_place *p, kp_dur_ns limit, char *why,
    size_t n);

#endif
