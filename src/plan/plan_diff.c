/*
 * plan_diff.c - compares the armed plan with the wanted one: copies what is
 * known of functions, marks those to measure, and sets the changes.
 *
 * Two functions are armed alike when the agent would get the same bytes for
 * them: another order of tiers, a renamed tier or another place in the file
 * change nothing.
 */
#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/plan.h"

/* Bytes of a match spec; comparisons with long request types need many. */
#define SPEC_MAX (1u << 20)

void
kp_plan_put_mfa(struct kp_buf *b, const struct kp_plan_item *i)
{
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, i->mod);
	kp_etf_atom(b, i->fun);
	kp_etf_int(b, i->arity);
}

static enum kp_err
put_spec(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan_item *i, struct kp_spec_params p)
{
	struct kp_mfa mfa = { i->mod, i->fun, i->arity };
	struct kp_buf spec;
	enum kp_err e;

	kp_buf_init(&spec, SPEC_MAX);
	e = i->clears ? kp_spec_clear(c, &spec) :
	    i->entry ? kp_spec_entry(c, &mfa, &p, &spec) :
	    kp_spec_tier(c, &mfa, &p, &spec);
	if (spec.err != KP_OK && b->err == KP_OK)
		b->err = spec.err;
	kp_buf_put(b, spec.p, spec.len);
	kp_buf_free(&spec);
	return e;
}

enum kp_err
kp_plan_put_item(struct kp_buf *b, const struct kp_conf *c,
    const struct kp_plan_item *i, struct kp_spec_params p)
{
	enum kp_err e;

	kp_etf_tuple(b, 4);
	kp_plan_put_mfa(b, i);
	kp_etf_atom(b, i->entry ? "entry" : "tier");
	p.exact = i->exact;
	/* Shapes are large; a few functions are enough to see what calls are. */
	if (b->len > b->max / 8)
		p.shape = KP_SHAPE_NONE;
	e = put_spec(b, c, i, p);
	if (!i->exact) {
		kp_etf_nil(b);
		return e != KP_OK ? e : b->err;
	}
	p.exact = false;
	if (e == KP_OK)
		e = put_spec(b, c, i, p);
	return e != KP_OK ? e : b->err;
}

void
kp_plan_carry(struct kp_plan *to, const struct kp_plan *from, bool retry)
{
	const struct kp_plan_item *old;
	struct kp_plan_item *item;

	for (item = to->v; item < to->v + to->n; item++) {
		old = kp_plan_find_like(from, item);
		if (old == NULL)
			continue;
		if (old->disarmed && !(old->hot && retry)) {
			item->disarmed = true;
			item->hot = old->hot;
		}
		if (old->exact_refused && !item->exact_forced) {
			item->exact = false;
			item->exact_refused = true;
		}
	}
}

void
kp_plan_exact(struct kp_plan *plan, const struct kp_plan *before)
{
	const struct kp_plan_item *old;
	struct kp_plan_item *item;

	if (!plan->native)
		return;
	for (item = plan->v; item < plan->v + plan->n; item++) {
		old = before->native ? kp_plan_find_like(before, item) : NULL;
		if (!before->native)
			item->exact_refused = false;
		item->exact = !item->clears && (item->exact_forced ||
		    old == NULL || old->exact);
	}
}

size_t
kp_plan_probe(struct kp_plan *plan, const struct kp_plan *armed, bool again)
{
	const struct kp_plan_item *old;
	struct kp_plan_item *p;
	size_t n = 0;

	for (p = plan->v; p < plan->v + plan->n; p++) {
		old = kp_plan_find_like(armed, p);
		p->probe = !p->disarmed && (old == NULL || old->hot ||
		    (p->exact && !p->exact_forced && (again || !old->exact)));
		n += p->probe;
	}
	return n;
}

enum kp_err
kp_plan_keep(struct kp_plan *to, const struct kp_plan *from)
{
	struct kp_plan_item *v;

	for (size_t i = 0; i < from->n && to->n < KP_PLAN_MAX; i++) {
		if (kp_plan_find_like(to, &from->v[i]) != NULL)
			continue;
		v = kp_plan_room(to);
		if (v == NULL)
			return KP_ENOMEM;
		*v = from->v[i];
		v->mod = strdup(v->mod);
		v->fun = strdup(v->fun);
		to->n++;
		if (v->mod == NULL || v->fun == NULL)
			return KP_ENOMEM;
	}
	return KP_OK;
}

static enum kp_err
item_same(const struct kp_plan_item *a, const struct kp_conf *ca,
    const struct kp_plan_item *b, const struct kp_conf *cb,
    const struct kp_spec_params *p, bool *same)
{
	struct kp_buf ta, tb;
	enum kp_err e;

	kp_buf_init(&ta, 2 * SPEC_MAX + 4096);
	kp_buf_init(&tb, 2 * SPEC_MAX + 4096);
	e = kp_plan_put_item(&ta, ca, a, *p);
	if (e == KP_OK)
		e = kp_plan_put_item(&tb, cb, b, *p);
	*same = e == KP_OK && ta.len == tb.len &&
	    memcmp(ta.p, tb.p, ta.len) == 0;
	kp_buf_free(&ta);
	kp_buf_free(&tb);
	return e;
}

/* Ignores functions that were disarmed for good. */
enum kp_err
kp_plan_diff(struct kp_plan *want, const struct kp_conf *want_conf,
    struct kp_plan *armed, const struct kp_conf *armed_conf,
    const struct kp_spec_params *params, struct kp_plan_change *n)
{
	struct kp_plan_item *w, *a;
	enum kp_err e;
	bool same;

	*n = (struct kp_plan_change){ 0 };
	for (w = want->v; w < want->v + want->n; w++) {
		a = kp_plan_find_like(armed, w);
		w->op = KP_PLAN_KEEP;
		if (w->disarmed)
			continue;
		if (a == NULL || a->disarmed) {
			w->op = KP_PLAN_PUT;
			n->added++;
			continue;
		}
		e = item_same(w, want_conf, a, armed_conf, params, &same);
		if (e != KP_OK)
			return e;
		if (!same)
			w->op = KP_PLAN_PUT;
		n->changed += !same;
		n->kept += same;
	}
	for (a = armed->v; a < armed->v + armed->n; a++) {
		w = kp_plan_find_like(want, a);
		a->op = w == NULL || (w->disarmed && !a->disarmed) ?
		    KP_PLAN_TAKE : KP_PLAN_KEEP;
		n->removed += a->op == KP_PLAN_TAKE && !a->disarmed;
	}
	return KP_OK;
}
