/*
 * entry.c - ranks functions that may begin requests, knows those of frameworks, and
 * looks for an argument that distinguishes requests: a web request, an atom, a map with
 * an atom in it, or a tuple that begins with an atom.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/term.h"
#include "stock_confs.h"		/* priv/examples */
#include "suggest/propose.h"

#define ARGS_MAX 16	/* of a function; those behind are not looked at */
/*
 * Waiting for a message or a socket counts less: an idle connection does that all
 * day.
 */
#define IDLE_WAIT 0.3
#define MODULES_MAX 64		/* more say no more about an entry */
#define CALLS_LEAST 3		/* fewer show little */
#define WORKER 0.2		/* who works for others begins no request */
#define POOLED 0.8		/* of the time is in workers of pools */
#define WORKER_MODULES 1	/* pools of those who serve requests call more */

struct tops {
	const struct suggest_tree *c;
	uint32_t *top;		/* by frame */
	double *active;		/* by frame, of a top: time that counts */
	kp_dur_ns *waits;
};

static double
active_time(const struct suggest_frame *s)
{
	return (double)s->own + (double)s->wait[SUGGEST_WAIT_CALL] +
	    (double)s->wait[SUGGEST_WAIT_PORT] +
	    IDLE_WAIT * ((double)s->wait[SUGGEST_WAIT_INPUT] +
	    (double)s->wait[SUGGEST_WAIT_OTHER]);
}

static bool
tops_find(struct tops *t)
{
	const struct suggest_tree *c = t->c;
	const struct suggest_frame *s;

	t->top = calloc(c->nframes, sizeof(*t->top));
	t->active = calloc(c->nframes, sizeof(*t->active));
	t->waits = calloc(c->nframes, sizeof(*t->waits));
	if (t->top == NULL || t->active == NULL || t->waits == NULL)
		return false;
	for (uint32_t i = 1; i < c->nframes; i++) {
		s = &c->frames[i];
		t->top[i] = s->parent == 0 ? i : t->top[s->parent];
		t->active[t->top[i]] += active_time(s);
		for (unsigned k = 0; k < SUGGEST_WAITS; k++)
			t->waits[t->top[i]] += s->wait[k];
	}
	return true;
}

/* Distinct modules below a top that are called in at least one request of ten. */
static unsigned
modules_below(const struct tops *t, uint32_t top)
{
	const struct suggest_tree *c = t->c;
	uint32_t seen[MODULES_MAX];
	unsigned n = 0, k;

	for (uint32_t i = top + 1; i < c->nframes && n < MODULES_MAX; i++) {
		if (t->top[i] != top ||
		    c->frames[i].calls * 10 < c->frames[top].calls ||
		    suggest_same_module(c->names, c->frames[i].fn,
		    c->frames[top].fn))
			continue;
		for (k = 0; k < n && !suggest_same_module(c->names,
		    c->frames[i].fn, seen[k]); k++)
			;
		if (k == n)
			seen[n++] = c->frames[i].fn;
	}
	return n;
}

static struct suggest_entry
judge(const struct tops *t, const struct suggest_fn *fns, uint32_t top)
{
	const struct suggest_frame *s = &t->c->frames[top];
	struct suggest_entry e = { .fn = s->fn, .calls = s->calls,
		.total = s->total, .samples = s->samples, .modules = modules_below(t, top) };

	e.score = t->active[top] * (1 + e.modules);
	if (!fns[s->fn].exported)
		e.score *= 0.8;
	if (e.calls < CALLS_LEAST)
		e.score *= 0.3;
	/* Its end was hardly ever seen. */
	if (e.calls > 0 && e.total / (kp_dur_ns)e.calls > t->c->span / 2)
		e.score *= 0.1;
	e.waits = (double)t->waits[top] > 0.97 * (double)s->total;
	if (e.waits && e.modules == 0)
		e.score *= 0.02;
	e.worker = s->pooled > 0 && e.modules <= WORKER_MODULES &&
	    (double)s->pooled >= POOLED * (double)s->total;
	if (e.worker)
		e.score *= WORKER;
	e.cut = s->whole * 2 < s->total;
	return e;
}

static void
keep_best(struct suggest_entry *v, size_t *n, struct suggest_entry e)
{
	size_t at = SUGGEST_ENTRIES_MAX - 1;

	if (*n < SUGGEST_ENTRIES_MAX)
		at = (*n)++;
	else if (v[at].score >= e.score)
		return;
	for (; at > 0 && v[at - 1].score < e.score; at--)
		v[at] = v[at - 1];
	v[at] = e;
}

/* A server's callbacks, behind everything else. */
static void
callbacks(const struct suggest_tree *c, const struct suggest_fn *fns,
    struct suggest_entry *v, size_t *n)
{
	const struct suggest_callback *a;

	for (uint32_t i = 0; i < c->ncallbacks && *n < SUGGEST_ENTRIES_MAX; i++) {
		a = &c->callbacks[i];
		if (!fns[a->fn].callback || a->calls < CALLS_LEAST)
			continue;
		keep_best(v, n, (struct suggest_entry){ .fn = a->fn,
		    .calls = a->calls, .total = a->total, .callback = true,
		    .score = (double)a->total * 1e-9 });
	}
}

size_t
suggest_entries(const struct suggest_tree *c, const struct suggest_fn *fns,
    struct suggest_entry *v)
{
	struct tops t = { .c = c };
	size_t n = 0;

	if (tops_find(&t))
		for (uint32_t i = 1; i < c->nframes; i++)
			if (c->frames[i].parent == 0 && c->frames[i].calls > 0 &&
			    !fns[c->frames[i].fn].unnamed)
				keep_best(v, &n, judge(&t, fns, i));
	free(t.top);
	free(t.active);
	free(t.waits);
	callbacks(c, fns, v, &n);
	return n;
}

/* ---- frameworks ---- */

#define STOCK(name) .example = #name ".conf", .stock = (const char *)stock_##name

const struct suggest_framework suggest_frameworks[] = {
	{ "Elixir.Phoenix.Router", "Phoenix", "serves HTTP", STOCK(phoenix),
	    .layers = true },
	{ "rabbit_channel", "RabbitMQ", "is a message broker", STOCK(rabbitmq),
	    .whole = true },
	{ "ejabberd_c2s", "ejabberd", "is an XMPP server", STOCK(ejabberd),
	    .whole = true },
	{ "cowboy", "cowboy", "serves HTTP", STOCK(cowboy) },
	{ .module = "Elixir.Bandit", .name = "Bandit", .does = "serves HTTP" },
	{ .module = "Elixir.Plug.Conn", .name = "Plug",
	    .does = "has HTTP requests" },
	{ .module = "elli", .name = "elli", .does = "serves HTTP" },
	{ .module = "mochiweb_http", .name = "mochiweb",
	    .does = "serves HTTP" },
	{ .module = "yaws_server", .name = "yaws", .does = "serves HTTP" },
	{ .module = "Elixir.Ecto.Repo", .name = "Ecto",
	    .does = "asks databases" },
	{ .module = "Elixir.DBConnection", .name = "DBConnection",
	    .does = "has pools of database connections" },
	{ .module = "Elixir.Postgrex", .name = "Postgrex",
	    .does = "asks PostgreSQL" },
	{ .module = "epgsql", .name = "epgsql", .does = "asks PostgreSQL" },
	{ .module = "eredis", .name = "eredis", .does = "asks Redis" },
	{ .module = "Elixir.Redix", .name = "Redix", .does = "asks Redis" },
	{ .module = "hackney", .name = "hackney", .does = "asks by HTTP" },
	{ .module = "gun", .name = "gun", .does = "asks by HTTP" },
	{ .module = "Elixir.Finch", .name = "Finch", .does = "asks by HTTP" },
	{ .module = "ibrowse", .name = "ibrowse", .does = "asks by HTTP" },
	{ .module = "httpc", .name = "httpc", .does = "asks by HTTP" },
	{ .module = "poolboy", .name = "poolboy", .does = "has pools" },
	{ .module = "mnesia_tm", .name = "mnesia", .does = "is a database" },
};
const size_t suggest_nframeworks = sizeof(suggest_frameworks) / sizeof(suggest_frameworks[0]);

/* ---- the identity fun: the example ---- */

struct args {
	const char *p[ARGS_MAX];
	size_t n[ARGS_MAX];
	unsigned count;
};

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
	while (a->count < ARGS_MAX) {
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

/* ---- the identity fun: its clause ---- */

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

/* How servers that are widely used write a request, as a tuple. */
static bool
web_tuple(const struct out *o, unsigned at, const struct args *elements)
{
	static const struct {
		const char *tag, *shown;	/* shown: what element i is like */
		unsigned i;
		const char *pattern, *guard, *value;
	} kinds[] = {
		/* erlang:decode_packet/3 */
		{ "http_request", "{_, _}", 3, "{http_request, M, {abs_path, P}, _}",
		    "M =/= undefined", "{M, P}" },
		{ "mochiweb_request", "list", 1,
		    "{mochiweb_request, [_, _, M, P | _]}",
		    "M =/= undefined", "{M, P}" },
		/* #mod{} of httpd, in inets */
		{ "mod", "... 14 elements", 5,
		    "{mod, _, _, _, _, _, M, _, P, _, _, _, _, _}",
		    "M =/= undefined", "{M, P}" },
		/* #arg{} of yaws, with the first of these in it */
		{ "arg", "{_, _, _, _}", 4, "A",
		    "element(1, element(5, A)) =:= http_request",
		    "{element(2, element(5, A)), "
		    "element(2, element(3, element(5, A)))}" } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (elements->count <= kinds[i].i || !is(elements, 0, kinds[i].tag) ||
		    !is(elements, kinds[i].i, kinds[i].shown))
			continue;
		put_clause(o, at, kinds[i].pattern, kinds[i].guard, kinds[i].value);
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
	return false;
}

static bool
structure(const struct out *o, unsigned at, const struct args *keys)
{
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

static bool
clause_try(const struct out *o, const struct args *a, unsigned i,
    enum suggest_type w)
{
	bool whole = a->p[i][a->n[i] - 1] == '}';
	bool map = whole && begins(a, i, "#{"), tup = whole && begins(a, i, "{");
	struct args in = { .count = 0 };

	if (map || tup)
		parts(a->p[i] + (map ? 2 : 1), &in);
	if (w == SUGGEST_WEB)
		return map ? web(o, i, &in) : tup && web_tuple(o, i, &in);
	if (w == SUGGEST_MAP)
		return map && map_atom(o, i, &in);
	if (w == SUGGEST_STRUCT)
		return map && structure(o, i, &in);
	if (w == SUGGEST_TUPLE)
		return tup && tuple(o, i, &in);
	if (!is_atom(a, i))
		return false;
	put_clause(o, i, "A", "is_atom(A)", "A");
	kp_buf_printf(o->why, "argument %u is an atom", i + 1);
	return true;
}

enum suggest_type
suggest_identity(const struct kp_mfa *f, const char *example,
    struct kp_buf *clause, struct kp_buf *why)
{
	const struct out o = { f, clause, why };
	const char *open = strchr(example, '(');
	struct args a = { .count = 0 };

	if (open != NULL)
		parts(open + 1, &a);
	for (int w = SUGGEST_WEB; w < SUGGEST_NO_TYPE; w++)
		for (unsigned i = 0; i < a.count && i < f->arity; i++)
			if (clause_try(&o, &a, i, (enum suggest_type)w))
				return (enum suggest_type)w;
	kp_buf_str(clause, "({");
	kp_atom_print(clause, f->mod);
	kp_buf_str(clause, ", ");
	kp_atom_print(clause, f->fun);
	kp_buf_str(clause, ", _}) -> ");
	kp_atom_print(clause, f->fun);
	kp_buf_str(why, "no argument's type distinguishes requests");
	return SUGGEST_NO_TYPE;
}
