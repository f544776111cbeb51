/*
 * parse.c - parses tokens into nodes.
 *
 * One expression parser reads terms, patterns, guards and bodies; conf.c and
 * ident.c check later which of them may stand where.
 *
 * After an error the parser is in panic: it reports nothing until it reaches the
 * next element of the list, or clause of the fun, around the error.  To find
 * that it keeps a stack of the open brackets; a closing bracket that fits a
 * deeper one closes those above it, too.
 */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "config/lang.h"

#define ARITY_MAX 255

struct parse {
	struct scan scan;
	struct token t;		/* the next token, not yet taken */
	const char *end;	/* of the last one that was taken */
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

/* An expression of operators that bind at least as tightly as min. */
static struct node *parse_expr(struct parse *p, int min);

/* ---- the state of the parser, and the nodes that it makes ---- */

/* Is the next token this punctuation or reserved word? */
static bool
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
		{ "<<", ">>", '>' }, { "fun", "end", 'e' }, { "case", "end", 'e' },
		{ "if", "end", 'e' }, { "begin", "end", 'e' },
		{ "receive", "end", 'e' }, { "try", "end", 'e' } };

	for (size_t i = 0; t->type == T_SYM && i < sizeof(pairs) / sizeof(pairs[0]);
	     i++) {
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

static void
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

/* Reports "found TOKEN, expected ..." unless in panic, and begins a panic. */
static void
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
	if (p->scan.map.line > 0) {
		diag_error(p->diags, p->scan.map, "found '%%', which begins a comment: a "
		    "map is #{...}");
		p->scan.map.line = 0;
		return;
	}
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

/* The same of what is a mistake wherever it stands. */
static void
parse_wrong(struct parse *p, struct kp_pos pos, const char *why)
{
	if (!p->panic)
		diag_error(p->diags, pos, "%s", why);
	p->panic = true;
}

/* #req{op = Op}, or R#req.op: at its name. */
static void
parse_record(struct parse *p, struct kp_pos pos)
{
	char why[200];
	int n = p->t.len < 40 ? (int)p->t.len : 40;

	snprintf(why, sizeof(why), "found the record #%.*s, which is a tuple here: "
	    "write {%.*s, Field, _}, or element(2, R) for its first field", n,
	    p->t.text, n, p->t.text);
	parse_wrong(p, pos, why);
}

/* Passes over sym, or reports that it is not there. */
static bool
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

/* Adds an element; x may be NULL. */
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

/*
 * Makes a node of these kids (NULL: none); NULL, and a panic, if the tree gets
 * too deep or memory runs out.
 */
static struct node *
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

/*
 * Parses elements, and the closing bracket.  tail NULL: there may be none, and
 * an element's place has meaning, so no error is passed over.
 */
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
		if (!p->panic && parse_is(p, ":") && k->n > 0 &&
		    k->v[k->n - 1]->kind == N_STR)
			parse_wrong(p, p->t.pos, "found ':', as JSON has it; a tiers.conf "
			    "has Erlang's terms: {tiers, [{Name, Functions}, ...]}.");
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

/*
 * ---- names: atoms, variables, calls, and functions as code has them ----
 *
 * A tiers.conf has functions as tuples or strings.  People paste what stands in
 * their code, or in a backtrace: shop_handler:init/2, fun shop_handler:init/2,
 * Shop.Repo.all/2, &Shop.Repo.all/2, :lists.map/2, :all.  Each becomes one node,
 * N_FN, so that one message can show how it is written here.
 */

/* A terminated copy, as scanned names are not; NULL, and a panic: no memory. */
static const char *
name_dup(struct parse *p, const char *s, size_t n)
{
	char *name = arena_alloc(p->arena, n + 1);

	if (name == NULL) {
		p->panic = true;
		return NULL;
	}
	memcpy(name, s, n);
	return name;
}

/* Is it this one, with no blank in front of it? */
static bool
is_next(const struct parse *p, const char *sym)
{
	return parse_is(p, sym) && p->t.src == p->end;
}

static bool
is_any(const struct token *t)
{
	return t->len == 1 && t->text[0] == '_' &&
	    (t->type == T_ATOM || t->type == T_VAR);
}

/* name: and a blank, as Elixir writes a key. */
static bool
is_keyword(const struct parse *p)
{
	const struct scan *s = &p->scan;

	return p->t.type == T_ATOM && s->off + 1 < s->n && s->src[s->off] == ':' &&
	    (unsigned char)s->src[s->off + 1] <= ' ';
}

/* A name of its own, with no function: atom or variable. */
static struct node *
parse_name(struct parse *p, enum node_kind kind, const struct token *t)
{
	struct node *x = parse_node(p, kind, t->pos, NULL, NULL);
	const char *name = name_dup(p, t->text, t->len);

	if (x == NULL || name == NULL)
		return NULL;
	x->text = name;
	x->len = t->len;
	return x;
}

/* "/2", "/_" or nothing. */
static bool
take_arity(struct parse *p, int64_t *arity)
{
	*arity = -1;
	if (p->panic || !parse_is(p, "/"))
		return !p->panic;
	parse_advance(p);
	if (p->t.type == T_INT && p->t.num <= ARITY_MAX) {
		*arity = p->t.num;
	} else if (!is_any(&p->t)) {
		parse_error(p, "an arity within 0..255 or '_'");
		return false;
	}
	parse_advance(p);
	return true;
}

/* Makes an N_FN of what was taken from the token `from` on, and its arity. */
static struct node *
fn_node(struct parse *p, const struct token *from, const struct node *like)
{
	int64_t arity;
	struct node *x;

	if (!take_arity(p, &arity))
		return NULL;
	x = parse_node(p, N_FN, from->pos, NULL, NULL);
	if (x == NULL)
		return NULL;
	x->mod = like->mod;
	x->alias = like->alias;
	x->text = like->text;
	x->len = like->len;
	x->num = arity;
	x->src = from->src;
	x->srclen = (size_t)(p->end - from->src);
	return x;
}

/* A call, with its arguments still to be taken. */
static struct node *
parse_call(struct parse *p, struct kp_pos pos, const struct node *like)
{
	struct kids k = { 0 };
	struct node *x;

	parse_advance(p);
	parse_elements(p, &k, ")", ')', NULL);
	x = p->panic ? NULL : parse_node(p, N_CALL, pos, &k, NULL);
	if (x == NULL)
		return NULL;
	/* Guard functions may be called by their full name. */
	if (like->mod != NULL && strcmp(like->mod, "erlang") != 0) {
		x->mod = like->mod;
		x->alias = like->alias;
	}
	x->text = like->text;
	x->len = like->len;
	return x;
}

/* Takes an atom; without quotes Elixir's may end in ? or !. */
static const char *
take_atom(struct parse *p)
{
	struct token t = p->t;

	parse_advance(p);
	if (*t.src != '\'' && (is_next(p, "!") || is_next(p, "?"))) {
		t.text = t.src;
		t.len = t.srclen + 1;
		parse_advance(p);
	}
	return name_dup(p, t.text, t.len);
}

/* Takes the function, after the module and its ':' or '.'. */
static bool
take_fun(struct parse *p, struct node *fn)
{
	if (p->t.type != T_ATOM && !is_any(&p->t)) {
		parse_error(p, "a function's name");
		return false;
	}
	fn->text = take_atom(p);
	fn->len = fn->text != NULL ? strlen(fn->text) : 0;
	return fn->text != NULL;
}

/* A function of fn->mod, or a call of it: the next token is ':' or '.'. */
static struct node *
parse_of_module(struct parse *p, const struct token *from, struct node *fn)
{
	parse_advance(p);
	if (!take_fun(p, fn))
		return NULL;
	return parse_is(p, "(") ? parse_call(p, from->pos, fn) :
	    fn_node(p, from, fn);
}

static struct node *
parse_atom(struct parse *p)
{
	struct token t = p->t;
	struct node fn = { .text = NULL };

	if (is_keyword(p)) {
		diag_error(p->diags, t.pos, "found '%.*s:', which is how "
		    "Elixir writes {%.*s, ...}", (int)t.srclen, t.src,
		    (int)t.srclen, t.src);
		p->panic = true;
		return NULL;
	}
	parse_advance(p);
	if (parse_is(p, ":") || is_next(p, ".")) {
		fn.mod = name_dup(p, t.text, t.len);
		return fn.mod != NULL ? parse_of_module(p, &t, &fn) : NULL;
	}
	if (t.len == 2 && memcmp(t.text, "fn", 2) == 0 && (parse_is(p, "{") ||
	    parse_is(p, "(") || p->t.type == T_VAR || p->t.type == T_ATOM)) {
		parse_wrong(p, t.pos, "found Elixir's fn: write fun ({Module, Function, "
		    "Args}) -> Identity; ... end");
		return NULL;
	}
	if (!parse_is(p, "("))
		return parse_name(p, N_ATOM, &t);
	fn.text = name_dup(p, t.text, t.len);
	fn.len = t.len;
	return fn.text != NULL ? parse_call(p, t.pos, &fn) : NULL;
}

/* A variable, or what begins like one: Shop.Repo, Shop.Repo.all/2 */
static struct node *
parse_var(struct parse *p)
{
	struct token t = p->t;
	struct node fn = { .alias = true };
	const char *end;

	parse_advance(p);
	if (!is_next(p, "."))
		return parse_name(p, N_VAR, &t);
	do {
		end = p->end;
		parse_advance(p);
		if (p->t.type != T_VAR || is_any(&p->t))
			break;
		parse_advance(p);
		end = p->end;
	} while (is_next(p, "."));
	fn.mod = name_dup(p, t.src, (size_t)(end - t.src));
	if (fn.mod == NULL)
		return NULL;
	if (is_next(p, ":"))
		return parse_of_module(p, &t, &fn);
	if (end == p->end)	/* it ends with the alias */
		return fn_node(p, &t, &fn);
	if (!take_fun(p, &fn))
		return NULL;
	return parse_is(p, "(") ? parse_call(p, t.pos, &fn) :
	    fn_node(p, &t, &fn);
}

/* :all */
static struct node *
parse_colon(struct parse *p)
{
	struct token colon = p->t;
	struct node fn = { .text = NULL };

	parse_advance(p);
	if (p->t.type != T_ATOM || p->t.src != p->end) {
		parse_error(p, "an atom after ':'");
		return NULL;
	}
	fn.mod = take_atom(p);
	if (fn.mod == NULL)
		return NULL;
	return is_next(p, ".") ? parse_of_module(p, &colon, &fn) :
	    fn_node(p, &colon, &fn);
}

/* What precedes a function, "fun" or "&", belongs to it. */
static struct node *
fn_from(struct parse *p, const struct token *from, struct node *x)
{
	struct node fn = { .text = NULL };

	if (x != NULL && x->kind == N_ATOM) {
		fn.text = x->text;
		fn.len = x->len;
		return fn_node(p, from, &fn);
	}
	if (x != NULL && x->kind == N_FN) {
		x->pos = from->pos;
		x->src = from->src;
		x->srclen = (size_t)(p->end - from->src);
		return x;
	}
	if (!p->panic)
		diag_error(p->diags, from->pos, "found '%.*s', expected a "
		    "term", (int)from->srclen, from->src);
	p->panic = true;
	return NULL;
}

/* &Shop.Repo.all/2 */
static struct node *
parse_capture(struct parse *p)
{
	struct token amp = p->t;

	parse_advance(p);
	return fn_from(p, &amp, parse_expr(p, 600));
}

/* ---- terms ---- */

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
	if (p->nest == 0 || (p->t.src != p->end && !parse_is(p, "{"))) {
		parse_wrong(p, pos, "found '#', expected a term: comments begin with %");
		return NULL;
	}
	if (p->t.type == T_ATOM) {
		parse_record(p, pos);
		return NULL;
	}
	if (p->t.type == T_VAR) {
		parse_wrong(p, pos, "found a struct of Elixir, which is a map here: write "
		    "#{method := M} for its fields");
		return NULL;
	}
	if (!parse_expect(p, "{", "'{' after '#'"))
		return NULL;
	while (!p->panic && !parse_is(p, "}")) {
		if (is_keyword(p)) {
			diag_error(p->diags, p->t.pos, "found '%.*s:', as Elixir has it "
			    "in a map: write %.*s := Value", (int)p->t.srclen, p->t.src,
			    (int)p->t.srclen, p->t.src);
			p->panic = true;
			return NULL;
		}
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
	if (p->t.type == T_ATOM) {	/* m:f/2, which no "end" will close */
		p->nest = nest;
		return fn_from(p, &fun, parse_expr(p, 600));
	}
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
	static const char *const blocks[] = { "case", "if", "begin", "receive",
		"try", "catch" };
	struct kp_pos pos;
	struct node *x;

	if (p->t.type == T_ATOM)
		return parse_atom(p);
	if (p->t.type == T_STR)
		return parse_string(p);
	if (p->t.type == T_VAR) {
		pos = p->t.pos;
		x = parse_var(p);
		if (p->panic || !is_next(p, "#"))
			return x;
		parse_advance(p);
		if (p->t.type == T_ATOM)
			parse_record(p, pos);
		else
			parse_wrong(p, pos, "found the change of a map, which a match "
			    "spec cannot make");
		return NULL;
	}
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		if (parse_is(p, blocks[i])) {
			parse_error(p, "a value: the fun becomes a match spec, which has "
			    "no blocks (write a clause for each case)");
			return NULL;
		}
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

		parse_advance(p);
		kids_add(p, &k, x);
		kids_add(p, &k, parse_expr(p, right ? level : level + 1));
		x = parse_op(p, &op, &k);
	}
	p->depth--;
	p->panic |= x == NULL;	/* out of memory: nothing was reported */
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
	if (x != NULL && parse_is(p, "#"))
		parse_wrong(p, p->t.pos, "found '#', expected '.' after a term: comments "
		    "begin with %");
	if (x != NULL) {
		parse_error(p, parse_is(p, ".") ? "a blank or a new line after "
		    "the '.'" : "'.' after a term");
		if (parse_is(p, "."))
			parse_advance(p);
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
