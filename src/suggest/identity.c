/*
 * identity.c - looks for an argument that tells requests apart: a web request, an
 * atom, a map with an atom in it, or a tuple that begins with an atom.
 */
#include <stdio.h>
#include <string.h>

#include "kprofd/term.h"
#include "suggest/identity.h"

struct args {
	const char *p[SUGGEST_ARGS_MAX];
	size_t n[SUGGEST_ARGS_MAX];
	unsigned count;
};

/* ---- the example ---- */

/* The length of a part that ends at a comma or at a closing bracket. */
static size_t
part_length(const char *s)
{
	unsigned depth = 0;
	char quote = '\0';
	size_t i;

	for (i = 0; s[i] != '\0'; i++) {
		if (quote != '\0') {
			if (s[i] == '\\' && s[i + 1] != '\0')
				i++;
			else if (s[i] == quote)
				quote = '\0';
		} else if (s[i] == '\'' || s[i] == '"') {
			quote = s[i];
		} else if (strchr("({[", s[i]) != NULL) {
			depth++;
		} else if (strchr(")}]", s[i]) != NULL) {
			if (depth-- == 0)
				return i;
		} else if (s[i] == ',' && depth == 0) {
			return i;
		}
	}
	return i;
}

/* s: behind the opening bracket. */
static void
parts(const char *s, struct args *a)
{
	size_t n;

	a->count = 0;
	while (a->count < SUGGEST_ARGS_MAX) {
		s += strspn(s, " ");
		n = part_length(s);
		if (n > 0) {
			a->p[a->count] = s;
			a->n[a->count++] = n;
		}
		if (s[n] != ',')
			return;
		s += n + 1;
	}
}

static bool
is(const struct args *a, unsigned i, const char *text)
{
	return a->n[i] == strlen(text) && memcmp(a->p[i], text, a->n[i]) == 0;
}

static bool
begins(const struct args *a, unsigned i, const char *text)
{
	return a->n[i] >= strlen(text) &&
	    memcmp(a->p[i], text, strlen(text)) == 0;
}

/* An atom: "atom", or one that is shown, such as ok or 'GET'. */
static bool
is_atom(const struct args *a, unsigned i)
{
	static const char *const others[] = { "binary", "integer", "float",
		"pid", "port", "reference", "fun", "list", "bitstring", "term" };

	for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
		if (is(a, i, others[k]))
			return false;
	return a->p[i][0] == '\'' ||
	    (a->p[i][0] >= 'a' && a->p[i][0] <= 'z');
}

/* "key := binary", "key := atom", or a small value of that type */
static bool
has_key(const struct args *keys, const char *key, const char *type)
{
	struct args v = { .count = 1 };
	size_t n = strlen(key);

	for (unsigned i = 0; i < keys->count; i++) {
		if (!begins(keys, i, key) || keys->n[i] < n + 5 ||
		    memcmp(keys->p[i] + n, " := ", 4) != 0)
			continue;
		v.p[0] = keys->p[i] + n + 4;
		v.n[0] = keys->n[i] - n - 4;
		return strcmp(type, "atom") == 0 ? is_atom(&v, 0) :
		    is(&v, 0, type) || begins(&v, 0, "<<");
	}
	return false;
}

/* ---- the clause ---- */

struct out {
	const struct kp_mfa *f;
	struct kp_buf *clause, *why;
};

/* ({m, f, [_, pattern, _]}) when guard -> value */
static void
put_clause(const struct out *o, unsigned at, const char *pattern,
    const char *guard, const char *value)
{
	kp_buf_str(o->clause, "({");
	kp_atom_print(o->clause, o->f->mod);
	kp_buf_str(o->clause, ", ");
	kp_atom_print(o->clause, o->f->fun);
	kp_buf_str(o->clause, ", [");
	for (unsigned i = 0; i < o->f->arity; i++) {
		kp_buf_str(o->clause, i > 0 ? ", " : "");
		kp_buf_str(o->clause, i == at ? pattern : "_");
	}
	kp_buf_printf(o->clause, "]})\n        when %s -> %s", guard, value);
}

static bool
web(const struct out *o, unsigned at, const struct args *keys)
{
	static const char *const paths[] = { "path", "request_path" };
	char pattern[96];

	for (unsigned i = 0; i < 2; i++) {
		if (!has_key(keys, "method", "binary") ||
		    !has_key(keys, paths[i], "binary"))
			continue;
		snprintf(pattern, sizeof(pattern), "#{method := M, %s := P}",
		    paths[i]);
		put_clause(o, at, pattern, "is_binary(M), is_binary(P)",
		    "{M, P}");
		kp_buf_printf(o->why, "argument %u is a web request", at + 1);
		return true;
	}
	return false;
}

static bool
map_atom(const struct out *o, unsigned at, const struct args *keys)
{
	static const char *const names[] = { "type", "action", "command",
		"event", "method", "name" };
	char pattern[96];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!has_key(keys, names[i], "atom"))
			continue;
		snprintf(pattern, sizeof(pattern), "#{%s := A}", names[i]);
		put_clause(o, at, pattern, "is_atom(A)", "A");
		kp_buf_printf(o->why, "argument %u is a map with %s", at + 1,
		    names[i]);
		return true;
	}
	if (keys->count == 0 || !begins(keys, 0, "'__struct__'"))
		return false;
	put_clause(o, at, "#{'__struct__' := A}", "is_atom(A)", "A");
	kp_buf_printf(o->why, "argument %u is a struct", at + 1);
	return true;
}

/* By its first element, or by that of its first element. */
static bool
tuple(const struct out *o, unsigned at, const struct args *elements)
{
	if (elements->count == 0)
		return false;
	if (is_atom(elements, 0)) {
		put_clause(o, at, "A", "is_tuple(A), is_atom(element(1, A))",
		    "element(1, A)");
		kp_buf_printf(o->why, "argument %u is a tuple that begins "
		    "with an atom", at + 1);
		return true;
	}
	if (elements->p[0][0] != '{' || elements->n[0] < 3)
		return false;
	put_clause(o, at, "A", "is_tuple(A), is_tuple(element(1, A)), "
	    "is_atom(element(1, element(1, A)))", "element(1, element(1, A))");
	kp_buf_printf(o->why, "argument %u is a tuple that begins with a tuple",
	    at + 1);
	return true;
}

enum wish { WEB, ATOM, MAP, TUPLE, WISHES };

static bool
try(const struct out *o, const struct args *a, unsigned i, enum wish w)
{
	bool whole = a->p[i][a->n[i] - 1] == '}';
	bool map = whole && begins(a, i, "#{"), tup = whole && begins(a, i, "{");
	struct args in = { .count = 0 };

	if (map || tup)
		parts(a->p[i] + (map ? 2 : 1), &in);
	if (w == WEB)
		return map && web(o, i, &in);
	if (w == MAP)
		return map && map_atom(o, i, &in);
	if (w == TUPLE)
		return tup && tuple(o, i, &in);
	if (!is_atom(a, i))
		return false;
	put_clause(o, i, "A", "is_atom(A)", "A");
	kp_buf_printf(o->why, "argument %u is an atom", i + 1);
	return true;
}

bool
suggest_identity(const struct kp_mfa *f, const char *example,
    struct kp_buf *clause, struct kp_buf *why)
{
	const struct out o = { f, clause, why };
	const char *open = strchr(example, '(');
	struct args a = { .count = 0 };

	if (open != NULL)
		parts(open + 1, &a);
	for (int w = WEB; w < WISHES; w++)
		for (unsigned i = 0; i < a.count && i < f->arity; i++)
			if (try(&o, &a, i, (enum wish)w))
				return w == WEB;
	kp_buf_str(clause, "({");
	kp_atom_print(clause, f->mod);
	kp_buf_str(clause, ", ");
	kp_atom_print(clause, f->fun);
	kp_buf_str(clause, ", _}) -> ");
	kp_atom_print(clause, f->fun);
	kp_buf_str(why, "no argument's type tells requests apart");
	return false;
}
