/*
 * dial.c - resolves, asks epmd, connects, and says what each of these met.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/reach/dial.h"
#include "dist/reach/epmd.h"

struct call {
	const struct node_place *p;
	kp_mono_ns deadline;
	kp_dur_ns limit;
	char *why;
	size_t n;
};

static enum kp_err
no_answer(const struct call *c)
{
	snprintf(c->why, c->n, "cannot connect to '%s': no answer within "
	    "%lld s (is the node hung or the network cut?)", c->p->node,
	    (long long)(c->limit / KP_NS_PER_S));
	return KP_ETIMEOUT;
}

static enum kp_err
lookup(const struct call *c, const char *host, struct addresses *a)
{
	int r = addresses_find(a, host);

	if (r == 0)
		return KP_OK;
	snprintf(c->why, c->n, "cannot connect to '%s': unknown host '%s' (%s)",
	    c->p->node, host, gai_strerror(r));
	return KP_ENOENT;
}

/* Where the port of epmd comes from, which may be what is wrong. */
static const char *
epmd_remedy(const struct node_place *p)
{
	if (p->epmd_given)
		return "-epmd says so";
	return getenv("ERL_EPMD_PORT") != NULL ? "ERL_EPMD_PORT says so" :
	    "is any Erlang node running there? see -dist-port for one without "
	    "epmd";
}

static enum kp_err
not_registered(const struct call *c, const struct addresses *epmd)
{
	const struct node_place *p = c->p;
	char hint[EPMD_HINT_MAX];

	epmd_hint(hint, sizeof(hint), p->node, strchr(p->node, '@') + 1, epmd,
	    p->epmd_port, c->deadline);
	snprintf(c->why, c->n, "cannot connect to '%s': no such node is "
	    "registered at the epmd of '%s' (%s)", p->node, p->epmd_host,
	    hint[0] != '\0' ? hint : "is it running? 'epmd -names' there lists "
	    "the nodes");
	return KP_ENOENT;
}

static enum kp_err
ask_epmd(const struct call *c, unsigned *port)
{
	const struct node_place *p = c->p;
	char alive[KP_NODE_NAME_MAX + 1];
	struct addresses epmd;
	enum kp_err e = lookup(c, p->epmd_host, &epmd);
	bool reached;
	int err;

	if (e != KP_OK)
		return e;
	snprintf(alive, sizeof(alive), "%.*s", (int)strcspn(p->node, "@"),
	    p->node);
	err = epmd_node_port(&epmd, p->epmd_port, alive, c->deadline, port,
	    &reached);
	if (err == 0)
		return KP_OK;
	if (err == ENOENT)
		return not_registered(c, &epmd);
	if (reached && err == ETIMEDOUT)
		return no_answer(c);
	snprintf(c->why, c->n, "cannot connect to '%s': no epmd answers at '%s' "
	    "port %u: %s (%s)", p->node, p->epmd_host, p->epmd_port,
	    reached ? "something else does" : strerror(err), epmd_remedy(p));
	return err == ETIMEDOUT ? KP_ETIMEOUT : KP_EIO;
}

enum kp_err
dial(const struct node_place *p, kp_mono_ns deadline, kp_dur_ns limit, int *fd,
    char *why, size_t n)
{
	struct call c = { .p = p, .deadline = deadline, .limit = limit,
		.why = why, .n = n };
	unsigned port = p->port;
	struct addresses a;
	enum kp_err e = lookup(&c, p->host, &a);
	int err;

	if (e == KP_OK && port == 0)
		e = ask_epmd(&c, &port);
	if (e != KP_OK)
		return e;
	err = addresses_connect(&a, port, deadline, fd);
	if (err == 0)
		return KP_OK;
	if (err == ETIMEDOUT)
		return no_answer(&c);
	snprintf(why, n, "cannot connect to '%s': %s port %u: %s (%s)", p->node,
	    p->host, port, strerror(err), p->port != 0 ? "is that the node's "
	    "port?" : "that port is epmd's word: -resolve tells another");
	return KP_EIO;
}
