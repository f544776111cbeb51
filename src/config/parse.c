/*
 * parse.c - parses tokens into nodes.
 *
 * One expression parser reads terms, patterns, guards and bodies; conf.c and
 * ident.c check later which of them may stand where.  parse_state.c says how
 * parsing goes on after an error.
 */
#include <string.h>

#include "base/utf8.h"
#include "config/parse_state.h"

void
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
		/* Only in lists: a tuple's elements have meaning by position. */
		if (p->panic && tail != NULL &&
		    parse_recover(p, nest, ",", close, id) && parse_is(p, ","))
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
	struct token fun = p->t;
	struct kids k = { 0 };
	unsigned nest = p->nest;

	parse_advance(p);
	if (p->t.type == T_ATOM)
		return parse_fun_name(p, &fun, nest);
	nest = p->nest;
	for (;;) {
		kids_add(p, &k, parse_clause(p));
		if (!p->panic && !parse_is(p, ";") && !parse_is(p, "end"))
			parse_error(p, "';' or 'end'");
		if (p->panic && !parse_recover(p, nest, ";", "end", 'e'))
			return NULL;
		if (parse_is(p, "end"))
			break;
		parse_advance(p);
	}
	parse_advance(p);
	return parse_node(p, N_FUN, fun.pos, &k, NULL);
}

static struct node *
parse_number(struct parse *p)
{
	struct token t = p->t;
	struct node *x = parse_node(p, t.type == T_INT ? N_INT : N_FLOAT,
	    t.pos, NULL, NULL);

	parse_advance(p);
	if (x == NULL)
		return NULL;
	x->num = t.num;
	x->real = t.real;
	return x;
}

/* Joins "a" "b", as Erlang does. */
static struct node *
parse_string(struct parse *p)
{
	struct node *x = parse_node(p, N_STR, p->t.pos, NULL, NULL);
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
		parse_advance(p);
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

/* Adds the literal value of one segment; utf8: it is of the type utf8. */
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

	if (!p->panic && parse_is(p, ":")) {
		parse_advance(p);
		plain = false;
		parse_expr(p, 800);
	}
	while (!p->panic && (parse_is(p, "/") || parse_is(p, "-"))) {
		parse_advance(p);
		if (p->t.type != T_ATOM) {
			parse_error(p, "a type such as utf8");
			return;
		}
		utf8 |= p->t.len == 4 && memcmp(p->t.text, "utf8", 4) == 0;
		plain &= utf8;
		parse_advance(p);
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

	parse_advance(p);
	while (!p->panic && !parse_is(p, ">>")) {
		parse_segment(p, &b);
		if (!parse_is(p, ","))
			break;
		parse_advance(p);
	}
	if (!parse_expect(p, ">>", "',' or '>>'"))
		return NULL;
	x = parse_node(p, b.literal ? N_BIN : N_BINPAT, pos, NULL, NULL);
	if (x != NULL) {
		x->text = b.p != NULL ? b.p : "";
		x->len = b.n;
	}
	return x;
}

/* The token, an operator, applied to these. */
static struct node *
parse_op(struct parse *p, const struct token *op, const struct kids *k)
{
	struct node *x = p->panic ? NULL :
	    parse_node(p, N_OP, op->pos, k, NULL);

	if (x != NULL) {
		x->text = op->text;
		x->len = op->len;
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
	return parse_op(p, &t, &k);
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
		{ "not", parse_unary }, { "bnot", parse_unary },
		{ ":", parse_colon }, { "&", parse_capture } };

	if (p->t.type == T_ATOM)
		return parse_atom(p);
	if (p->t.type == T_STR)
		return parse_string(p);
	if (p->t.type == T_VAR)
		return parse_var(p);
	if (p->t.type == T_INT || p->t.type == T_FLOAT)
		return parse_number(p);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		if (parse_is(p, starts[i].sym))
			return starts[i].parse(p);
	}
	parse_error(p, "a term");
	return NULL;
}

/* The precedence of operators: Erlang Reference Manual 9.36. */
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
		x = parse_op(p, &op, &k);
	}
	p->depth--;
	p->panic |= x == NULL;	/* out of memory: nothing was reported */
	return p->panic ? NULL : x;
}

static void
form_end_error(struct parse *p)
{
	if (parse_is(p, ".")) {
		parse_error(p, "a blank or a new line after the '.'");
		parse_advance(p);
	} else {
		parse_error(p, "'.' after a term");
	}
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
	if (x != NULL) {
		form_end_error(p);
		/* Only the full stop is missing: the next term begins here. */
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
