/*
 * address.h - the addresses of a host, and a connection to the first that answers.
 */
#ifndef KPROFD_CONN_ADDRESS_H
#define KPROFD_CONN_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "kprofd/clock.h"

#define ADDRESSES_MAX 8		/* of a host that are tried */

struct addresses {
	/* IPv6 and IPv4, in the order of getaddrinfo(); without a port. */
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} v[ADDRESSES_MAX];
	size_t n;
};

/*
 * Resolves a name, or reads an address.  0, or a value of getaddrinfo() for
 * gai_strerror().  The resolver has time limits of its own.
 */
int addresses_find(struct addresses *a, const char *host);

/*
 * Connects to that port.  Another address is tried as soon as one fails or has not
 * answered for a quarter of a second, while the earlier ones go on (RFC 8305,
 * "Happy Eyeballs", section 5); the first that answers is taken.  0, or the errno of
 * one that failed: ECONNREFUSED of one address rather than ETIMEDOUT of another.
 * *fd is non-blocking and close-on-exec.
 */
int addresses_connect(const struct addresses *a, unsigned port,
    kp_mono_ns deadline, int *fd);

#define ADDRESS_TEXT_MAX 72	/* bytes, with a scope and a port */

/* 10.0.0.7:4370 or [::1]:4370: where a socket is connected to; else "". */
const char *address_of_peer(int fd, char text[ADDRESS_TEXT_MAX]);

/* The name of this machine: short, or fully qualified where there is such a name. */
void machine_name(char *name, size_t n, bool qualified);

#endif
