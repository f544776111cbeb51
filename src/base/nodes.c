/*
 * nodes.c - checks the characters of node names, parses lists with one name
 * per line, and matches names against globs.
 */
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

bool
kp_node_name_ok(const char *s, size_t n)
{
	const char *at = memchr(s, '@', n);

	if (n > KP_NODE_NAME_MAX || at == NULL || at == s + n - 1 ||
	    !kp_node_alive_ok(s, (size_t)(at - s)) ||
	    memchr(at + 1, '@', (size_t)(s + n - at - 1)) != NULL)
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~' || strchr("#'\"\\", s[i]) != NULL)
			return false;
	return true;
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

static bool
has(const struct kp_node_list *l, const char *name, size_t n)
{
	for (size_t i = 0; i < l->n; i++)
		if (strlen(l->v[i]) == n && memcmp(l->v[i], name, n) == 0)
			return true;
	return false;
}

bool
kp_node_list_has(const struct kp_node_list *l, const char *name)
{
	return has(l, name, strlen(name));
}

static enum kp_err
add(struct kp_node_list *l, const char *name, size_t n, size_t max)
{
	char **v;

	if (has(l, name, n))
		return KP_OK;
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

enum kp_err
kp_node_list_parse(struct kp_node_list *out, const char *text, size_t n,
    size_t max, uint32_t *line)
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
		if (len == 0)
			continue;
		e = kp_node_name_ok(name, len) ? add(&l, name, len, max) :
		    KP_EFORMAT;
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
	bool inverted = *glob == '^', in = false;
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
