/*
 * mark.c - the functions by which applications mark requests by hand: those
 * of erlang/kprof/src/kprof.erl that kprofd knows.
 */
#include <string.h>

#include "config/conf_ctx.h"

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

/* Does the pattern name clear_token, not only cover it with a wildcard? */
static bool
pat_is_clear(const struct kp_mfa_pat *p)
{
	return p->fun != NULL && pat_covers_mark(p, KP_MARK_CLEAR, false);
}

static void
check_clear(struct conf_ctx *x, const struct kp_mfa_pat *p, const char *as)
{
	if (pat_is_clear(p))
		diag_error(x->diags, p->pos, "kprof:clear_token/0 cannot be "
		    "%s: it is armed by itself, together with entries of "
		    "kprof", as);
}

static void
check_entry(struct conf_ctx *x, const struct kp_mfa_pat *p)
{
	check_clear(x, p, "an entry");
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
check_tier(struct conf_ctx *x, const struct kp_mfa_pat *p)
{
	check_clear(x, p, "in a tier");
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
			check_tier(x, &c->tiers[i].fns[j]);
	for (size_t i = 0; i < c->nentries; i++)
		check_entry(x, &c->entries[i].fn);
	for (size_t i = 0; i < c->nfinishes; i++)
		check_clear(x, &c->finishes[i], "a finish");
}
