/*
 * handshake.c - the distribution handshake, by ei, over a channel of our own.
 *
 * ei reports most failures as EIO.  Its pluggable socket layer lets us watch
 * the handshake and keep one deadline for all of it, so the message can say
 * which it was: another node, a name in use, a cookie that is refused, or no answer.
 * It also lets us look at what the node says before ei does (handshake_check.h).
 *
 * ei gets no time limit: with one it polls the descriptor before it reads, and
 * misses what is decrypted already.
 */
#include <netinet/in.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <ei.h>

#include "conn/address.h"
#include "conn/dial.h"
#include "conn/handshake.h"
#include "conn/handshake_check.h"
#include "conn/tls.h"

#define HOST_MAX 256

/* One handshake as its channel saw it; ei passes it as the socket context. */
struct shake {
	const struct node_opts *o;
	const struct node_place *place;
	kp_mono_ns deadline;
	struct channel *channel;	/* NULL: not connected */
	bool handed_over;	/* the caller has the channel and frees it */
	bool replied;		/* to the challenge, with our cookie's digest */
	struct handshake_check check;
	enum kp_err err;	/* not KP_OK: why is written */
	char *why;
	size_t n;
};

static bool
uses_tls(const struct shake *s)
{
	return s->o->reach != NULL && tls_wanted(&s->o->reach->tls);
}

/* Says what was wrong, for shake_explain(). */
#define SHAKE_FAIL(s, e, ...) \
	((s)->err = cannot_connect((s)->place, e, (s)->why, (s)->n, __VA_ARGS__))

static int
shake_wait(const struct shake *s)
{
	return wait_ready(s->channel->fd, s->channel->wants,
	    s->deadline);
}

/* Looks at bytes that the node sent before ei gets them.  Not 0: the errno for ei. */
static int
shake_see(struct shake *s, const uint8_t *p, size_t n)
{
	enum handshake_said said = handshake_check(&s->check, p, n);
	const char *name = s->check.name, *quote = name[0] != '\0' ? "'" : "";
	char at[ADDRESS_TEXT_MAX] = "";

	if (said == HANDSHAKE_NO_NODE || said == HANDSHAKE_OTHER_NODE)
		address_of_peer(s->channel->fd, at);
	switch (said) {
	case HANDSHAKE_FINE:
		return 0;
	case HANDSHAKE_NO_NODE:
		SHAKE_FAIL(s, KP_EIO, "what answers at %s does not speak the "
		    "distribution protocol (%s)", at,
		    node_place_port_hint(s->place));
		break;
	case HANDSHAKE_TLS:
		SHAKE_FAIL(s, KP_ESTATE, "it uses TLS (see -tls-optfile, "
		    "-tls-cert)");
		break;
	case HANDSHAKE_TOO_OLD:
		SHAKE_FAIL(s, KP_ESTATE, "it runs %s, and kprofd needs OTP %d or "
		    "later", handshake_release_text(s->check.release),
		    HANDSHAKE_RELEASE_LEAST);
		break;
	case HANDSHAKE_OTHER_NODE:
		/* A port that was given, or that epmd remembers, may be its by now. */
		SHAKE_FAIL(s, KP_ESTATE, "the node at %s is %s%s%s, not '%s'", at,
		    quote, name[0] != '\0' ? name : "another one", quote,
		    s->place->node);
		break;
	}
	return EPROTO;
}

/* ---- ei's socket ---- */

static int
cb_socket(void **ctx, void *setup)
{
	*ctx = setup;
	return 0;
}

static int
cb_close(void *ctx)
{
	struct shake *s = ctx;

	if (!s->handed_over)
		channel_free(s->channel);
	s->channel = NULL;
	return 0;
}

/* Ignores ei's address. */
static int
cb_connect(void *ctx, void *addr, int len, unsigned tmo)
{
	struct shake *s = ctx;
	char why[NODE_WHY_MAX - 100];
	int fd;

	(void)addr, (void)len, (void)tmo;
	s->err = dial(s->place, s->deadline, s->o->limit, &fd, s->why, s->n);
	if (s->err != KP_OK)
		return EIO;
	if (uses_tls(s)) {
		s->err = tls_connect(&s->channel, fd, &s->o->reach->tls,
		    s->place, s->deadline, why, sizeof(why));
	} else if ((s->channel = channel_plain(fd)) == NULL) {
		snprintf(why, sizeof(why), "out of memory");
		s->err = KP_ENOMEM;
	}
	if (s->err == KP_OK)
		return 0;
	SHAKE_FAIL(s, s->err, "%s", why);
	return EIO;
}

/* With TLS 1.3 a node refuses our certificate only after our first bytes. */
static int
shake_broke(struct shake *s, ssize_t how)
{
	if (how == CHANNEL_FAILED && s->channel->err == 0)
		SHAKE_FAIL(s, KP_ESTATE, "%s", s->channel->why);
	return EIO;
}

static int
cb_write(void *ctx, const char *buf, ssize_t *len, unsigned tmo)
{
	struct shake *s = ctx;
	ssize_t n;
	int err = 0;

	(void)tmo;
	s->replied = s->check.messages >= 2;
	while ((n = channel_write(s->channel, buf, (size_t)*len)) ==
	    CHANNEL_WAIT && err == 0)
		err = shake_wait(s);
	if (n < 0)
		return err != 0 ? err : shake_broke(s, n);
	*len = n;
	return 0;
}

static int
cb_read(void *ctx, char *buf, ssize_t *len, unsigned tmo)
{
	struct shake *s = ctx;
	ssize_t n;
	int err = 0;

	(void)tmo;
	while ((n = channel_read(s->channel, buf, (size_t)*len)) ==
	    CHANNEL_WAIT && err == 0)
		err = shake_wait(s);
	if (n <= 0)
		return err != 0 ? err : shake_broke(s, n);
	*len = n;
	return shake_see(s, (const uint8_t *)buf, (size_t)n);
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
	*size = uses_tls(ctx) ? 4 : 2;
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
	*fd = ((struct shake *)ctx)->channel->fd;
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

/* ---- our name: of the same kind as the node's, short or long, else it is refused ---- */

struct own_name {
	char alive[KP_NODE_NAME_MAX + 1];	/* before the '@' */
	char host[KP_NODE_NAME_MAX + 1];
	char full[KP_NODE_NAME_MAX + 1];	/* both */
};

/* The VM takes an IPv6 address, too, for the host of a long name. */
static bool
is_long(const char *host)
{
	return strpbrk(host, ".:") != NULL;
}

/*
 * Finds our host for connections to this node (app@host): that of `given`, "name",
 * "name@host" or NULL; else the name of this machine, short or fully qualified
 * like the node's.
 */
static enum kp_err
own_host(struct own_name *o, const char *given, const char *node, char *why,
    size_t n)
{
	const char *theirs = strchr(node, '@') + 1;
	const char *at = given != NULL ? strchr(given, '@') : NULL;
	char name[HOST_MAX];

	if (at != NULL)
		snprintf(name, sizeof(name), "%s", at + 1);
	else
		machine_name(name, sizeof(name), is_long(theirs));
	/* Without a domain only a target on this host can be reached. */
	if (at == NULL && is_long(theirs) && !is_long(name))
		snprintf(name, sizeof(name), "%s", theirs);
	if ((size_t)snprintf(o->host, sizeof(o->host), "%s", name) >=
	    sizeof(o->host) || strlen(name) == HOST_MAX - 1) {
		snprintf(why, n, "host name '%s' is too long (see -name)", name);
		return KP_ELIMIT;
	}
	return KP_OK;
}

/* Completes it: with the name that was given, or without one kprofdSLOT. */
static enum kp_err
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

/* ---- connecting ---- */

/* Why there is no connection, where ei met err. */
static enum kp_err
shake_explain(struct shake *s, int err)
{
	const char *status = s->check.status;
	char path[NODE_COOKIE_PATH_MAX];

	if (s->err != KP_OK)
		return s->err;
	if (kp_mono_now() >= s->deadline || err == ETIMEDOUT)
		return no_answer(s->place, s->o->limit, s->why, s->n);
	if (strcmp(status, "alive") == 0 || strcmp(status, "nok") == 0)
		return SHAKE_FAIL(s, KP_EBUSY, "the name is in use there (see -name)");
	if (strcmp(status, "not_allowed") == 0)
		return SHAKE_FAIL(s, KP_ESTATE, "not allowed (the node restricts who may "
		    "connect: net_kernel:allow/1)");
	if (s->replied)
		return SHAKE_FAIL(s, KP_ESTATE, "cookie refused, read from '%.512s' (see "
		    "-cookie-file)", node_cookie_path(s->o->reach != NULL ?
		    s->o->reach->cookie_file : NULL, path));
	return SHAKE_FAIL(s, KP_EIO, "the node closed the connection during the "
	    "handshake (same kind of name, short or long?%s%s)",
	    s->place->port != 0 ? " " : "", s->place->port != 0 ?
	    node_place_port_hint(s->place) : "");
}

/* One attempt under one name. */
static enum kp_err
connect_as(struct shake *s, const struct own_name *own, struct node_conn *c)
{
	struct in_addr none = { 0 };	/* cb_connect() knows better */
	ei_cnode ec;
	int fd;

	snprintf(c->name, sizeof(c->name), "%s", own->full);
	/* Distinguishes this use of the name from earlier ones. */
	c->creation = (uint32_t)kp_wall_now() | 4u;
	if (ei_connect_xinit_ussi(&ec, own->host, own->alive, own->full, &none,
	    s->o->cookie, c->creation, &callbacks, sizeof(callbacks), s) < 0) {
		snprintf(s->why, s->n, "bad node name '%s' (see -name)",
		    own->full);
		return KP_EFORMAT;
	}
	fd = ei_xconnect_host_port_tmo(&ec, &none, 0, 0);
	if (fd < 0)
		return shake_explain(s, erl_errno);
	c->channel = s->channel;
	s->handed_over = true;
	ei_close_connection(fd); /* forgets it; cb_close() spares the channel */
	return KP_OK;
}

/* pthread_once() needs a void function; ei_init() fails only without memory. */
static void
ei_start(void)
{
	ei_init();
}

enum kp_err
node_connect(const struct node_opts *o, struct node_conn *c, char *why,
    size_t whylen)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	kp_mono_ns deadline = kp_mono_now() + o->limit;
	const char *name = o->reach != NULL ? o->reach->name : NULL;
	unsigned slots = name == NULL ? NODE_SLOTS : 1;
	struct own_name own;
	struct node_place place;
	struct shake s;
	enum kp_err e;

	pthread_once(&once, ei_start);
	e = node_place_find(&place, o->target, o->reach, why, whylen);
	if (e == KP_OK)
		e = own_host(&own, name, place.node, why, whylen);
	if (e != KP_OK)
		return e;
	place.known = o->known;
	/* Tries the name that was given, or one slot after the other. */
	e = KP_EBUSY;
	for (unsigned i = 1; i <= slots && e == KP_EBUSY; i++) {
		s = (struct shake){ .o = o, .place = &place,
			.deadline = deadline, .why = why, .n = whylen };
		s.check = (struct handshake_check){ .node = place.node,
			.exact = place.resolved, .tls = uses_tls(&s) };
		e = own_name(&own, name, i, why, whylen);
		if (e == KP_OK)
			e = connect_as(&s, &own, c);
	}
	if (e == KP_EBUSY && name == NULL)
		e = cannot_connect(&place, e, why, whylen, "all names kprofd1 to "
		    "kprofd%d are in use there (see -name)", NODE_SLOTS);
	return e;
}
