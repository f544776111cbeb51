/*
 * tracer_limits.c - asks which functions mark requests, sends match specs for
 * them, and decides which identities the user asked for.
 *
 * Before `go` this sends `marked`.  The node answers {kprof_marked, Entries, Marks,
 * Inside}, each [{M, F, A}], and gets {specs, [{MFA, Spec}]} for those that the
 * identity fun has clauses for.  Later it asks {kprof_identity, Id, Term}, gets
 * {identity, Id, Bool}, and sends {kprof_request, Number} for each request of
 * such an identity.
 */
#include <stdio.h>

#include "kprofd/etf.h"
#include "kprofd/label.h"
#include "profile/node/tracer_limits.h"

#define SPECS_MAX (8u << 20)		/* of all functions together */

struct naming {
	const struct tracer_limit *limit;
	struct kp_call_names *names;
	struct kp_spec_params params;
	struct kp_buf specs;	/* {MFA, Spec}, ... */
	uint32_t n;
	enum kp_err err;
};

static void
put_naming(struct naming *m, struct kp_span mod, struct kp_span fun,
    uint32_t arity, bool entry)
{
	char mod_text[KP_CALLS_NAME_MAX + 1], fun_text[KP_CALLS_NAME_MAX + 1];
	struct kp_mfa f = { mod_text, fun_text, arity };
	const struct kp_conf *conf = m->limit->conf;

	injected_copy_text(mod, mod_text, sizeof(mod_text));
	injected_copy_text(fun, fun_text, sizeof(fun_text));
	if (conf == NULL || !kp_spec_names(conf, &f))
		return;
	m->n++;
	kp_etf_tuple(&m->specs, 2);
	kp_etf_tuple(&m->specs, 3);
	kp_etf_atom(&m->specs, mod_text);
	kp_etf_atom(&m->specs, fun_text);
	kp_etf_int(&m->specs, arity);
	m->err = entry ? kp_spec_entry(conf, &f, &m->params, &m->specs) :
	    kp_spec_tier(conf, &f, &m->params, &m->specs);
}

/* The entries of an attached kprofd get their token from it. */
static void
on_entry(struct naming *m, struct kp_span mod, struct kp_span fun,
    uint32_t arity)
{
	put_naming(m, mod, fun, arity, !m->limit->attached);
}

static void
on_mark(struct naming *m, struct kp_span mod, struct kp_span fun,
    uint32_t arity)
{
	put_naming(m, mod, fun, arity, false);
}

static void
on_inside(struct naming *m, struct kp_span mod, struct kp_span fun,
    uint32_t arity)
{
	uint32_t fn;
	bool added;

	m->err = kp_call_fn_put(m->names, mod, fun, arity, &fn, &added);
	if (m->err == KP_OK && m->limit->on_inside != NULL)
		m->err = m->limit->on_inside(m->limit->ctx, fn);
}

/* Calls f with each {M, F, A} of a list. */
static void
each_function(struct kp_term *r, struct naming *m,
    void (*f)(struct naming *m, struct kp_span mod, struct kp_span fun,
    uint32_t arity))
{
	uint32_t n = kp_term_list(r);
	struct kp_span mod, fun;
	uint32_t arity;

	for (uint32_t i = 0; i < n && r->err == KP_OK && m->err == KP_OK; i++) {
		arity = kp_term_mfa(r, &mod, &fun);
		if (r->err == KP_OK)
			f(m, mod, fun, arity);
	}
	if (n > 0)
		kp_term_nil(r);
}

static void
put_specs(struct kp_buf *b, const void *ctx)
{
	const struct naming *m = ctx;

	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "specs");
	if (m->n > 0)
		kp_etf_list(b, m->n);
	kp_buf_put(b, m->specs.p, m->specs.len);
	kp_etf_nil(b);
}

/* {kprof_marked, Entries, Marks, Inside} */
static enum kp_err
await_marked(struct injected *g, struct kp_term *r)
{
	enum kp_err e = injected_command(g, "marked");

	do {
		if (e == KP_OK)
			e = injected_next(g, kp_mono_now() + TRACER_READ_LIMIT,
			    r);
		if (e != KP_OK)
			return e;
		kp_term_tuple(r);
	} while (!kp_span_is(kp_term_atom(r), "kprof_marked"));
	return KP_OK;
}

enum kp_err
tracer_mark(struct injected *g, const struct tracer_limit *l,
    struct kp_call_names *names, char *why, size_t n)
{
	struct naming m = { .limit = l, .names = names, .params = { .one_in = 1,
		.trace = true, .label_const = (uint64_t)(1 + kp_mono_now() /
		1000 % KP_LABEL_CONSTS) << KP_LABEL_CONST_SHIFT } };
	struct kp_term r;
	enum kp_err e = await_marked(g, &r);

	kp_buf_init(&m.specs, SPECS_MAX);
	if (e == KP_OK) {
		each_function(&r, &m, on_entry);
		each_function(&r, &m, on_mark);
		each_function(&r, &m, on_inside);
		e = r.err != KP_OK ? r.err : m.specs.err != KP_OK ?
		    m.specs.err : m.err;
	}
	if (e == KP_OK && l->conf != NULL && m.n == 0) {
		snprintf(why, n, "'%s': no clause of the identity fun is for "
		    "a function that is there", g->target);
		e = KP_ENOENT;
	} else if (e == KP_OK && m.n > 0) {
		e = injected_send(g, put_specs, &m);
	}
	if (e != KP_OK && e != KP_END && e != KP_ENOENT)
		injected_broken(g, e, why, n);
	kp_buf_free(&m.specs);
	return e;
}

struct answer {
	int64_t id;
	bool wanted;
};

static void
put_answer(struct kp_buf *b, const void *ctx)
{
	const struct answer *a = ctx;

	kp_etf_tuple(b, 3);
	kp_etf_atom(b, "identity");
	kp_etf_int(b, a->id);
	kp_etf_bool(b, a->wanted);
}

/* {kprof_identity, Id, Term} */
enum kp_err
tracer_read_identity(struct injected *g, const struct tracer_limit *l,
    struct kp_term *r)
{
	struct answer a = { .id = kp_term_int(r) };
	struct kp_span term = kp_term_raw(r);

	if (r->err != KP_OK || l->is_wanted == NULL)
		return KP_OK;
	a.wanted = l->is_wanted(l->ctx, term);
	/* The next wait for a message reports a lost connection. */
	injected_send(g, put_answer, &a);
	return KP_OK;
}

/* {kprof_request, Number} */
enum kp_err
tracer_read_wanted(const struct tracer_limit *l, struct kp_term *r)
{
	int64_t n = kp_term_int(r);

	if (r->err != KP_OK || n < 1 || n >= KP_CALLS_REQUESTS_MAX ||
	    l->on_wanted == NULL)
		return KP_OK;
	return l->on_wanted(l->ctx, (uint32_t)n);
}
