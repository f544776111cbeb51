/*
 * peer_uid.c - looks the connection up in the kernel's table of TCP sockets,
 * which has the user of either end of a local one.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer_uid.h"

/* Others do not count: of a socket that was closed the table says root's. */
#define ESTABLISHED 1

/* An address as the table has it: "0100007F:1267". */
struct end {
	char text[40];
};

static struct end
end_of(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;
	const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
	const uint32_t *a = in6->sin6_addr.s6_addr32;
	struct end e;

	if (ss->ss_family == AF_INET6)
		snprintf(e.text, sizeof(e.text), "%08X%08X%08X%08X:%04X", a[0],
		    a[1], a[2], a[3], ntohs(in6->sin6_port));
	else
		snprintf(e.text, sizeof(e.text), "%08X:%04X",
		    in->sin_addr.s_addr, ntohs(in->sin_port));
	return e;
}

/* The line of the socket that is theirs and goes to ours; its user, or -1. */
static long
user_of(FILE *table, const struct end *theirs, const struct end *ours)
{
	char line[512], local[40], remote[40];
	unsigned state, uid;

	while (fgets(line, sizeof(line), table) != NULL)
		if (sscanf(line, "%*s %39s %39s %x %*s %*s %*s %u", local,
		    remote, &state, &uid) == 4 && state == ESTABLISHED &&
		    strcmp(local, theirs->text) == 0 &&
		    strcmp(remote, ours->text) == 0)
			return uid;
	return -1;
}

bool
peer_is_ours(int fd)
{
	struct sockaddr_storage us = { 0 }, them = { 0 };
	socklen_t n = sizeof(us), m = sizeof(them);
	struct end ours, theirs;
	FILE *table;
	long uid;

	if (getsockname(fd, (struct sockaddr *)&us, &n) != 0 ||
	    getpeername(fd, (struct sockaddr *)&them, &m) != 0)
		return false;
	table = fopen(us.ss_family == AF_INET6 ? "/proc/self/net/tcp6" :
	    "/proc/self/net/tcp", "re");
	if (table == NULL)
		return false;
	ours = end_of(&us);
	theirs = end_of(&them);
	uid = user_of(table, &theirs, &ours);
	fclose(table);
	return uid == 0 || uid == (long)geteuid();
}
