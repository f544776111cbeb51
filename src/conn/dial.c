/*
 * dial.c - splits what was typed, looks names up in -resolve, asks the resolver and epmd,
 * connects, and says what each of these met.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/dial.h"
#include "conn/epmd.h"

/* ---- the place of a node: what was typed, and the options ---- */

/* The part of -resolve after the '='; NULL: there is none, or no name before it. */
static const char *
address_of(const char *s)
{
	const char *is = strchr(s, '=');

	return is != NULL && is > s && is - s <= KP_NODE_NAME_MAX ? is + 1 :
	    NULL;
}

/* The entry for this name, of a node or a host; the last one that was given. */
static bool
find(const struct opt_list *l, const char *name, struct kp_host_at *h)
{
	const char *address;
	size_t n = strlen(name);

	for (size_t i = l->n; i-- > 0;) {
		address = address_of(l->v[i]);
		if (address != NULL && (size_t)(address - 1 - l->v[i]) == n &&
		    memcmp(l->v[i], name, n) == 0)
			return kp_host_split(address, strlen(address), h) ==
			    NULL;
	}
	return false;
}

static void
epmd_place(struct node_place *p, const char *given)
{
	struct kp_host_at h;
	unsigned port;

	snprintf(p->epmd_host, sizeof(p->epmd_host), "%s", p->host);
	p->epmd_port = epmd_default_port();
	p->epmd_given = given != NULL;
	if (given == NULL)
		return;
	if (kp_port_parse(given, strlen(given), &port)) {
		p->epmd_port = port;
	} else if (kp_host_split(given, strlen(given), &h) == NULL) {
		snprintf(p->epmd_host, sizeof(p->epmd_host), "%s", h.host);
		if (h.port != 0)
			p->epmd_port = h.port;
	}
}

enum kp_err
node_place_find(struct node_place *p, const char *target, const struct reach *r,
    char *why, size_t n)
{
	struct kp_node_at node;
	struct kp_host_at h;
	const char *host, *wrong = kp_node_split(target, strlen(target), &node);

	*p = (struct node_place){ .port = 0 };
	if (wrong != NULL) {
		snprintf(why, n, "bad node name '%.300s': %s", target, wrong);
		return KP_EFORMAT;
	}
	p->port = node.port;
	snprintf(p->node, sizeof(p->node), "%s", node.node);
	host = strchr(p->node, '@') + 1;
	snprintf(p->host, sizeof(p->host), "%s", host);
	p->resolved = r != NULL && (find(&r->resolve, p->node, &h) ||
	    find(&r->resolve, host, &h));
	if (p->resolved) {
		snprintf(p->host, sizeof(p->host), "%s", h.host);
		if (p->port == 0)
			p->port = h.port;
	}
	if (p->port == 0 && r != NULL) {
		p->port = (unsigned)r->dist_port;
		p->port_env = r->port_env;
	}
	epmd_place(p, r != NULL ? r->epmd : NULL);
	return KP_OK;
}

const char *
node_place_port_hint(const struct node_place *p)
{
	return p->port_env ? "ERL_DIST_PORT says so: is that the node's port?" :
	    "is that the node's port?";
}

/* ---- to connect ---- */

enum kp_err
no_answer(const struct node_place *p, kp_dur_ns limit, char *why, size_t n)
{
	return cannot_connect(p, KP_ETIMEOUT, why, n, "no answer within %lld s (is "
	    "the node hung or the network cut?)", (long long)(limit / KP_NS_PER_S));
}

/* see: what leads to another host. */
static enum kp_err
lookup(const struct node_place *p, const char *host, const char *see,
    struct addresses *a, char *why, size_t n)
{
	int r = addresses_find(a, host);

	return r == 0 ? KP_OK : cannot_connect(p, KP_ENOENT, why, n, "unknown host "
	    "'%s' (%s; %s)", host, gai_strerror(r), see);
}

static enum kp_err
ask_epmd(const struct node_place *p, kp_mono_ns deadline, kp_dur_ns limit,
    unsigned *port, char *why, size_t n)
{
	bool env = getenv("ERL_EPMD_PORT") != NULL;
	char alive[KP_NODE_NAME_MAX + 1], hint[EPMD_HINT_MAX];
	struct addresses epmd;
	enum kp_err e = lookup(p, p->epmd_host, "-epmd says so", &epmd, why, n);
	bool reached;
	int err;

	if (e != KP_OK)
		return e;
	snprintf(alive, sizeof(alive), "%.*s", (int)strcspn(p->node, "@"),
	    p->node);
	err = epmd_node_port(&epmd, p->epmd_port, alive, deadline, port, &reached);
	if (err == 0)
		return KP_OK;
	if (err == ENOENT && p->known)
		return cannot_connect(p, KP_ENOENT, why, n, "no such node is "
		    "registered at the epmd of '%s' any more", p->epmd_host);
	if (err == ENOENT) {
		epmd_hint(hint, sizeof(hint), p->node, strchr(p->node, '@') + 1,
		    &epmd, p->epmd_port, deadline);
		return cannot_connect(p, KP_ENOENT, why, n, "no such node is "
		    "registered at the epmd of '%s' (%s; a node without epmd "
		    "needs its port: see -dist-port; %s)", p->epmd_host,
		    hint[0] != '\0' ? hint : "is it running? 'epmd -names' there "
		    "lists the nodes", p->epmd_given ? "the epmd is -epmd's" :
		    env ? "the epmd is ERL_EPMD_PORT's" :
		    "another epmd: see -epmd");
	}
	if (reached && err == ETIMEDOUT)
		return no_answer(p, limit, why, n);
	/* The port of epmd may be what is wrong. */
	return cannot_connect(p, err == ETIMEDOUT ? KP_ETIMEOUT : KP_EIO, why, n,
	    "no epmd answers at '%s' port %u: %s (%s)", p->epmd_host,
	    p->epmd_port, reached ? "something else does" : strerror(err),
	    p->epmd_given ? "-epmd says so" : env ? "ERL_EPMD_PORT says so" :
	    "is any Erlang node running there? see -dist-port for one without "
	    "epmd");
}

enum kp_err
dial(const struct node_place *p, kp_mono_ns deadline, kp_dur_ns limit, int *fd,
    char *why, size_t n)
{
	unsigned port = p->port;
	struct addresses a;
	enum kp_err e = lookup(p, p->host, p->resolved ? "-resolve says so" :
	    "see -resolve", &a, why, n);
	int err;

	if (e == KP_OK && port == 0)
		e = ask_epmd(p, deadline, limit, &port, why, n);
	if (e != KP_OK)
		return e;
	err = addresses_connect(&a, port, deadline, fd);
	if (err == 0)
		return KP_OK;
	if (err == ETIMEDOUT)
		return no_answer(p, limit, why, n);
	return cannot_connect(p, KP_EIO, why, n, "%s port %u: %s (%s)", p->host,
	    port, strerror(err), p->port != 0 ? node_place_port_hint(p) :
	    "that port is epmd's word: -resolve gives another");
}
