/*
 * spec_head.c - the pattern of one clause as a match spec's head.
 *
 * Heads have no alias patterns; '$_', '_' and '$1' in them are not atoms; and
 * whether a map without variables is matched whole or in part depends on where
 * it stands.  So a map's values in a head are always variables, and guards on
 * the path of a variable do what a head cannot express.  A guard that fails (a
 * missing key, the hd of another term) fails the clause, as a pattern that does
 * not match should.
 */
#include <string.h>

#include "config/spec.h"

static void head_put(struct gen *g, const struct node *x);
static void path_match(struct gen *g, const struct path *at,
    const struct node *x);

static struct path *
path_new(struct gen *g, enum path_kind kind, const struct path *of, unsigned n)
{
	struct path *p = arena_alloc(&g->arena, sizeof(*p));

	if (p == NULL) {
		g->guards.err = KP_ENOMEM;
		return NULL;
	}
	*p = (struct path){ .kind = kind, .of = of, .n = n };
	return p;
}

static void
gen_bind(struct gen *g, const char *name, const struct path *at)
{
	if (at == NULL)
		return;
	if (g->nvar == SPEC_VARS_MAX) {
		g->guards.err = KP_ELIMIT;	/* ident_check forbids it */
		return;
	}
	g->var[g->nvar].name = name;
	g->var[g->nvar++].at = at;
}

/* Begins a guard: {Name, ...arity terms...}. */
static struct kp_buf *
guard_begin(struct gen *g, const char *name, uint32_t arity)
{
	g->nguards++;
	g->selective = true;
	call(&g->guards, name, arity);
	return &g->guards;
}

static void
guard_type(struct gen *g, const char *test, const struct path *at)
{
	path_put(guard_begin(g, test, 1), at);
}

/* --- by guards, on a path --- */

static void
path_match_var(struct gen *g, const struct path *at, const struct node *x)
{
	const struct path *bound;
	struct kp_buf *b;

	if (node_is_wildcard(x))
		return;
	bound = gen_find(g, x->text);
	if (bound == NULL) {
		gen_bind(g, x->text, at);
		return;
	}
	b = guard_begin(g, "=:=", 2);
	path_put(b, at);
	path_put(b, bound);
}

static void
path_match_tuple(struct gen *g, const struct path *at, const struct node *x)
{
	struct path *p;

	guard_type(g, "is_tuple", at);
	terms_put(guard_begin(g, "=:=", 2), "{size,~p},~0", at, INTS(x->n));
	for (uint32_t i = 0; i < x->n; i++) {
		p = path_new(g, PATH_ELEMENT, at, i + 1);
		if (p != NULL)
			path_match(g, p, x->kid[i]);
	}
}

/* Tests for a cell of a list, and matches its head; returns its tail. */
static const struct path *
path_match_cell(struct gen *g, const struct path *at, const struct node *head)
{
	const struct path *hd = path_new(g, PATH_HD, at, 0);
	const struct path *tl = path_new(g, PATH_TL, at, 0);

	if (hd == NULL || tl == NULL)
		return at;
	guard_type(g, "is_list", at);
	terms_put(guard_begin(g, "=/=", 2), "~p,[]", at, NULL);
	path_match(g, hd, head);
	return tl;
}

static void
path_match_list(struct gen *g, const struct path *at, const struct node *x)
{
	static const struct node nil = { .kind = N_LIST };

	for (uint32_t i = 0; i < x->n && g->guards.err == KP_OK; i++)
		at = path_match_cell(g, at, x->kid[i]);
	path_match(g, at, x->tail != NULL ? x->tail : &nil);
}

/* "abc" ++ Tail */
static void
path_match_prefix(struct gen *g, const struct path *at, const struct node *x)
{
	const struct node *s = x->kid[0];
	struct node c = { .kind = N_INT };

	for (size_t i = 0; i < s->len && g->guards.err == KP_OK; i++) {
		c.num = s->cps[i];
		at = path_match_cell(g, at, &c);
	}
	path_match(g, at, x->kid[1]);
}

static void
path_match_map(struct gen *g, const struct path *at, const struct node *x)
{
	struct path *p;
	struct kp_buf *b;

	guard_type(g, "is_map", at);
	for (uint32_t i = 0; i + 1 < x->n; i += 2) {
		p = path_new(g, PATH_GET, at, 0);
		if (p == NULL)
			return;
		p->key = x->kid[i];
		b = guard_begin(g, "is_map_key", 2);
		call(b, "const", 1);
		raw_put(b, x->kid[i]);
		path_put(b, at);
		path_match(g, p, x->kid[i + 1]);
	}
}

static void
path_match(struct gen *g, const struct path *at, const struct node *x)
{
	struct kp_buf *b;

	if (g->guards.err != KP_OK)
		return;
	if (node_is_literal(x)) {
		b = guard_begin(g, "=:=", 2);
		path_put(b, at);
		expr_put(b, g, x);
		return;
	}
	switch (x->kind) {
	case N_VAR:
		path_match_var(g, at, x);
		break;
	case N_TUPLE:
		path_match_tuple(g, at, x);
		break;
	case N_LIST:
		path_match_list(g, at, x);
		break;
	case N_MAP:
		path_match_map(g, at, x);
		break;
	case N_OP:
		if (strcmp(x->text, "++") == 0) {
			path_match_prefix(g, at, x);
		} else {
			path_match(g, at, x->kid[0]);
			path_match(g, at, x->kid[1]);
		}
		break;
	default:
		g->guards.err = KP_EFORMAT;	/* ident_check forbids it */
		break;
	}
}

/* --- in the head --- */

/* Puts a new match variable here, and guards for its value. */
static void
head_put_by_guards(struct gen *g, const struct node *x)
{
	struct path *p = path_new(g, PATH_ARG, NULL, ++g->nvars);

	if (p == NULL)
		return;
	var_put(&g->head, p->n);
	path_match(g, p, x);
}

static void
head_put_var(struct gen *g, const struct node *x)
{
	const struct path *bound;

	if (node_is_wildcard(x)) {
		kp_etf_atom(&g->head, "_");
		return;
	}
	bound = gen_find(g, x->text);
	if (bound != NULL && bound->kind == PATH_ARG) {
		/* the same variable twice: the head compares */
		g->selective = true;
		var_put(&g->head, bound->n);
		return;
	}
	head_put_by_guards(g, x);
}

/* May the two be the same key?  Exact only for integers, atoms and binaries. */
static bool
keys_meet(const struct node *a, const struct node *b)
{
	if (a->kind == N_INT && b->kind == N_INT)
		return a->num == b->num;
	if (a->kind == b->kind && (a->kind == N_ATOM || a->kind == N_BIN))
		return a->len == b->len &&
		    memcmp(a->text, b->text, a->len) == 0;
	return a->kind == b->kind || (node_is_nil(a) && node_is_nil(b));
}

/* Can a head have this map?  Not with a key twice, or one that is a variable. */
static bool
map_fits_head(const struct node *x)
{
	for (uint32_t i = 0; i + 1 < x->n; i += 2) {
		if (raw_is_special(x->kid[i]))
			return false;
		for (uint32_t j = 0; j < i; j += 2) {
			if (keys_meet(x->kid[i], x->kid[j]))
				return false;
		}
	}
	return x->n > 0;	/* #{} is any map */
}

static void
head_put_map(struct gen *g, const struct node *x)
{
	if (!map_fits_head(x)) {
		head_put_by_guards(g, x);
		return;
	}
	g->selective = true;
	kp_etf_map(&g->head, x->n / 2);
	for (uint32_t i = 0; i + 1 < x->n; i += 2) {
		raw_put(&g->head, x->kid[i]);
		if (x->kid[i + 1]->kind == N_VAR)
			head_put_var(g, x->kid[i + 1]);
		else
			head_put_by_guards(g, x->kid[i + 1]);
	}
}

static void
head_put_op(struct gen *g, const struct node *x)
{
	const struct node *s = x->kid[0];

	if (strcmp(x->text, "++") != 0) {
		head_put_by_guards(g, x);
		return;
	}
	g->selective = true;
	if (s->len > 0)
		kp_etf_list(&g->head, (uint32_t)s->len);
	for (size_t i = 0; i < s->len; i++)
		kp_etf_int(&g->head, s->cps[i]);
	head_put(g, x->kid[1]);
}

static void
head_put(struct gen *g, const struct node *x)
{
	if (g->head.err != KP_OK)
		return;
	if (node_is_literal(x) && !raw_is_special(x)) {
		g->selective = true;
		raw_put(&g->head, x);
	} else if (node_is_literal(x)) {
		head_put_by_guards(g, x);
	} else if (x->kind == N_VAR) {
		head_put_var(g, x);
	} else if (x->kind == N_MAP) {
		head_put_map(g, x);
	} else if (x->kind == N_OP) {
		head_put_op(g, x);
	} else {
		g->selective = true;
		if (x->kind == N_TUPLE)
			kp_etf_tuple(&g->head, x->n);
		else
			kp_etf_list(&g->head, x->n);
		for (uint32_t i = 0; i < x->n; i++)
			head_put(g, x->kid[i]);
		if (x->kind == N_LIST && x->tail != NULL)
			head_put(g, x->tail);
		else if (x->kind == N_LIST)
			kp_etf_nil(&g->head);
	}
}

/* --- {Module, Function, Args} --- */

/* Is x this name, or a variable that may be it? */
static bool
name_match(struct gen *g, const struct node *x, const char *name)
{
	const struct path *bound;
	struct path *p;

	if (x->kind == N_ATOM)
		return strcmp(x->text, name) == 0;
	if (node_is_wildcard(x))
		return true;
	bound = gen_find(g, x->text);
	if (bound != NULL)
		return strcmp(bound->atom, name) == 0;
	p = path_new(g, PATH_ATOM, NULL, 0);
	if (p != NULL)
		p->atom = name;
	gen_bind(g, x->text, p);
	return true;
}

/* Argument n. */
static void
arg_put(struct gen *g, unsigned n, const struct node *x)
{
	struct path *p;

	if (!g->whole) {
		head_put(g, x);
		return;
	}
	p = path_new(g, PATH_ARG, NULL, n);
	if (p != NULL)
		path_match(g, p, x);
}

/* Matches arguments first.. with one variable, which may be bound already. */
static void
rest_put(struct gen *g, unsigned first, const struct node *x)
{
	struct path *p;

	for (unsigned i = first; i <= g->f->arity && !g->whole; i++) {
		if (node_is_wildcard(x))
			kp_etf_atom(&g->head, "_");
		else
			var_put(&g->head, i);
	}
	p = path_new(g, PATH_ARGS, NULL, first);
	if (p == NULL)
		return;
	p->last = g->f->arity;
	path_match_var(g, p, x);
}

bool
gen_pattern(struct gen *g, const struct node *pattern)
{
	const struct node *args;
	static const struct node any = { .kind = N_VAR, .text = "_", .len = 1 };
	unsigned n = 0;

	if (pattern->kind == N_VAR) {
		rest_put(g, 1, &any);
		return true;
	}
	if (!name_match(g, pattern->kid[0], g->f->mod) ||
	    !name_match(g, pattern->kid[1], g->f->fun))
		return false;
	args = pattern->kid[2];
	while (args != NULL && args->kind == N_LIST) {
		if (args->n > g->f->arity - n)
			return false;
		for (uint32_t i = 0; i < args->n; i++)
			arg_put(g, n + i + 1, args->kid[i]);
		n += args->n;
		args = args->tail;
	}
	if (args == NULL)
		return n == g->f->arity;
	rest_put(g, n + 1, args);
	return true;
}
