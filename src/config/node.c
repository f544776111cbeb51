/*
 * node.c - the tree of a file: its memory, which is freed all at once, what kind of term a
 * node is, and its name in messages.
 */
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "config/lang.h"

#define CHUNK_BYTES 16384u
#define QUOTE_MAX 48	/* bytes of the file's text in a message */

/* ---- memory ---- */

struct chunk {
	struct chunk *next;
	size_t used, size;
	alignas(max_align_t) unsigned char mem[];
};

void *
arena_alloc(struct arena *a, size_t n)
{
	struct chunk *c = a->head;
	size_t need = (n + alignof(max_align_t) - 1) &
	    ~(alignof(max_align_t) - 1);
	size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
	void *p;

	if (c == NULL || c->size - c->used < need) {
		c = malloc(sizeof(*c) + size);
		if (c == NULL) {
			a->failed = true;
			return NULL;
		}
		c->next = a->head;
		c->used = 0;
		c->size = size;
		a->head = c;
	}
	p = c->mem + c->used;
	c->used += need;
	memset(p, 0, need);
	return p;
}

void
arena_wipe(struct arena *a)
{
	for (struct chunk *c = a->head; c != NULL; c = c->next)
		explicit_bzero(c->mem, c->used);
}

void
arena_free(struct arena *a)
{
	struct chunk *c, *next;

	for (c = a->head; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
	*a = (struct arena){ 0 };
}

/* ---- nodes ---- */

static void
describe_str(const struct node *x, char buf[NODE_TEXT_MAX])
{
	char text[QUOTE_MAX + 5];
	size_t n = 0;

	for (size_t i = 0; i < x->len && n < QUOTE_MAX; i++)
		n += utf8_put(text + n, x->cps[i] < ' ' ? '?' : x->cps[i]);
	snprintf(buf, NODE_TEXT_MAX, "the string \"%.*s\"",
	    (int)utf8_fit(text, n, QUOTE_MAX), text);
}

const char *
node_describe(const struct node *x, char buf[NODE_TEXT_MAX])
{
	int len = x->text != NULL ? (int)utf8_fit(x->text, x->len,
	    QUOTE_MAX) : 0;
	int mod = x->mod != NULL ? (int)utf8_fit(x->mod, strlen(x->mod),
	    QUOTE_MAX / 2) : 0;

	switch (x->kind) {
	case N_ATOM:
		snprintf(buf, NODE_TEXT_MAX, "the atom '%.*s'", len, x->text);
		break;
	case N_VAR:
		snprintf(buf, NODE_TEXT_MAX, "the variable %.*s", len, x->text);
		break;
	case N_OP:
		snprintf(buf, NODE_TEXT_MAX, "the operator '%s'", x->text);
		break;
	case N_CALL:
		snprintf(buf, NODE_TEXT_MAX, "a call of %.*s%s%.*s/%u",
		    mod, x->mod != NULL ? x->mod : "",
		    x->mod == NULL ? "" : x->alias ? "." : ":",
		    (int)utf8_fit(x->text, x->len, QUOTE_MAX - mod), x->text,
		    x->n);
		break;
	case N_FN:
		snprintf(buf, NODE_TEXT_MAX, "'%.*s'",
		    (int)utf8_fit(x->src, x->srclen, QUOTE_MAX), x->src);
		break;
	case N_INT:
		snprintf(buf, NODE_TEXT_MAX, "%lld", (long long)x->num);
		break;
	case N_FLOAT:
		snprintf(buf, NODE_TEXT_MAX, "%g", x->real);
		break;
	case N_STR:
		describe_str(x, buf);
		break;
	case N_TUPLE:
		snprintf(buf, NODE_TEXT_MAX, "a tuple of %u", x->n);
		break;
	case N_LIST:
		snprintf(buf, NODE_TEXT_MAX, x->n > 0 || x->tail != NULL ?
		    "a list" : "an empty list");
		break;
	case N_MAP:
		snprintf(buf, NODE_TEXT_MAX, "a map");
		break;
	case N_BIN:
	case N_BINPAT:
		snprintf(buf, NODE_TEXT_MAX, "a binary");
		break;
	case N_FUN:
	case N_CLAUSE:
	case N_GUARD:
		snprintf(buf, NODE_TEXT_MAX, "a fun");
		break;
	}
	return buf;
}

void
node_expected(struct kp_diags *d, const struct node *x, const char *what)
{
	char found[NODE_TEXT_MAX];

	node_describe(x, found);
	if (x->kind == N_FN && x->text == NULL && !x->alias && x->num < 0)
		diag_error(d, x->pos, "found %s, expected %s (write %s)", found,
		    what, x->mod);
	else
		diag_error(d, x->pos, "found %s, expected %s", found, what);
}

bool
node_is_atom(const struct node *x, const char *name)
{
	return x->kind == N_ATOM && strcmp(x->text, name) == 0;
}

bool
node_is_wildcard(const struct node *x)
{
	return x->kind == N_VAR && strcmp(x->text, "_") == 0;
}

bool
node_is_nil(const struct node *x)
{
	if (x->kind == N_STR)
		return x->len == 0;
	return x->kind == N_LIST && x->n == 0 && x->tail == NULL && !x->broken;
}

bool
node_is_literal(const struct node *x)
{
	switch (x->kind) {
	case N_ATOM:
	case N_INT:
	case N_FLOAT:
	case N_STR:
	case N_BIN:
		return true;
	case N_TUPLE:
	case N_LIST:
		for (uint32_t i = 0; i < x->n; i++) {
			if (!node_is_literal(x->kid[i]))
				return false;
		}
		return x->tail == NULL || node_is_literal(x->tail);
	default:
		return false;
	}
}

bool
node_has_nul(const struct node *x)
{
	if (x->kind == N_BIN)
		return memchr(x->text, '\0', x->len) != NULL;
	for (size_t i = 0; i < x->len; i++) {
		if (x->cps[i] == 0)
			return true;
	}
	return false;
}

char *
node_string(const struct node *x)
{
	size_t n = 0;
	char *s;

	if (x->kind == N_BIN)
		return strndup(x->text, x->len);
	s = malloc(x->len * 4 + 1);
	for (size_t i = 0; s != NULL && i < x->len; i++)
		n += utf8_put(s + n, x->cps[i]);
	if (s != NULL)
		s[n] = '\0';
	return s;
}
