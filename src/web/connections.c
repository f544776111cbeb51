/*
 * connections.c - opens the listening socket, keeps a table of connections,
 * encrypts them, closes those that take too long or are idle in a crowd, and finds
 * the user at the other end.
 *
 * evhttp has timeouts for silence, but none for a client that sends a byte now
 * and then, and accepts any number of such clients.  So each connection's
 * bufferevent is made here, with a reference.  When evhttp is done with one, its
 * event callback is gone.  The socket is closed together with the bufferevent and
 * not before: otherwise the next connection could get the same descriptor, and
 * this bufferevent would receive what is sent to that one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/ssl.h>

#include "server.h"
#include "conn/tls_certs.h"
#include "kprofd/clock.h"

#define BACKLOG 4096		/* net.core.somaxconn bounds it, too */
#define SOON_MS 2		/* until evhttp has read, and seen what was cut */
#define UNREAD_MAX 65536	/* bytes */
#define PAGE_MAX 1024		/* of evhttp's own, with headers */

static void
format_address(evutil_socket_t fd, char *at)
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

/*
 * Parses "127.0.0.1:4711" or "[::1]:0"; a port alone, and localhost, mean
 * 127.0.0.1.  Brackets may be there in any case, for who does not know which address it
 * will be.  Returns the length, or 0 for any other text.
 */
static socklen_t
parse_address(const char *addr, struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	const char *colon = strrchr(addr, ':');
	const char *digits = colon != NULL ? colon + 1 : addr;
	size_t n = colon != NULL ? (size_t)(colon - addr) : 0;
	char name[INET6_ADDRSTRLEN + 2], *end;
	unsigned long port;

	memset(ss, 0, sizeof(*ss));
	if (n >= sizeof(name) || *digits < '0' || *digits > '9')
		return 0;
	port = strtoul(digits, &end, 10);
	if (*end != '\0' || port > UINT16_MAX)
		return 0;
	memcpy(name, addr, n);
	name[n] = '\0';
	if (n == 0 || strcasecmp(name, "localhost") == 0)
		snprintf(name, sizeof(name), "127.0.0.1");
	if (name[0] == '[' && name[n - 1] == ']') {
		name[n - 1] = '\0';
		memmove(name, name + 1, n - 1);
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		if (inet_pton(AF_INET6, name, &in6->sin6_addr) == 1)
			return sizeof(*in6);
		memset(ss, 0, sizeof(*ss));
	}
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, name, &in->sin_addr) == 1 ? sizeof(*in) : 0;
}

static bool
is_loopback(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;

	return ss->ss_family == AF_INET6 ?
	    IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) :
	    ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

enum kp_err
web_listen(evutil_socket_t *out, const char *addr, bool open, char *at,
    char *why, size_t n)
{
	struct sockaddr_storage ss;
	socklen_t len = parse_address(addr, &ss);
	int one = 1, fd;

	if (len == 0) {
		snprintf(why, n, "bad address '%.100s' for -http: it is "
		    "PORT or ADDR:PORT, such as 4711, 127.0.0.1:4711 or "
		    "[::1]:4711", addr);
		return KP_EFORMAT;
	}
	if (!open && !is_loopback(&ss)) {
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
	format_address(fd, at);
	*out = fd;
	return KP_OK;
}

struct conn {
	struct bufferevent *bev;	/* NULL: free */
	kp_mono_ns since;
	bool cut;
};

struct conns {
	struct event_base *base;
	struct evconnlistener *listener;
	struct event *tick, *soon;
	SSL_CTX *tls;			/* NULL: no encryption */
	_Atomic(SSL_CTX *) tls_next;	/* takes its place; NULL: none does */
	struct conn v[CONNS_MAX];
	unsigned n, ncut;
};

static bool
is_done(const struct conn *c)
{
	bufferevent_event_cb cb;

	bufferevent_getcb(c->bev, NULL, NULL, &cb, NULL);
	return cb == NULL;
}

/* evhttp reads the end, and closes the connection. */
static void
cut(struct conns *cs, struct conn *c)
{
	if (bufferevent_getfd(c->bev) >= 0)
		shutdown(bufferevent_getfd(c->bev), SHUT_RDWR);
	cs->ncut += !c->cut;
	c->cut = true;
}

/* evhttp reads from it and does not write, so no request of it is being answered. */
static bool
is_idle(const struct conn *c)
{
	return c->bev != NULL && !c->cut && !is_done(c) &&
	    bufferevent_get_enabled(c->bev) == EV_READ &&
	    bufferevent_getfd(c->bev) >= 0;
}

/* Does a request, or a part of one, wait to be read? */
static bool
has_unread(const struct conn *c)
{
	char byte;

	return recv(bufferevent_getfd(c->bev), &byte, 1,
	    MSG_PEEK | MSG_DONTWAIT) > 0;
}

static int
by_age(const void *a, const void *b)
{
	kp_mono_ns x = (*(struct conn *const *)a)->since;
	kp_mono_ns y = (*(struct conn *const *)b)->since;

	return (x > y) - (x < y);
}

/* Sweeps again soon; not later, if that is planned. */
static void
plan_sweep(struct conns *cs)
{
	const struct timeval soon = { 0, SOON_MS * 1000 };

	if (!evtimer_pending(cs->soon, NULL))
		event_add(cs->soon, &soon);
}

/*
 * Cuts those that have been idle longest: whoever opens many and asks nothing keeps
 * nobody else waiting.  All at once, after the requests of a crowd have been read: one
 * search for each that comes would make the server slower than those who open.  One
 * that is to be read first, such as a handshake, is looked at again, and no younger one
 * goes in its place: it may be a client's that has just come.
 */
static void
make_room(struct conns *cs)
{
	unsigned n = 0, excess = cs->n - cs->ncut - CONNS_USUAL;
	struct conn *idle[CONNS_MAX];

	for (struct conn *c = cs->v; c < cs->v + CONNS_MAX; c++)
		if (is_idle(c))
			idle[n++] = c;
	qsort(idle, n, sizeof(idle[0]), by_age);
	for (unsigned i = 0; i < n && i < excess; i++)
		if (has_unread(idle[i]))
			plan_sweep(cs);
		else
			cut(cs, idle[i]);
}

static void
sweep(struct conns *cs)
{
	kp_mono_ns oldest = kp_mono_now() - CONN_SECONDS * KP_NS_PER_S;
	struct conn *c;

	for (unsigned i = 0; i < CONNS_MAX; i++) {
		c = &cs->v[i];
		if (c->bev == NULL)
			continue;
		if (is_done(c)) {
			bufferevent_decref(c->bev);
			cs->ncut -= c->cut;
			*c = (struct conn){ 0 };
			cs->n--;
		} else if (c->since < oldest) {
			cut(cs, c);
		}
	}
	if (cs->n - cs->ncut > CONNS_USUAL)
		make_room(cs);
	if (cs->n < CONNS_MAX)
		evconnlistener_enable(cs->listener);
	if (cs->n == CONNS_MAX || (cs->n > CONNS_USUAL && cs->ncut > 0))
		plan_sweep(cs);
}

static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what;
	sweep(ctx);
}

enum kp_err
conns_encrypt(struct conns *cs, const char *cert, const char *key, char *why,
    size_t n)
{
	const struct pem_pair pair = { .cert = cert, .key = key,
		.cert_option = "-http-tls-cert", .key_option = "-http-tls-key",
		.locked = "write it without a password (openssl pkey -in OLD "
		    "-out NEW, chmod 600 NEW)" };
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	enum kp_err err = KP_ENOMEM;

	if (ctx == NULL) {
		snprintf(why, n, "out of memory");
		return err;
	}
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	/* clients keep their sessions themselves, in tickets */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	/* an idle connection needs 34 KiB less */
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	err = pem_use_pair(ctx, &pair, why, n);
	SSL_CTX_free(err != KP_OK ? ctx : atomic_exchange(&cs->tls_next, ctx));
	return err;
}

/* NULL: out of memory. */
static struct bufferevent *
bufferevent_make(struct conns *cs, struct event_base *base)
{
	SSL_CTX *next = atomic_exchange(&cs->tls_next, NULL);
	SSL *ssl;

	if (next != NULL) {
		SSL_CTX_free(cs->tls);
		cs->tls = next;
	}
	if (cs->tls == NULL)
		return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	ssl = SSL_new(cs->tls);
	return ssl == NULL ? NULL : bufferevent_openssl_socket_new(base, -1, ssl,
	    BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
}

/*
 * evhttp writes a page of its own for what it does not take to a callback; nothing else
 * that it writes ends so.  The page is whole when its last line comes, and is not sent
 * yet.
 */
static void
on_output(struct evbuffer *out, const struct evbuffer_cb_info *change, void *ctx)
{
	static const char begin[] = "HTTP/1.", end[] = "</BODY></HTML>\n";
	size_t n = evbuffer_get_length(out);
	char text[PAGE_MAX + 1];

	(void)ctx;
	if (change->n_added == 0 || n < sizeof(begin) + sizeof(end) || n > PAGE_MAX)
		return;
	evbuffer_copyout(out, text, n);
	text[n] = '\0';
	if (strcmp(text + n - strlen(end), end) != 0 ||
	    strncmp(text, begin, strlen(begin)) != 0)
		return;
	evbuffer_drain(out, n);
	reply_instead(out, atoi(text + strlen("HTTP/1.1 ")));
}

/*
 * Makes a bufferevent, to which evhttp gives the socket.  NULL: evhttp makes one, which
 * is not encrypted: so a client of https gets nothing.
 */
static struct bufferevent *
on_accept(struct event_base *base, void *ctx)
{
	struct conns *cs = ctx;
	struct bufferevent *bev = bufferevent_make(cs, base);
	unsigned i = 0;

	while (i < CONNS_MAX && cs->v[i].bev != NULL)
		i++;
	if (bev == NULL || i == CONNS_MAX)
		return bev;
	bufferevent_incref(bev);
	evbuffer_add_cb(bufferevent_get_output(bev), on_output, NULL);
	/* it holds even when evhttp has stopped reading from it */
	bufferevent_setwatermark(bev, EV_READ, 0, UNREAD_MAX);
	cs->v[i] = (struct conn){ .bev = bev, .since = kp_mono_now() };
	cs->n++;
	if (cs->n == CONNS_MAX)
		evconnlistener_disable(cs->listener);
	if (cs->n - cs->ncut > CONNS_USUAL || cs->n == CONNS_MAX)
		plan_sweep(cs);
	return bev;
}

static void
set_time(struct conns *cs, struct evhttp_request *req, kp_mono_ns since,
    const struct timeval *silence)
{
	struct evhttp_connection *evcon = evhttp_request_get_connection(req);
	struct bufferevent *bev;

	if (evcon == NULL)
		return;		/* it has gone */
	bev = evhttp_connection_get_bufferevent(evcon);
	bufferevent_set_timeouts(bev, silence, silence);
	for (unsigned i = 0; i < CONNS_MAX; i++)
		if (cs->v[i].bev == bev)
			cs->v[i].since = since;
}

void
conns_asked(struct conns *cs, struct evhttp_request *req)
{
	const struct timeval silence = { CONN_SILENCE, 0 };

	set_time(cs, req, kp_mono_now(), &silence);
}

void
conns_hold(struct conns *cs, struct evhttp_request *req)
{
	set_time(cs, req, INT64_MAX, NULL);
}

/* -1: the connection has gone. */
static int
conns_fd(struct evhttp_request *req)
{
	struct evhttp_connection *evcon = evhttp_request_get_connection(req);

	return evcon == NULL ? -1 :
	    bufferevent_getfd(evhttp_connection_get_bufferevent(evcon));
}

/* A state of the table; a socket in another may be closed, and shows as root's. */
#define ESTABLISHED 1

/* An address and port in the table's format: "0100007F:1267". */
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

/* The user of the socket from theirs to ours, by its line; or -1. */
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
conns_peer_is_ours(struct evhttp_request *req)
{
	int fd = conns_fd(req);
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

/*
 * While a request waits evhttp does not read, and does not see the end.  Before it may
 * come bytes that nobody has read: another request, or the alert that ends TLS.
 */
bool
conns_gone(struct evhttp_request *req)
{
	struct pollfd p = { .fd = conns_fd(req), .events = POLLRDHUP };

	return p.fd < 0 || (poll(&p, 1, 0) > 0 && p.revents != 0);
}

/* It counts connections that evhttp is done with until they are swept. */
size_t
conns_unsent(const struct conns *cs)
{
	size_t n = 0;

	for (unsigned i = 0; i < CONNS_MAX; i++)
		if (cs->v[i].bev != NULL)
			n += evbuffer_get_length(
			    bufferevent_get_output(cs->v[i].bev));
	return n;
}

struct conns *
conns_new(struct event_base *base, struct evhttp *http,
    struct evconnlistener *listener)
{
	const struct timeval second = { 1, 0 };
	struct conns *cs = calloc(1, sizeof(*cs));

	if (cs == NULL)
		return NULL;
	cs->base = base;
	cs->listener = listener;
	cs->tick = event_new(base, -1, EV_PERSIST, on_tick, cs);
	cs->soon = event_new(base, -1, 0, on_tick, cs);
	if (cs->tick == NULL || cs->soon == NULL) {
		if (cs->tick != NULL)
			event_free(cs->tick);
		if (cs->soon != NULL)
			event_free(cs->soon);
		free(cs);
		return NULL;
	}
	event_add(cs->tick, &second);
	evhttp_set_bevcb(http, on_accept, cs);
	return cs;
}

void
conns_free(struct conns *cs)
{
	if (cs == NULL)
		return;
	for (unsigned i = 0; i < CONNS_MAX; i++)
		if (cs->v[i].bev != NULL)
			bufferevent_decref(cs->v[i].bev);
	event_free(cs->tick);
	event_free(cs->soon);
	SSL_CTX_free(cs->tls);
	SSL_CTX_free(atomic_load(&cs->tls_next));
	free(cs);
}
