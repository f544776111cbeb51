/* listen.c - see the header. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth.h"
#include "listen.h"

#define BACKLOG 64

static void
say_where(evutil_socket_t fd, char *at)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	char name[INET6_ADDRSTRLEN] = "";

	if (getsockname(fd, (struct sockaddr *)&ss, &len) != 0)
		return;
	if (ss.ss_family == AF_INET6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;

		inet_ntop(AF_INET6, &in6->sin6_addr, name, sizeof(name));
		snprintf(at, WEB_ADDR_MAX, "[%s]:%u", name,
		    ntohs(in6->sin6_port));
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)&ss;

		inet_ntop(AF_INET, &in->sin_addr, name, sizeof(name));
		snprintf(at, WEB_ADDR_MAX, "%s:%u", name,
		    ntohs(in->sin_port));
	}
}

/* "127.0.0.1:4711", "[::1]:0"; the length of the address, 0: it is none. */
static socklen_t
parse(const char *addr, struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	const char *colon = strrchr(addr, ':');
	char name[INET6_ADDRSTRLEN + 2], *end;
	unsigned long port;
	size_t n;

	memset(ss, 0, sizeof(*ss));
	n = colon != NULL ? (size_t)(colon - addr) : sizeof(name);
	if (n >= sizeof(name) || colon[1] < '0' || colon[1] > '9')
		return 0;
	port = strtoul(colon + 1, &end, 10);
	if (*end != '\0' || port > UINT16_MAX)
		return 0;
	memcpy(name, addr, n);
	name[n] = '\0';
	if (name[0] == '[' && name[n - 1] == ']') {
		name[n - 1] = '\0';
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, name + 1, &in6->sin6_addr) == 1 ?
		    sizeof(*in6) : 0;
	}
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, name, &in->sin_addr) == 1 ? sizeof(*in) : 0;
}

enum kp_err
web_listen(evutil_socket_t *out, const char *addr, bool open, char *at,
    char *why, size_t n)
{
	struct sockaddr_storage ss;
	socklen_t len = parse(addr, &ss);
	int one = 1, fd;

	if (len == 0) {
		snprintf(why, n, "bad address '%.100s' for -http: it is "
		    "ADDR:PORT, such as 127.0.0.1:4711 or [::1]:4711", addr);
		return KP_EFORMAT;
	}
	if (!open && !web_host_is_loopback(addr)) {
		snprintf(why, n, "-http '%s' is not a loopback address: "
		    "without -http-token-file only the machine itself may ask",
		    addr);
		return KP_EFORMAT;
	}
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (struct sockaddr *)&ss, len) != 0 ||
	    listen(fd, BACKLOG) != 0) {
		snprintf(why, n, "cannot listen at '%s': %s (see -http)", addr,
		    strerror(errno));
		if (fd >= 0)
			close(fd);
		return KP_EIO;
	}
	say_where(fd, at);
	*out = fd;
	return KP_OK;
}
