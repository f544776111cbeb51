/*
 * local_host.c - looks through the arguments of the VMs in /proc.
 *
 * A node may also get its name after its start (net_kernel:start/2), as RabbitMQ's
 * does, and other users' processes may be hidden.
 */
#include <ctype.h>
#include <dirent.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn/reach/local_host.h"
#include "kprofd/nodes.h"

#define ARGS_MAX 16384u		/* bytes of a VM's arguments that are read */
#define PROCESSES_MAX 100000u	/* of this machine that are looked at */

/* The arguments of a process, each with its NUL; returns their bytes. */
static size_t
read_args(const char *pid, char *args, size_t room)
{
	char path[300];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	n = fread(args, 1, room - 1, f);
	fclose(f);
	args[n] = '\0';
	return n > 0 ? n + 1 : 0;
}

/* Is it a VM?  The programs are beam.smp and, once, beam. */
static bool
is_vm(const char *program)
{
	const char *slash = strrchr(program, '/');

	return strncmp(slash != NULL ? slash + 1 : program, "beam", 4) == 0;
}

/* The value of -name or -sname; *is_long: which of them. */
static const char *
node_name(const char *args, size_t n, bool *is_long)
{
	const char *end = args + n, *next;

	for (const char *p = args; p < end; p = next) {
		next = p + strlen(p) + 1;
		*is_long = strcmp(p, "-name") == 0;
		if ((*is_long || strcmp(p, "-sname") == 0) && next < end)
			return next;
	}
	return NULL;
}

static void
own_host(char *host, size_t n, bool is_long)
{
	struct addrinfo hints = { .ai_flags = AI_CANONNAME }, *res;

	if (gethostname(host, n) != 0)
		snprintf(host, n, "localhost");
	host[n - 1] = '\0';
	if (!is_long) {
		host[strcspn(host, ".")] = '\0';
	} else if (getaddrinfo(host, NULL, &hints, &res) == 0) {
		if (res->ai_canonname != NULL)
			snprintf(host, n, "%s", res->ai_canonname);
		freeaddrinfo(res);
	}
}

/* Does this process have the node's name?  Then writes its host. */
static bool
host_of(const char *pid, const char *alive, char *host, size_t n)
{
	char args[ARGS_MAX];
	size_t len = read_args(pid, args, sizeof(args)), k;
	const char *name;
	bool is_long;

	if (len == 0 || !is_vm(args))
		return false;
	name = node_name(args, len, &is_long);
	if (name == NULL)
		return false;
	k = strcspn(name, "@");
	if (k != strlen(alive) || memcmp(name, alive, k) != 0)
		return false;
	/* Any user's process may say anything here. */
	if (name[k] == '@' && !kp_node_name_ok(name, strlen(name)))
		return false;
	if (name[k] == '@')
		snprintf(host, n, "%s", name + k + 1);
	else
		own_host(host, n, is_long);
	return true;
}

void
local_host(char *host, size_t n, const char *alive)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	unsigned seen = 0;
	bool found = false;

	while (dir != NULL && !found && seen++ < PROCESSES_MAX &&
	    (e = readdir(dir)) != NULL)
		found = isdigit((unsigned char)e->d_name[0]) &&
		    host_of(e->d_name, alive, host, n);
	if (dir != NULL)
		closedir(dir);
	if (!found)
		own_host(host, n, false);
}
