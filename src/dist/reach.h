/*
 * reach.h - how nodes are reached: the options of a connection, which kprofd and
 * kprof share.  All strings are borrowed of argv, so that threads may read them.
 */
#ifndef KPROFD_DIST_REACH_H
#define KPROFD_DIST_REACH_H

#include "base/options.h"

enum tls_verify { TLS_VERIFY_PEER, TLS_VERIFY_NONE };	/* of -tls-verify */

/* Of TLS distribution.  With none of the files given it is not used. */
struct tls_opts {
	const char *cert, *key, *ca;	/* PEM files */
	const char *optfile;		/* the node's own ssl_dist.conf */
	int verify;			/* enum tls_verify */
};

struct reach {
	const char *name;		/* our node's; NULL: a slot */
	const char *cookie_file;	/* NULL: node_cookie()'s default */
	size_t dist_port;	/* of nodes with no port of their own; 0: epmd's */
	const char *epmd;	/* HOST, PORT or HOST:PORT; NULL: the node's host */
	struct opt_list resolve;	/* NODE=ADDRESS[:PORT], HOST=ADDRESS[:PORT] */
	struct tls_opts tls;
};

/* True: connections are encrypted. */
static inline bool
tls_wanted(const struct tls_opts *o)
{
	return o->cert != NULL || o->key != NULL || o->ca != NULL ||
	    o->optfile != NULL;
}

#endif
