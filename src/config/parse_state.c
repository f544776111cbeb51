/*
 * parse_state.c - the state of the parser (its next token, the open brackets,
 * panic), and the nodes that it makes.
 *
 * After an error the parser is in panic: it reports nothing until it reaches the
 * next element of the list, or clause of the fun, around the error.  To find
 * that it keeps a stack of the open brackets; a closing bracket that fits a
 * deeper one closes those above it, too.
 */
#include <string.h>

#include "base/utf8.h"
#include "config/parse_state.h"

bool
parse_is(const struct parse *p, const char *sym)
{
	return p->t.type == T_SYM && strcmp(p->t.text, sym) == 0;
}

/* Identifies the bracket that the token opens or closes; 0: neither. */
static char
bracket(const struct token *t, bool *opens)
{
	static const struct {
		const char *open, *close;
		char id;
	} pairs[] = { { "(", ")", ')' }, { "[", "]", ']' }, { "{", "}", '}' },
		{ "<<", ">>", '>' }, { "fun", "end", 'e' } };

	for (size_t i = 0; t->type == T_SYM && i < 5; i++) {
		*opens = strcmp(t->text, pairs[i].open) == 0;
		if (*opens || strcmp(t->text, pairs[i].close) == 0)
			return pairs[i].id;
	}
	return 0;
}

/* The number of brackets open below the one that id closes; -1: none fits. */
static int
nest_below(const struct parse *p, char id)
{
	for (int i = (int)p->nest - 1; i >= 0; i--) {
		if (p->open[i] == id)
			return i;
	}
	return -1;
}

void
parse_advance(struct parse *p)
{
	bool opens = false;
	char id = bracket(&p->t, &opens);
	int below;

	if (id != 0 && opens) {
		if (p->nest < NODE_NEST_MAX)
			p->open[p->nest++] = id;
	} else if (id != 0) {
		below = nest_below(p, id);
		if (below >= 0)
			p->nest = (unsigned)below;
	}
	p->end = p->t.src + p->t.srclen;
	scan_next(&p->scan, &p->t);
}

void
parse_error(struct parse *p, const char *expected)
{
	const struct token *t = &p->t;
	size_t n = t->srclen;
	const char *cut = "";

	if (p->panic)
		return;
	p->panic = true;
	if (t->type == T_BAD)
		return;
	if (t->type == T_EOF) {
		diag_error(p->diags, t->pos, "found the end of the file, "
		    "expected %s", expected);
		return;
	}
	if (n > 40) {
		n = utf8_fit(t->src, n, 40);
		cut = "...";
	}
	diag_error(p->diags, t->pos, "found '%.*s%s', expected %s", (int)n,
	    t->src, cut, expected);
}

bool
parse_expect(struct parse *p, const char *sym, const char *expected)
{
	if (p->panic)
		return false;
	if (!parse_is(p, sym)) {
		parse_error(p, expected);
		return false;
	}
	parse_advance(p);
	return true;
}

bool
parse_recover(struct parse *p, unsigned nest, const char *sep,
    const char *close, char id)
{
	while (p->t.type != T_EOF && p->t.type != T_DOT && p->nest >= nest) {
		if ((p->nest == nest && parse_is(p, sep)) ||
		    (parse_is(p, close) &&
			nest_below(p, id) == (int)nest - 1)) {
			p->nest = nest;
			p->panic = false;
			return true;
		}
		parse_advance(p);
	}
	return false;
}

void
kids_add(struct parse *p, struct kids *k, struct node *x)
{
	struct node **v;

	if (x == NULL)
		return;
	if (k->n == k->room) {
		k->room = k->room > 0 ? k->room * 2 : 4;
		v = arena_alloc(p->arena, k->room * sizeof(*v));
		if (v == NULL) {
			p->panic = true;
			k->room = k->n;
			return;
		}
		if (k->n > 0)
			memcpy(v, k->v, k->n * sizeof(*v));
		k->v = v;
	}
	k->v[k->n++] = x;
}

struct node *
parse_node(struct parse *p, enum node_kind kind, struct kp_pos pos,
    const struct kids *k, struct node *tail)
{
	struct node *x = arena_alloc(p->arena, sizeof(*x));
	unsigned depth = tail != NULL ? tail->depth : 0;

	if (x == NULL) {
		p->panic = true;
		return NULL;
	}
	for (uint32_t i = 0; k != NULL && i < k->n; i++)
		depth = k->v[i]->depth > depth ? k->v[i]->depth : depth;
	if (depth >= NODE_DEPTH_MAX) {
		if (!p->panic)
			diag_error(p->diags, pos, "nested deeper than %d",
			    NODE_DEPTH_MAX);
		p->panic = true;
		return NULL;
	}
	*x = (struct node){ .kind = kind, .pos = pos, .depth = depth + 1,
		.tail = tail };
	if (k != NULL) {
		x->kid = k->v;
		x->n = k->n;
	}
	return x;
}
