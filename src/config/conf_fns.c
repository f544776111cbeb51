/* conf_fns.c - functions, tiers and entries of a tiers.conf. */
#include <stdlib.h>
#include <string.h>

#include "config/conf_ctx.h"

#define ARITY_MAX 255

static const char fn_forms[] = "{Module, Function, Arity} or "
    "\"Module:Function/Arity\"";

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
	for (size_t i = 0; i < c->ntiers; i++) {
		if (c->tiers[i].name != NULL &&
		    strcmp(c->tiers[i].name, t->name) == 0)
			diag_error(x->diags, v->pos, "the tier '%s' is given "
			    "twice: it is also on line %u", t->name,
			    c->tiers[i].pos.line);
	}
}

/* exact | {exact, force} */
static void
tier_option(struct conf_ctx *x, const struct node *o, struct kp_tier *t)
{
	static const char *const names[] = { "exact" };
	bool force = o->kind == N_TUPLE && o->n == 2 &&
	    node_is_atom(o->kid[1], "force");
	const struct node *name = force ? o->kid[0] : o;

	if (name->kind != N_ATOM)
		conf_expected(x, o, "an option: exact, or {exact, force}");
	else if (conf_name(x, name, "option", names, 1) == 0)
		t->opts |= KP_TIER_EXACT | (force ? KP_TIER_FORCE : 0);
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

/* [{nodes, [Glob, ...]}] */
static void
entry_options(struct conf_ctx *x, const struct node *opts, struct kp_entry *e)
{
	static const char what[] = "[{nodes, ['name@*', ...]}]";
	const struct node *o, *globs;

	if (!conf_list(x, opts, what))
		return;
	for (uint32_t i = 0; i < opts->n; i++) {
		o = opts->kid[i];
		if (o->kind != N_TUPLE || o->n != 2 ||
		    !node_is_atom(o->kid[0], "nodes") || i > 0) {
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
