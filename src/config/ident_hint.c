/*
 * ident_hint.c - shows which pattern does what a call in an identity was to do.
 *
 * A match spec calls no functions, but most calls that people write take one
 * value out of an argument: cowboy_req:method(R), maps:get(method, R, none),
 * conn.method.  A pattern for a map can do that, so the hint is the whole clause,
 * with such a pattern for the argument.
 */
#include <stdio.h>
#include <string.h>

#include "config/lang.h"
#include "kprofd/term.h"

#define ARGS_MAX 16		/* of a function; others get no hint */
#define TAKEN_MAX IDENT_TUPLE_MAX
#define NAME_MAX 40u		/* bytes of a key, and of a variable */
#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

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
add_part(struct line *l, const struct node *x)
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
put_part(struct kp_buf *b, const struct line *l, const struct node *x)
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
		put_part(b, l, l->body);
		return;
	}
	for (uint32_t i = 0; i < l->body->n; i++) {
		kp_buf_str(b, i > 0 ? ", " : "{");
		put_part(b, l, l->body->kid[i]);
	}
	kp_buf_u8(b, '}');
}

bool
ident_line(const struct node *clause, struct kp_buf *out)
{
	struct line l = { .head = clause->kid[0], .body = clause->kid[1] };

	if (!is_simple(clause))
		return false;
	if (l.body->kind != N_TUPLE) {
		if (!add_part(&l, l.body))
			return false;
	} else {
		for (uint32_t i = 0; i < l.body->n; i++)
			if (!add_part(&l, l.body->kid[i]))
				return false;
	}
	if (l.n == 0)
		return false;
	put_line(out, &l);
	return out->err == KP_OK;
}

const char *
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
