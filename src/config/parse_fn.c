/*
 * parse_fn.c - parses names: atoms, variables, calls, and functions as code has
 * them.
 *
 * A tiers.conf has functions as tuples or strings.  People paste what stands in
 * their code, or in a backtrace: shop_handler:init/2, fun shop_handler:init/2,
 * Shop.Repo.all/2, &Shop.Repo.all/2, :lists.map/2, :all.  Each becomes one node,
 * N_FN, so that one message can show how it is written here.
 */
#include <string.h>

#include "config/parse_state.h"

#define ARITY_MAX 255

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

/* [web: {shop_handler, init, 2}] */
static struct node *
keyword_error(struct parse *p, const struct token *t)
{
	diag_error(p->diags, t->pos, "found '%.*s:', which is how Elixir "
	    "writes {%.*s, ...}", (int)t->srclen, t->src, (int)t->srclen,
	    t->src);
	p->panic = true;
	return NULL;
}

struct node *
parse_atom(struct parse *p)
{
	struct token t = p->t;
	struct node fn = { .text = NULL };

	parse_advance(p);
	if (parse_is(p, ":") || is_next(p, ".")) {
		struct scan ahead = p->scan;

		if (*p->t.text == ':' && ahead.off < ahead.n &&
		    (unsigned char)ahead.src[ahead.off] <= ' ')
			return keyword_error(p, &t);
		fn.mod = name_dup(p, t.text, t.len);
		return fn.mod != NULL ? parse_of_module(p, &t, &fn) : NULL;
	}
	if (!parse_is(p, "("))
		return parse_name(p, N_ATOM, &t);
	fn.text = name_dup(p, t.text, t.len);
	fn.len = t.len;
	return fn.text != NULL ? parse_call(p, t.pos, &fn) : NULL;
}

/* A variable, or what begins like one: Shop.Repo, Shop.Repo.all/2 */
struct node *
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

struct node *
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

struct node *
parse_capture(struct parse *p)
{
	struct token amp = p->t;

	parse_advance(p);
	return fn_from(p, &amp, parse_expr(p, 600));
}

struct node *
parse_fun_name(struct parse *p, const struct token *fun, unsigned nest)
{
	/* No "end" will close it. */
	p->nest = nest;
	return fn_from(p, fun, parse_expr(p, 600));
}
