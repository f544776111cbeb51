/*
 * dial.c - resolves, asks epmd, connects, and says what each of these met.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/reach/dial.h"
#include "conn/reach/epmd.h"

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

/* see: what leads to another host. */
static enum kp_err
lookup(const struct call *c, const char *host, const char *see,
    struct addresses *a)
{
	int r = addresses_find(a, host);

	if (r == 0)
		return KP_OK;
	snprintf(c->why, c->n, "cannot connect to '%s': unknown host '%s' (%s; "
	    "%s)", c->p->node, host, gai_strerror(r), see);
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

static const char *
which_epmd(const struct node_place *p)
{
	if (p->epmd_given)
		return "the epmd is -epmd's";
	return getenv("ERL_EPMD_PORT") != NULL ? "the epmd is ERL_EPMD_PORT's" :
	    "another epmd: see -epmd";
}

static enum kp_err
not_registered(const struct call *c, const struct addresses *epmd)
{
	const struct node_place *p = c->p;
	char hint[EPMD_HINT_MAX];

	epmd_hint(hint, sizeof(hint), p->node, strchr(p->node, '@') + 1, epmd,
	    p->epmd_port, c->deadline);
	snprintf(c->why, c->n, "cannot connect to '%s': no such node is "
	    "registered at the epmd of '%s' (%s; a node without epmd needs its "
	    "port: see -dist-port; %s)", p->node, p->epmd_host,
	    hint[0] != '\0' ? hint : "is it running? 'epmd -names' there lists "
	    "the nodes", which_epmd(p));
	return KP_ENOENT;
}

static enum kp_err
ask_epmd(const struct call *c, unsigned *port)
{
	const struct node_place *p = c->p;
	char alive[KP_NODE_NAME_MAX + 1];
	struct addresses epmd;
	enum kp_err e = lookup(c, p->epmd_host, "-epmd says so", &epmd);
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
	enum kp_err e = lookup(&c, p->host, p->resolved ? "-resolve says so" :
	    "see -resolve", &a);
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
	    p->host, port, strerror(err), p->port != 0 ?
	    node_place_port_hint(p) : "that port is epmd's word: -resolve tells "
	    "another");
	return KP_EIO;
}
