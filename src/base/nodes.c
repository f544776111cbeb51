/*
 * nodes.c - checks the characters of node names, splits off ports, parses lists
 * with one node per line, and matches names against globs.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/nodes.h"

bool
kp_node_alive_ok(const char *s, size_t n)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789_-";

	for (size_t i = 0; i < n; i++)
		if (s[i] == '\0' || strchr(allowed, s[i]) == NULL)
			return false;
	return n > 0;
}

/* name@host of characters that no list, message or shell takes apart. */
static bool
is_name(const char *s, size_t n)
{
	const char *at = memchr(s, '@', n);

	if (at == NULL || at == s + n - 1 ||
	    !kp_node_alive_ok(s, (size_t)(at - s)) ||
	    memchr(at + 1, '@', (size_t)(s + n - at - 1)) != NULL)
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~' || strchr("#'\"\\", s[i]) != NULL)
			return false;
	return true;
}

bool
kp_node_name_ok(const char *s, size_t n)
{
	return n <= KP_NODE_NAME_MAX && is_name(s, n);
}

/* ---- what people type ---- */

#define ADDRESS_WRONG "not an IPv6 address, such as ::1 or [::1]:4370"

bool
kp_port_parse(const char *s, size_t n, unsigned *port)
{
	unsigned v = 0;

	if (n == 0 || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = 10 * v + (unsigned)(s[i] - '0');
	}
	if (v == 0 || v > 65535)
		return false;
	*port = v;
	return true;
}

/* A scope may follow: fe80::1%eth0. */
static bool
is_ipv6(const char *s, size_t n)
{
	const char *scope = memchr(s, '%', n);
	size_t len = scope != NULL ? (size_t)(scope - s) : n;
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;

	if (len >= sizeof(text) || len + 1 == n)
		return false;
	memcpy(text, s, len);
	text[len] = '\0';
	return inet_pton(AF_INET6, text, &addr) == 1;
}

static bool
is_host(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~' || strchr("#'\"\\@[]", s[i]) != NULL)
			return false;
	return n > 0;
}

/* The host's length; *rest: from the colon before the port on, or the end. */
static const char *
cut_host(const char **s, size_t *n, const char **rest)
{
	const char *end = *s + *n, *close, *colon = memchr(*s, ':', *n);

	if (*n > 0 && **s == '[') {
		close = memchr(*s, ']', *n);
		if (close == NULL || !is_ipv6(*s + 1,
		    (size_t)(close - *s - 1)))
			return ADDRESS_WRONG;
		*rest = close + 1;
		++*s;
		*n = (size_t)(close - *s);
		return *rest == end || **rest == ':' ? NULL : ADDRESS_WRONG;
	}
	*rest = colon != NULL ? colon : end;
	if (colon != NULL && memchr(colon + 1, ':',
	    (size_t)(end - colon - 1)) != NULL) {
		*rest = end;
		return is_ipv6(*s, *n) ? NULL : ADDRESS_WRONG;
	}
	*n = (size_t)(*rest - *s);
	return NULL;
}

const char *
kp_host_split(const char *s, size_t n, struct kp_host_at *to)
{
	const char *end = s + n, *rest, *why;
	unsigned port = 0;

	why = cut_host(&s, &n, &rest);
	if (why != NULL)
		return why;
	if (n == 0)
		return "the host is empty";
	if (n > KP_NODE_NAME_MAX || !is_host(s, n))
		return "not a host, such as db1, 10.0.0.7 or ::1";
	if (rest < end && !kp_port_parse(rest + 1, (size_t)(end - rest - 1),
	    &port))
		return "the port is not a number from 1 to 65535";
	memcpy(to->host, s, n);
	to->host[n] = '\0';
	to->port = port;
	return NULL;
}

const char *
kp_node_split(const char *s, size_t n, struct kp_node_at *to)
{
	const char *why;
	struct kp_host_at h;
	size_t alive, len;

	if (!is_name(s, n))
		return KP_NODE_WRONG;
	alive = (size_t)((const char *)memchr(s, '@', n) - s) + 1;
	why = kp_host_split(s + alive, n - alive, &h);
	if (why != NULL)
		return why;
	len = strlen(h.host);
	if (alive + len > KP_NODE_NAME_MAX)
		return "not the name of a node: more than 255 bytes";
	memcpy(to->node, s, alive);
	memcpy(to->node + alive, h.host, len + 1);
	to->port = h.port;
	return NULL;
}

const char *
kp_node_bare(const char *typed, char node[KP_NODE_NAME_MAX + 1])
{
	size_t n = strlen(typed);
	struct kp_node_at at;

	if (kp_node_split(typed, n, &at) == NULL)
		return memcpy(node, at.node, strlen(at.node) + 1);
	if (n > KP_NODE_NAME_MAX)
		n = KP_NODE_NAME_MAX;
	memcpy(node, typed, n);
	node[n] = '\0';
	return node;
}

static bool
is_same(const char *a, size_t na, const char *b, size_t nb)
{
	struct kp_node_at x, y;

	if (kp_node_split(a, na, &x) == NULL && kp_node_split(b, nb, &y) == NULL)
		return strcmp(x.node, y.node) == 0;
	return na == nb && memcmp(a, b, na) == 0;
}

bool
kp_node_same(const char *a, const char *b)
{
	return is_same(a, strlen(a), b, strlen(b));
}

/* ---- lists ---- */

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Returns a line without its comment and the blanks around. */
static const char *
trim(const char *p, size_t *n)
{
	const char *hash = memchr(p, '#', *n);

	if (hash != NULL)
		*n = (size_t)(hash - p);
	while (*n > 0 && is_blank(p[*n - 1]))
		(*n)--;
	while (*n > 0 && is_blank(*p)) {
		p++;
		(*n)--;
	}
	return p;
}

static char **
find(const struct kp_node_list *l, const char *name, size_t n)
{
	for (size_t i = 0; i < l->n; i++)
		if (is_same(l->v[i], strlen(l->v[i]), name, n))
			return &l->v[i];
	return NULL;
}

const char *
kp_node_list_find(const struct kp_node_list *l, const char *name)
{
	char **v = find(l, name, strlen(name));

	return v != NULL ? *v : NULL;
}

static enum kp_err
append(struct kp_node_list *l, const char *name, size_t n, size_t max)
{
	char **v;

	if (l->n >= max) {
		l->more++;
		return KP_OK;
	}
	v = realloc(l->v, (l->n + 1) * sizeof(*v));
	if (v == NULL)
		return KP_ENOMEM;
	l->v = v;
	v[l->n] = strndup(name, n);
	if (v[l->n] == NULL)
		return KP_ENOMEM;
	l->n++;
	return KP_OK;
}

/* A node that is there keeps the port that one of both lines has. */
static enum kp_err
join(char **there, const char *name, size_t n, unsigned port, const char **why)
{
	struct kp_node_at old;
	char *again;

	*why = kp_node_split(*there, strlen(*there), &old);
	if (*why != NULL)
		return KP_EFORMAT;
	if (port == 0 || port == old.port)
		return KP_OK;
	if (old.port != 0) {
		*why = "another line has this node with another port";
		return KP_EFORMAT;
	}
	again = strndup(name, n);
	if (again == NULL)
		return KP_ENOMEM;
	free(*there);
	*there = again;
	return KP_OK;
}

static enum kp_err
add(struct kp_node_list *l, const char *name, size_t n, size_t max,
    const char **why)
{
	struct kp_node_at at;
	char **there;

	*why = kp_node_split(name, n, &at);
	if (*why != NULL)
		return KP_EFORMAT;
	there = find(l, name, n);
	return there != NULL ? join(there, name, n, at.port, why) :
	    append(l, name, n, max);
}

enum kp_err
kp_node_list_parse(struct kp_node_list *out, const char *text, size_t n,
    size_t max, uint32_t *line, const char **why)
{
	struct kp_node_list l = { 0 };
	const char *p = text, *end = text + n, *eol, *name;
	enum kp_err e = n > KP_NODE_FILE_MAX ? KP_ELIMIT : KP_OK;
	size_t len;

	*line = 0;
	for (; e == KP_OK && p < end; p = eol + 1) {
		eol = memchr(p, '\n', (size_t)(end - p));
		if (eol == NULL)
			eol = end;
		++*line;
		len = (size_t)(eol - p);
		name = trim(p, &len);
		if (len > 0)
			e = add(&l, name, len, max, why);
	}
	if (e == KP_OK)
		*out = l;
	else
		kp_node_list_free(&l);
	return e;
}

void
kp_node_list_free(struct kp_node_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct kp_node_list){ 0 };
}

/* ---- globs ---- */

/* glob is behind a '['.  Returns the end of the set; NULL: c is not in it. */
static const char *
match_set(const char *glob, unsigned char c)
{
	bool inverted = *glob == '^' || *glob == '!', in = false;
	unsigned char from, to;

	glob += inverted;
	/* A ']' that comes first belongs to the set. */
	for (bool first = true; *glob != ']' || first; first = false) {
		if (*glob == '\0')
			return NULL;
		from = to = (unsigned char)*glob++;
		if (glob[0] == '-' && glob[1] != ']' && glob[1] != '\0') {
			to = (unsigned char)glob[1];
			glob += 2;
		}
		in |= from <= c && c <= to;
	}
	return in != inverted ? glob + 1 : NULL;
}

/* Returns the rest of the glob after it matched one byte; NULL: no match. */
static const char *
match_one(const char *glob, char c)
{
	if (*glob == '[')
		return match_set(glob + 1, (unsigned char)c);
	return *glob != '\0' && (*glob == '?' || *glob == c) ? glob + 1 : NULL;
}

/* Backtracks to the last '*' only: an earlier one need never match more. */
bool
kp_glob(const char *glob, const char *s)
{
	const char *star = NULL, *taken = NULL, *rest;

	while (*s != '\0') {
		if (*glob == '*') {
			star = ++glob;
			taken = s;
		} else if ((rest = match_one(glob, *s)) != NULL) {
			glob = rest;
			s++;
		} else if (star != NULL) {
			glob = star;
			s = ++taken;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return *glob == '\0';
}

bool
kp_globs(const char *globs, const char *s)
{
	char glob[KP_NODE_NAME_MAX + 1];
	size_t n;

	for (; *globs != '\0'; globs += n) {
		globs += strspn(globs, " ");
		n = strcspn(globs, " ");
		if (n == 0 || n >= sizeof(glob))
			continue;
		memcpy(glob, globs, n);
		glob[n] = '\0';
		if (kp_glob(glob, s))
			return true;
	}
	return false;
}
