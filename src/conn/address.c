/*
 * address.c - resolves, and connects to several addresses at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn/address.h"

#define NEXT_AFTER (KP_NS_PER_S / 4)	/* RFC 8305: Connection Attempt Delay */

/* Connections that are being made, one for each address so far. */
struct race {
	const struct addresses *a;
	in_port_t port;
	struct pollfd p[ADDRESSES_MAX];	/* fd -1: it has failed */
	size_t started;
	kp_mono_ns next;		/* when the next one is tried */
	int err;			/* the most telling of those that failed */
};

int
addresses_find(struct addresses *a, const char *host)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM };
	struct addrinfo *res;
	int r = getaddrinfo(host, NULL, &hints, &res);

	a->n = 0;
	if (r != 0)
		return r;
	for (struct addrinfo *i = res; i != NULL && a->n < ADDRESSES_MAX;
	    i = i->ai_next)
		if (i->ai_family == AF_INET || i->ai_family == AF_INET6)
			memcpy(&a->v[a->n++], i->ai_addr, i->ai_addrlen);
	freeaddrinfo(res);
	return a->n > 0 ? 0 : EAI_NONAME;
}

/*
 * Says more of the host than that it has an address which does not lead there from
 * here, as an IPv6 address of a host often does, or than silence.
 */
static bool
tells(int err)
{
	return err != EADDRNOTAVAIL && err != ENETUNREACH &&
	    err != EHOSTUNREACH && err != EAFNOSUPPORT && err != ETIMEDOUT;
}

/* It has failed: the next one need not wait. */
static void
race_lose(struct race *r, size_t i, int err)
{
	if (r->p[i].fd >= 0)
		close(r->p[i].fd);
	r->p[i].fd = -1;
	if (!tells(r->err))
		r->err = err;
	r->next = 0;
}

/* Tries the next address.  True: it is connected already. */
static bool
race_start(struct race *r)
{
	size_t i = r->started++;
	struct sockaddr_storage to;
	bool v6 = r->a->v[i].any.sa_family == AF_INET6;
	socklen_t len = v6 ? sizeof(r->a->v[i].v6) : sizeof(r->a->v[i].v4);
	int fd = socket(r->a->v[i].any.sa_family,
	    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	r->p[i] = (struct pollfd){ .fd = fd, .events = POLLOUT };
	r->next = kp_mono_now() + NEXT_AFTER;
	memcpy(&to, &r->a->v[i], len);
	if (v6)
		((struct sockaddr_in6 *)&to)->sin6_port = r->port;
	else
		((struct sockaddr_in *)&to)->sin_port = r->port;
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, len) == 0)
		return true;
	if (fd < 0 || errno != EINPROGRESS)
		race_lose(r, i, errno);
	return false;
}

/* The one that is connected by now, or -1. */
static int
race_winner(struct race *r)
{
	for (size_t i = 0; i < r->started; i++) {
		int err = 0;
		socklen_t len = sizeof(err);

		if (r->p[i].fd < 0 || r->p[i].revents == 0)
			continue;
		if (getsockopt(r->p[i].fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
			err = errno;
		if (err == 0)
			return (int)i;
		race_lose(r, i, err);
	}
	return -1;
}

static bool
race_goes_on(const struct race *r)
{
	for (size_t i = 0; i < r->started; i++)
		if (r->p[i].fd >= 0)
			return true;
	return r->started < r->a->n;
}

/* Waits until one may have answered, or another one is due. */
static void
race_wait(struct race *r, kp_mono_ns deadline)
{
	kp_mono_ns until = r->started < r->a->n && r->next < deadline ?
	    r->next : deadline;
	kp_dur_ns left = until - kp_mono_now();

	if (poll(r->p, (nfds_t)r->started,
	    left > 0 ? (int)(left / KP_NS_PER_MS) + 1 : 0) < 0)
		for (size_t i = 0; i < r->started; i++)
			r->p[i].revents = 0;
}

int
addresses_connect(const struct addresses *a, unsigned port, kp_mono_ns deadline,
    int *fd)
{
	struct race r = { .a = a, .port = htons((uint16_t)port),
		.err = EADDRNOTAVAIL };
	int won = -1;

	while (won < 0 && race_goes_on(&r)) {
		if (kp_mono_now() >= deadline) {
			if (!tells(r.err))
				r.err = ETIMEDOUT;
			break;
		}
		if (r.started < a->n && kp_mono_now() >= r.next) {
			if (race_start(&r))
				won = (int)r.started - 1;
		} else {
			race_wait(&r, deadline);
			won = race_winner(&r);
		}
	}
	*fd = won >= 0 ? r.p[won].fd : -1;
	for (size_t i = 0; i < r.started; i++)
		if ((int)i != won && r.p[i].fd >= 0)
			close(r.p[i].fd);
	return won >= 0 ? 0 : r.err;
}

const char *
address_of_peer(int fd, char text[ADDRESS_TEXT_MAX])
{
	struct sockaddr_storage s;
	socklen_t len = sizeof(s);
	char host[ADDRESS_TEXT_MAX - 8], port[6];

	text[0] = '\0';
	if (getpeername(fd, (struct sockaddr *)&s, &len) == 0 &&
	    getnameinfo((struct sockaddr *)&s, len, host, sizeof(host), port,
	    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(text, ADDRESS_TEXT_MAX, s.ss_family == AF_INET6 ?
		    "[%s]:%s" : "%s:%s", host, port);
	return text;
}

void
machine_name(char *name, size_t n, bool qualified)
{
	struct addrinfo hints = { .ai_flags = AI_CANONNAME }, *res;

	if (gethostname(name, n - 1) < 0)
		snprintf(name, n, "localhost");
	name[n - 1] = '\0';
	if (!qualified)
		name[strcspn(name, ".")] = '\0';
	else if (strpbrk(name, ".:") == NULL &&
	    getaddrinfo(name, NULL, &hints, &res) == 0) {
		if (res->ai_canonname != NULL &&
		    strchr(res->ai_canonname, '.') != NULL)
			snprintf(name, n, "%s", res->ai_canonname);
		freeaddrinfo(res);
	}
}
