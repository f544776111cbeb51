/*
 * traced_findings.c - counts what traced requests show: which clause matched, whether a
 * function calls itself, whether an entry returns, and one example of a call.
 *
 * A function calls itself if {caller} of a call is the function.  A tail call has
 * the caller of the function that makes it, so an entry's call also counts as
 * nested if a call of the same entry is open in its process.  In another process it
 * is not: a process keeps the token of a message that it got, also when a socket's
 * data make it begin a request of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "daemon/check/traced_findings.h"
#include "kprofd/fn_name.h"
#include "text/text.h"

#define EXAMPLE_MAX 4000u	/* bytes of an example; a longer one is cut */
#define FNS_MAX 10000		/* functions whose item is remembered */

/* A traced call of an entry. */
struct opened {
	uint64_t label;
	uint64_t proc;	/* serial << 32 | number */
	size_t item;
	size_t after;	/* index of the call before it in its process + 1 */
	bool nested;	/* inside a call of the same entry */
	bool ended;	/* and its end was seen */
};

struct findings {
	const struct kp_conf *conf;
	struct kp_plan plan;
	struct intern by_mfa;		/* raw {M,F,A} to item */
	size_t fns[FNS_MAX];		/* item + 1 by kp_fn; 0: not known yet */
	struct kp_check_seen *seen;	/* by item, as are the next two */
	uint64_t *repeated;		/* calls that it made of itself */
	char **example;			/* of a call that no clause took */
	uint64_t *unshown;		/* such calls that the probe had no room for */
	uint64_t *matched;		/* by clause */
	uint32_t clauses;
	uint64_t entered, requests;
	struct opened opened[KP_CHECK_CALLS_MAX];
};

/* No function of the plan. */
#define OTHER SIZE_MAX

/* ---- beginning and end ---- */

static bool
plan_copy(struct kp_plan *to, const struct kp_plan *from)
{
	struct kp_plan_item *v;

	*to = (struct kp_plan){ .native = from->native };
	for (size_t i = 0; i < from->n; i++) {
		if ((v = kp_plan_room(to)) == NULL)
			return false;
		*v = from->v[i];
		v->mod = strdup(from->v[i].mod);
		v->fun = strdup(from->v[i].fun);
		to->n++;
		if (v->mod == NULL || v->fun == NULL)
			return false;
	}
	return true;
}

struct findings *
findings_new(const struct kp_conf *conf, const struct kp_plan *plan)
{
	struct findings *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->conf = conf;
	s->clauses = kp_check_clauses(conf);
	s->seen = calloc(plan->n + 1, sizeof(*s->seen));
	s->repeated = calloc(plan->n + 1, sizeof(*s->repeated));
	s->example = calloc(plan->n + 1, sizeof(*s->example));
	s->unshown = calloc(plan->n + 1, sizeof(*s->unshown));
	s->matched = calloc(s->clauses + 1, sizeof(*s->matched));
	if (!plan_copy(&s->plan, plan) || s->seen == NULL ||
	    s->repeated == NULL || s->example == NULL || s->unshown == NULL ||
	    s->matched == NULL) {
		findings_free(s);
		return NULL;
	}
	return s;
}

void
findings_free(struct findings *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; s->example != NULL && i < s->plan.n; i++)
		free(s->example[i]);
	free(s->example);
	free(s->unshown);
	free(s->repeated);
	free(s->seen);
	free(s->matched);
	kp_plan_free(&s->plan);
	intern_free(&s->by_mfa);
	free(s);
}

/* ---- events ---- */

/* By the term's bytes, of which the same function has one or two forms. */
static size_t
item_of_mfa(struct findings *s, struct kp_span mfa)
{
	const struct interned *known = intern_get(&s->by_mfa, mfa.p, mfa.n);
	const struct kp_plan_item *p;
	struct kp_span mod, fun;
	struct kp_term r;
	uint32_t arity, val;

	if (known == NULL) {
		kp_term_begin_raw(&r, mfa.p, mfa.n);
		arity = kp_term_mfa(&r, &mod, &fun);
		p = r.err != KP_OK ? NULL : kp_plan_find(&s->plan, mod, fun,
		    arity);
		val = p == NULL ? KP_NONE : (uint32_t)(p - s->plan.v);
		if (s->by_mfa.len < FNS_MAX)
			intern_put(&s->by_mfa, mfa.p, mfa.n, val);
	} else {
		val = known->val;
	}
	return val == KP_NONE ? OTHER : val;
}

static void
keep_example(struct findings *s, size_t item, struct kp_span shape)
{
	const struct kp_plan_item *p = &s->plan.v[item];
	const struct kp_mfa f = { p->mod, p->fun, p->arity };
	struct kp_buf b;

	if (s->example[item] != NULL)
		return;
	kp_buf_init(&b, EXAMPLE_MAX);
	if (kp_shape_text(s->conf, &f, shape.p, shape.n, &b) == KP_OK)
		s->example[item] = strdup(kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* N or {N, Shape}; an atom in its place is of a probe that had no room for it. */
static void
read_clause(struct findings *s, size_t item, struct kp_span identity)
{
	struct kp_span shape = { NULL, 0 };
	struct kp_term r;
	int64_t n;

	kp_term_begin_raw(&r, identity.p, identity.n);
	if (kp_term_peek(&r) == KP_TERM_TUPLE) {
		kp_term_tuple_n(&r, 2);
		n = kp_term_int(&r);
		shape = kp_term_raw(&r);
	} else {
		s->unshown[item] += kp_term_peek(&r) == KP_TERM_ATOM;
		n = kp_term_int(&r);
	}
	if (kp_term_finish(&r) != KP_OK || n < 0 || n > s->clauses)
		return;
	s->seen[item].known++;
	if (n > 0)
		s->matched[n - 1]++;
	if (shape.n > 0)
		keep_example(s, item, shape);
}

static struct opened *
find_opened(struct findings *s, uint64_t label)
{
	for (uint64_t i = s->entered; label != 0 && i-- > 0;)
		if (s->opened[i].label == label)
			return &s->opened[i];
	return NULL;
}

static void
entry_seen(struct findings *s, size_t item, const struct kp_event *ev)
{
	const struct opened *before = find_opened(s, ev->old_label);
	uint64_t proc = (uint64_t)ev->pid.serial << 32 | ev->pid.id;
	bool nested = ev->caller.n > 0 && ev->caller.n == ev->mfa.n &&
	    memcmp(ev->caller.p, ev->mfa.p, ev->mfa.n) == 0;

	s->opened[s->entered++] = (struct opened){ .label = ev->label,
		.proc = proc, .item = item, .nested = nested,
		.after = before != NULL && before->proc == proc ?
		    (size_t)(before - s->opened) + 1 : 0 };
	s->seen[item].entered++;
	s->seen[item].nested += nested;
}

void
findings_event(struct findings *s, struct kp_event *ev)
{
	static const struct kp_span none;
	struct kp_span identity = ev->identity;
	size_t item;

	ev->identity = none;
	if ((ev->kind != KP_EV_ENTRY && ev->kind != KP_EV_CALL) ||
	    ev->mfa.n == 0 || s->entered >= KP_CHECK_CALLS_MAX)
		return;
	item = item_of_mfa(s, ev->mfa);
	if (item == OTHER)
		return;
	if (identity.n > 0)
		read_clause(s, item, identity);
	if (ev->kind == KP_EV_ENTRY && !ev->foreign)
		entry_seen(s, item, ev);
}

uint64_t
findings_entered(const struct findings *s)
{
	return s->entered;
}

/* ---- requests ---- */

static size_t
item_of_fn(struct findings *s, struct kp_requests *rs, uint32_t fn)
{
	const struct kp_plan_item *p = s->plan.v;
	const char *text = kp_requests_fn(rs, fn)->text;
	size_t item = OTHER;
	char name[600];

	if (fn < FNS_MAX && s->fns[fn] != 0)
		return s->fns[fn] - 1;
	for (size_t i = 0; i < s->plan.n && item == OTHER; i++) {
		snprintf(name, sizeof(name), "%s:%s/%u", p[i].mod, p[i].fun,
		    p[i].arity);
		if (strcmp(name, text) == 0)
			item = i;
	}
	if (fn < FNS_MAX && item != OTHER)
		s->fns[fn] = item + 1;
	return item;
}

static void
tiers_seen(struct findings *s, struct kp_requests *rs,
    const struct kp_request *rq)
{
	const struct kp_call *c;
	size_t item;

	for (uint32_t i = 1; i < rq->ncalls; i++) {
		c = &rq->calls[i];
		item = item_of_fn(s, rs, c->fn);
		if (item == OTHER)
			continue;
		s->seen[item].calls++;
		s->seen[item].strayed += c->strayed;
		s->seen[item].missed += c->strayed ? rq->weight - 1 : 0;
		s->repeated[item] += c->parent != KP_NONE && c->parent > 0 &&
		    rq->calls[c->parent].fn == c->fn;
	}
}

/* Did all that its tiers did begin after it, or outlast it? */
static void
handed_seen(struct findings *s, struct kp_requests *rs,
    const struct kp_request *rq, struct kp_check_seen *entry)
{
	size_t item;

	for (uint32_t i = 1; i < rq->ncalls; i++)
		if (!rq->calls[i].async && rq->calls[i].outlasts == 0)
			return;
	item = rq->ncalls > 1 ? item_of_fn(s, rs, rq->calls[1].fn) : OTHER;
	if (item == OTHER)
		return;
	entry->handed++;
	entry->worker = item;
}

void
findings_request(struct findings *s, struct kp_requests *rs,
    const struct kp_request *rq)
{
	struct opened *o = find_opened(s, rq->label);
	const struct opened *around = find_opened(s, rq->parent_label);

	if (o == NULL)
		return;		/* past the limit */
	if (around != NULL && around->item == o->item &&
	    around->proc == o->proc && !o->nested) {
		o->nested = true;
		s->seen[o->item].nested++;
	}
	if (rq->outcome == KP_UNFINISHED || rq->expired)
		return;
	o->ended = true;
	s->seen[o->item].ended++;
	s->requests++;
	tiers_seen(s, rs, rq);
	handed_seen(s, rs, rq, &s->seen[o->item]);
}

/* ---- results ---- */

void
findings_get(const struct findings *s, struct kp_check *c)
{
	const struct opened *o, *before;

	for (size_t i = 0; i < s->plan.n; i++) {
		s->seen[i].chained = 0;
		/* Not who calls itself once, with its arguments made ready. */
		s->seen[i].recursive = s->repeated[i] * 2 > s->seen[i].calls;
	}
	/* calls of an entry that follow one of which no end was seen */
	for (o = s->opened; o < s->opened + s->entered; o++) {
		before = o->after > 0 ? &s->opened[o->after - 1] : NULL;
		s->seen[o->item].chained += before != NULL && !before->ended &&
		    before->item == o->item && !o->nested;
	}
	c->plan = &s->plan;
	c->seen = s->seen;
	c->requests = s->requests;
	c->matched = s->matched;
}

void
findings_explain(const struct findings *s, struct kp_buf *out)
{
	const struct kp_plan_item *p = s->plan.v;
	char name[FN_NAME_MAX], count[TEXT_MAX];

	for (size_t i = 0; i < s->plan.n; i++) {
		const struct kp_mfa f = { p[i].mod, p[i].fun, p[i].arity };

		if (s->example[i] != NULL) {
			kp_buf_str(out, "example: ");
			text_put(out, s->example[i]);
			kp_buf_u8(out, '\n');
		} else if (s->unshown[i] > 0) {
			kp_buf_printf(out, "no example: of %s that no clause with a "
			    "pattern matched, what ", text_counted(count,
			    s->unshown[i], "call"));
			kp_buf_printf(out, "%s was called with is too large for the "
			    "native probe (-probe relay shows it)\n", fn_name(name,
			    sizeof(name), f.mod, f.fun, f.arity));
		} else if (s->seen[i].known > 0 && (p[i].entry ||
		    kp_spec_names(s->conf, &f))) {
			kp_buf_printf(out, "no example: a clause with a pattern "
			    "matched each call of %s\n", fn_name(name,
			    sizeof(name), f.mod, f.fun, f.arity));
		}
	}
}
