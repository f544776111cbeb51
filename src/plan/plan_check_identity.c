/*
 * plan_check_identity.c - what is wrong with the identity fun, by the calls that
 * each of its clauses matched.
 *
 * A clause that names nothing is there for all other calls, and so is one whose
 * pattern is a variable: nobody has to call for them.
 */
#include <stdio.h>

#include "kprofd/check.h"
#include "kprofd/fn_name.h"

#define SEE(c) ((c)->explained ? "" : " (see -explain)")

uint32_t
kp_check_clauses(const struct kp_conf *c)
{
	struct kp_clause clause;
	uint32_t n = 0;

	while (kp_clause(c, n, &clause))
		n++;
	return n;
}

/* The functions that a clause may match, of those that were called. */
struct callees {
	const struct kp_plan_item *first;
	unsigned functions;
	uint64_t calls;
};

static struct callees
callees_of(const struct kp_check *c, uint32_t clause)
{
	struct callees out = { 0 };
	const struct kp_plan_item *p;
	uint64_t calls;

	for (p = c->plan->v; p < c->plan->v + c->plan->n; p++) {
		const struct kp_mfa f = { p->mod, p->fun, p->arity };

		calls = c->seen[p - c->plan->v].known;
		if (calls == 0 || !kp_clause_takes(c->conf, clause, &f))
			continue;
		if (out.functions++ == 0)
			out.first = p;
		out.calls += calls;
	}
	return out;
}

static void
judge_clause(const struct kp_check *c, uint32_t i, const struct kp_clause *at,
    struct kp_diags *diags)
{
	const struct callees of = callees_of(c, i);
	char name[FN_NAME_MAX], text[FN_NAME_MAX + 64];

	if (of.calls == 0)
		return;		/* nobody called what it is for */
	fn_name(name, sizeof(name), of.first->mod, of.first->fun,
	    of.first->arity);
	if (of.functions == 1)
		snprintf(text, sizeof(text), "%s", name);
	else
		snprintf(text, sizeof(text), "%s and %u more functions", name,
		    of.functions - 1);
	kp_diags_add(diags, at->pos, true, "this clause matched none of the %llu "
	    "calls of %s that were seen%s", (unsigned long long)of.calls, text,
	    SEE(c));
}

static uint64_t
entered(const struct kp_check *c)
{
	uint64_t n = 0;

	for (size_t i = 0; i < c->plan->n; i++)
		n += c->seen[i].entered;
	return n;
}

void
kp_check_identity(const struct kp_check *c, struct kp_diags *diags)
{
	size_t before = diags->n;
	struct kp_clause clause;
	uint64_t named = 0, calls = entered(c);

	for (uint32_t i = 0; kp_clause(c->conf, i, &clause); i++) {
		named += clause.names ? c->matched[i] : 0;
		if (c->matched[i] == 0 && clause.names && !clause.any)
			judge_clause(c, i, &clause, diags);
	}
	/* One mistake, one message. */
	if (diags->n > before || named > 0 || calls == 0 ||
	    !kp_clause(c->conf, 0, &clause))
		return;
	kp_diags_add(diags, clause.pos, true, "no clause gave a type to any of the "
	    "%llu requests that were seen: all would be 'undefined'%s",
	    (unsigned long long)calls, SEE(c));
}
