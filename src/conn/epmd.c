/*
 * epmd.c - the requests for a node's port (PORT_PLEASE2_REQ) and for all names
 * (NAMES_REQ), and what is made of the answers.
 *
 * Source: The Erlang Distribution Protocol, "Get the Distribution Port of Another
 * Node" and "Get All Registered Names from EPMD".  Anything may listen at that port:
 * what it sends is bounded in size and time, and only good names are taken.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/near_names.h"
#include "kprofd/buf.h"
#include "kprofd/nodes.h"
#include "conn/channel.h"
#include "conn/epmd.h"

#define EPMD_PORT 4369
#define PORT_PLEASE2_REQ 122
#define PORT2_RESP 119
#define NAMES_REQ 110
#define ANSWER_MAX 16384	/* bytes that are read of an answer */
#define NODES_MAX 64		/* names that are kept of it */
#define SHOWN_MAX 8
#define ARGS_MAX 16384u		/* bytes of a VM's arguments that are read */
#define PROCESSES_MAX 100000u	/* of this machine that are looked at */

struct nodes {
	char text[ANSWER_MAX + 1];	/* the answer; names point into it */
	const char *v[NODES_MAX];
	size_t n, more;
};

unsigned
epmd_default_port(void)
{
	const char *env = getenv("ERL_EPMD_PORT");
	unsigned port;

	return env != NULL && kp_port_parse(env, strlen(env), &port) ? port :
	    EPMD_PORT;
}

/* Connects and sends a request.  0, or errno. */
static int
ask(const struct addresses *a, unsigned at, uint8_t what, const char *name,
    kp_mono_ns deadline, int *fd)
{
	char req[3 + KP_NODE_NAME_MAX];
	size_t n = strnlen(name, KP_NODE_NAME_MAX);
	int err = addresses_connect(a, at, deadline, fd);

	if (err != 0)
		return err;
	req[0] = (char)((n + 1) >> 8);
	req[1] = (char)(n + 1);
	req[2] = (char)what;
	memcpy(req + 3, name, n);
	if (send(*fd, req, 3 + n, MSG_NOSIGNAL) == (ssize_t)(3 + n))
		return 0;
	err = errno;
	close(*fd);
	return err;
}

/* Reads up to the end, or as much as is taken, or the deadline. */
static size_t
read_answer(int fd, char *to, size_t room, kp_mono_ns deadline)
{
	size_t n = 0;
	ssize_t got;

	while (n < room && wait_ready(fd, POLLIN, deadline) == 0) {
		got = recv(fd, to + n, room - n, 0);
		if (got > 0)
			n += (size_t)got;
		else if (got == 0 || (errno != EINTR && errno != EAGAIN))
			break;
	}
	return n;
}

/*
 * After the port come the node's kind and versions, which its handshake gives us,
 * and the requested names.
 */
int
epmd_node_port(const struct addresses *a, unsigned at, const char *alive,
    kp_mono_ns deadline, unsigned *port, bool *reached)
{
	uint8_t r[4] = { 0 };
	int fd, err = ask(a, at, PORT_PLEASE2_REQ, alive, deadline, &fd);
	size_t n;

	*reached = err == 0;
	if (err != 0)
		return err;
	/* For a node that is not registered the answer has two bytes. */
	n = read_answer(fd, (char *)r, 2, deadline);
	if (n == 2 && r[1] == 0)
		n += read_answer(fd, (char *)r + 2, 2, deadline);
	close(fd);
	*port = (unsigned)(r[2] << 8 | r[3]);
	if (n < 2 || r[0] != PORT2_RESP || (r[1] == 0 && n < 4))
		return kp_mono_now() >= deadline ? ETIMEDOUT : EBADMSG;
	return r[1] != 0 || *port == 0 ? ENOENT : 0;
}

/* Takes the name of a line: "name shop at port 33445". */
static void
take_line(struct nodes *s, char *line)
{
	char *name = line + strlen("name "), *end;

	if (strncmp(line, "name ", strlen("name ")) != 0)
		return;
	end = strchr(name, ' ');
	if (end == NULL || strncmp(end, " at port ", 9) != 0 ||
	    end - name > KP_NODE_NAME_MAX ||
	    !kp_node_alive_ok(name, (size_t)(end - name)))
		return;
	*end = '\0';
	if (s->n < NODES_MAX)
		s->v[s->n++] = name;
	else
		s->more++;
}

/* False: no epmd answers there. */
static bool
ask_nodes(struct nodes *s, const struct addresses *a, unsigned at,
    kp_mono_ns deadline)
{
	char *line, *nl;
	size_t n;
	int fd;

	s->n = s->more = 0;
	if (ask(a, at, NAMES_REQ, "", deadline, &fd) != 0)
		return false;
	n = read_answer(fd, s->text, ANSWER_MAX, deadline);
	close(fd);
	if (n < 4)	/* its own port, before the names */
		return false;
	s->text[n] = '\0';
	for (line = s->text + 4; (nl = strchr(line, '\n')) != NULL;
	    line = nl + 1) {
		*nl = '\0';
		take_line(s, line);
	}
	return true;
}

/* ---- the host in the name of a node of this machine, which epmd does not know ---- */

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
		machine_name(host, n, is_long);
	return true;
}

/*
 * Writes the host that a node of this machine was started with, by the arguments of the
 * VMs in /proc: -name shop@10.0.0.1, -sname shop.  If they do not show it, the node has
 * probably a short name: writes this machine's.  A node may also get its name after its
 * start (net_kernel:start/2), as RabbitMQ's does, and other users' processes may be
 * hidden.
 */
static void
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
		machine_name(host, n, false);
}

/* ---- a hint for people ---- */

static void
put_node(struct kp_buf *b, const char *alive, const char *host)
{
	char here[KP_NODE_NAME_MAX + 1];

	if (host == NULL)
		local_host(here, sizeof(here), alive);
	kp_buf_printf(b, "%s@%s", alive, host != NULL ? host : here);
}

static void
put_list(struct kp_buf *b, const struct nodes *s, const char *host)
{
	size_t i, start = b->len, more = s->more;

	for (i = 0; i < s->n; i++) {
		if (i == SHOWN_MAX || b->len - start > EPMD_HINT_MAX / 2)
			break;
		kp_buf_str(b, i > 0 ? ", " : "epmd lists ");
		put_node(b, s->v[i], host);
	}
	more += s->n - i;
	if (more > 0)
		kp_buf_printf(b, " and %zu more", more);
	if (s->n == 0)
		kp_buf_str(b, "epmd lists no node");
}

static const char *
near_node(const struct nodes *s, const char *given)
{
	char alive[KP_NODE_NAME_MAX + 1];

	snprintf(alive, sizeof(alive), "%.*s", (int)strcspn(given, "@"),
	    given);
	return near_name(alive, s->v, s->n, sizeof(*s->v),
	    (struct near_rule){ .edits = 2, .share = 3, .kept = 1 });
}

void
epmd_hint(char *text, size_t n, const char *given, const char *host,
    const struct addresses *a, unsigned at, kp_mono_ns deadline)
{
	struct nodes s;
	const char *near;
	struct kp_buf b;

	text[0] = '\0';
	if (!ask_nodes(&s, a, at, deadline))
		return;
	kp_buf_init(&b, 4 * EPMD_HINT_MAX);
	near = near_node(&s, given);
	if (near != NULL) {
		kp_buf_str(&b, "did you mean '");
		put_node(&b, near, host);
		kp_buf_str(&b, "'?");
	}
	if (near != NULL && s.n > 1)
		kp_buf_u8(&b, ' ');
	if (near == NULL || s.n > 1)
		put_list(&b, &s, host);
	snprintf(text, n, "%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
}
