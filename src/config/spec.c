/*
 * spec.c - match specs for tiers and entries.
 *
 * A clause of the identity fun becomes one clause for each alternative of its
 * guard (separated by ';': an alternative that fails must not fail the others).
 * Its message carries the identity.  If that has variables, a second clause
 * follows without their bounds, with the identity {'_other', Line}.  The last
 * clause is for all other calls.  For a check the number of the
 * clause takes the place of the identity, and nothing of a call is copied but
 * what spec_shape.c allows.  Clauses of the label fun are written in the same
 * way: {'_label', Label} stands in the place of the identity.  If a clause of the
 * trace_id fun takes the call, too, {'_trace', Traceparent, Identity} does: each clause
 * comes with each of that fun first, and then without.  Two patterns do not fit into
 * one head, so both are guards then.
 *
 * A match spec evaluates arguments last to first.  In the entry's
 *   {{Identity, {caller}, Weight, New, true, [], Old}}
 * Old reads the present token; then New removes it, sets another with a label
 * (spec_label.c) and reads that.  Changing only the label would keep its flags,
 * serial and sender.
 *
 * A token may be an application's own, with any term for a label.  'andalso' has
 * the value of its last part and evaluates that only if the others are true, so
 * all use of a token stands behind a test that it is ours.  An entry that finds
 * a foreign token leaves it there, begins no request, and sends false as New.  A
 * tier's call with a foreign token, or an old one of ours, sends no message; the
 * old one is removed.  With gives_tokens a call without a token, or with an old one of
 * a kprofd, gets one of no request instead: by its sender request/reconcile.c finds
 * whose the call is.  By the shape of that message, with true and [], the agent
 * knows the clauses of entries, to which it adds what asks for messages
 * (erlang/agent/kprof_agent_messages.erl).  Between slices of time, with `watch`, New is
 * [] too: there is no token, and the entry's begin and end show how long it took; a token
 * of before is removed.
 *
 * If garbage collection or scheduling is measured, a call with a token gives its
 * own process the flags for that, and one without removes them: {trace, Disable,
 * Enable} on oneself does not wait.  (On another process it would block its
 * whole scheduler until that process is scheduled out.)
 */
#include <string.h>

#include "config/spec.h"
#include "kprofd/label.h"

#define LABEL_CONST_MASK ((uint64_t)KP_LABEL_CONSTS << KP_LABEL_CONST_SHIFT)

/* ---- the clauses of the funs: results, and the functions they match ---- */

static const struct node *
identity_fun(const struct kp_conf *c)
{
	return c->funs != NULL ? c->funs->identity : NULL;
}

bool
kp_conf_has_identity(const struct kp_conf *c)
{
	return identity_fun(c) != NULL;
}

static const struct node *
label_fun(const struct kp_conf *c)
{
	return c->funs != NULL ? c->funs->label : NULL;
}

static const struct node *
trace_fun(const struct kp_conf *c)
{
	return c->funs != NULL ? c->funs->trace : NULL;
}

static uint32_t
clauses(const struct node *fun)
{
	return fun != NULL ? fun->n : 0;
}

/* Those of labels follow those of identities. */
static const struct node *
clause_find(const struct kp_conf *c, uint32_t i)
{
	uint32_t n = clauses(identity_fun(c));

	if (i < n)
		return identity_fun(c)->kid[i];
	return i - n < clauses(label_fun(c)) ? label_fun(c)->kid[i - n] : NULL;
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
		.label = i >= clauses(identity_fun(c)),
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
	const struct node *fun = identity_fun(c);
	bool all = true;
	struct kp_buf b;

	for (uint32_t i = 0; i < clauses(fun); i++) {
		if (node_is_atom(fun->kid[i]->kid[1], "undefined"))
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

static bool
clause_takes(const struct node *clause, const struct kp_mfa *f)
{
	struct gen g = { .f = f, .nvars = f->arity };
	bool takes;

	kp_buf_init(&g.head, KP_CONF_SIZE_MAX);
	kp_buf_init(&g.guards, KP_CONF_SIZE_MAX);
	takes = gen_pattern(&g, clause->kid[0]);
	kp_buf_free(&g.head);
	kp_buf_free(&g.guards);
	arena_free(&g.arena);
	return takes;
}

bool
kp_clause_takes(const struct kp_conf *c, uint32_t i, const struct kp_mfa *f)
{
	const struct node *clause = clause_find(c, i);

	return clause != NULL && clause_takes(clause, f);
}

/* Does a clause of the fun have a result for calls of f? */
static bool
fun_has_result(const struct node *fun, const struct kp_mfa *f)
{
	bool has = false;

	for (uint32_t i = 0; !has && i < clauses(fun); i++)
		has = !node_is_atom(fun->kid[i]->kid[1], "undefined") &&
		    clause_takes(fun->kid[i], f);
	return has;
}

bool
kp_spec_names(const struct kp_conf *c, const struct kp_mfa *f)
{
	return fun_has_result(identity_fun(c), f);
}

bool
kp_spec_traces(const struct kp_conf *c, const struct kp_mfa *f)
{
	return fun_has_result(trace_fun(c), f);
}

/* ---- match specs ---- */

struct spec {
	const struct kp_conf *c;
	const struct kp_mfa *f;
	const struct kp_spec_params *p;
	bool entry;
	struct kp_buf clauses;
	uint32_t n;
	uint32_t at;	/* the clause: kp_clause() and 1; 0: none of them */
	bool label;	/* the clause is of the label fun */
	bool traces;	/* calls may have a traceparent */
	const struct gen *trace;	/* the clause has one; NULL: it has none */
	const struct node *traceparent;
};

/* How the identity of a clause is written. */
enum ident_kind { IDENT_NONE, IDENT_BODY, IDENT_OTHER };

/* For a check: which clause matched, and what the arguments are. */
static void
number_put(struct kp_buf *b, const struct spec *s, bool shaped)
{
	if (shaped) {
		kp_etf_tuple(b, 1);
		kp_etf_tuple(b, 2);
	}
	kp_etf_int(b, s->at);
	if (shaped)
		shape_put(b, s->c, s->f->arity, s->p->shape == KP_SHAPE_VALUES);
}

static void
ident_put(struct kp_buf *b, const struct spec *s, const struct gen *g,
    const struct node *body, enum ident_kind kind)
{
	bool none = kind == IDENT_NONE || node_is_atom(body, "undefined");

	if (s->trace != NULL) {
		kp_etf_tuple(b, 1);
		kp_etf_tuple(b, 3);
		kp_etf_atom(b, KP_TRACE_TAG);
		expr_put(b, s->trace, s->traceparent);
	}
	if (s->label && !none) {
		kp_etf_tuple(b, 1);
		kp_etf_tuple(b, 2);
		kp_etf_atom(b, KP_LABEL_TAG);
	}
	if (kind == IDENT_OTHER) {
		terms_put(b, "{{_other,~0}}", NULL, INTS(body->pos.line));
	} else if (none) {
		kp_etf_nil(b);
	} else {
		expr_put(b, g, body);
	}
}

static bool
wants_flags(const struct spec *s)
{
	return !s->p->watch && (s->c->scheduling || kp_conf_gc(s->c, s->p->gc_shared));
}

void
kp_spec_flags(const struct kp_conf *c, bool gc_shared, struct kp_buf *out)
{
	bool gc = kp_conf_gc(c, gc_shared);

	if (gc || c->scheduling)
		kp_etf_list(out, (uint32_t)gc + c->scheduling);
	if (c->scheduling)
		kp_etf_atom(out, "running");
	if (gc)
		kp_etf_atom(out, "garbage_collection");
	kp_etf_nil(out);
}

/* {trace, Disable, Enable}: the flags of this process, on or off. */
static void
trace_put(struct kp_buf *b, const struct spec *s, bool on)
{
	call(b, "trace", 2);
	if (on)
		kp_etf_nil(b);
	kp_spec_flags(s->c, s->p->gc_shared, b);
	if (!on)
		kp_etf_nil(b);
}

/*
 * A call of a request of ours gives its process the flags, any other removes
 * them.  The value of {trace, _, _} is true if that changed a flag.
 */
static void
flags_put(struct kp_buf *b, const struct spec *s)
{
	if (s->p->trace) {
		trace_put(b, s, true);
		return;
	}
	call(b, "orelse", 2);
	carries_kprofds_put(b, 1);
	call(b, "orelse", 2);
	trace_put(b, s, true);
	kp_etf_bool(b, true);
	trace_put(b, s, false);
}

/* Asks for an event at the call's end, if there is one of its begin. */
static void
exact_put(struct kp_buf *b, const struct spec *s)
{
	if (!s->p->trace && !s->p->watch)
		carries_kprofds_put(b, 1);
	call(b, "exception_trace", 0);
}

/* A call that begins no request that is measured removes the token of one. */
static void
clear_ours_put(struct kp_buf *b, const struct spec *s)
{
	if (!s->c->replace_foreign)
		carries_ours_put(b, 1);
	clear_put(b);
}

/* Writes the actions of a clause up to where the identity follows. */
static void
actions_begin(struct kp_buf *b, const struct spec *s)
{
	kp_etf_list(b, 1u + s->p->exact + (wants_flags(s) || s->p->watch));
	call(b, "message", 1);
	if (!s->entry && !s->p->trace) {
		call(b, "andalso", 2);
		live_put(b, s->p->gives_tokens);
	}
	kp_etf_tuple(b, 1);
	kp_etf_tuple(b, s->entry ? 7 : 3);
}

/* The token with a new label; false if a foreign one stays. */
static void
new_token_put(struct kp_buf *b, const struct spec *s)
{
	uint64_t kind = s->p->trace ? KP_LABEL_TRACE : KP_LABEL_KPROFD;
	bool keep = !s->c->replace_foreign;

	call(b, "andalso", 3u + keep);
	if (keep)
		carries_no_others_put(b);
	clear_put(b);
	label_put(b, kind << KP_LABEL_KIND_SHIFT | s->p->label_const);
	call(b, "get_seq_token", 0);
}

static void
actions_end(struct kp_buf *b, const struct spec *s)
{
	if (s->entry && s->p->watch) {
		terms_put(b, "{caller},1,[],true,[],[]", NULL, NULL);
	} else if (s->entry) {
		terms_put(b, "{caller},~0", NULL, INTS(s->p->one_in));
		new_token_put(b, s);
		terms_put(b, "true,[]", NULL, NULL);
		carries_ours_put(b, 1);
		call(b, "get_seq_token", 0);
	} else {
		terms_put(b, "{get_seq_token},{caller}", NULL, NULL);
	}
	if (s->p->exact)
		exact_put(b, s);
	if (wants_flags(s))
		flags_put(b, s);
	if (s->p->watch)
		clear_ours_put(b, s);
	kp_etf_nil(b);
}

/* Writes n guards, which are made; tiers that give none test for a token first. */
static void
guards_put(struct kp_buf *b, const struct spec *s, const struct kp_buf *made,
    unsigned n)
{
	bool test = !s->entry && !s->p->gives_tokens;

	n += test;
	if (n > 0)
		kp_etf_list(b, n);
	if (test)
		call(b, "is_seq_trace", 0);
	kp_buf_put(b, made->p, made->len);
	kp_etf_nil(b);
}

/* Only in the clause that takes all calls that are left: it can bind them all. */
static bool
is_shaped(const struct spec *s, const struct gen *g, unsigned n)
{
	return s->p->shape != KP_SHAPE_NONE && n == 0 &&
	    (g == NULL || !g->selective) &&
	    (s->entry || kp_spec_names(s->c, s->f) ||
	    fun_has_result(label_fun(s->c), s->f));
}

/* ['$1', '$2', ...] */
static void
arguments_put(struct kp_buf *b, uint32_t arity)
{
	if (arity > 0)
		kp_etf_list(b, arity);
	for (uint32_t i = 1; i <= arity; i++)
		var_put(b, i);
	kp_etf_nil(b);
}

static void
one_clause_put(struct spec *s, const struct gen *g, const struct kp_buf *guards,
    unsigned n, const struct node *body, enum ident_kind kind)
{
	struct kp_buf *b = &s->clauses;
	bool shaped = is_shaped(s, g, n);

	s->n++;
	kp_etf_tuple(b, 3);
	if (shaped || s->traces) {
		arguments_put(b, s->f->arity);
	} else if (g == NULL || (!g->selective && g->nvar == 0)) {
		kp_etf_atom(b, "_");
	} else {
		if (s->f->arity > 0)
			kp_etf_list(b, s->f->arity);
		kp_buf_put(b, g->head.p, g->head.len);
		kp_etf_nil(b);
	}
	guards_put(b, s, guards, n);
	actions_begin(b, s);
	if (s->p->clauses)
		number_put(b, s, shaped);
	else
		ident_put(b, s, g, body, kind);
	actions_end(b, s);
}

static void
err_keep(enum kp_err *err, enum kp_err more)
{
	if (*err == KP_OK)
		*err = more;
}

/*
 * The same clause for calls that an alternative of a clause of the trace_id fun takes,
 * too.  Returns true if that takes all calls, and none of them has a traceparent.
 */
static bool
trace_clause_put(struct spec *s, const struct gen *g, const struct kp_buf *guards,
    unsigned n, const struct node *body, enum ident_kind kind,
    const struct node *clause, const struct node *guard)
{
	struct gen t = { .f = s->f, .nvars = s->f->arity, .whole = true };
	bool none = node_is_atom(clause->kid[1], "undefined"), takes;
	struct kp_buf b;

	kp_buf_init(&t.guards, s->clauses.max);
	takes = gen_pattern(&t, clause->kid[0]);
	if (takes && (!none || t.selective || guard != NULL)) {
		kp_buf_init(&b, s->clauses.max);
		kp_buf_put(&b, guards->p, guards->len);
		kp_buf_put(&b, t.guards.p, t.guards.len);
		n += t.nguards;
		for (uint32_t i = 0; guard != NULL && i < guard->n; i++, n++)
			expr_put(&b, &t, guard->kid[i]);
		if (!none)
			n += bounds_put(&b, &t, clause->kid[1], guard, true);
		s->trace = none ? NULL : &t;
		s->traceparent = clause->kid[1];
		one_clause_put(s, g, &b, n, body, kind);
		s->trace = NULL;
		err_keep(&s->clauses.err, b.err);
		kp_buf_free(&b);
	}
	err_keep(&s->clauses.err, t.guards.err);
	none &= takes && !t.selective && guard == NULL;
	kp_buf_free(&t.guards);
	arena_free(&t.arena);
	return none;
}

static void
clause_put(struct spec *s, const struct gen *g, const struct kp_buf *guards,
    unsigned n, const struct node *body, enum ident_kind kind)
{
	const struct node *fun = trace_fun(s->c), *x;
	bool all = !s->traces;

	for (uint32_t i = 0; !all && i < fun->n; i++) {
		x = fun->kid[i];
		if (x->n == 2)
			all = trace_clause_put(s, g, guards, n, body, kind, x, NULL);
		for (uint32_t k = 2; k < x->n; k++)
			trace_clause_put(s, g, guards, n, body, kind, x, x->kid[k]);
	}
	one_clause_put(s, g, guards, n, body, kind);
}

/* One alternative of a clause's guard (NULL: it has none). */
static void
alternative_put(struct spec *s, const struct gen *g, const struct node *body,
    const struct node *guard)
{
	struct kp_buf b;
	unsigned n = g->nguards, bounds;
	size_t unbounded;

	kp_buf_init(&b, s->clauses.max);
	kp_buf_put(&b, g->guards.p, g->guards.len);
	for (uint32_t i = 0; guard != NULL && i < guard->n; i++, n++)
		expr_put(&b, g, guard->kid[i]);
	unbounded = b.len;
	bounds = s->p->clauses ? 0 : bounds_put(&b, g, body, guard,
	    false);
	clause_put(s, g, &b, n + bounds, body, IDENT_BODY);
	err_keep(&s->clauses.err, b.err);
	if (bounds > 0 && b.err == KP_OK) {
		b.len = unbounded;
		clause_put(s, g, &b, n, body, IDENT_OTHER);
	}
	kp_buf_free(&b);
}

/* Returns true if the clause takes every call, so that none can follow. */
static bool
ident_clause_put(struct spec *s, const struct node *clause)
{
	struct gen g = { .f = s->f, .nvars = s->f->arity, .whole = s->traces };
	bool all = false;

	kp_buf_init(&g.head, s->clauses.max);
	kp_buf_init(&g.guards, s->clauses.max);
	if (gen_pattern(&g, clause->kid[0])) {
		err_keep(&s->clauses.err, g.head.err);
		err_keep(&s->clauses.err, g.guards.err);
		all = clause->n == 2 && !g.selective;
		if (clause->n == 2)
			alternative_put(s, &g, clause->kid[1], NULL);
		for (uint32_t i = 2; i < clause->n; i++)
			alternative_put(s, &g, clause->kid[1], clause->kid[i]);
	}
	kp_buf_free(&g.head);
	kp_buf_free(&g.guards);
	arena_free(&g.arena);
	return all;
}

/* The message of KP_EV_CLEAR. */
#define CLEARED "{{[],{get_seq_token},{caller},[]}}"

/*
 * A call that is not sampled sends no event, except for set_token: that ends the
 * request that its process set before.
 */
static void
unsampled_message_put(struct kp_buf *b, bool set)
{
	call(b, "message", 1);
	if (set) {
		carries_ours_put(b, 1);
		terms_put(b, CLEARED, NULL, NULL);
	} else {
		kp_etf_bool(b, false);
	}
}

/* The first clause of a sampled entry: counts, and removes a token of ours. */
static void
unsampled_put(struct spec *s)
{
	struct kp_buf *b = &s->clauses;

	s->n++;
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, "_");
	kp_etf_list(b, 1);
	call(b, ">=", 2);
	hash_put(b);
	kp_etf_int(b, (1 << HASH_BITS) / (int64_t)s->p->one_in);
	kp_etf_nil(b);
	kp_etf_list(b, 3u + wants_flags(s));
	step_put(b);
	unsampled_message_put(b, kp_mark(s->f) == KP_MARK_SET);
	clear_ours_put(b, s);
	if (wants_flags(s))
		trace_put(b, s, false);
	kp_etf_nil(b);
}

/* The last clause of a tier, for calls without a token. */
static void
untraced_put(struct spec *s)
{
	struct kp_buf *b = &s->clauses;

	s->n++;
	kp_etf_tuple(b, 3);
	terms_put(b, "_,[]", NULL, NULL);
	kp_etf_list(b, 2);
	terms_put(b, "{message,false}", NULL, NULL);
	trace_put(b, s, false);
	kp_etf_nil(b);
}

/* Returns true if one of the fun's clauses takes every call. */
static bool
fun_put(struct spec *s, bool label)
{
	const struct node *fun = label ? label_fun(s->c) : identity_fun(s->c);
	uint32_t before = label ? clauses(identity_fun(s->c)) : 0;
	bool all = false;

	s->label = label;
	for (uint32_t i = 0; i < clauses(fun) && !all &&
	    s->clauses.err == KP_OK; i++) {
		/* The rest has no label, and may have an identity. */
		if (label && fun->kid[i]->kid[0]->kind == N_VAR &&
		    node_is_atom(fun->kid[i]->kid[1], "undefined"))
			break;
		s->at = before + i + 1;
		all = ident_clause_put(s, fun->kid[i]);
	}
	s->at = 0;
	s->label = false;
	return all;
}

/*
 * A message has room for an identity or a label.  An entry is there to name its
 * request; of another function a label is wanted most.
 */
static bool
funs_put(struct spec *s)
{
	bool labels = !s->p->trace && fun_has_result(label_fun(s->c), s->f) &&
	    !(s->entry && kp_spec_names(s->c, s->f));

	return (labels && fun_put(s, true)) || fun_put(s, false);
}

static enum kp_err
spec_put(struct spec *s, struct kp_buf *out)
{
	static const struct kp_buf none;
	bool all;

	if (out->err != KP_OK)
		return out->err;
	kp_buf_init(&s->clauses, out->max);
	s->traces = (s->entry || kp_mark(s->f) == KP_MARK_TRACE) && !s->p->trace &&
	    !s->p->clauses && kp_spec_traces(s->c, s->f);
	if (s->entry && s->p->one_in > 1 && !s->p->sliced)
		unsampled_put(s);
	all = funs_put(s);
	if (!all)
		clause_put(s, NULL, &none, 0, NULL, IDENT_NONE);
	if (!s->entry && wants_flags(s))
		untraced_put(s);
	if (s->clauses.err == KP_OK) {
		kp_etf_list(out, s->n);
		kp_buf_put(out, s->clauses.p, s->clauses.len);
		kp_etf_nil(out);
	} else {
		out->err = s->clauses.err;
	}
	kp_buf_free(&s->clauses);
	return out->err;
}

enum kp_err
kp_spec_tier(const struct kp_conf *c, const struct kp_mfa *f,
    const struct kp_spec_params *p, struct kp_buf *out)
{
	struct kp_spec_params of = *p;
	struct spec s = { .c = c, .f = f, .p = &of };

	of.watch = false;	/* that is of entries */
	return spec_put(&s, out);
}

enum kp_err
kp_spec_entry(const struct kp_conf *c, const struct kp_mfa *f,
    const struct kp_spec_params *p, struct kp_buf *out)
{
	struct spec s = { .c = c, .f = f, .p = p, .entry = true };

	/* A label of 0 is the VM's default, and a boxed one a crash. */
	if (p->one_in == 0 || p->one_in > 1u << HASH_BITS ||
	    p->label_const == 0 || (p->label_const & ~LABEL_CONST_MASK) != 0)
		return KP_EFORMAT;
	return spec_put(&s, out);
}

/* [{'_', [{is_seq_trace}], [Message, Clear]}] */
enum kp_err
kp_spec_clear(const struct kp_conf *c, struct kp_buf *out)
{
	kp_etf_list(out, 1);
	kp_etf_tuple(out, 3);
	terms_put(out, "_,[{is_seq_trace}]", NULL, NULL);
	kp_etf_list(out, 2);
	call(out, "message", 1);
	carries_ours_put(out, 1);
	terms_put(out, CLEARED, NULL, NULL);
	if (!c->replace_foreign)
		carries_ours_put(out, 1);
	clear_put(out);
	kp_etf_nil(out);
	kp_etf_nil(out);
	return out->err;
}
