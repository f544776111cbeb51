/*
 * spec_expr.c - values, guard tests and identities as match spec terms.
 *
 * In a match spec's guards and bodies a tuple is a call, and '$1', '$_' and
 * '$$' are variables.  A literal that has any of these is written {const, X},
 * which is X as it stands (in guards and messages; never in a token's label).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/spec.h"

#define INT_BITS 58
#define CHAR_BITS 21	/* 16#10FFFF needs 21 */

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

void
test_put(struct kp_buf *b, const char *test, const struct path *at)
{
	call(b, test, 1);
	path_put(b, at);
}

/* Counts the elements of the tuple, list or map that begins here. */
static uint32_t
elements(const char *s)
{
	uint32_t n = s[1] != '}' && s[1] != ']';
	int depth = 0;

	do {
		depth += *s == '{' || *s == '[';
		depth -= *s == '}' || *s == ']';
		n += *s == ',' && depth == 1;
		s++;
	} while (depth > 0);
	return n;
}

/* Returns the end of the term. */
static const char *
term_put(struct kp_buf *b, const char *s, const struct path *at,
    const int64_t *n)
{
	bool map = *s == '#', list = *s == '[';
	size_t len = strcspn(s, ",{}[]");
	char *end;

	if (map || list || *s == '{') {
		s += map;
		if (map)
			kp_etf_map(b, elements(s) / 2);
		else if (!list)
			kp_etf_tuple(b, elements(s));
		else if (elements(s) > 0)
			kp_etf_list(b, elements(s));
		for (s++; *s != '}' && *s != ']'; s += *s == ',')
			s = term_put(b, s, at, n);
		if (list)
			kp_etf_nil(b);
		return s + 1;
	}
	if (s[0] == '~' && s[1] == 'p') {
		path_put(b, at);
	} else if (s[0] == '~') {
		kp_etf_int(b, n[s[1] - '0']);
	} else if (s[0] >= '0' && s[0] <= '9') {
		int64_t v = strtoll(s, &end, 10);

		if (end == s + len)
			kp_etf_int(b, v);
		else
			kp_etf_float(b, strtod(s, NULL));
	} else {
		kp_etf_atom_n(b, s, len);
	}
	return s + len;
}

void
terms_put(struct kp_buf *b, const char *terms, const struct path *at,
    const int64_t *n)
{
	while (*terms != '\0') {
		terms = term_put(b, terms, at, n);
		terms += *terms == ',';
	}
}

static void
kids_put(struct kp_buf *b, const struct gen *g, const struct node *x)
{
	for (uint32_t i = 0; i < x->n; i++)
		expr_put(b, g, x->kid[i]);
}

/*
 * OTP 25 has no tuple_size in match specs, and size/1 takes binaries too.  So
 * this adds #{true => 0}'s value of is_tuple(X) to size(X): for any other term
 * the key `false` is missing, which fails the guard as tuple_size would.
 */
#define TUPLE_SIZE "{+,{size,~p},{map_get,{is_tuple,~p},{const,#{true,0}}}}"

static void
guard_call_put(struct kp_buf *b, const struct gen *g, const struct node *x)
{
	const struct guard_fn *fn = guard_fn_find(x->text, x->n);
	const struct path arg = { .kind = PATH_EXPR, .gen = g,
		.key = x->n > 0 ? x->kid[0] : NULL };

	if (fn == NULL) {
		b->err = KP_EFORMAT;	/* ident_check forbids it */
	} else if (fn->form == GUARD_IS_BOOLEAN) {
		terms_put(b, "{orelse,{=:=,~p,true},{=:=,~p,false}}", &arg, NULL);
	} else if (fn->form == GUARD_TUPLE_SIZE) {
		terms_put(b, TUPLE_SIZE, &arg, NULL);
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

/*
 * ---- guards that keep an identity small, and from failing ----
 *
 * A variable, or the value of a call, in a message is copied whole, and a list of a
 * million elements is 16 MB.  So each must be an atom, a float, an integer of at most
 * 58 bits, a binary of at most KP_IDENT_BYTES_MAX bytes, or a proper list of at most
 * KP_IDENT_LIST_MAX integers of 21 bits, as characters are.  Any other term
 * (pids, references, funs, ports, maps, tuples) is never copied.
 *
 * A call that fails in a message would make it the atom 'EXIT'.  The bound of a
 * call has the call in it, so it fails first, and with it the guard.
 *
 * Measured on OTP 25, with about 250 ns for a traced call whose identity is
 * an atom: a binary 40 ns more, a string of 10 characters 0.5 us, of 48
 * 7 us (match specs have no variables, so each element is reached from the
 * front), and no more than that for a list of a million.  A guard such as
 * is_binary(X) leaves only the test it needs.
 */

static void
int_put(struct kp_buf *b, const struct path *at)
{
	terms_put(b, "{andalso,{is_integer,~p},{>=,~p,~0},{=<,~p,~1}}", at,
	    INTS(-(INT64_C(1) << INT_BITS), INT64_C(1) << INT_BITS));
}

static void
binary_put(struct kp_buf *b, const struct path *at, unsigned max)
{
	terms_put(b, "{andalso,{is_binary,~p},{=<,{byte_size,~p},~0}}", at,
	    INTS(max));
}

/*
 * Tests for [], or a character and the same test of the rest, max
 * times; then only for [].  length/1 would walk the whole of a long list.  If a
 * list is improper, or an element is not an integer, hd or bsr fails, and the
 * guard with it.
 */
static void
list_put(struct kp_buf *b, const struct path *at, unsigned max)
{
	struct path tl[KP_TRACE_BYTES_MAX];
	const struct path *cell = at;

	_Static_assert(KP_TRACE_BYTES_MAX >= KP_IDENT_LIST_MAX, "the longest");
	call(b, "andalso", 2);
	test_put(b, "is_list", at);
	for (unsigned i = 0; i <= max; i++) {
		if (i < max)
			call(b, "orelse", 2);
		terms_put(b, "{=:=,~p,[]}", cell, NULL);
		if (i == max)
			break;
		call(b, "andalso", 2);
		terms_put(b, "{=:=,{bsr,{hd,~p},~0},0}", cell, INTS(CHAR_BITS));
		tl[i] = (struct path){ .kind = PATH_TL, .of = cell };
		cell = &tl[i];
	}
}

/* What a value may be; each bit has a test. */
enum {
	BOUND_ATOM = 1,
	BOUND_FLOAT = 2,
	BOUND_SIZE = 4,		/* an integer that is always small */
	BOUND_INT = 8,
	BOUND_BINARY = 16,
	BOUND_LIST = 32,
	BOUND_TRACE = 64,	/* a binary or a list as long as a traceparent may be */
	BOUND_ANY = BOUND_ATOM | BOUND_FLOAT | BOUND_INT | BOUND_BINARY | BOUND_LIST
};

static void
bound_put(struct kp_buf *b, const struct path *at, unsigned bound)
{
	unsigned tests = (unsigned)__builtin_popcount(bound & ~BOUND_TRACE);
	bool trace = (bound & BOUND_TRACE) != 0;

	if (tests > 1)
		call(b, "orelse", tests);
	if ((bound & BOUND_ATOM) != 0)
		test_put(b, "is_atom", at);
	if ((bound & BOUND_FLOAT) != 0)
		test_put(b, "is_float", at);
	if ((bound & BOUND_SIZE) != 0)
		test_put(b, "is_integer", at);
	if ((bound & BOUND_INT) != 0)
		int_put(b, at);
	if ((bound & BOUND_BINARY) != 0)
		binary_put(b, at, trace ? KP_TRACE_BYTES_MAX : KP_IDENT_BYTES_MAX);
	if ((bound & BOUND_LIST) != 0)
		list_put(b, at, trace ? KP_TRACE_BYTES_MAX : KP_IDENT_LIST_MAX);
}

/* The cheapest bound, given the user's guards; 0: none is needed. */
static unsigned
bound_for(const char *name, const struct node *guard)
{
	static const struct {
		const char *test;
		unsigned bound;
	} known[] = { { "is_atom", 0 }, { "is_boolean", 0 }, { "is_float", 0 },
		{ "is_integer", BOUND_INT }, { "is_binary", BOUND_BINARY },
		{ "is_list", BOUND_LIST } };
	const struct node *t;

	for (uint32_t i = 0; guard != NULL && i < guard->n; i++) {
		t = guard->kid[i];
		if (t->kind != N_CALL || t->n != 1 ||
		    t->kid[0]->kind != N_VAR ||
		    strcmp(t->kid[0]->text, name) != 0)
			continue;
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (strcmp(t->text, known[k].test) == 0)
				return known[k].bound;
	}
	return BOUND_ANY;
}

/* ident_check() forbids pids. */
static const unsigned bound_of_value[] = {
	[VALUE_ANY] = BOUND_ANY, [VALUE_ATOM] = BOUND_ATOM,
	[VALUE_SIZE] = BOUND_SIZE, [VALUE_INT] = BOUND_INT,
	[VALUE_FLOAT] = BOUND_FLOAT, [VALUE_NUMBER] = BOUND_FLOAT | BOUND_INT,
	[VALUE_BINARY] = BOUND_BINARY, [VALUE_PID] = BOUND_ANY,
};

struct done {
	const char *name[IDENT_PARTS_MAX];
	unsigned n;
};

static bool
done_before(struct done *d, const char *name)
{
	for (unsigned i = 0; i < d->n; i++) {
		if (strcmp(d->name[i], name) == 0)
			return true;
	}
	if (d->n < IDENT_PARTS_MAX)
		d->name[d->n++] = name;
	return false;
}

static unsigned
bounds_walk(struct kp_buf *b, const struct gen *g, const struct node *x,
    const struct node *guard, struct done *d)
{
	const struct path *at;
	unsigned n = 0, bound;

	if (x->kind == N_TUPLE) {
		for (uint32_t i = 0; i < x->n; i++)
			n += bounds_walk(b, g, x->kid[i], guard, d);
		return n;
	}
	if (x->kind == N_CALL || x->kind == N_OP) {
		const struct path value = { .kind = PATH_EXPR, .key = x,
			.gen = g };

		bound_put(b, &value, bound_of_value[value_kind_of(x)]);
		return 1;
	}
	if (x->kind != N_VAR || done_before(d, x->text))
		return 0;
	at = gen_find(g, x->text);
	if (at == NULL || at->kind == PATH_ATOM)
		return 0;
	bound = bound_for(x->text, guard);
	if (bound == 0)
		return 0;
	bound_put(b, at, bound);
	return 1;
}

/*
 * A traceparent is a binary, or, where a guard says so, a list: each clause of the
 * identity fun has the bound again, and that of a list is long.
 */
static unsigned
trace_bound_put(struct kp_buf *b, const struct gen *g, const struct node *body,
    const struct node *guard)
{
	const struct path value = { .kind = PATH_EXPR, .key = body, .gen = g };
	bool list = body->kind == N_VAR && bound_for(body->text, guard) == BOUND_LIST;

	bound_put(b, &value, BOUND_TRACE | (list ? BOUND_LIST : BOUND_BINARY));
	return 1;
}

unsigned
bounds_put(struct kp_buf *b, const struct gen *g, const struct node *body,
    const struct node *guard, bool trace)
{
	struct done d = { .n = 0 };

	if (trace)
		return trace_bound_put(b, g, body, guard);
	return bounds_walk(b, g, body, guard, &d);
}
