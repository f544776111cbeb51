/*
 * ident.c - checks that match specs can express the identity fun.
 *
 * Whatever they cannot express is reported here, with its place, so that spec.c
 * may rely on a checked fun.
 */
#include <string.h>

#include "config/lang.h"

#define IDENT_INT_MAX (INT64_C(1) << 58)
#define PATTERN_LIST_MAX 255u	/* elements of one list or tuple pattern */
#define PATTERN_KEYS_MAX 32u	/* keys of one map pattern */

struct vars {
	const char *name[SPEC_VARS_MAX];
	unsigned n;
	struct kp_diags *diags;
	unsigned parts;	/* of the identity so far */
	const struct node *clause;
	bool shown;	/* how it is written without its calls */
};

/* An alias, which is an atom: Shop.Cart. */
static bool
is_module_alias(const struct node *x)
{
	return x->kind == N_FN && x->alias && x->text == NULL && x->num < 0;
}

static void
expected(struct vars *v, const struct node *x, const char *what)
{
	if (is_module_alias(x))
		diag_error(v->diags, x->pos, "found '%s', expected %s (write "
		    "'Elixir.%s')", x->mod, what, x->mod);
	else
		node_expected(v->diags, x, what);
}

static bool
is_bound(const struct vars *v, const char *name)
{
	for (unsigned i = 0; i < v->n; i++) {
		if (strcmp(v->name[i], name) == 0)
			return true;
	}
	return false;
}

static void
bind(struct vars *v, const struct node *x)
{
	if (node_is_wildcard(x) || is_bound(v, x->text))
		return;
	if (v->n == SPEC_VARS_MAX)
		diag_error(v->diags, x->pos, "more than %d variables in one "
		    "clause", SPEC_VARS_MAX);
	else
		v->name[v->n++] = x->text;
}

static void check_pattern(struct vars *v, const struct node *x);

static void
check_map_pattern(struct vars *v, const struct node *x)
{
	if (x->map_arrow)
		diag_error(v->diags, x->pos, "found '=>' in a pattern, "
		    "expected ':='");
	if (x->n > 2 * PATTERN_KEYS_MAX) {
		diag_error(v->diags, x->pos, "more than %u keys in a pattern",
		    PATTERN_KEYS_MAX);
		return;
	}
	for (uint32_t i = 0; i + 1 < x->n; i += 2) {
		if (!node_is_literal(x->kid[i]))
			expected(v, x->kid[i], "a literal as a map's key");
		check_pattern(v, x->kid[i + 1]);
	}
}

static void
check_op_pattern(struct vars *v, const struct node *x)
{
	if (strcmp(x->text, "=") == 0 && x->n == 2) {
		check_pattern(v, x->kid[0]);
		check_pattern(v, x->kid[1]);
	} else if (strcmp(x->text, "++") == 0 && x->kid[0]->kind == N_STR &&
	    x->kid[0]->len <= PATTERN_LIST_MAX) {
		check_pattern(v, x->kid[1]);
	} else {
		expected(v, x, "a pattern");
	}
}

static void
check_pattern(struct vars *v, const struct node *x)
{
	switch (x->kind) {
	case N_VAR:
		bind(v, x);
		break;
	case N_LIST:
	case N_TUPLE:
		if (x->n > PATTERN_LIST_MAX)
			diag_error(v->diags, x->pos, "more than %u elements "
			    "in a pattern", PATTERN_LIST_MAX);
		if (x->tail != NULL)
			check_pattern(v, x->tail);
		for (uint32_t i = 0; i < x->n && i <= PATTERN_LIST_MAX; i++)
			check_pattern(v, x->kid[i]);
		break;
	case N_MAP:
		check_map_pattern(v, x);
		break;
	case N_OP:
		check_op_pattern(v, x);
		break;
	case N_BINPAT:
		diag_error(v->diags, x->pos, "a pattern cannot look into a "
		    "binary: take it whole, and shorten it with {rewrite, "
		    "[{\"/users/.*\", \"/users/:id\"}]}");
		break;
	case N_CALL:
	case N_FN:
	case N_FUN:
	case N_CLAUSE:
	case N_GUARD:
		expected(v, x, "a pattern");
		break;
	default:
		break;
	}
}

static void
check_name(struct vars *v, const struct node *x, const char *what)
{
	if (x->kind == N_VAR)
		bind(v, x);
	else if (x->kind != N_ATOM || x->len == 0)
		expected(v, x, what);
}

/* [A, B], [A | Rest], Args or _ */
static void
check_args(struct vars *v, const struct node *x)
{
	const struct node *t = x;

	while (t->kind == N_LIST && t->tail != NULL)
		t = t->tail;
	if (t->kind != N_VAR && t->kind != N_LIST)
		expected(v, t, "a list of patterns for the arguments, a "
		    "variable or _");
	else
		check_pattern(v, x);
}

static void
check_head(struct vars *v, const struct node *x)
{
	/* A variable for the whole tuple cannot be used, so it is not bound. */
	if (x->kind == N_VAR)
		return;
	if (x->kind != N_TUPLE || x->n != 3) {
		expected(v, x, "{Module, Function, Args} or _");
		return;
	}
	check_name(v, x->kid[0], "a module's name or a variable");
	check_name(v, x->kid[1], "a function's name or a variable");
	check_args(v, x->kid[2]);
}

static void
check_bound(struct vars *v, const struct node *x)
{
	if (node_is_wildcard(x))
		expected(v, x, "a value");
	else if (!is_bound(v, x->text))
		diag_error(v->diags, x->pos, "the variable %s is not bound by "
		    "{Module, Function, Args}", x->text);
}

/*
 * A call that a match spec cannot make.  Where one line shows what to write in
 * place of all calls of the clause, the others need no message.
 */
static void
call_error(struct vars *v, const struct node *x)
{
	const char *like = x->kind == N_CALL ? ident_guard_like(x) : NULL;
	char called[NODE_TEXT_MAX];
	struct kp_buf line;

	if (v->shown)
		return;
	node_describe(x, called);
	if (like != NULL) {
		diag_error(v->diags, x->pos, "found %s, expected %s/%u: the "
		    "fun becomes a match spec, which calls only guard "
		    "functions", called, like, x->n);
		return;
	}
	kp_buf_init(&line, IDENT_LINE_MAX);
	v->shown = ident_line(v->clause, &line);
	diag_error(v->diags, x->pos, "found %s: the fun becomes a match spec, "
	    "which calls only guard functions such as map_get/2; match the "
	    "value %s %s", called, v->shown ? "instead:" :
	    "in a pattern instead, such as",
	    v->shown ? kp_buf_cstr(&line) : "#{method := M}");
	kp_buf_free(&line);
}

static void
check_guard(struct vars *v, const struct node *x)
{
	switch (x->kind) {
	case N_VAR:
		check_bound(v, x);
		return;
	case N_CALL:
		if (x->mod != NULL || guard_fn_find(x->text, x->n) == NULL)
			call_error(v, x);
		break;
	case N_OP:
		if (strcmp(x->text, "=") == 0 || strcmp(x->text, "++") == 0 ||
		    strcmp(x->text, "--") == 0) {
			expected(v, x, "a guard test (equality is =:=)");
			return;
		}
		break;
	case N_MAP:
	case N_BINPAT:
	case N_FN:
	case N_FUN:
	case N_CLAUSE:
	case N_GUARD:
		expected(v, x, "a guard test");
		return;
	default:
		break;
	}
	for (uint32_t i = 0; i < x->n; i++)
		check_guard(v, x->kid[i]);
	if (x->tail != NULL)
		check_guard(v, x->tail);
}

static void
check_body(struct vars *v, const struct node *x)
{
	if (++v->parts == IDENT_PARTS_MAX + 1)
		diag_error(v->diags, x->pos, "an identity of more than %d "
		    "parts", IDENT_PARTS_MAX);
	if (x->kind == N_VAR) {
		check_bound(v, x);
	} else if (x->kind == N_FN && x->text != NULL && x->mod != NULL &&
	    is_bound(v, x->mod)) {
		call_error(v, x);	/* Conn.method, as in Elixir */
	} else if ((x->kind == N_CALL || x->kind == N_OP) &&
	    value_kind_of(x) == VALUE_PID) {
		expected(v, x, "a value that many requests share: a pid is "
		    "of one process");
	} else if (x->kind == N_CALL || x->kind == N_OP) {
		check_guard(v, x);
	} else if (x->kind == N_TUPLE && x->n <= IDENT_TUPLE_MAX) {
		for (uint32_t i = 0; i < x->n; i++)
			check_body(v, x->kid[i]);
	} else if (x->kind == N_TUPLE) {
		diag_error(v->diags, x->pos, "a tuple of %u, expected at most "
		    "%d elements in an identity", x->n, IDENT_TUPLE_MAX);
	} else if (x->kind == N_STR && x->len > KP_IDENT_LIST_MAX) {
		diag_error(v->diags, x->pos, "a string of %zu, expected at "
		    "most %d characters in an identity", x->len,
		    KP_IDENT_LIST_MAX);
	} else if (x->kind == N_BIN && x->len > KP_IDENT_BYTES_MAX) {
		diag_error(v->diags, x->pos, "a binary of %zu, expected at "
		    "most %d bytes in an identity", x->len,
		    KP_IDENT_BYTES_MAX);
	} else if (x->kind == N_INT && (x->num > IDENT_INT_MAX ||
	    x->num < -IDENT_INT_MAX)) {
		expected(v, x, "an integer of at most 58 bits");
	} else if (!node_is_nil(x) &&
	    (x->kind == N_LIST || !node_is_literal(x))) {
		expected(v, x, "an atom, a string, a number, a binary, a "
		    "variable of the pattern or a tuple of these");
	}
}

static bool
functions_meet(const struct kp_mfa_pat *p, const struct node *head)
{
	const struct node *m = head->kid[0], *f = head->kid[1],
	    *args = head->kid[2];

	if (m->kind == N_ATOM && strcmp(m->text, p->mod) != 0)
		return false;
	if (f->kind == N_ATOM && p->fun != NULL && strcmp(f->text, p->fun) != 0)
		return false;
	if (args->kind != N_LIST || p->arity < 0)
		return true;
	return args->tail == NULL ? (int)args->n == p->arity :
	    (int)args->n <= p->arity;
}

/* A clause for a function that is not traced is probably a mistake. */
static void
warn_unmet(const struct kp_conf *c, const struct node *head,
    struct kp_diags *d)
{
	for (size_t i = 0; i < c->ntiers; i++) {
		for (size_t j = 0; j < c->tiers[i].nfns; j++) {
			if (functions_meet(&c->tiers[i].fns[j], head))
				return;
		}
	}
	for (size_t i = 0; i < c->nentries; i++) {
		if (functions_meet(&c->entries[i].fn, head))
			return;
	}
	diag_warn(d, head->pos, "no tier and no entry names a function that "
	    "this clause is for");
}

static void
check_clause(const struct kp_conf *c, const struct node *x, bool missing,
    struct kp_diags *d)
{
	struct vars v = { .diags = d, .clause = x };
	size_t errors = d->errors;

	check_head(&v, x->kid[0]);
	if (x->n - 2 > IDENT_GUARDS_MAX)
		diag_error(d, x->pos, "more than %d alternatives in one guard",
		    IDENT_GUARDS_MAX);
	for (uint32_t i = 2; i < x->n; i++) {
		for (uint32_t j = 0; j < x->kid[i]->n; j++)
			check_guard(&v, x->kid[i]->kid[j]);
	}
	check_body(&v, x->kid[1]);
	if (!missing && d->errors == errors && x->kid[0]->kind == N_TUPLE)
		warn_unmet(c, x->kid[0], d);
}

bool
ident_check(const struct kp_conf *c, const struct node *fun,
    bool missing, struct kp_diags *d)
{
	size_t errors = d->errors;
	bool all = false;

	if (fun->n > IDENT_CLAUSES_MAX)
		diag_error(d, fun->pos, "%u clauses, expected at most %d",
		    fun->n, IDENT_CLAUSES_MAX);
	for (uint32_t i = 0; i < fun->n; i++) {
		if (all)
			diag_warn(d, fun->kid[i]->pos, "this clause is never "
			    "reached: one above it takes every call");
		check_clause(c, fun->kid[i], missing, d);
		all |= fun->kid[i]->n == 2 &&
		    fun->kid[i]->kid[0]->kind == N_VAR;
	}
	return d->errors == errors;
}
