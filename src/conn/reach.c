/*
 * reach.c - the options of a connection: their values, what they need, and how
 * they are passed on to another program.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conn/epmd.h"
#include "conn/reach.h"
#include "kprofd/nodes.h"
#include "kprofd/secret.h"

#define HERE_LIMIT (KP_NS_PER_S)	/* for the epmd of this machine */
#define CERT_MAX (256u << 10)	/* bytes of -tls-cert that are looked at */

/* ---- values ---- */

bool
opt_own_name(struct opt_parser *p)
{
	const char *v = p->value;
	size_t n = strcspn(v, "@");

	return opt_text(p) && ((kp_node_alive_ok(v, n) &&
	    (v[n] == '\0' || kp_node_name_ok(v, strlen(v)))) ||
	    OPT_BAD(p, "-%s '%s': not letters, digits, _ and -; @HOST may "
	    "follow", p->at->name, v));
}

bool
opt_port(struct opt_parser *p)
{
	unsigned port;

	if (!kp_port_parse(p->value, strlen(p->value), &port))
		return OPT_BAD(p, "-%s '%s': not a port from 1 to 65535",
		    p->at->name, p->value);
	*(size_t *)p->at->to = port;
	return true;
}

bool
opt_epmd(struct opt_parser *p)
{
	const char *v = p->value, *why;
	struct kp_host_at h;
	unsigned port;

	if (!opt_text(p))
		return false;
	/* Digits alone are a port, even one out of range. */
	if (v[strspn(v, "0123456789")] == '\0')
		why = kp_port_parse(v, strlen(v), &port) ? NULL :
		    "not a port from 1 to 65535";
	else
		why = kp_host_split(v, strlen(v), &h);
	return why == NULL || OPT_BAD(p, "-%s '%s': %s: give HOST, PORT or "
	    "HOST:PORT", p->at->name, v, why);
}

/* A node or a host, as it is written in the names of nodes. */
static const char *
wrong_name(const char *s, size_t n)
{
	struct kp_node_at node;
	struct kp_host_at host;
	const char *why;
	unsigned port;
	bool same;

	if (memchr(s, '@', n) != NULL) {
		why = kp_node_split(s, n, &node);
		same = why == NULL && strlen(node.node) == n;
		port = why == NULL ? node.port : 0;
	} else {
		why = kp_host_split(s, n, &host);
		same = why == NULL && strlen(host.host) == n;
		port = why == NULL ? host.port : 0;
	}
	if (why != NULL)
		return why;
	return port != 0 ? "the port stands behind the address" : same ? NULL :
	    "write an address before the '=' without brackets";
}

bool
opt_resolve(struct opt_parser *p)
{
	const char *v = p->value, *is = strchr(v, '='), *why;
	struct kp_host_at h;

	if (is == NULL)
		return OPT_BAD(p, "-%s '%s': give NODE=ADDR or NODE=ADDR:PORT, "
		    "such as app@pod=10.0.0.7:4370", p->at->name, v);
	why = wrong_name(v, (size_t)(is - v));
	if (why == NULL)
		why = kp_host_split(is + 1, strlen(is + 1), &h);
	return why == NULL ? opt_list(p) : OPT_BAD(p, "-%s '%s': %s",
	    p->at->name, v, why);
}

bool
opt_verify(struct opt_parser *p)
{
	int *to = p->at->to;

	if (!opt_choice(p))
		return false;
	*to += TLS_VERIFY_PEER;
	return true;
}

/* The user may have meant a name; a bad port needs no list. */
bool
opt_is_node(struct opt_parser *p)
{
	struct addresses here;
	char hint[EPMD_HINT_MAX] = "";
	struct kp_node_at at;
	const char *why = kp_node_split(p->value, strlen(p->value), &at);

	if (why == NULL)
		return true;
	if (strcmp(why, KP_NODE_WRONG) != 0)
		return OPT_BAD(p, "-%s '%s': %s", p->at->name, p->value, why);
	if (addresses_find(&here, "127.0.0.1") == 0)
		epmd_hint(hint, sizeof(hint), p->value, NULL, &here,
		    epmd_default_port(), kp_mono_now() + HERE_LIMIT);
	return OPT_BAD(p, "-%s '%s': %s: %s", p->at->name, p->value, why,
	    hint[0] != '\0' ? hint : "no epmd answers here");
}

bool
opt_node(struct opt_parser *p)
{
	return opt_text(p) && opt_is_node(p);
}

bool
opt_node_list(struct opt_parser *p)
{
	return opt_is_node(p) && opt_list(p);
}

/* ---- what they need ---- */

/* As a variable that is empty is not set. */
static const char *
environment(const char *value)
{
	return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool
from_environment(struct reach *r, char *why, size_t n)
{
	const char *port = environment(getenv("ERL_DIST_PORT"));
	unsigned v;

	if (!tls_wanted(&r->tls)) {
		r->tls.optfile = environment(getenv("KPROFD_TLS_OPTFILE"));
		r->tls.optfile_env = r->tls.optfile != NULL;
	}
	if (r->dist_port != 0 || r->epmd != NULL || port == NULL)
		return true;
	if (!kp_port_parse(port, strlen(port), &v)) {
		snprintf(why, n, "$ERL_DIST_PORT '%s': not a port from 1 to "
		    "65535 (-dist-port PORT goes first)", port);
		return false;
	}
	r->dist_port = v;
	r->port_env = true;
	return true;
}

/*
 * Does a file of certificates have a private key, too?  What cannot be read is
 * reported when a connection is opened.
 */
static bool
may_have_key(const char *path)
{
	static const char label[] = "PRIVATE KEY-----";
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char *text = fd >= 0 ? malloc(CERT_MAX) : NULL;
	ssize_t n = text != NULL ? read(fd, text, CERT_MAX) : 0;
	bool may = n <= 0 || n == CERT_MAX ||
	    memmem(text, (size_t)n, label, strlen(label)) != NULL;

	if (n > 0)
		explicit_bzero(text, (size_t)n);
	free(text);
	if (fd >= 0)
		close(fd);
	return may;
}

bool
reach_finish(struct reach *r, char *why, size_t n)
{
	const struct tls_opts *t = &r->tls;

	why[0] = '\0';
	if (!from_environment(r, why, n))
		return false;
	if (r->dist_port != 0 && r->epmd != NULL)
		snprintf(why, n, "-dist-port and -epmd: choose one, since no "
		    "epmd is asked for a port that is given");
	else if (t->verify == TLS_VERIFY_NONE && !tls_wanted(t))
		snprintf(why, n, "-tls-verify none goes with -tls-optfile, "
		    "-tls-cert or -tls-ca: without one of these nothing is "
		    "encrypted");
	else if (t->optfile == NULL && t->key != NULL && t->cert == NULL)
		snprintf(why, n, "-tls-key goes with -tls-cert FILE");
	else if (t->cert != NULL && t->key == NULL && !may_have_key(t->cert))
		snprintf(why, n, "-tls-cert '%s' has no private key: "
		    "-tls-key FILE is needed, too", t->cert);
	else if (tls_wanted(t) && t->optfile == NULL && t->ca == NULL &&
	    t->verify != TLS_VERIFY_NONE)
		snprintf(why, n, "-tls-cert goes with -tls-ca FILE: who vouches "
		    "for the node? (-tls-verify none: nobody)");
	return why[0] == '\0';
}

/* ---- the cookie ---- */

const char *
node_cookie_path(const char *file, char buf[NODE_COOKIE_PATH_MAX])
{
	const char *home = getenv("HOME");

	if (file == NULL)
		file = getenv("KPROFD_COOKIE_FILE");
	if (file != NULL && file[0] != '\0')
		return file;
	snprintf(buf, NODE_COOKIE_PATH_MAX, "%s/.erlang.cookie",
	    home != NULL ? home : "");
	return buf;
}

enum kp_err
node_cookie(const char *file, char cookie[NODE_COOKIE_MAX + 1], char *why,
    size_t n)
{
	char buf[NODE_COOKIE_PATH_MAX];
	const char *path = node_cookie_path(file, buf), *reason;
	struct stat st;
	size_t len;
	FILE *f = kp_secret_open(path, &st, &reason);

	if (f == NULL) {
		snprintf(why, n, "cannot read the cookie file '%s': %s "
		    "(see -cookie-file)", path, reason);
		return KP_EIO;
	}
	if (!kp_secret_is_private(f, &st, path, "cookie file", "-cookie-file",
	    why, n)) {
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

/* ---- passing on ---- */

struct text_opt {
	const char *arg;	/* with its dash */
	const char *value;	/* NULL: not set */
};

static size_t
texts(const struct reach *r, const char *port, struct text_opt to[REACH_TEXTS_MAX])
{
	const struct text_opt all[REACH_TEXTS_MAX] = {
		{ "-cookie-file", r->cookie_file },
		{ "-name", r->name },
		{ "-dist-port", r->dist_port != 0 ? port : NULL },
		{ "-epmd", r->epmd },
		{ "-tls-cert", r->tls.cert },
		{ "-tls-key", r->tls.key },
		{ "-tls-ca", r->tls.ca },
		{ "-tls-optfile", r->tls.optfile },
		{ "-tls-verify", r->tls.verify == TLS_VERIFY_NONE ? "none" :
		    r->tls.verify == TLS_VERIFY_PEER ? "peer" : NULL },
	};
	size_t n = 0;

	for (size_t i = 0; i < REACH_TEXTS_MAX; i++)
		if (all[i].value != NULL)
			to[n++] = all[i];
	return n;
}

const char *
reach_given(const struct reach *r)
{
	struct text_opt v[REACH_TEXTS_MAX];

	if (texts(r, "", v) > 0)
		return v[0].arg + 1;
	return r->resolve.n > 0 ? "resolve" : NULL;
}

void
reach_args(struct reach_args *a, const struct reach *r)
{
	struct text_opt v[REACH_TEXTS_MAX];
	size_t n;

	snprintf(a->port, sizeof(a->port), "%u", (unsigned)r->dist_port & 0xffff);
	n = texts(r, a->port, v);
	a->n = 0;
	for (size_t i = 0; i < n; i++) {
		a->v[a->n++] = v[i].arg;
		a->v[a->n++] = v[i].value;
	}
	for (size_t i = 0; i < r->resolve.n; i++) {
		a->v[a->n++] = "-resolve";
		a->v[a->n++] = r->resolve.v[i];
	}
}
