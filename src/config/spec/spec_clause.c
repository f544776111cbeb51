/*
 * spec_clause.c - the clauses of the identity fun, one by one: their results, and
 * the functions whose calls they match.
 */
#include <string.h>

#include "config/spec/spec.h"

static const struct node *
clause_find(const struct kp_conf *c, uint32_t i)
{
	const struct node *fun = c->identity != NULL ? c->identity->fun : NULL;

	return fun != NULL && i < fun->n ? fun->kid[i] : NULL;
}

bool
kp_clause(const struct kp_conf *c, uint32_t i, struct kp_clause *out)
{
	const struct node *clause = clause_find(c, i), *body;

	if (clause == NULL)
		return false;
	body = clause->kid[1];
	*out = (struct kp_clause){ .pos = clause->kid[0]->pos,
		.line = clause->kid[0]->pos.line,
		.any = clause->kid[0]->kind == N_VAR,
		.names = !node_is_atom(body, "undefined"),
		.fixed = node_is_literal(body) };
	return true;
}

enum kp_err
kp_clause_answer(const struct kp_conf *c, uint32_t i, struct kp_buf *out)
{
	const struct node *clause = clause_find(c, i);

	if (clause == NULL || !node_is_literal(clause->kid[1]))
		return KP_ENOENT;
	raw_put(out, clause->kid[1]);
	return out->err;
}

/* May this name in a pattern be that one?  A variable may be any. */
static bool
may_be(const struct node *x, const char *name)
{
	return x->kind != N_ATOM || name == NULL || strcmp(x->text, name) == 0;
}

bool
kp_clause_meets(const struct kp_conf *c, uint32_t i,
    const struct kp_mfa_pat *fns)
{
	const struct node *clause = clause_find(c, i), *pattern;

	if (clause == NULL)
		return false;
	pattern = clause->kid[0];
	return pattern->kind == N_VAR || (may_be(pattern->kid[0], fns->mod) &&
	    may_be(pattern->kid[1], fns->fun));
}

bool
kp_spec_identities(const struct kp_conf *c,
    void (*f)(void *ctx, const uint8_t *term, size_t n), void *ctx)
{
	const struct node *clause;
	bool all = true;
	struct kp_buf b;

	for (uint32_t i = 0; (clause = clause_find(c, i)) != NULL; i++) {
		if (node_is_atom(clause->kid[1], "undefined"))
			continue;
		kp_buf_init(&b, KP_CONF_SIZE_MAX);
		if (kp_clause_answer(c, i, &b) == KP_OK)
			f(ctx, b.p, b.len);
		else
			all = false;
		kp_buf_free(&b);
	}
	return all;
}

bool
kp_clause_takes(const struct kp_conf *c, uint32_t i, const struct kp_mfa *f)
{
	const struct node *clause = clause_find(c, i);
	struct gen g = { .f = f, .nvars = f->arity };
	bool takes;

	if (clause == NULL)
		return false;
	kp_buf_init(&g.head, KP_CONF_SIZE_MAX);
	kp_buf_init(&g.guards, KP_CONF_SIZE_MAX);
	takes = gen_pattern(&g, clause->kid[0]);
	kp_buf_free(&g.head);
	kp_buf_free(&g.guards);
	arena_free(&g.arena);
	return takes;
}

bool
kp_spec_names(const struct kp_conf *c, const struct kp_mfa *f)
{
	const struct node *clause;
	bool names = false;

	for (uint32_t i = 0; !names && (clause = clause_find(c, i)) != NULL;
	    i++)
		names = !node_is_atom(clause->kid[1], "undefined") &&
		    kp_clause_takes(c, i, f);
	return names;
}
