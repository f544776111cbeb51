/*
 * place.c - splits what was typed, and looks names up in -resolve.
 */
#include <stdio.h>
#include <string.h>

#include "conn/reach/epmd.h"
#include "conn/reach/place.h"

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
