/*
 * slo.c - {slo, [{NameOrTier, Milliseconds, Percent}, ...]}: objectives, each of calls of
 * a tier or of requests of a type.
 *
 * An atom that names a tier of the file is that tier, any other name is a request type.
 * So objectives are read last: by then the tiers are known, and where the identity fun
 * returns nothing but names, the types are, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near_names.h"
#include "base/utf8.h"
#include "config/conf_ctx.h"

#define MS_MIN 0.001
#define OF "a tier's name, or a request type such as \"GET /orders\""
#define FORM "{NameOrTier, Milliseconds, Percent}"

static double
number(const struct node *v)
{
	if (v->kind == N_INT)
		return (double)v->num;
	return v->kind == N_FLOAT ? v->real : -1;
}

static bool
is_tier(const struct kp_conf *c, const char *name)
{
	for (size_t i = 0; i < c->ntiers; i++)
		if (c->tiers[i].name != NULL && strcmp(c->tiers[i].name, name) == 0)
			return true;
	return false;
}

/* A clause's result that is a name as it stands; NULL: it is none. */
static const char *
type_name(const struct node *clause, char **owned)
{
	const struct node *v = clause->kid[1];

	if (v->kind == N_STR || v->kind == N_BIN)
		return *owned = node_string(v);
	/* of Elixir's modules types have no prefix */
	return v->kind == N_ATOM && strncmp(v->text, "Elixir.", 7) != 0 ?
	    v->text : NULL;
}

/*
 * Could a request be of this type?  *computed: the file has no names of types, which funs
 * make of arguments.  If not, *near is the name of a tier or type that is like it, owned by
 * the caller, or NULL.
 */
static bool
may_be_type(const struct kp_conf *c, const char *name, bool *computed, char **near)
{
	const struct node *fun = c->funs != NULL ? c->funs->identity : NULL;
	/* kept: a name that has nothing in common is not near */
	const struct near_rule rule = { .edits = 2, .share = 2, .kept = 1 };
	const char *known[KP_TIER_MAX + IDENT_CLAUSES_MAX] = { NULL };
	const char *found;
	char *owned[IDENT_CLAUSES_MAX] = { NULL };
	bool set = strcmp(name, "_total") == 0 || strcmp(name, "_other") == 0 ||
	    strcmp(name, "undefined") == 0, may = c->nrewrites > 0 || set;
	uint32_t clauses = fun != NULL ? fun->n : 0;
	size_t n = 0;

	for (size_t i = 0; i < c->ntiers; i++)
		known[n++] = c->tiers[i].name;
	for (uint32_t i = 0; i < clauses && !set; i++) {
		found = type_name(fun->kid[i], &owned[i]);
		set = found != NULL && strcmp(found, name) == 0;
		may |= found == NULL || set;
		if (found != NULL)
			known[n++] = found;
	}
	found = near_name(name, known, n, sizeof(*known), rule);
	*near = found != NULL ? strdup(found) : NULL;
	*computed = !set;
	for (uint32_t i = 0; i < clauses; i++)
		free(owned[i]);
	return may;
}

/* An atom may be meant for a tier; a text is a type, which only its fun can give. */
static void
check_name(struct conf_ctx *x, const struct node *v, struct kp_objective *o)
{
	const char *name = o->name;
	bool has_fun = x->conf->funs != NULL && x->conf->funs->identity != NULL;
	char *near = NULL;

	if (x->fns_missing)
		return;
	/* a fun may be written later */
	if (!may_be_type(x->conf, name, &o->computed, &near))
		kp_diags_add(x->diags, v->pos, !has_fun, "%s '%s'%s%s%s%s",
		    v->kind != N_ATOM ? "no request can be of the type" :
		    "no tier and no request type is called", name,
		    has_fun ? ": no clause of the identity fun returns it" :
		    ": there is no identity fun, which names types",
		    near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
		    near != NULL ? "'?)" : "");
	else if (v->kind == N_ATOM && near != NULL && is_tier(x->conf, near))
		diag_warn(x->diags, v->pos, "there is no tier '%s', so a request type is "
		    "meant (did you mean '%s'? Else write it as a text)", name, near);
	free(near);
}

/* Types have no characters that a terminal, or a file of rules, could trip over. */
static bool
is_plain(const char *s)
{
	size_t n = strlen(s), len;
	bool plain = n > 0 && n <= KP_IDENT_BYTES_MAX && utf8_valid(s, n);

	for (size_t i = 0; plain && i < n; i += len)
		plain = !utf8_unsafe(utf8_next(s + i, n - i, &len));
	return plain;
}

static bool
take_name(struct conf_ctx *x, const struct node *v, struct kp_objective *o)
{
	if (v->kind == N_ATOM && v->len > 0 && !node_is_atom(v, "_")) {
		o->name = strdup(v->text);
		x->nomem |= o->name == NULL;
		o->tier = is_tier(x->conf, v->text);
	} else if (v->kind == N_ATOM || node_is_nil(v)) {
		conf_expected(x, v, OF);
	} else {
		o->name = conf_string(x, v, OF);
	}
	if (o->name != NULL && !is_plain(o->name)) {
		diag_error(x->diags, v->pos, "no request type has such a name, expected "
		    "one as kprof report shows it, of at most %d bytes",
		    KP_IDENT_BYTES_MAX);
		return false;
	}
	if (o->name != NULL && !o->tier)
		check_name(x, v, o);
	return o->name != NULL;
}

static bool
take_limit(struct conf_ctx *x, const struct node *v, struct kp_objective *o)
{
	double ms = number(v);
	char what[80];

	snprintf(what, sizeof(what), "milliseconds, a number within %g..%d", MS_MIN,
	    CONF_MS_MAX);
	if (ms < MS_MIN || ms > CONF_MS_MAX) {
		conf_expected(x, v, what);
		return false;
	}
	o->limit = (kp_dur_ns)(ms * KP_NS_PER_MS + 0.5);
	return true;
}

static bool
take_part(struct conf_ctx *x, const struct node *v, struct kp_objective *o)
{
	o->percent = number(v);
	if (o->percent > 0 && o->percent < 100)
		return true;
	conf_expected(x, v, "percent, a number above 0 and below 100 (99.9: of 1000 one "
	    "may miss)");
	return false;
}

/* Its text; false, after reporting it: another objective has it. */
static bool
name_objective(struct conf_ctx *x, const struct node *v, struct kp_objective *o)
{
	const struct kp_conf *c = x->conf;
	bool all = !o->tier && strcmp(o->name, "_total") == 0;

	if (asprintf(&o->text, "%s%s within %.10g ms", o->tier ? "tier " : "",
	    all ? "all requests" : o->name, (double)o->limit / KP_NS_PER_MS) < 0) {
		o->text = NULL;
		x->nomem = true;
		return false;
	}
	for (size_t i = 0; i < c->nslo; i++) {
		if (strcmp(c->slo[i].text, o->text) != 0)
			continue;
		diag_error(x->diags, v->pos, "the objective '%s' is given twice: it is "
		    "also on line %u (leave one out, or give another limit)", o->text,
		    c->slo[i].pos.line);
		return false;
	}
	return true;
}

static void
add_objective(struct conf_ctx *x, const struct node *v)
{
	struct kp_objective o = { .pos = v->pos };
	struct kp_conf *c = x->conf;

	if (v->kind != N_TUPLE || v->n != 3) {
		conf_expected(x, v, FORM);
		return;
	}
	if ((take_name(x, v->kid[0], &o) & take_limit(x, v->kid[1], &o) &
	    take_part(x, v->kid[2], &o)) && name_objective(x, v, &o) &&
	    conf_room(x, &c->slo, c->nslo)) {
		c->slo[c->nslo++] = o;
		return;
	}
	free(o.name);
	free(o.text);
}

void
conf_slo(struct conf_ctx *x)
{
	/* there may be more tiers and clauses than are known */
	x->fns_missing |= x->diags->errors > 0;
	if (x->slo != NULL && conf_list(x, x->slo, "a list of " FORM))
		conf_each(x, x->slo, "objective", KP_SLO_MAX, add_objective);
}
