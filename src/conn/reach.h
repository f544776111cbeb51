/*
 * reach.h - how nodes are reached: the options of a connection, which kprofd and
 * kprof share.  All strings are borrowed of argv or of the environment, neither of
 * which changes, so that threads may read them.
 */
#ifndef KPROFD_CONN_REACH_H
#define KPROFD_CONN_REACH_H

#include <stddef.h>

#include "kprofd/err.h"
#include "text/options.h"

/*
 * Unset leaves it to the options file, and is peer without one.  The choices are in
 * the order of the values after it.
 */
enum tls_verify { TLS_VERIFY_UNSET, TLS_VERIFY_PEER, TLS_VERIFY_NONE };
#define TLS_VERIFY_CHOICES "peer,none"

/* Of TLS distribution.  With none of the files given it is not used. */
struct tls_opts {
	const char *cert, *key, *ca;	/* PEM files */
	const char *optfile;		/* the node's own ssl_dist.conf */
	bool optfile_env;		/* that is $KPROFD_TLS_OPTFILE */
	int verify;			/* enum tls_verify */
};

struct reach {
	const char *name;		/* our node's; NULL: a slot */
	const char *cookie_file;	/* NULL: node_cookie()'s default */
	size_t dist_port;	/* of nodes with no port of their own; 0: epmd's */
	bool port_env;		/* that is $ERL_DIST_PORT */
	const char *epmd;	/* HOST, PORT or HOST:PORT; NULL: the node's host */
	struct opt_list resolve;	/* NODE=ADDRESS[:PORT], HOST=ADDRESS[:PORT] */
	struct tls_opts tls;
};

/* ---- the options: reach.c ---- */

/*
 * Part of a table of options; r is a struct reach.  After the parser ended call
 * reach_finish().
 */
#define REACH_OPTIONS(r) \
	{ "cookie-file", "FILE", "the cookie ($KPROFD_COOKIE_FILE, " \
	    "~/.erlang.cookie)", opt_text, &(r).cookie_file, NULL }, \
	{ "name", "NAME", "our node name, of letters, digits, _ and -; " \
	    "@HOST may follow (the first free of kprofd1..4)", \
	    opt_own_name, &(r).name, NULL }, \
	{ "dist-port", "PORT", "of nodes that are named without one " \
	    "($ERL_DIST_PORT; else epmd knows it)", opt_port, \
	    &(r).dist_port, NULL }, \
	{ "epmd", "HOST:PORT", "the epmd to ask for ports; HOST or PORT " \
	    "alone, too (the node's host, $ERL_EPMD_PORT or 4369)", \
	    opt_epmd, &(r).epmd, NULL }, \
	{ "resolve", "NODE=ADDR", "reach a node, or all nodes of a host, at " \
	    "this address; ADDR:PORT, too; may be given more than once", \
	    opt_resolve, &(r).resolve, NULL }, \
	{ "tls-cert", "FILE", "TLS distribution: our certificate, PEM", \
	    opt_text, &(r).tls.cert, NULL }, \
	{ "tls-key", "FILE", "the key of -tls-cert, unless it is in that " \
	    "file", opt_text, &(r).tls.key, NULL }, \
	{ "tls-ca", "FILE", "the authorities that certificates of nodes " \
	    "are checked with, PEM", opt_text, &(r).tls.ca, NULL }, \
	{ "tls-optfile", "FILE", "a node's own ssl_dist.conf, which has all " \
	    "these ($KPROFD_TLS_OPTFILE)", opt_text, &(r).tls.optfile, NULL }, \
	{ "tls-verify", "MODE", "peer: check the node's certificate and " \
	    "host (default); none: take any", opt_verify, &(r).tls.verify, \
	    TLS_VERIFY_CHOICES }
/* The same for a command, whose -h names the page that has them. */
#define REACH_OPTIONS_OF(r) \
	OPT_ELSEWHERE("(connection)", "how a node is reached: see kprof help " \
	    "connection"), \
	REACH_OPTIONS(r)

/* Converters; each takes what REACH_OPTIONS shows. */
bool opt_own_name(struct opt_parser *p);	/* const char * */
bool opt_port(struct opt_parser *p);		/* size_t */
bool opt_epmd(struct opt_parser *p);		/* const char * */
bool opt_resolve(struct opt_parser *p);		/* struct opt_list */
bool opt_verify(struct opt_parser *p);		/* int: enum tls_verify */
/*
 * Of options that name a node: app@host, or with the port of its distribution,
 * app@host:4370.  The error for what is not a name lists the nodes of this machine.
 */
bool opt_node(struct opt_parser *p);		/* const char *, as typed */
bool opt_node_list(struct opt_parser *p);	/* struct opt_list, as typed */
/* Checks p->value alone. */
bool opt_is_node(struct opt_parser *p);

#define REACH_WHY_MAX 512
/*
 * Takes from the environment what was not given, and checks which options need
 * each other.  False: why is one line for people.
 */
bool reach_finish(struct reach *r, char *why, size_t n);

/* Returns the first option that is set, such as "name"; NULL: none is. */
const char *reach_given(const struct reach *r);

#define REACH_TEXTS_MAX 9	/* options that have one value */
#define REACH_ARGS_MAX (2 * (REACH_TEXTS_MAX + OPT_LIST_MAX))

/* Options as arguments for another program of ours. */
struct reach_args {
	const char *v[REACH_ARGS_MAX];	/* borrowed of the options */
	size_t n;
	char port[8];
};

/* a must not move while its arguments are used. */
void reach_args(struct reach_args *a, const struct reach *r);

/* ---- the cookie that nodes share ---- */

#define NODE_COOKIE_MAX 255	/* bytes */
#define NODE_COOKIE_PATH_MAX 4096

/* The file: `file`, else $KPROFD_COOKIE_FILE, else ~/.erlang.cookie, in buf. */
const char *node_cookie_path(const char *file, char buf[NODE_COOKIE_PATH_MAX]);
/*
 * Reads the cookie from that file.  Like the VM it refuses one that others may read.
 * On an error `why` names the file and the remedy.
 */
enum kp_err node_cookie(const char *file, char cookie[NODE_COOKIE_MAX + 1],
    char *why, size_t whylen);

/* True: connections are encrypted. */
static inline bool
tls_wanted(const struct tls_opts *o)
{
	return o->cert != NULL || o->key != NULL || o->ca != NULL ||
	    o->optfile != NULL;
}

#endif
