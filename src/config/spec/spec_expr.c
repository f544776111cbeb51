/*
 * spec_expr.c - values, guard tests and identities as match spec terms.
 *
 * In a match spec's guards and bodies a tuple is a call, and '$1', '$_' and
 * '$$' are variables.  A literal that has any of these is written {const, X},
 * which is X as it stands (in guards and messages; never in a token's label).
 */
#include <stdio.h>
#include <string.h>

#include "config/spec/spec.h"

void
var_put(struct kp_buf *b, unsigned n)
{
	char name[16];

	snprintf(name, sizeof(name), "$%u", n);
	kp_etf_atom(b, name);
}

static bool
atom_is_special(const char *name)
{
	return name[0] == '$' || strcmp(name, "_") == 0;
}

bool
raw_is_special(const struct node *x)
{
	if (x->kind == N_ATOM)
		return atom_is_special(x->text);
	for (uint32_t i = 0; i < x->n; i++) {
		if (raw_is_special(x->kid[i]))
			return true;
	}
	return x->tail != NULL && raw_is_special(x->tail);
}

static void
cps_put(struct kp_buf *b, const struct node *x)
{
	if (x->len == 0) {
		kp_etf_nil(b);
		return;
	}
	kp_etf_list(b, (uint32_t)x->len);
	for (size_t i = 0; i < x->len; i++)
		kp_etf_int(b, x->cps[i]);
	kp_etf_nil(b);
}

void
raw_put(struct kp_buf *b, const struct node *x)
{
	switch (x->kind) {
	case N_INT:
		kp_etf_int(b, x->num);
		return;
	case N_FLOAT:
		kp_etf_float(b, x->real);
		return;
	case N_STR:
		cps_put(b, x);
		return;
	case N_BIN:
		kp_etf_binary(b, x->text, x->len);
		return;
	case N_TUPLE:
		kp_etf_tuple(b, x->n);
		break;
	case N_LIST:
		if (x->n > 0)
			kp_etf_list(b, x->n);
		break;
	default:
		kp_etf_atom_n(b, x->text, x->len);
		return;
	}
	for (uint32_t i = 0; i < x->n; i++)
		raw_put(b, x->kid[i]);
	if (x->kind == N_LIST && x->tail != NULL)
		raw_put(b, x->tail);
	else if (x->kind == N_LIST)
		kp_etf_nil(b);
}

static void
atom_put(struct kp_buf *b, const char *name)
{
	if (atom_is_special(name))
		call(b, "const", 1);
	kp_etf_atom(b, name);
}

static void
const_put(struct kp_buf *b, const struct node *x)
{
	if (x->kind == N_TUPLE || raw_is_special(x) ||
	    (x->kind == N_LIST && x->n > 0))
		call(b, "const", 1);
	raw_put(b, x);
}

void
path_put(struct kp_buf *b, const struct path *at)
{
	switch (at->kind) {
	case PATH_ARG:
		var_put(b, at->n);
		break;
	case PATH_ARGS:
		if (at->last >= at->n)
			kp_etf_list(b, at->last - at->n + 1);
		for (unsigned i = at->n; i <= at->last; i++)
			var_put(b, i);
		kp_etf_nil(b);
		break;
	case PATH_ATOM:
		atom_put(b, at->atom);
		break;
	case PATH_HD:
	case PATH_TL:
		call(b, at->kind == PATH_HD ? "hd" : "tl", 1);
		path_put(b, at->of);
		break;
	case PATH_ELEMENT:
		call(b, "element", 2);
		kp_etf_int(b, at->n);
		path_put(b, at->of);
		break;
	case PATH_GET:
		call(b, "map_get", 2);
		const_put(b, at->key);
		path_put(b, at->of);
		break;
	case PATH_EXPR:
		expr_put(b, at->gen, at->key);
		break;
	}
}

static void
is_boolean_put(struct kp_buf *b, const struct gen *g, const struct node *x)
{
	call(b, "orelse", 2);
	for (int v = 1; v >= 0; v--) {
		call(b, "=:=", 2);
		expr_put(b, g, x);
		kp_etf_bool(b, v);
	}
}

/*
 * OTP 25 has no tuple_size in match specs, and size/1 takes binaries too.  So
 * this adds #{true => 0}'s value of is_tuple(X) to size(X): for any other term
 * the key `false` is missing, which fails the guard as tuple_size would.
 */
static void
tuple_size_put(struct kp_buf *b, const struct gen *g, const struct node *x)
{
	call(b, "+", 2);
	call(b, "size", 1);
	expr_put(b, g, x);
	call(b, "map_get", 2);
	call(b, "is_tuple", 1);
	expr_put(b, g, x);
	call(b, "const", 1);
	kp_etf_map(b, 1);
	kp_etf_bool(b, true);
	kp_etf_int(b, 0);
}

static void
kids_put(struct kp_buf *b, const struct gen *g, const struct node *x)
{
	for (uint32_t i = 0; i < x->n; i++)
		expr_put(b, g, x->kid[i]);
}

static void
guard_call_put(struct kp_buf *b, const struct gen *g, const struct node *x)
{
	const struct guard_fn *fn = guard_fn_find(x->text, x->n);

	if (fn == NULL) {
		b->err = KP_EFORMAT;	/* ident_check forbids it */
	} else if (fn->form == GUARD_IS_BOOLEAN) {
		is_boolean_put(b, g, x->kid[0]);
	} else if (fn->form == GUARD_TUPLE_SIZE) {
		tuple_size_put(b, g, x->kid[0]);
	} else {
		call(b, x->text, x->n);
		kids_put(b, g, x);
	}
}

const struct path *
gen_find(const struct gen *g, const char *name)
{
	for (unsigned i = 0; i < g->nvar; i++) {
		if (strcmp(g->var[i].name, name) == 0)
			return g->var[i].at;
	}
	return NULL;
}

void
expr_put(struct kp_buf *b, const struct gen *g, const struct node *x)
{
	const struct path *at;

	/* is_boolean writes its argument twice: stop deep nests of it. */
	if (b->err != KP_OK)
		return;
	if (node_is_literal(x)) {
		const_put(b, x);
	} else if (x->kind == N_VAR) {
		at = gen_find(g, x->text);
		if (at != NULL)
			path_put(b, at);
		else
			b->err = KP_EFORMAT;
	} else if (x->kind == N_TUPLE) {
		kp_etf_tuple(b, 1);
		kp_etf_tuple(b, x->n);
		kids_put(b, g, x);
	} else if (x->kind == N_LIST) {
		kp_etf_list(b, x->n);
		kids_put(b, g, x);
		if (x->tail != NULL)
			expr_put(b, g, x->tail);
		else
			kp_etf_nil(b);
	} else if (x->kind == N_OP) {
		call(b, x->text, x->n);
		kids_put(b, g, x);
	} else {
		guard_call_put(b, g, x);
	}
}
