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

#include "config/lang.h"

struct parse {
	struct scan scan;
	struct token t;		/* the next token, not yet taken */
	struct arena *arena;
	struct kp_diags *diags;
	bool panic;
	unsigned depth;		/* of calls */
	char open[NODE_NEST_MAX];	/* what closes each open bracket */
	unsigned nest;
};

struct kids {
	struct node **v;
	uint32_t n, room;
};

static struct node *parse_expr(struct parse *p, int min);

static bool
is_sym(const struct parse *p, const char *sym)
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

static void
advance(struct parse *p)
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

static void
syntax_error(struct parse *p, const char *expected)
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
		for (n = 40; n > 0 && (t->src[n] & 0xC0) == 0x80;)
			n--;
		cut = "...";
	}
	diag_error(p->diags, t->pos, "found '%.*s%s', expected %s", (int)n,
	    t->src, cut, expected);
}

static bool
expect(struct parse *p, const char *sym, const char *expected)
{
	if (p->panic)
		return false;
	if (!is_sym(p, sym)) {
		syntax_error(p, expected);
		return false;
	}
	advance(p);
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
		if ((p->nest == nest && is_sym(p, sep)) ||
		    (is_sym(p, close) && nest_below(p, id) == (int)nest - 1)) {
			p->nest = nest;
			p->panic = false;
			return true;
		}
		advance(p);
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
static struct node *
node_new(struct parse *p, enum node_kind kind, struct kp_pos pos,
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

	while (!p->panic && !is_sym(p, close)) {
		kids_add(p, k, parse_expr(p, 0));
		if (!p->panic && tail != NULL && is_sym(p, "|")) {
			advance(p);
			*tail = parse_expr(p, 0);
		} else if (!p->panic && is_sym(p, ",")) {
			advance(p);
			if (is_sym(p, close))
				syntax_error(p, "an element after ','");
			continue;
		}
		if (!p->panic && !is_sym(p, close))
			syntax_error(p, *close == ']' ? "',' or ']'" :
			    *close == '}' ? "',' or '}'" : "',' or ')'");
		/* Only lists: in a tuple what comes next has lost its place. */
		if (p->panic && tail != NULL &&
		    recover(p, nest, ",", close, id) && is_sym(p, ","))
			advance(p);
	}
	if (!p->panic)
		advance(p);
}

static struct node *
parse_list(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };
	struct node *tail = NULL;

	advance(p);
	parse_elements(p, &k, "]", ']', &tail);
	return p->panic ? NULL : node_new(p, N_LIST, pos, &k, tail);
}

static struct node *
parse_tuple(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };

	advance(p);
	parse_elements(p, &k, "}", '}', NULL);
	return p->panic ? NULL : node_new(p, N_TUPLE, pos, &k, NULL);
}

static struct node *
parse_map(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };
	bool arrow = false;
	struct node *x;

	advance(p);
	if (!expect(p, "{", "'{' after '#'"))
		return NULL;
	while (!p->panic && !is_sym(p, "}")) {
		kids_add(p, &k, parse_expr(p, 0));
		arrow |= is_sym(p, "=>");
		if (is_sym(p, "=>"))
			advance(p);
		else if (!expect(p, ":=", "':=' after a key"))
			return NULL;
		kids_add(p, &k, parse_expr(p, 0));
		if (!is_sym(p, ","))
			break;
		advance(p);
	}
	if (!expect(p, "}", "',' or '}'"))
		return NULL;
	x = node_new(p, N_MAP, pos, &k, NULL);
	if (x != NULL)
		x->map_arrow = arrow;
	return x;
}

/* Joins "a" "b", as Erlang does. */
static struct node *
parse_string(struct parse *p)
{
	struct node *x = node_new(p, N_STR, p->t.pos, NULL, NULL);
	uint32_t *cps;

	while (x != NULL && p->t.type == T_STR) {
		if (x->len == 0) {
			x->cps = p->t.cps;
			x->len = p->t.ncps;
		} else if (p->t.ncps > 0) {
			cps = arena_alloc(p->arena,
			    (x->len + p->t.ncps) * sizeof(*cps));
			if (cps == NULL) {
				p->panic = true;
				return NULL;
			}
			memcpy(cps, x->cps, x->len * sizeof(*cps));
			memcpy(cps + x->len, p->t.cps,
			    p->t.ncps * sizeof(*cps));
			x->cps = cps;
			x->len += p->t.ncps;
		}
		advance(p);
	}
	return x;
}

struct bytes {
	char *p;
	size_t n, room;
	bool literal;
};

static void
bytes_put(struct parse *p, struct bytes *b, const char *from, size_t n)
{
	char *to;

	if (n > b->room - b->n) {
		b->room = (b->n + n) * 2;
		to = arena_alloc(p->arena, b->room);
		if (to == NULL) {
			p->panic = true;
			b->room = b->n;
			return;
		}
		if (b->n > 0)
			memcpy(to, b->p, b->n);
		b->p = to;
	}
	memcpy(b->p + b->n, from, n);
	b->n += n;
}

/* The literal value of one segment; utf8: as "..."/utf8 wants it. */
static void
segment_put(struct parse *p, struct bytes *b, const struct node *v, bool utf8)
{
	char c[4];

	if (v->kind == N_INT && v->num >= 0 && v->num <= 255 && !utf8) {
		c[0] = (char)v->num;
		bytes_put(p, b, c, 1);
		return;
	}
	b->literal &= v->kind == N_STR;
	for (size_t i = 0; v->kind == N_STR && i < v->len && !p->panic; i++) {
		if (!utf8 && v->cps[i] > 255) {
			diag_error(p->diags, v->pos, "this text has "
			    "characters that take more than a byte: write "
			    "<<\"...\"/utf8>>");
			p->panic = true;
			return;
		}
		c[0] = (char)v->cps[i];
		bytes_put(p, b, c, utf8 ? utf8_put(c, v->cps[i]) : 1);
	}
}

/* Value[:Size][/type-type] */
static void
parse_segment(struct parse *p, struct bytes *b)
{
	struct node *v = parse_expr(p, 800);
	bool utf8 = false, plain = true;

	if (!p->panic && is_sym(p, ":")) {
		advance(p);
		plain = false;
		parse_expr(p, 800);
	}
	while (!p->panic && (is_sym(p, "/") || is_sym(p, "-"))) {
		advance(p);
		if (p->t.type != T_ATOM) {
			syntax_error(p, "a type such as utf8");
			return;
		}
		utf8 |= p->t.len == 4 && memcmp(p->t.text, "utf8", 4) == 0;
		plain &= utf8;
		advance(p);
	}
	b->literal &= plain;
	if (!p->panic && b->literal)
		segment_put(p, b, v, utf8);
}

static struct node *
parse_binary(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct bytes b = { .literal = true };
	struct node *x;

	advance(p);
	while (!p->panic && !is_sym(p, ">>")) {
		parse_segment(p, &b);
		if (!is_sym(p, ","))
			break;
		advance(p);
	}
	if (!expect(p, ">>", "',' or '>>'"))
		return NULL;
	x = node_new(p, b.literal ? N_BIN : N_BINPAT, pos, NULL, NULL);
	if (x != NULL) {
		x->text = b.p != NULL ? b.p : "";
		x->len = b.n;
	}
	return x;
}

static struct node *
parse_guard(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };

	for (;;) {
		kids_add(p, &k, parse_expr(p, 0));
		if (p->panic || !is_sym(p, ","))
			break;
		advance(p);
	}
	return p->panic ? NULL : node_new(p, N_GUARD, pos, &k, NULL);
}

static struct node *
parse_clause(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 }, guards = { 0 };
	struct node *body;

	if (!expect(p, "(", "'(' and the pattern of a clause"))
		return NULL;
	kids_add(p, &k, parse_expr(p, 0));
	if (!p->panic && is_sym(p, ","))
		syntax_error(p, "')': the fun takes one argument, "
		    "{Module, Function, Arguments}");
	expect(p, ")", "')'");
	if (!p->panic && is_sym(p, "when")) {
		do {
			advance(p);
			kids_add(p, &guards, parse_guard(p));
		} while (!p->panic && is_sym(p, ";"));
	}
	if (!expect(p, "->", guards.n > 0 ? "'->', ',' or ';'" :
	    "'->' or 'when'"))
		return NULL;
	body = parse_expr(p, 0);
	if (!p->panic && is_sym(p, ","))
		syntax_error(p, "';' or 'end': a clause is one expression");
	kids_add(p, &k, body);
	for (uint32_t i = 0; i < guards.n; i++)
		kids_add(p, &k, guards.v[i]);
	return p->panic ? NULL : node_new(p, N_CLAUSE, pos, &k, NULL);
}

static struct node *
parse_fun(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct kids k = { 0 };
	unsigned nest;

	advance(p);
	nest = p->nest;
	for (;;) {
		kids_add(p, &k, parse_clause(p));
		if (!p->panic && !is_sym(p, ";") && !is_sym(p, "end"))
			syntax_error(p, "';' or 'end'");
		if (p->panic && !recover(p, nest, ";", "end", 'e'))
			return NULL;
		if (is_sym(p, "end"))
			break;
		advance(p);
	}
	advance(p);
	return node_new(p, N_FUN, pos, &k, NULL);
}

/* name(...), erlang:name(...) or the plain atom. */
static struct node *
parse_atom(struct parse *p)
{
	struct token t = p->t;
	struct kids k = { 0 };
	struct node *x;

	advance(p);
	if (is_sym(p, ":") && t.len == 6 && memcmp(t.text, "erlang", 6) == 0) {
		advance(p);
		t = p->t;
		if (t.type != T_ATOM) {
			syntax_error(p, "a function's name");
			return NULL;
		}
		advance(p);
		if (!is_sym(p, "(")) {
			syntax_error(p, "'('");
			return NULL;
		}
	}
	if (is_sym(p, "(")) {
		advance(p);
		parse_elements(p, &k, ")", ')', NULL);
		if (p->panic)
			return NULL;
		x = node_new(p, N_CALL, t.pos, &k, NULL);
	} else {
		x = node_new(p, N_ATOM, t.pos, NULL, NULL);
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
	struct node *x = node_new(p, kind, t.pos, NULL, NULL);
	char *name;

	advance(p);
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

	advance(p);
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
	x = p->panic ? NULL : node_new(p, N_OP, t.pos, &k, NULL);
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

	advance(p);
	x = parse_expr(p, 0);
	return expect(p, ")", "')'") ? x : NULL;
}

static struct node *
parse_primary(struct parse *p)
{
	static const struct {
		const char *sym;
		struct node *(*parse)(struct parse *);
	} starts[] = { { "[", parse_list }, { "{", parse_tuple },
		{ "#", parse_map }, { "<<", parse_binary }, { "(", parse_paren },
		{ "fun", parse_fun }, { "-", parse_unary }, { "+", parse_unary },
		{ "not", parse_unary }, { "bnot", parse_unary } };

	if (p->t.type == T_ATOM)
		return parse_atom(p);
	if (p->t.type == T_STR)
		return parse_string(p);
	if (p->t.type == T_VAR || p->t.type == T_INT || p->t.type == T_FLOAT)
		return parse_leaf(p);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		if (is_sym(p, starts[i].sym))
			return starts[i].parse(p);
	}
	syntax_error(p, "a term");
	return NULL;
}

/* The operators, with what binds how tightly: Erlang Reference Manual 9.36. */
static int
operator_level(const struct parse *p, bool *right)
{
	static const struct {
		const char *sym;
		short level, right;
	} ops[] = { { "=", 100, 1 }, { "orelse", 150, 1 }, { "andalso", 160, 1 },
		{ "==", 200, 0 }, { "/=", 200, 0 }, { "=<", 200, 0 },
		{ "<", 200, 0 }, { ">=", 200, 0 }, { ">", 200, 0 },
		{ "=:=", 200, 0 }, { "=/=", 200, 0 }, { "++", 300, 1 },
		{ "--", 300, 1 }, { "+", 400, 0 }, { "-", 400, 0 },
		{ "bor", 400, 0 }, { "bxor", 400, 0 }, { "bsl", 400, 0 },
		{ "bsr", 400, 0 }, { "or", 400, 0 }, { "xor", 400, 0 },
		{ "*", 500, 0 }, { "/", 500, 0 }, { "div", 500, 0 },
		{ "rem", 500, 0 }, { "band", 500, 0 }, { "and", 500, 0 } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (is_sym(p, ops[i].sym)) {
			*right = ops[i].right;
			return ops[i].level;
		}
	}
	return -1;
}

/* An expression of operators that bind at least as tightly as min. */
static struct node *
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

		advance(p);
		kids_add(p, &k, x);
		kids_add(p, &k, parse_expr(p, right ? level : level + 1));
		x = p->panic ? NULL : node_new(p, N_OP, op.pos, &k, NULL);
		if (x != NULL) {
			x->text = op.text;
			x->len = op.len;
		}
	}
	p->depth--;
	return p->panic ? NULL : x;
}

static struct node *
parse_form(struct parse *p)
{
	struct node *x = parse_expr(p, 0);

	if (!p->panic && p->t.type == T_DOT) {
		advance(p);
		return x;
	}
	/* A file that is only a list need not end in a full stop. */
	if (!p->panic && p->t.type == T_EOF && x->kind == N_LIST)
		return x;
	if (!p->panic) {
		syntax_error(p, "'.' after a term");
		/* Just a missing full stop: the next term begins here. */
		if (is_sym(p, "{") || is_sym(p, "[")) {
			p->panic = false;
			return x;
		}
	}
	while (p->t.type != T_DOT && p->t.type != T_EOF)
		advance(p);
	if (p->t.type == T_DOT)
		advance(p);
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
	advance(&p);
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
