/*
 * conf_fns.c - functions, tiers and entries of a tiers.conf; how a function is written
 * that stands there as code has it; and the functions by which applications mark requests.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/conf_ctx.h"
#include "kprofd/term.h"

#define HINT_MAX 1000u	/* bytes: less than a message has */
#define ARITY_MAX 255
#define ELIXIR "Elixir."

static const char fn_forms[] = "{Module, Function, Arity} or "
    "\"Module:Function/Arity\"";

/*
 * ---- how a function is written, where it stands there as code has it:
 * shop_handler:init/2, {MyApp.Repo, :all, 2}, MyApp.Repo ----
 */

/* The function that was probably meant. */
struct meant {
	const char *mod, *fun;	/* NULL: not given */
	bool alias;		/* mod is an alias of Elixir */
	int64_t arity;		/* -1: any, or not given */
};

static bool
is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* :all */
static bool
is_elixir_atom(const struct node *v)
{
	return v->kind == N_FN && v->text == NULL && v->mod != NULL &&
	    !v->alias;
}

static bool
mean_module(const struct node *v, struct meant *m)
{
	if (v->kind == N_ATOM && v->len > 0 && !node_is_atom(v, "_")) {
		m->mod = v->text;
		return true;
	}
	if (v->kind == N_VAR && is_upper(v->text[0])) {
		m->mod = v->text;
		m->alias = true;
		return true;
	}
	if (v->kind != N_FN || v->text != NULL || v->num >= 0)
		return false;
	m->mod = v->mod;
	m->alias = v->alias;
	return v->mod != NULL;
}

static bool
mean_arity(const struct node *v, struct meant *m)
{
	if (v->kind == N_INT && v->num >= 0 && v->num <= ARITY_MAX)
		m->arity = v->num;
	return m->arity >= 0 || node_is_atom(v, "_") || node_is_wildcard(v);
}

/* init, :init, init/2 or :init/2 */
static bool
mean_fun(const struct node *v, struct meant *m)
{
	if (v->kind == N_OP && v->n == 2 && strcmp(v->text, "/") == 0 &&
	    v->kid[0]->kind == N_ATOM && mean_arity(v->kid[1], m))
		v = v->kid[0];
	if (is_elixir_atom(v)) {
		m->fun = v->mod;
		m->arity = v->num;
		return true;
	}
	m->fun = v->text;
	return v->kind == N_ATOM && v->len > 0;
}

/* The elements of a tuple, or of one that lacks its own braces. */
static bool
mean_parts(struct node *const *kid, uint32_t n, struct meant *m)
{
	return (n == 2 || n == 3) && mean_module(kid[0], m) &&
	    mean_fun(kid[1], m) && (n == 2 || mean_arity(kid[2], m));
}

static bool
mean(const struct node *v, struct meant *m)
{
	switch (v->kind) {
	case N_FN:
		if (is_elixir_atom(v) && v->num >= 0)
			return mean_fun(v, m);
		m->mod = v->mod;
		m->alias = v->alias;
		m->fun = v->text;
		m->arity = v->num;
		return true;
	case N_CALL:
		m->mod = v->mod;
		m->alias = v->alias;
		m->fun = v->text;
		m->arity = v->n <= ARITY_MAX ? (int64_t)v->n : -1;
		return true;
	case N_OP:
		return mean_fun(v, m);
	case N_TUPLE:
		return mean_parts(v->kid, v->n, m);
	default:
		return mean_module(v, m);
	}
}

/* Is it a function's name that Elixir writes without quotes? */
static bool
is_plain(const char *fun)
{
	size_t n = strspn(fun, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
	    "VWXYZ0123456789_");

	return n > 0 && !is_upper(fun[0]) && (fun[n] == '\0' ||
	    ((fun[n] == '?' || fun[n] == '!') && fun[n + 1] == '\0'));
}

/* "Shop.Repo.all/2" */
static void
put_alias(struct kp_buf *b, const char *mod, const struct meant *m)
{
	if (m->fun == NULL) {
		kp_buf_printf(b, "\"%s.function/arity\", or \"%s\" for all "
		    "that it exports", mod, mod);
		return;
	}
	kp_buf_printf(b, "\"%s.%s", mod, m->fun);
	if (m->arity >= 0)
		kp_buf_printf(b, "/%" PRId64 "\"", m->arity);
	else
		kp_buf_str(b, "/_\"");
}

/* {shop_handler, init, 2} */
static void
put_tuple(struct kp_buf *b, const struct meant *m)
{
	kp_buf_str(b, m->alias ? "{'" ELIXIR : "{");
	if (m->alias)
		kp_buf_printf(b, "%s'", m->mod);
	else if (m->mod != NULL)
		kp_atom_print(b, m->mod);
	else
		kp_buf_str(b, "Module");
	kp_buf_str(b, ", ");
	if (m->fun != NULL)
		kp_atom_print(b, m->fun);
	else
		kp_buf_str(b, "Function");
	if (m->arity >= 0)
		kp_buf_printf(b, ", %" PRId64 "}", m->arity);
	else
		kp_buf_str(b, m->fun == NULL ? ", Arity}" : ", '_'}");
	if (m->fun != NULL)
		return;
	kp_buf_str(b, ", or \"");
	kp_atom_print(b, m->mod);
	kp_buf_str(b, "\" for all that it exports");
}

static void
put_meant(struct kp_buf *b, struct meant *m)
{
	if (m->alias && strncmp(m->mod, ELIXIR, strlen(ELIXIR)) == 0)
		m->mod += strlen(ELIXIR);
	if (m->alias && (m->fun == NULL || is_plain(m->fun)))
		put_alias(b, m->mod, m);
	else
		put_tuple(b, m);
}

static bool
report_meant(struct conf_ctx *x, const struct node *at, const char *name,
    struct meant *m)
{
	char found[NODE_TEXT_MAX];
	struct kp_buf b;
	bool fits;

	kp_buf_init(&b, HINT_MAX);
	if (name != NULL) {
		kp_buf_u8(&b, '{');
		kp_atom_print(&b, name);
		kp_buf_str(&b, ", ");
	}
	put_meant(&b, m);
	if (name != NULL)
		kp_buf_u8(&b, '}');
	if (m->fun != NULL && m->arity < 0)
		kp_buf_str(&b, " (_: any arity)");
	fits = b.err == KP_OK;
	if (fits)
		diag_error(x->diags, at->pos, "found %s, expected %s",
		    node_describe(at, found), kp_buf_cstr(&b));
	kp_buf_free(&b);
	return fits;
}

/* Of a function that stands there as code has it; false: it is not like one. */
static bool
conf_fn_hint(struct conf_ctx *x, const struct node *v)
{
	struct meant m = { .arity = -1 };

	return mean(v, &m) && report_meant(x, v, NULL, &m);
}

bool
conf_flat_hint(struct conf_ctx *x, const struct node *v)
{
	struct meant m = { .arity = -1 };

	return v->n > 2 && v->kid[0]->kind == N_ATOM &&
	    mean_parts(v->kid + 1, v->n - 1, &m) && m.fun != NULL &&
	    report_meant(x, v, v->kid[0]->text, &m);
}

/* ---- functions ---- */

/* Copies an atom's name, or NULL for '_'; false: another term, or no memory. */
static bool
take_atom(struct conf_ctx *x, const struct node *v, const char *what,
    bool any_ok, char **out)
{
	*out = NULL;
	if (v->kind != N_ATOM || v->len == 0 ||
	    (!any_ok && node_is_atom(v, "_"))) {
		conf_expected(x, v, what);
		return false;
	}
	if (node_is_atom(v, "_"))
		return true;
	*out = strdup(v->text);
	x->nomem |= *out == NULL;
	return *out != NULL;
}

/* 'MyApp.Repo': a module of Elixir without its prefix? */
static bool
is_bare_elixir(const char *mod)
{
	size_t n = strspn(mod, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");

	/* 'ELDAPv3' is one of OTP's. */
	return is_upper(mod[0]) && mod[n] == '\0' && strchr(mod, '.') != NULL &&
	    strncmp(mod, ELIXIR, strlen(ELIXIR)) != 0;
}

static bool
take_tuple(struct conf_ctx *x, const struct node *v, struct kp_mfa_pat *p)
{
	const struct node *a;
	bool ok;

	a = v->kid[2];
	ok = take_atom(x, v->kid[0], "a module's name", false, &p->mod) &
	    take_atom(x, v->kid[1], "a function's name or '_'", true, &p->fun);
	if (node_is_atom(a, "_")) {
		p->arity = -1;
	} else if (a->kind == N_INT && a->num >= 0 && a->num <= ARITY_MAX) {
		p->arity = (int)a->num;
	} else {
		conf_expected(x, a, "an arity within 0..255 or '_'");
		ok = false;
	}
	if (ok && is_bare_elixir(p->mod))
		diag_warn(x->diags, v->kid[0]->pos, "a module of Elixir has the name "
		    "'" ELIXIR "%s': is {'" ELIXIR "%s', ...} meant?", p->mod, p->mod);
	return ok;
}

static bool
take_text(struct conf_ctx *x, const struct node *v, struct kp_mfa_pat *p)
{
	char *s = conf_string(x, v, fn_forms);
	enum kp_err err;

	if (s == NULL)
		return false;
	err = kp_mfa_pat_parse(p, s, strlen(s));
	free(s);
	if (err == KP_ENOMEM)
		x->nomem = true;
	else if (err != KP_OK)
		conf_expected(x, v, "\"module:function/arity\", "
		    "\"Module.function/arity\" or \"module\"");
	return err == KP_OK;
}

/* Is it of three, with neither an alias nor an atom of Elixir in it? */
static bool
is_plain_tuple(const struct node *v)
{
	return v->kind == N_TUPLE && v->n == 3 && v->kid[0]->kind != N_FN &&
	    (v->kid[0]->kind != N_VAR || node_is_wildcard(v->kid[0])) &&
	    v->kid[1]->kind != N_FN;
}

/* One function; true: *p is the caller's to free. */
static bool
take_function(struct conf_ctx *x, const struct node *v, struct kp_mfa_pat *p)
{
	bool ok;

	*p = (struct kp_mfa_pat){ .arity = -1 };
	if (is_plain_tuple(v)) {
		ok = take_tuple(x, v, p);
	} else if ((v->kind == N_STR || v->kind == N_BIN) && v->len > 0) {
		ok = take_text(x, v, p);
	} else {
		ok = false;
		if (!conf_fn_hint(x, v))
			conf_expected(x, v, fn_forms);
	}
	if (!ok)
		kp_mfa_pat_free(p);
	x->fns_missing |= !ok;
	p->pos = v->pos;
	return ok;
}

/* False: there is no room for more. */
static bool
add_function(struct conf_ctx *x, const struct node *v,
    struct kp_mfa_pat **fns, size_t *n, size_t max)
{
	struct kp_mfa_pat p;

	if (*n >= max) {
		diag_error(x->diags, v->pos, "too many functions, expected at "
		    "most %d in all tiers and %d entries or finishes",
		    KP_TIER_FNS_MAX, KP_ENTRY_MAX);
		return false;
	}
	if (!take_function(x, v, &p))
		return true;
	if (!conf_room(x, fns, *n)) {
		kp_mfa_pat_free(&p);
		return false;
	}
	(*fns)[(*n)++] = p;
	return true;
}

void
conf_functions(struct conf_ctx *x, const struct node *v,
    struct kp_mfa_pat **fns, size_t *n, size_t max)
{
	if (node_is_nil(v)) {
		conf_expected(x, v, fn_forms);
		return;
	}
	if (v->kind != N_LIST || v->tail != NULL) {
		add_function(x, v, fns, n, max);
		return;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		if (!add_function(x, v->kid[i], fns, n, max))
			return;
	}
}

static void
tier_name(struct conf_ctx *x, const struct node *v, struct kp_tier *t)
{
	const struct kp_conf *c = x->conf;

	if (!take_atom(x, v, "a tier's name", false, &t->name))
		return;
	if (strcmp(t->name, "_total") == 0 || strcmp(t->name, "_other") == 0)
		diag_error(x->diags, v->pos, "the tier name '%s' is reserved",
		    t->name);
	if (strstr(t->name, KP_PART_SEP) != NULL)
		diag_error(x->diags, v->pos, "found '" KP_PART_SEP "' in a tier's "
		    "name: there a label follows");
	for (size_t i = 0; i < c->ntiers; i++) {
		if (c->tiers[i].name != NULL &&
		    strcmp(c->tiers[i].name, t->name) == 0)
			diag_error(x->diags, v->pos, "the tier '%s' is given "
			    "twice: it is also on line %u", t->name,
			    c->tiers[i].pos.line);
	}
}

/* exact | {exact, force} | optional */
static void
tier_option(struct conf_ctx *x, const struct node *o, struct kp_tier *t)
{
	static const char *const names[] = { "exact", "optional" };
	bool force = o->kind == N_TUPLE && o->n == 2 &&
	    node_is_atom(o->kid[0], "exact") && node_is_atom(o->kid[1], "force");
	const struct node *name = force ? o->kid[0] : o;

	if (name->kind != N_ATOM) {
		conf_expected(x, o, "an option: exact, {exact, force} or optional");
		return;
	}
	switch (conf_name(x, name, "option", names, 2)) {
	case 0:
		t->opts |= KP_TIER_EXACT | (force ? KP_TIER_FORCE : 0);
		break;
	case 1:
		t->opts |= KP_TIER_OPTIONAL;
		for (size_t i = 0; i < t->nfns; i++)
			t->fns[i].optional = true;
		break;
	}
}

static void
tier_options(struct conf_ctx *x, const struct node *list, struct kp_tier *t)
{
	if (!conf_list(x, list, "a list of options such as [exact]"))
		return;
	for (uint32_t i = 0; i < list->n; i++)
		tier_option(x, list->kid[i], t);
}

size_t
kp_conf_functions(const struct kp_conf *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->ntiers; i++)
		n += c->tiers[i].nfns;
	return n;
}

static void
add_tier(struct conf_ctx *x, const struct node *v)
{
	struct kp_conf *c = x->conf;
	struct kp_tier t = { .pos = v->pos };

	if (v->kind == N_TUPLE && (v->n == 4 || (v->n == 3 &&
	    v->kid[2]->kind == N_ATOM)) && conf_flat_hint(x, v)) {
		x->fns_missing = true;
		return;
	}
	if (v->kind != N_TUPLE || v->n < 2 || v->n > 3) {
		x->fns_missing = true;
		conf_expected(x, v, "{Name, Functions} or "
		    "{Name, Functions, Options}");
		return;
	}
	if (!conf_room(x, &c->tiers, c->ntiers))
		return;
	tier_name(x, v->kid[0], &t);
	if (node_is_nil(v->kid[1]))
		diag_error(x->diags, v->kid[1]->pos, "this tier is empty, "
		    "expected %s", fn_forms);
	else
		conf_functions(x, v->kid[1], &t.fns, &t.nfns,
		    KP_TIER_FNS_MAX - kp_conf_functions(c));
	if (v->n == 3)
		tier_options(x, v->kid[2], &t);
	c->tiers[c->ntiers++] = t;
}

void
conf_tiers(struct conf_ctx *x, const struct node *list)
{
	if (!conf_list(x, list, "a list of {Name, Functions}"))
		return;
	if (list->n == 0 && !list->broken)
		diag_error(x->diags, list->pos, "no tiers, expected a list "
		    "of {Name, Functions}");
	conf_each(x, list, "tier", KP_TIER_MAX, add_tier);
}

static void
add_glob(struct conf_ctx *x, const struct node *v, struct kp_entry *e)
{
	char *s = NULL;

	if (v->kind == N_ATOM && v->len > 0) {
		s = strdup(v->text);
		x->nomem |= s == NULL;
	} else if (v->kind == N_STR && v->len > 0) {
		s = conf_string(x, v, "a node's name");
	} else {
		conf_expected(x, v, "a node's name, such as 'web@*'");
	}
	if (s == NULL)
		return;
	if (!conf_room(x, &e->nodes, e->nnodes)) {
		free(s);
		return;
	}
	e->nodes[e->nnodes++] = s;
}

/* [{nodes, [Glob, ...]}, optional] */
static void
entry_options(struct conf_ctx *x, const struct node *opts, struct kp_entry *e)
{
	static const char what[] = "{nodes, ['name@*', ...]} or optional";
	const struct node *o, *globs;

	if (!conf_list(x, opts, "a list of options such as [{nodes, ['name@*', ...]}]"))
		return;
	for (uint32_t i = 0; i < opts->n; i++) {
		o = opts->kid[i];
		if (node_is_atom(o, "optional")) {
			e->fn.optional = true;
			continue;
		}
		if (o->kind != N_TUPLE || o->n != 2 ||
		    !node_is_atom(o->kid[0], "nodes") || e->nnodes > 0) {
			conf_expected(x, o, what);
			continue;
		}
		globs = o->kid[1];
		if (!conf_list(x, globs, "a list of nodes' names"))
			continue;
		if (globs->n == 0 || globs->n > CONF_NODES_MAX)
			diag_error(x->diags, globs->pos, "found %u nodes, "
			    "expected 1 to %d", globs->n, CONF_NODES_MAX);
		for (uint32_t j = 0; j < globs->n && j < CONF_NODES_MAX; j++)
			add_glob(x, globs->kid[j], e);
	}
}

static void
add_entry(struct conf_ctx *x, const struct node *v, const struct node *opts)
{
	struct kp_conf *c = x->conf;
	struct kp_entry e = { 0 };

	/* {Function, Options}, in a list of entries */
	if (opts == NULL && v->kind == N_TUPLE && v->n == 2 &&
	    (v->kid[0]->kind == N_TUPLE || v->kid[0]->kind == N_STR ||
	    (v->kid[0]->kind == N_FN && v->kid[0]->text != NULL))) {
		opts = v->kid[1];
		v = v->kid[0];
	}
	if (!take_function(x, v, &e.fn))
		return;
	if (!conf_room(x, &c->entries, c->nentries)) {
		kp_mfa_pat_free(&e.fn);
		return;
	}
	if (opts != NULL)
		entry_options(x, opts, &e);
	c->entries[c->nentries++] = e;
}

void
conf_entry(struct conf_ctx *x, const struct node *form)
{
	const struct node *v = form->kid[1];
	const struct node *opts = form->n > 2 ? form->kid[2] : NULL;

	if (v->kind != N_LIST || v->tail != NULL || v->n == 0) {
		add_entry(x, v, opts);
		return;
	}
	for (uint32_t i = 0; i < v->n; i++) {
		if (i == KP_ENTRY_MAX) {
			diag_error(x->diags, v->kid[i]->pos, "found entry %u, "
			    "expected at most %d", i + 1, KP_ENTRY_MAX);
			return;
		}
		add_entry(x, v->kid[i], opts);
	}
}

/* ---- marks: the functions of erlang/kprof/src/kprof.erl that kprofd knows ---- */

static const struct {
	const char *fun;
	uint32_t arity;
	enum kp_mark mark;
} marks[] = {
	{ "set_token", 0, KP_MARK_SET },
	{ "set_token", 1, KP_MARK_SET },
	{ "clear_token", 0, KP_MARK_CLEAR },
	{ "do_apply", 3, KP_MARK_RUN },
	{ "do_apply", 4, KP_MARK_RUN },
	{ "run", 2, KP_MARK_RUN },
	{ "run", 3, KP_MARK_RUN },
	{ "trace_id", 1, KP_MARK_TRACE },
};
#define MARKS (sizeof(marks) / sizeof(marks[0]))

enum kp_mark
kp_mark(const struct kp_mfa *f)
{
	if (strcmp(f->mod, KP_MARK_MODULE) != 0)
		return KP_MARK_NONE;
	for (size_t i = 0; i < MARKS; i++)
		if (marks[i].arity == f->arity &&
		    strcmp(marks[i].fun, f->fun) == 0)
			return marks[i].mark;
	return KP_MARK_NONE;
}

/* Does the pattern cover a function with this mark, or (any) with any mark? */
static bool
pat_covers_mark(const struct kp_mfa_pat *p, enum kp_mark mark, bool any)
{
	struct kp_mfa f = { .mod = KP_MARK_MODULE };

	for (size_t i = 0; i < MARKS; i++) {
		f.fun = marks[i].fun;
		f.arity = marks[i].arity;
		if ((any || marks[i].mark == mark) && kp_mfa_pat_covers(p, &f))
			return true;
	}
	return false;
}

/* Those that are armed by themselves: not where a wildcard covers them. */
static void
mark_check_own(struct conf_ctx *x, const struct kp_mfa_pat *p, const char *as)
{
	bool clear = pat_covers_mark(p, KP_MARK_CLEAR, false);

	if (p->fun != NULL && (clear || pat_covers_mark(p, KP_MARK_TRACE, false)))
		diag_error(x->diags, p->pos, "kprof:%s cannot be %s: it is armed "
		    "by itself, together with entries of kprof",
		    clear ? "clear_token/0" : "trace_id/1", as);
}

static void
mark_check_entry(struct conf_ctx *x, const struct kp_mfa_pat *p)
{
	mark_check_own(x, p, "an entry");
	if (strcmp(p->mod, KP_MARK_MODULE) == 0 &&
	    !pat_covers_mark(p, KP_MARK_NONE, true))
		diag_warn(x->diags, p->pos, "no function of kprof that starts "
		    "a request, expected set_token/0,1, do_apply/3,4 or "
		    "run/2,3");
}

static bool
is_entry(const struct kp_conf *c, const struct kp_mfa_pat *p)
{
	struct kp_mfa f = { p->mod, p->fun, (uint32_t)p->arity };

	for (size_t i = 0; i < c->nentries; i++)
		if (kp_mfa_pat_covers(&c->entries[i].fn, &f))
			return true;
	/* Without {entry, _}, the first tier's functions are entries. */
	for (size_t i = 0; c->nentries == 0 && i < c->tiers[0].nfns; i++)
		if (kp_mfa_pat_covers(&c->tiers[0].fns[i], &f))
			return true;
	return false;
}

/* set_token does nothing unless it is an entry. */
static void
mark_check_tier(struct conf_ctx *x, const struct kp_mfa_pat *p)
{
	mark_check_own(x, p, "in a tier");
	if (p->fun != NULL && p->arity >= 0 &&
	    pat_covers_mark(p, KP_MARK_SET, false) && !x->fns_missing &&
	    !is_entry(x->conf, p))
		diag_warn(x->diags, p->pos, "kprof:%s/%d starts no request "
		    "here: it is not among the entries", p->fun, p->arity);
}

void
conf_marks(struct conf_ctx *x)
{
	const struct kp_conf *c = x->conf;

	for (size_t i = 0; i < c->ntiers; i++)
		for (size_t j = 0; j < c->tiers[i].nfns; j++)
			mark_check_tier(x, &c->tiers[i].fns[j]);
	for (size_t i = 0; i < c->nentries; i++)
		mark_check_entry(x, &c->entries[i].fn);
	for (size_t i = 0; i < c->nfinishes; i++)
		mark_check_own(x, &c->finishes[i], "a finish");
}
