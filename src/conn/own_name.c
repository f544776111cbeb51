/*
 * own_name.c - a node speaks only to nodes whose names are of the same kind as its
 * own, short or long.
 */
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn/own_name.h"

#define HOST_MAX 256

/* The VM takes an IPv6 address, too, for the host of a long name. */
static bool
is_long(const char *host)
{
	return strpbrk(host, ".:") != NULL;
}

/* The fully qualified name of this machine, where there is one. */
static void
qualify(char name[HOST_MAX])
{
	struct addrinfo hints = { .ai_flags = AI_CANONNAME };
	struct addrinfo *res;

	if (getaddrinfo(name, NULL, &hints, &res) != 0)
		return;
	if (res->ai_canonname != NULL && strchr(res->ai_canonname, '.') != NULL)
		snprintf(name, HOST_MAX, "%s", res->ai_canonname);
	freeaddrinfo(res);
}

enum kp_err
own_host(struct own_name *o, const char *given, const char *node, char *why,
    size_t n)
{
	const char *theirs = strchr(node, '@') + 1;
	const char *at = given != NULL ? strchr(given, '@') : NULL;
	char name[HOST_MAX];

	if (gethostname(name, sizeof(name) - 1) < 0)
		snprintf(name, sizeof(name), "localhost");
	name[sizeof(name) - 1] = '\0';
	if (at != NULL) {
		snprintf(name, sizeof(name), "%s", at + 1);
	} else if (!is_long(theirs)) {
		name[strcspn(name, ".")] = '\0';
	} else if (!is_long(name)) {
		qualify(name);
		/* Without a domain only a target on this host can be reached. */
		if (!is_long(name))
			snprintf(name, sizeof(name), "%s", theirs);
	}
	if ((size_t)snprintf(o->host, sizeof(o->host), "%s", name) >=
	    sizeof(o->host) || strlen(name) == HOST_MAX - 1) {
		snprintf(why, n, "host name '%s' is too long (see -name)", name);
		return KP_ELIMIT;
	}
	return KP_OK;
}

enum kp_err
own_name(struct own_name *o, const char *given, unsigned slot, char *why,
    size_t n)
{
	int len;

	if (given == NULL)
		len = snprintf(o->alive, sizeof(o->alive), "kprofd%u", slot);
	else
		len = snprintf(o->alive, sizeof(o->alive), "%.*s",
		    (int)strcspn(given, "@"), given);
	if ((size_t)len >= sizeof(o->alive) ||
	    (size_t)snprintf(o->full, sizeof(o->full), "%s@%s", o->alive,
	    o->host) >= sizeof(o->full)) {
		snprintf(why, n, "our node name would be too long (see -name)");
		return KP_ELIMIT;
	}
	/* A node would answer "nok", as for a name in use. */
	if (!kp_node_alive_ok(o->alive, strlen(o->alive))) {
		snprintf(why, n, "bad node name '%s': nodes accept letters, "
		    "digits, _ and - before the @ (see -name)", o->full);
		return KP_EFORMAT;
	}
	return KP_OK;
}
