/*
 * parse.c - tokens to nodes.
 *
 * One expression parser reads terms, patterns, guards and bodies alike; what
 * may stand where is asked later, by those who know (conf.c, ident.c).
 *
 * After an error the parser is in panic: nothing more is reported until the
 * list or the fun around the error has found its next element or clause.
 * For that it keeps a stack of the brackets that are open: a closing bracket
 * that fits a deeper one closes those above it too.
 */
#include <string.h>

#include "base/utf8.h"
#include "config/parse_state.h"

bool
parse_is(const struct parse *p, const char *sym)
{
	return p->t.type == T_SYM && strcmp(p->t.text, sym) == 0;
}

/* The closing bracket of what the token opens, or closes; 0: neither. */
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

/* How many brackets stay open below the one that id closes; -1: none fits. */
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

/*
 * Leaves the panic at the next sep or closing bracket of the construct that
 * was opened with nest brackets open; false when there is none.
 */
static bool
recover(struct parse *p, unsigned nest, const char *sep, const char *close,
    char id)
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

static void
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

/* A node of these kids, unless that would make the tree too deep. */
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

/* Elements up to, and with, the closing bracket. */
static void
parse_elements(struct parse *p, struct kids *k, const char *close, char id,
    struct node **tail)
{
	unsigned nest = p->nest;

	while (!p->panic && !parse_is(p, close)) {
		kids_add(p, k, parse_expr(p, 0));
		if (!p->panic && tail != NULL && parse_is(p, "|")) {
			parse_advance(p);
			*tail = parse_expr(p, 0);
		} else if (!p->panic && parse_is(p, ",")) {
			parse_advance(p);
			if (parse_is(p, close))
				parse_error(p, "an element after ','");
			continue;
		}
		if (!p->panic && !parse_is(p, close))
			parse_error(p, *close == ']' ? "',' or ']'" :
			    *close == '}' ? "',' or '}'" : "',' or ')'");
		/* Only lists: in a tuple what comes next has lost its place. */
		if (p->panic && tail != NULL &&
		    recover(p, nest, ",", close, id) && parse_is(p, ","))
			parse_advance(p);
	}
	if (!p->panic)
		parse_advance(p);
}

static struct node *
parse_list(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };
	struct node *tail = NULL, *x;
	size_t errors = p->diags->errors;

	parse_advance(p);
	parse_elements(p, &k, "]", ']', &tail);
	x = p->panic ? NULL : parse_node(p, N_LIST, pos, &k, tail);
	if (x != NULL)
		x->broken = p->diags->errors != errors;
	return x;
}

static struct node *
parse_tuple(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };

	parse_advance(p);
	parse_elements(p, &k, "}", '}', NULL);
	return p->panic ? NULL : parse_node(p, N_TUPLE, pos, &k, NULL);
}

static struct node *
parse_map(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };
	bool arrow = false;
	struct node *x;

	parse_advance(p);
	if (!parse_expect(p, "{", "'{' after '#'"))
		return NULL;
	while (!p->panic && !parse_is(p, "}")) {
		kids_add(p, &k, parse_expr(p, 0));
		arrow |= parse_is(p, "=>");
		if (parse_is(p, "=>"))
			parse_advance(p);
		else if (!parse_expect(p, ":=", "':=' after a key"))
			return NULL;
		kids_add(p, &k, parse_expr(p, 0));
		if (!parse_is(p, ","))
			break;
		parse_advance(p);
	}
	if (!parse_expect(p, "}", "',' or '}'"))
		return NULL;
	x = parse_node(p, N_MAP, pos, &k, NULL);
	if (x != NULL)
		x->map_arrow = arrow;
	return x;
}

static struct node *
parse_guard(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };

	for (;;) {
		kids_add(p, &k, parse_expr(p, 0));
		if (p->panic || !parse_is(p, ","))
			break;
		parse_advance(p);
	}
	return p->panic ? NULL : parse_node(p, N_GUARD, pos, &k, NULL);
}

static struct node *
parse_clause(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 }, guards = { 0 };
	struct node *body;

	if (!parse_expect(p, "(", "'(' and the pattern of a clause"))
		return NULL;
	kids_add(p, &k, parse_expr(p, 0));
	if (!p->panic && parse_is(p, ","))
		parse_error(p, "')': the fun takes one argument, "
		    "{Module, Function, Arguments}");
	parse_expect(p, ")", "')'");
	if (!p->panic && parse_is(p, "when")) {
		do {
			parse_advance(p);
			kids_add(p, &guards, parse_guard(p));
		} while (!p->panic && parse_is(p, ";"));
	}
	if (!parse_expect(p, "->", guards.n > 0 ? "'->', ',' or ';'" :
	    "'->' or 'when'"))
		return NULL;
	body = parse_expr(p, 0);
	if (!p->panic && parse_is(p, ","))
		parse_error(p, "';' or 'end': a clause is one expression");
	kids_add(p, &k, body);
	for (uint32_t i = 0; i < guards.n; i++)
		kids_add(p, &k, guards.v[i]);
	return p->panic ? NULL : parse_node(p, N_CLAUSE, pos, &k, NULL);
}

static struct node *
parse_fun(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };
	unsigned nest;

	parse_advance(p);
	nest = p->nest;
	for (;;) {
		kids_add(p, &k, parse_clause(p));
		if (!p->panic && !parse_is(p, ";") && !parse_is(p, "end"))
			parse_error(p, "';' or 'end'");
		if (p->panic && !recover(p, nest, ";", "end", 'e'))
			return NULL;
		if (parse_is(p, "end"))
			break;
		parse_advance(p);
	}
	parse_advance(p);
	return parse_node(p, N_FUN, pos, &k, NULL);
}

/* name(...), erlang:name(...) or the plain atom. */
static struct node *
parse_atom(struct parse *p)
{
	struct token t = p->t;
	struct kids k = { 0 };
	struct node *x;

	parse_advance(p);
	if (parse_is(p, ":") && t.len == 6 &&
	    memcmp(t.text, "erlang", 6) == 0) {
		parse_advance(p);
		t = p->t;
		if (t.type != T_ATOM) {
			parse_error(p, "a function's name");
			return NULL;
		}
		parse_advance(p);
		if (!parse_is(p, "(")) {
			parse_error(p, "'('");
			return NULL;
		}
	}
	if (parse_is(p, "(")) {
		parse_advance(p);
		parse_elements(p, &k, ")", ')', NULL);
		if (p->panic)
			return NULL;
		x = parse_node(p, N_CALL, t.pos, &k, NULL);
	} else {
		x = parse_node(p, N_ATOM, t.pos, NULL, NULL);
	}
	if (x != NULL) {
		/* Scanned names are not terminated. */
		x->text = arena_alloc(p->arena, t.len + 1);
		if (x->text == NULL)
			return NULL;
		memcpy((char *)x->text, t.text, t.len);
		x->len = t.len;
	}
	return x;
}

static struct node *
parse_leaf(struct parse *p)
{
	struct token t = p->t;
	enum node_kind kind = t.type == T_VAR ? N_VAR :
	    t.type == T_INT ? N_INT : N_FLOAT;
	struct node *x = parse_node(p, kind, t.pos, NULL, NULL);
	char *name;

	parse_advance(p);
	if (x == NULL)
		return NULL;
	x->num = t.num;
	x->real = t.real;
	if (kind == N_VAR) {
		name = arena_alloc(p->arena, t.len + 1);
		if (name == NULL)
			return NULL;
		memcpy(name, t.text, t.len);
		x->text = name;
		x->len = t.len;
	}
	return x;
}

static struct node *
parse_unary(struct parse *p)
{
	struct token t = p->t;
	struct kids k = { 0 };
	struct node *x;

	parse_advance(p);
	x = parse_expr(p, 600);
	if (x == NULL)
		return NULL;
	if (*t.text == '-' && (x->kind == N_INT || x->kind == N_FLOAT)) {
		x->num = -x->num;
		x->real = -x->real;
		x->pos = t.pos;
		return x;
	}
	kids_add(p, &k, x);
	x = p->panic ? NULL : parse_node(p, N_OP, t.pos, &k, NULL);
	if (x != NULL) {
		x->text = t.text;
		x->len = t.len;
	}
	return x;
}

static struct node *
parse_paren(struct parse *p)
{
	struct node *x;

	parse_advance(p);
	x = parse_expr(p, 0);
	return parse_expect(p, ")", "')'") ? x : NULL;
}

static struct node *
parse_primary(struct parse *p)
{
	static const struct {
		const char *sym;
		struct node *(*parse)(struct parse *);
	} starts[] = { { "[", parse_list }, { "{", parse_tuple },
		{ "#", parse_map }, { "<<", parse_binary },
		{ "(", parse_paren }, { "fun", parse_fun },
		{ "-", parse_unary }, { "+", parse_unary },
		{ "not", parse_unary }, { "bnot", parse_unary } };

	if (p->t.type == T_ATOM)
		return parse_atom(p);
	if (p->t.type == T_STR)
		return parse_string(p);
	if (p->t.type == T_VAR || p->t.type == T_INT || p->t.type == T_FLOAT)
		return parse_leaf(p);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		if (parse_is(p, starts[i].sym))
			return starts[i].parse(p);
	}
	parse_error(p, "a term");
	return NULL;
}

/* The operators, with what binds how tightly: Erlang Reference Manual 9.36. */
static int
operator_level(const struct parse *p, bool *right)
{
	static const struct {
		const char *sym;
		short level, right;
	} ops[] = { { "=", 100, 1 }, { "orelse", 150, 1 },
		{ "andalso", 160, 1 },
		{ "==", 200, 0 }, { "/=", 200, 0 }, { "=<", 200, 0 },
		{ "<", 200, 0 }, { ">=", 200, 0 }, { ">", 200, 0 },
		{ "=:=", 200, 0 }, { "=/=", 200, 0 }, { "++", 300, 1 },
		{ "--", 300, 1 }, { "+", 400, 0 }, { "-", 400, 0 },
		{ "bor", 400, 0 }, { "bxor", 400, 0 }, { "bsl", 400, 0 },
		{ "bsr", 400, 0 }, { "or", 400, 0 }, { "xor", 400, 0 },
		{ "*", 500, 0 }, { "/", 500, 0 }, { "div", 500, 0 },
		{ "rem", 500, 0 }, { "band", 500, 0 }, { "and", 500, 0 } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (parse_is(p, ops[i].sym)) {
			*right = ops[i].right;
			return ops[i].level;
		}
	}
	return -1;
}

/* An expression of operators that bind at least as tightly as min. */
struct node *
parse_expr(struct parse *p, int min)
{
	struct node *x;
	bool right;
	int level;

	if (p->panic)
		return NULL;
	if (p->depth == NODE_DEPTH_MAX) {
		diag_error(p->diags, p->t.pos, "nested deeper than %d",
		    NODE_DEPTH_MAX);
		p->panic = true;
		return NULL;
	}
	p->depth++;
	x = parse_primary(p);
	while (!p->panic && (level = operator_level(p, &right)) >= min &&
	    level > 0) {
		struct token op = p->t;
		struct kids k = { 0 };

		parse_advance(p);
		kids_add(p, &k, x);
		kids_add(p, &k, parse_expr(p, right ? level : level + 1));
		x = p->panic ? NULL : parse_node(p, N_OP, op.pos, &k, NULL);
		if (x != NULL) {
			x->text = op.text;
			x->len = op.len;
		}
	}
	p->depth--;
	p->panic |= x == NULL;	/* no memory, where nothing was reported */
	return p->panic ? NULL : x;
}

static struct node *
parse_form(struct parse *p)
{
	struct node *x = parse_expr(p, 0);

	if (!p->panic && p->t.type == T_DOT) {
		parse_advance(p);
		return x;
	}
	/* A file that is only a list need not end in a full stop. */
	if (!p->panic && p->t.type == T_EOF && x->kind == N_LIST)
		return x;
	if (!p->panic) {
		parse_error(p, "'.' after a term");
		/* Just a missing full stop: the next term begins here. */
		if (parse_is(p, "{") || parse_is(p, "[")) {
			p->panic = false;
			return x;
		}
	}
	while (p->t.type != T_DOT && p->t.type != T_EOF)
		parse_advance(p);
	if (p->t.type == T_DOT)
		parse_advance(p);
	p->panic = false;
	p->nest = 0;
	return NULL;
}

struct form *
parse_forms(struct arena *a, const char *src, size_t n, struct kp_diags *d)
{
	struct parse p = { .arena = a, .diags = d };
	struct form *first = NULL, **end = &first;
	struct node *x;

	scan_init(&p.scan, src, n, a, d);
	parse_advance(&p);
	while (p.t.type != T_EOF && !a->failed) {
		p.depth = 0;
		x = parse_form(&p);
		if (x == NULL)
			continue;
		*end = arena_alloc(a, sizeof(**end));
		if (*end == NULL)
			break;
		(*end)->term = x;
		end = &(*end)->next;
	}
	return first;
}
