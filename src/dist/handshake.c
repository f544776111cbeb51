/*
 * handshake.c - the distribution handshake, by ei, over our own sockets.
 *
 * ei reports most failures as EIO.  Its pluggable socket layer lets us watch
 * the handshake and keep one deadline for all of it, so the message can say
 * which it was: no such host, no epmd, no such node, a name in use, a cookie
 * that is refused, or no answer.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ei.h>

#include "kprofd/nodes.h"
#include "kprofd/secret.h"
#include "dist/epmd.h"
#include "dist/handshake.h"
#include "dist/peer_release.h"

#define HEADER 2	/* bytes of length before each message */

/* One handshake as its sockets saw it; ei passes it as the socket context. */
struct shake {
	int fd;
	bool connecting;	/* epmd answered: a connection was tried */
	bool connected;
	bool handed_over;	/* the descriptor is no longer ei's to close */
	kp_mono_ns deadline;
	uint8_t in[64];		/* the first bytes read: status, challenge */
	size_t nin;
	unsigned writes;	/* 1: our name; 2: our challenge reply */
	unsigned release;	/* of the node, which cannot be profiled; or 0 */
};

static int
shake_wait(struct shake *s, short events)
{
	struct pollfd p = { .fd = s->fd, .events = events };
	int64_t left = s->deadline - kp_mono_now();
	int r;

	if (left <= 0)
		return ETIMEDOUT;
	do
		r = poll(&p, 1, (int)(left / KP_NS_PER_MS) + 1);
	while (r < 0 && errno == EINTR);
	return r < 0 ? errno : r == 0 ? ETIMEDOUT : 0;
}

static int
cb_socket(void **ctx, void *setup)
{
	struct shake *s = setup;

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return errno;
	*ctx = s;
	return 0;
}

static int
cb_close(void *ctx)
{
	struct shake *s = ctx;

	if (s->fd >= 0 && !s->handed_over)
		close(s->fd);
	s->fd = -1;
	return 0;
}

static int
cb_connect(void *ctx, void *addr, int len, unsigned tmo)
{
	struct shake *s = ctx;
	socklen_t elen;
	int err;

	(void)tmo;
	s->connecting = true;
	if (connect(s->fd, addr, (socklen_t)len) < 0) {
		if (errno != EINPROGRESS)
			return errno;
		err = shake_wait(s, POLLOUT);
		if (err != 0)
			return err;
		elen = sizeof(err);
		if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &elen) < 0)
			return errno;
		if (err != 0)
			return err;
	}
	s->connected = true;
	return 0;
}

/* Before our answer to its challenge: the node has seen nothing but a name. */
static bool
shake_too_old(struct shake *s)
{
	unsigned release = s->writes == 1 ?
	    peer_release(s->in, s->nin, HEADER) : 0;

	if (release != 0 && release < PEER_RELEASE_LEAST)
		s->release = release;
	return s->release != 0;
}

static int
cb_write(void *ctx, const char *buf, ssize_t *len, unsigned tmo)
{
	struct shake *s = ctx;
	ssize_t n;
	int err;

	(void)tmo;
	if (shake_too_old(s))
		return EPROTO;
	err = shake_wait(s, POLLOUT);
	if (err != 0)
		return err;
	n = send(s->fd, buf, (size_t)*len, MSG_NOSIGNAL);
	if (n < 0)
		return errno;
	s->writes++;
	*len = n;
	return 0;
}

static int
cb_read(void *ctx, char *buf, ssize_t *len, unsigned tmo)
{
	struct shake *s = ctx;
	ssize_t n;
	size_t keep;
	int err;

	(void)tmo;
	err = shake_wait(s, POLLIN);
	if (err != 0)
		return err;
	n = recv(s->fd, buf, (size_t)*len, 0);
	if (n < 0)
		return errno;
	keep = sizeof(s->in) - s->nin;
	if ((size_t)n < keep)
		keep = (size_t)n;
	memcpy(s->in + s->nin, buf, keep);
	s->nin += keep;
	*len = n;
	return 0;
}

static int
cb_no_listen(void *ctx, void *addr, int *len, int backlog)
{
	(void)ctx, (void)addr, (void)len, (void)backlog;
	return ENOTSUP;
}

static int
cb_no_accept(void **ctx, void *addr, int *len, unsigned tmo)
{
	(void)ctx, (void)addr, (void)len, (void)tmo;
	return ENOTSUP;
}

static int
cb_header_size(void *ctx, int *size)
{
	(void)ctx;
	*size = HEADER;
	return 0;
}

static int
cb_complete(void *ctx)
{
	(void)ctx;
	return 0;
}

static int
cb_get_fd(void *ctx, int *fd)
{
	*fd = ((struct shake *)ctx)->fd;
	return 0;
}

static ei_socket_callbacks callbacks = {
	.flags = 0,
	.socket = cb_socket,
	.close = cb_close,
	.listen = cb_no_listen,
	.accept = cb_no_accept,
	.connect = cb_connect,
	.write = cb_write,
	.read = cb_read,
	.handshake_packet_header_size = cb_header_size,
	.connect_handshake_complete = cb_complete,
	.accept_handshake_complete = cb_complete,
	.get_fd = cb_get_fd,
};

/* True: the target answered our name with this status. */
static bool
shake_status(const struct shake *s, const char *status)
{
	size_t n = strlen(status);

	return s->nin >= 3 + n && s->in[2] == 's' &&
	    (size_t)(s->in[0] << 8 | s->in[1]) == 1 + n &&
	    memcmp(s->in + 3, status, n) == 0;
}

static enum kp_err
shake_explain(const struct shake *s, const struct node_opts *o,
    struct in_addr addr, int err, char *why, size_t n)
{
	const char *host = strchr(o->target, '@') + 1;
	struct addresses epmd = { .n = 1, .v[0].v4 = {
		.sin_family = AF_INET, .sin_addr = addr } };
	char hint[EPMD_HINT_MAX];

	if (kp_mono_now() >= s->deadline || err == ETIMEDOUT) {
		snprintf(why, n, "cannot connect to '%s': no answer within "
		    "%lld s (is the node hung or the network cut?)", o->target,
		    (long long)(o->limit / KP_NS_PER_S));
		return KP_ETIMEOUT;
	}
	if (!s->connecting) {
		epmd_hint(hint, sizeof(hint), o->target, host,
		    &epmd, epmd_default_port(), s->deadline);
		snprintf(why, n, "cannot connect to '%s': no such node is "
		    "registered at the epmd of '%s' (%s)", o->target, host,
		    hint[0] != '\0' ? hint : "is it running? 'epmd -names' "
		    "there lists the nodes");
		return KP_ENOENT;
	}
	if (!s->connected) {
		snprintf(why, n, "cannot connect to '%s': %s", o->target,
		    strerror(err));
		return KP_EIO;
	}
	if (s->release != 0) {
		snprintf(why, n, "cannot connect to '%s': it runs %s, and "
		    "kprofd needs OTP %d or later", o->target,
		    peer_release_text(s->release), PEER_RELEASE_LEAST);
		return KP_ESTATE;
	}
	if (shake_status(s, "alive") || shake_status(s, "nok")) {
		snprintf(why, n, "cannot connect to '%s': the name is in use "
		    "there (see -name)", o->target);
		return KP_EBUSY;
	}
	if (shake_status(s, "not_allowed")) {
		snprintf(why, n, "cannot connect to '%s': not allowed (the "
		    "node restricts who may connect: net_kernel:allow/1)",
		    o->target);
		return KP_ESTATE;
	}
	if (s->writes >= 2) {
		snprintf(why, n, "cannot connect to '%s': cookie refused "
		    "(see -cookie-file)", o->target);
		return KP_ESTATE;
	}
	snprintf(why, n, "cannot connect to '%s': the node closed the "
	    "connection during the handshake (same kind of name, short or "
	    "long? OTP 25 or later?)", o->target);
	return KP_EIO;
}

static enum kp_err
host_lookup(const struct node_opts *o, struct in_addr *addr, char *why,
    size_t n)
{
	const char *host = strchr(o->target, '@') + 1;
	struct addrinfo hints = { .ai_family = AF_INET,
		.ai_socktype = SOCK_STREAM };
	struct addrinfo *res;
	int r;

	r = getaddrinfo(host, NULL, &hints, &res);
	if (r != 0) {
		snprintf(why, n, "cannot connect to '%s': unknown host '%s' "
		    "(%s)", o->target, host, gai_strerror(r));
		return KP_ENOENT;
	}
	*addr = ((struct sockaddr_in *)(void *)res->ai_addr)->sin_addr;
	freeaddrinfo(res);
	return KP_OK;
}

/* Checks for an epmd: ei reports none like a missing node. */
static enum kp_err
epmd_reachable(const struct node_opts *o, struct in_addr addr,
    kp_mono_ns deadline, char *why, size_t n)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr = addr,
		.sin_port = htons((uint16_t)epmd_default_port()) };
	struct shake s = { .fd = -1, .deadline = deadline };
	void *ctx;
	int err;

	err = cb_socket(&ctx, &s);
	if (err == 0)
		err = cb_connect(&s, &sin, sizeof(sin), 0);
	cb_close(&s);
	if (err == 0)
		return KP_OK;
	snprintf(why, n, "cannot connect to '%s': no epmd answers at '%s' "
	    "port %d: %s (%s)", o->target,
	    strchr(o->target, '@') + 1, ntohs(sin.sin_port), strerror(err),
	    getenv("ERL_EPMD_PORT") != NULL ? "ERL_EPMD_PORT says so" :
	    "is any Erlang node running there?");
	return err == ETIMEDOUT ? KP_ETIMEOUT : KP_EIO;
}

/* One attempt under one name. */
static enum kp_err
connect_as(const struct node_opts *o, const char *alive, const char *host,
    struct in_addr addr, struct shake *s, struct node_conn *c, char *why,
    size_t n)
{
	char peer[NODE_NAME_MAX + 1];
	Erl_IpAddr ip = (Erl_IpAddr)(void *)&addr;
	ei_cnode ec;
	int64_t left;
	int fd;

	if ((size_t)snprintf(c->name, sizeof(c->name), "%s@%s", alive, host) >=
	    sizeof(c->name)) {
		snprintf(why, n, "our node name would be too long (see -name)");
		return KP_ELIMIT;
	}
	/* A node would answer "nok", as for a name in use. */
	if (!kp_node_alive_ok(alive, strlen(alive))) {
		snprintf(why, n, "bad node name '%s': nodes accept letters, "
		    "digits, _ and - before the @ (see -name)", c->name);
		return KP_EFORMAT;
	}
	snprintf(peer, sizeof(peer), "%.*s",
	    (int)(strchr(o->target, '@') - o->target), o->target);
	/* Distinguishes this use of the name from earlier ones. */
	c->creation = (uint32_t)kp_wall_now() | 4u;
	if (ei_connect_xinit_ussi(&ec, host, alive, c->name, ip, o->cookie,
	    c->creation, &callbacks, sizeof(callbacks), s) < 0) {
		snprintf(why, n, "bad node name '%s' (see -name)", c->name);
		return KP_EFORMAT;
	}
	left = (s->deadline - kp_mono_now()) / KP_NS_PER_MS;
	fd = ei_xconnect_tmo(&ec, ip, peer, left < 1 ? 1 : (unsigned)left);
	if (fd < 0)
		return shake_explain(s, o, addr, erl_errno, why, n);
	c->fd = fd;
	s->handed_over = true;
	ei_close_connection(fd); /* forgets the descriptor; cb_close spares it */
	return KP_OK;
}

/* The name of our host, short or fully qualified like the target's. */
static enum kp_err
own_host(const struct node_opts *o, char *host, size_t hostlen, char *why,
    size_t n)
{
	const char *thost = strchr(o->target, '@') + 1;
	bool longnames = strchr(thost, '.') != NULL;
	struct addrinfo hints = { .ai_flags = AI_CANONNAME };
	struct addrinfo *res;
	char name[256];

	if (gethostname(name, sizeof(name) - 1) < 0)
		snprintf(name, sizeof(name), "localhost");
	name[sizeof(name) - 1] = '\0';
	if (!longnames) {
		name[strcspn(name, ".")] = '\0';
	} else if (strchr(name, '.') == NULL) {
		if (getaddrinfo(name, NULL, &hints, &res) == 0) {
			if (res->ai_canonname != NULL &&
			    strchr(res->ai_canonname, '.') != NULL)
				snprintf(name, sizeof(name), "%s",
				    res->ai_canonname);
			freeaddrinfo(res);
		}
		/* Without a domain only a target on this host can be reached. */
		if (strchr(name, '.') == NULL)
			snprintf(name, sizeof(name), "%s", thost);
	}
	if ((size_t)snprintf(host, hostlen, "%s", name) >= hostlen) {
		snprintf(why, n, "host name '%s' is too long (see -name)", name);
		return KP_ELIMIT;
	}
	return KP_OK;
}

/* pthread_once() needs a void function; ei_init() fails only without memory. */
static void
ei_start(void)
{
	ei_init();
}

/* Tries the name that was given, or one slot after the other. */
static enum kp_err
connect_any(const struct node_opts *o, const char *host, struct in_addr addr,
    kp_mono_ns deadline, struct node_conn *c, char *why, size_t n)
{
	unsigned slots = o->name == NULL ? NODE_SLOTS : 1;
	char alive[NODE_NAME_MAX + 1];
	enum kp_err e = KP_EBUSY;
	struct shake s;

	for (unsigned i = 1; i <= slots && e == KP_EBUSY; i++) {
		if (o->name == NULL)
			snprintf(alive, sizeof(alive), "kprofd%u", i);
		else
			snprintf(alive, sizeof(alive), "%.*s",
			    (int)strcspn(o->name, "@"), o->name);
		s = (struct shake){ .fd = -1, .deadline = deadline };
		e = connect_as(o, alive, host, addr, &s, c, why, n);
	}
	return e;
}

enum kp_err
node_connect(const struct node_opts *o, struct node_conn *c, char *why,
    size_t whylen)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	kp_mono_ns deadline = kp_mono_now() + o->limit;
	const char *at = strchr(o->target, '@');
	char host[NODE_NAME_MAX + 1];
	struct in_addr addr;
	enum kp_err e;

	pthread_once(&once, ei_start);
	if (strlen(o->target) > NODE_NAME_MAX) {
		snprintf(why, whylen, "bad node name '%.40s...': longer than "
		    "%d bytes", o->target, NODE_NAME_MAX);
		return KP_EFORMAT;
	}
	if (at == NULL || at == o->target || at[1] == '\0') {
		snprintf(why, whylen, "bad node name '%s': expected name@host",
		    o->target);
		return KP_EFORMAT;
	}
	if (!kp_node_alive_ok(o->target, (size_t)(at - o->target))) {
		snprintf(why, whylen, "bad node name '%s': no node has other "
		    "than letters, digits, _ and - before the @", o->target);
		return KP_EFORMAT;
	}
	e = own_host(o, host, sizeof(host), why, whylen);
	if (e == KP_OK && o->name != NULL && (at = strchr(o->name, '@')) != NULL)
		snprintf(host, sizeof(host), "%s", at + 1);
	if (e == KP_OK)
		e = host_lookup(o, &addr, why, whylen);
	if (e == KP_OK)
		e = epmd_reachable(o, addr, deadline, why, whylen);
	if (e != KP_OK)
		return e;
	e = connect_any(o, host, addr, deadline, c, why, whylen);
	if (e == KP_EBUSY && o->name == NULL)
		snprintf(why, whylen, "cannot connect to '%s': all names "
		    "kprofd1 to kprofd%d are in use there (see -name)",
		    o->target, NODE_SLOTS);
	return e;
}

static enum kp_err
cookie_read(const char *path, char *cookie, char *why, size_t n)
{
	const char *reason;
	struct stat st;
	size_t len;
	FILE *f;

	f = kp_secret_open(path, &st, &reason);
	if (f == NULL) {
		snprintf(why, n, "cannot read the cookie file '%s': %s "
		    "(see -cookie-file)", path, reason);
		return KP_EIO;
	}
	if ((st.st_mode & kp_secret_mode_bad(path,
	    getenv("CREDENTIALS_DIRECTORY"))) != 0) {
		snprintf(why, n, "cookie file '%s' can be read by others "
		    "(chmod 600 it)", path);
		fclose(f);
		return KP_ESTATE;
	}
	len = fread(cookie, 1, NODE_COOKIE_MAX, f);
	fclose(f);
	cookie[len] = '\0';
	cookie[strcspn(cookie, "\r\n")] = '\0';
	if (cookie[0] == '\0') {
		snprintf(why, n, "cookie file '%s' is empty", path);
		return KP_EFORMAT;
	}
	return KP_OK;
}

enum kp_err
node_cookie(const char *file, char cookie[NODE_COOKIE_MAX + 1], char *why,
    size_t whylen)
{
	const char *home = getenv("HOME");
	char path[4096];

	if (file == NULL)
		file = getenv("KPROFD_COOKIE_FILE");
	if (file == NULL || file[0] == '\0') {
		snprintf(path, sizeof(path), "%s/.erlang.cookie",
		    home != NULL ? home : "");
		file = path;
	}
	return cookie_read(file, cookie, why, whylen);
}
