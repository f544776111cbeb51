/*
 * ident.c - checks that match specs can express the identity fun.
 *
 * Whatever they cannot express is reported here, with its place, so that spec.c
 * may rely on a checked fun.
 */
#include <stdio.h>
#include <string.h>

#include "config/lang.h"
#include "kprofd/term.h"

#define IDENT_INT_MAX (INT64_C(1) << 58)
#define PATTERN_LIST_MAX 255u	/* elements of one list or tuple pattern */
#define PATTERN_KEYS_MAX 32u	/* keys of one map pattern */
#define IDENT_LINE_MAX 400u	/* bytes */
#define ARGS_MAX 16		/* of a function; others get no hint */
#define TAKEN_MAX IDENT_TUPLE_MAX
#define NAME_MAX 40u		/* bytes of a key, and of a variable */
#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* ---- the functions and operators of match specs ---- */

/*
 * The guard functions of match specs since OTP 25: is_bitstring, is_function/2,
 * is_record, ceil, floor, min and max came later or never; is_boolean and
 * tuple_size are made of others (spec_expr.c).
 */
static const struct guard_fn guard_fns[] = {
#define FN(name, arity, value) { name, arity, GUARD_PLAIN, VALUE_##value }
	FN("abs", 1, NUMBER), FN("binary_part", 3, BINARY),
	FN("bit_size", 1, SIZE), FN("byte_size", 1, SIZE),
	FN("element", 2, ANY), FN("float", 1, FLOAT), FN("hd", 1, ANY),
	FN("is_atom", 1, ATOM), FN("is_binary", 1, ATOM),
	{ "is_boolean", 1, GUARD_IS_BOOLEAN, VALUE_ATOM },
	FN("is_float", 1, ATOM), FN("is_function", 1, ATOM),
	FN("is_integer", 1, ATOM), FN("is_list", 1, ATOM),
	FN("is_map", 1, ATOM), FN("is_map_key", 2, ATOM),
	FN("is_number", 1, ATOM), FN("is_pid", 1, ATOM),
	FN("is_port", 1, ATOM), FN("is_reference", 1, ATOM),
	FN("is_tuple", 1, ATOM), FN("length", 1, SIZE),
	FN("map_get", 2, ANY), FN("map_size", 1, SIZE), FN("node", 0, ATOM),
	FN("node", 1, ATOM), FN("round", 1, INT), FN("self", 0, PID),
	FN("size", 1, SIZE), FN("tl", 1, ANY), FN("trunc", 1, INT),
	{ "tuple_size", 1, GUARD_TUPLE_SIZE, VALUE_SIZE },
#undef FN
};
#define GUARD_FNS (sizeof(guard_fns) / sizeof(guard_fns[0]))

const struct guard_fn *
guard_fn_find(const char *name, unsigned arity)
{
	for (size_t i = 0; i < GUARD_FNS; i++) {
		if (guard_fns[i].arity == arity &&
		    strcmp(guard_fns[i].name, name) == 0)
			return &guard_fns[i];
	}
	return NULL;
}

static enum value_kind
operator_value(const char *op)
{
	static const struct {
		const char *op;
		enum value_kind value;
	} ops[] = {
		/* the value of these is that of their last part */
		{ "andalso", VALUE_ANY }, { "orelse", VALUE_ANY },
		{ "+", VALUE_NUMBER }, { "-", VALUE_NUMBER },
		{ "*", VALUE_NUMBER }, { "/", VALUE_FLOAT },
		{ "div", VALUE_INT }, { "rem", VALUE_INT },
		{ "band", VALUE_INT }, { "bor", VALUE_INT },
		{ "bxor", VALUE_INT }, { "bsl", VALUE_INT },
		{ "bsr", VALUE_INT }, { "bnot", VALUE_INT } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i].op, op) == 0)
			return ops[i].value;
	}
	return VALUE_ATOM;	/* comparisons, and, or, xor, not */
}

enum value_kind
value_kind_of(const struct node *x)
{
	const struct guard_fn *fn;

	if (x->kind == N_OP)
		return operator_value(x->text);
	fn = x->kind == N_CALL && x->mod == NULL ?
	    guard_fn_find(x->text, x->n) : NULL;
	return fn != NULL ? fn->value : VALUE_ANY;
}

/*
 * ---- which pattern does what a call in an identity was to do ----
 *
 * A match spec calls no functions, but most calls that people write take one
 * value out of an argument: cowboy_req:method(R), maps:get(method, R, none),
 * conn.method.  A pattern for a map can do that, so the hint is the whole clause,
 * with such a pattern for the argument.
 */

/* What one call takes out of an argument. */
struct taken {
	const struct node *call;
	unsigned arg;		/* of the function, from 0 */
	const char *key;
	char var[NAME_MAX + 1];	/* what it is called in the pattern */
};

struct line {
	const struct node *head, *body;
	bool used[ARGS_MAX];	/* arguments that the result names whole */
	struct taken taken[TAKEN_MAX];
	unsigned n;
};

/* The argument with this name; -1: there is none. */
static int
arg_named(const struct node *args, const char *name)
{
	for (uint32_t i = 0; name != NULL && i < args->n; i++)
		if (args->kid[i]->kind == N_VAR &&
		    !node_is_wildcard(args->kid[i]) &&
		    strcmp(args->kid[i]->text, name) == 0)
			return (int)i;
	return -1;
}

/* A word of lower case, after "get_". */
static bool
set_key(struct taken *t, const char *name)
{
	if (strncmp(name, "get_", 4) == 0)
		name += 4;
	t->key = name;
	return name[0] >= 'a' && name[0] <= 'z' && strlen(name) <= NAME_MAX &&
	    name[strspn(name, ALNUM)] == '\0';
}

/* Which argument a call is about, and what it takes out of it. */
static bool
take(const struct node *args, const struct node *x, struct taken *t)
{
	const char *key = x->text;
	int at;

	t->call = x;
	if (x->kind == N_FN) {	/* conn.method */
		at = x->num < 0 ? arg_named(args, x->mod) : -1;
		t->arg = (unsigned)at;
		return at >= 0 && key != NULL && set_key(t, key);
	}
	if (x->kind != N_CALL)
		return false;
	at = -1;
	for (uint32_t i = 0; i < x->n; i++) {
		if (x->kid[i]->kind == N_ATOM && key == x->text)
			key = x->kid[i]->text;
		else if (at < 0 && x->kid[i]->kind == N_VAR)
			at = arg_named(args, x->kid[i]->text);
	}
	t->arg = (unsigned)at;
	return at >= 0 && set_key(t, key);
}

static bool
is_free(const struct line *l, const char *var)
{
	const struct node *args = l->head->kid[2];

	for (unsigned i = 0; i < l->n; i++)
		if (strcmp(l->taken[i].var, var) == 0)
			return false;
	for (unsigned i = 0; i < 2; i++)
		if (l->head->kid[i]->kind == N_VAR &&
		    strcmp(l->head->kid[i]->text, var) == 0)
			return false;
	return arg_named(args, var) < 0;
}

/* M for method; where that is taken, Method. */
static bool
name_var(const struct line *l, struct taken *t)
{
	char first = (char)(t->key[0] - 'a' + 'A');

	t->var[0] = first;
	t->var[1] = '\0';
	if (is_free(l, t->var))
		return true;
	snprintf(t->var, sizeof(t->var), "%c%s", first, t->key + 1);
	return is_free(l, t->var);
}

/* A part of the result: a call that takes something, or what may stay. */
static bool
add_result(struct line *l, const struct node *x)
{
	struct taken t = { .call = NULL };
	int at;

	if (x->kind == N_ATOM)
		return true;
	if (x->kind == N_VAR) {
		at = arg_named(l->head->kid[2], x->text);
		if (at >= 0)
			l->used[at] = true;
		return at >= 0;
	}
	if (!take(l->head->kid[2], x, &t))
		return false;
	for (unsigned i = 0; i < l->n; i++)
		if (l->taken[i].arg == t.arg &&
		    strcmp(l->taken[i].key, t.key) == 0)
			return false;
	if (l->n == TAKEN_MAX || !name_var(l, &t))
		return false;
	l->taken[l->n++] = t;
	return true;
}

/* ({m, f, [A, B]}) -> ..., without guards */
static bool
is_simple(const struct node *clause)
{
	const struct node *head = clause->kid[0], *args;

	if (clause->n != 2 || head->kind != N_TUPLE || head->n != 3 ||
	    head->kid[0]->kind != N_ATOM || head->kid[1]->kind != N_ATOM)
		return false;
	args = head->kid[2];
	if (args->kind != N_LIST || args->tail != NULL || args->n > ARGS_MAX)
		return false;
	for (uint32_t i = 0; i < args->n; i++)
		if (args->kid[i]->kind != N_VAR)
			return false;
	return true;
}

/* #{method := M, path := P}, the variable, or _ */
static void
put_arg(struct kp_buf *b, const struct line *l, unsigned arg)
{
	const struct node *v = l->head->kid[2]->kid[arg];
	const char *before = "#{";

	for (unsigned i = 0; i < l->n; i++) {
		if (l->taken[i].arg != arg)
			continue;
		kp_buf_printf(b, "%s%s := %s", before, l->taken[i].key,
		    l->taken[i].var);
		before = ", ";
	}
	if (*before == ',')
		kp_buf_str(b, l->used[arg] ? "} = " : "}");
	if (l->used[arg])
		kp_buf_str(b, v->text);
	else if (*before != ',')
		kp_buf_u8(b, '_');
}

static void
put_result(struct kp_buf *b, const struct line *l, const struct node *x)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->taken[i].call == x) {
			kp_buf_str(b, l->taken[i].var);
			return;
		}
	if (x->kind == N_ATOM)
		kp_atom_print(b, x->text);
	else
		kp_buf_str(b, x->text);
}

static void
put_line(struct kp_buf *b, const struct line *l)
{
	const struct node *const *head =
	    (const struct node *const *)l->head->kid;

	kp_buf_str(b, "({");
	kp_atom_print(b, head[0]->text);
	kp_buf_str(b, ", ");
	kp_atom_print(b, head[1]->text);
	kp_buf_str(b, ", [");
	for (unsigned i = 0; i < head[2]->n; i++) {
		kp_buf_str(b, i > 0 ? ", " : "");
		put_arg(b, l, i);
	}
	kp_buf_str(b, "]}) -> ");
	if (l->body->kind != N_TUPLE) {
		put_result(b, l, l->body);
		return;
	}
	for (uint32_t i = 0; i < l->body->n; i++) {
		kp_buf_str(b, i > 0 ? ", " : "{");
		put_result(b, l, l->body->kid[i]);
	}
	kp_buf_u8(b, '}');
}

/*
 * Writes the clause with patterns in place of the calls in its result:
 * "({m, f, [#{method := M}, _]}) -> M".  False: it is not that simple.
 */
static bool
ident_line(const struct node *clause, struct kp_buf *out)
{
	struct line l = { .head = clause->kid[0], .body = clause->kid[1] };

	if (!is_simple(clause))
		return false;
	if (l.body->kind != N_TUPLE) {
		if (!add_result(&l, l.body))
			return false;
	} else {
		for (uint32_t i = 0; i < l.body->n; i++)
			if (!add_result(&l, l.body->kid[i]))
				return false;
	}
	if (l.n == 0)
		return false;
	put_line(out, &l);
	return out->err == KP_OK;
}

/* The guard function that takes the same arguments; NULL: none does. */
static const char *
ident_guard_like(const struct node *call)
{
	static const struct {
		const char *mod, *fun;
		unsigned arity;
		const char *guard;
	} likes[] = { { "maps", "get", 2, "map_get" },
		{ "maps", "is_key", 2, "is_map_key" },
		{ "maps", "size", 1, "map_size" } };

	for (size_t i = 0; i < sizeof(likes) / sizeof(likes[0]); i++)
		if (call->mod != NULL && !call->alias &&
		    strcmp(call->mod, likes[i].mod) == 0 &&
		    strcmp(call->text, likes[i].fun) == 0 &&
		    call->n == likes[i].arity)
			return likes[i].guard;
	return NULL;
}

/* ---- checks ---- */

struct vars {
	const char *name[SPEC_VARS_MAX];
	unsigned n;
	struct kp_diags *diags;
	unsigned parts;	/* of the identity so far */
	const struct node *clause;
	bool shown;	/* how it is written without its calls */
	bool broken;	/* its arguments bind variables that are not known */
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
		v->broken = true;
		diag_error(v->diags, x->pos, "a pattern cannot look into a "
		    "binary: take it whole, and shorten it with {rewrite, "
		    "[{\"/users/.*\", \"/users/:id\"}]}");
		break;
	case N_CALL:
	case N_FN:
	case N_FUN:
	case N_CLAUSE:
	case N_GUARD:
		v->broken = true;
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

	v->broken |= x->kind == N_LIST && x->broken;
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
	else if (!v->broken && !is_bound(v, x->text))
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
		diag_error(v->diags, x->pos, "a result of more than %d "
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
	} else if (x->kind == N_TUPLE && x->n == 2 &&
	    (node_is_atom(x->kid[0], KP_LABEL_TAG) ||
	    node_is_atom(x->kid[0], "_other"))) {
		diag_error(v->diags, x->pos, "a result {'%s', _} is reserved",
		    x->kid[0]->text);
	} else if (x->kind == N_TUPLE && x->n <= IDENT_TUPLE_MAX) {
		for (uint32_t i = 0; i < x->n; i++)
			check_body(v, x->kid[i]);
	} else if (x->kind == N_TUPLE) {
		diag_error(v->diags, x->pos, "a tuple of %u, expected at most "
		    "%d elements in a result", x->n, IDENT_TUPLE_MAX);
	} else if (x->kind == N_STR && x->len > KP_IDENT_LIST_MAX) {
		diag_error(v->diags, x->pos, "a string of %zu, expected at "
		    "most %d characters in a result", x->len,
		    KP_IDENT_LIST_MAX);
	} else if (x->kind == N_BIN && x->len > KP_IDENT_BYTES_MAX) {
		diag_error(v->diags, x->pos, "a binary of %zu, expected at "
		    "most %d bytes in a result", x->len,
		    KP_IDENT_BYTES_MAX);
	} else if (x->kind == N_INT && (x->num > IDENT_INT_MAX ||
	    x->num < -IDENT_INT_MAX)) {
		expected(v, x, "an integer of at most 58 bits");
	} else if (!node_is_nil(x) && !x->broken &&
	    (x->kind == N_LIST || !node_is_literal(x))) {
		expected(v, x, "an atom, a string, a number, a binary, a "
		    "variable of the pattern or a tuple of these");
	}
}

static bool
names_meet(const struct kp_mfa_pat *p, const struct node *head)
{
	const struct node *m = head->kid[0], *f = head->kid[1];

	return (m->kind != N_ATOM || strcmp(m->text, p->mod) == 0) &&
	    (f->kind != N_ATOM || p->fun == NULL || strcmp(f->text, p->fun) == 0);
}

static bool
functions_meet(const struct kp_mfa_pat *p, const struct node *head)
{
	const struct node *args = head->kid[2];

	if (!names_meet(p, head))
		return false;
	if (args->kind != N_LIST || p->arity < 0)
		return true;
	return args->tail == NULL ? (int)args->n == p->arity :
	    (int)args->n <= p->arity;
}

/* kprof:trace_id/1, which no tier names: the library calls it. */
static bool
is_trace_mark(const struct node *head)
{
	static char mod[] = KP_MARK_MODULE, fun[] = "trace_id";
	static const struct kp_mfa_pat mark = { .mod = mod, .fun = fun, .arity = 1 };

	return functions_meet(&mark, head);
}

/* A clause for a function that is not traced is probably a mistake. */
static void
warn_unmet(const struct kp_conf *c, const struct node *head,
    struct kp_diags *d)
{
	const struct kp_mfa_pat *p, *near = NULL;
	uint32_t given = head->kid[2]->n;

	if (is_trace_mark(head))
		return;
	for (size_t i = 0; i < c->ntiers; i++)
		for (p = c->tiers[i].fns; p < c->tiers[i].fns + c->tiers[i].nfns; p++) {
			if (functions_meet(p, head))
				return;
			near = names_meet(p, head) ? p : near;
		}
	for (size_t i = 0; i < c->nentries; i++) {
		p = &c->entries[i].fn;
		if (functions_meet(p, head))
			return;
		near = names_meet(p, head) ? p : near;
	}
	if (near == NULL)
		diag_warn(d, head->pos, "no tier and no entry names a function that "
		    "this clause is for");
	else
		diag_warn(d, head->kid[2]->pos, "this clause has a pattern for %u "
		    "argument%s, and %s has %d", given, given == 1 ? "" : "s",
		    near->fun != NULL ? near->fun : near->mod, near->arity);
}

/* The first text in a pattern or a guard that is a list of characters; NULL: none. */
static const struct node *
find_text(const struct node *x)
{
	const struct node *found = x->kind == N_STR && x->len > 0 ? x : NULL;

	for (uint32_t i = 0; i < x->n && found == NULL; i++)
		found = find_text(x->kid[i]);
	return found;
}

/* In a clause for a module of Elixir, whose strings are binaries. */
static void
warn_text(const struct node *x, struct kp_diags *d)
{
	const struct node *mod = x->kid[0]->kid[0], *text;

	if (!(mod->kind == N_ATOM && strncmp(mod->text, "Elixir.", 7) == 0) &&
	    !is_module_alias(mod))
		return;
	text = find_text(x->kid[0]->kid[2]);
	for (uint32_t i = 2; i < x->n && text == NULL; i++)
		text = find_text(x->kid[i]);
	if (text != NULL)
		diag_warn(d, text->pos, "\"...\" is a list of characters here, and "
		    "Elixir's strings are binaries: <<\"...\">>");
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
	if (d->errors != errors || x->kid[0]->kind != N_TUPLE)
		return;
	warn_text(x, d);
	if (!missing)
		warn_unmet(c, x->kid[0], d);
}

bool
fun_check(const struct kp_conf *c, const struct node *fun,
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

static bool
may_be_same(const struct node *a, const struct node *b)
{
	return a->kind != N_ATOM || b->kind != N_ATOM || strcmp(a->text, b->text) == 0;
}

/* May two patterns {Module, Function, Args} be for one function? */
static bool
heads_meet(const struct node *a, const struct node *b)
{
	const struct node *x = a->kid[2], *y = b->kid[2];

	return may_be_same(a->kid[0], b->kid[0]) && may_be_same(a->kid[1], b->kid[1]) &&
	    (x->kind != N_LIST || y->kind != N_LIST || x->tail != NULL ||
	    y->tail != NULL || x->n == y->n);
}

/* The first clause of the identity fun that names calls which `head` is for; NULL. */
static const struct node *
naming(const struct node *identity, const struct node *head)
{
	const struct node *x;

	for (uint32_t i = 0; identity != NULL && i < identity->n; i++) {
		x = identity->kid[i]->kid[0];
		if (!node_is_atom(identity->kid[i]->kid[1], "undefined") &&
		    x->kind == N_TUPLE && heads_meet(x, head))
			return x;
	}
	return NULL;
}

/* Without entries in the file they are the first tier's functions. */
static bool
is_of_entry(const struct kp_conf *c, const struct node *head)
{
	for (size_t i = 0; i < c->nentries; i++)
		if (functions_meet(&c->entries[i].fn, head))
			return true;
	for (size_t i = 0; c->nentries == 0 && c->ntiers > 0 &&
	    i < c->tiers[0].nfns; i++)
		if (functions_meet(&c->tiers[0].fns[i], head))
			return true;
	return false;
}

/* A call has an identity or a label: an entry's the first, any other's the second. */
void
label_check(const struct kp_conf *c, struct kp_diags *d)
{
	const struct node *fun = c->funs->label, *head, *names;

	for (uint32_t i = 0; fun != NULL && i < fun->n; i++) {
		head = fun->kid[i]->kid[0];
		names = head->kind == N_TUPLE &&
		    !node_is_atom(fun->kid[i]->kid[1], "undefined") ?
		    naming(c->funs->identity, head) : NULL;
		if (names == NULL)
			continue;
		if (is_of_entry(c, head))
			diag_warn(d, head->pos, "these are calls of an entry, which the "
			    "identity fun names on line %u: they have no label",
			    names->pos.line);
		else if (names->kid[1]->kind == N_ATOM)
			diag_warn(d, head->pos, "calls that have a label name no "
			    "request: line %u is for these, too", names->pos.line);
	}
}

void
trace_check(const struct kp_conf *c, bool missing, struct kp_diags *d)
{
	const struct node *fun = c->funs->trace, *head, *x;

	for (uint32_t i = 0; fun != NULL && i < fun->n; i++) {
		head = fun->kid[i]->kid[0];
		x = fun->kid[i]->kid[1];
		if (x->kind != N_VAR && x->kind != N_CALL && !node_is_atom(x, "undefined"))
			node_expected(d, x, "what has the traceparent whole, such as a "
			    "variable of the pattern, or undefined");
		else if (!missing && head->kind == N_TUPLE && x->kind != N_ATOM &&
		    !is_of_entry(c, head) && !is_trace_mark(head))
			diag_warn(d, head->pos, "no entry is a function that this clause "
			    "is for: a request has the traceparent of its entry's call");
	}
}
