/*
 * spec.c - match specs for tiers and entries.
 *
 * One clause of the identity fun becomes, for each alternative of its guard
 * (parted by ';': one that fails must not fail the others), a clause whose
 * message carries the identity, and where that has variables a second one
 * without their bounds, whose identity is {'_other', Line}.  Then comes a
 * clause for all other calls.
 *
 * A match spec's arguments are evaluated last to first; in the entry's
 *   {{Identity, {caller}, Weight, {get_seq_token}, Label, [], {get_seq_token}}}
 * the old token is read, then Label cleared it (relabelling would keep its
 * flags, serial and sender) and set the new one, which is then read.
 *
 * Labels count in the trace control word, which all processes of the node
 * share.  {set_tcw, {get_tcw} + 1} returns the value before; reading and
 * writing are two steps, so two processes may read the same number or, when
 * one is held up between them, set the counter back, and then as many
 * numbers come again as were given out meanwhile.  A label is therefore
 *   bits 0..27   the control word after the step, as read back
 *   bits 28..35  the low bits of what it was before the step
 *   bits 36..47  the low bits of the label that this process had before,
 *                which differ where the numbers repeat; 0 where there was none
 *   bits 48..57  a constant of this arming, never 0
 * which makes repeats rare, not impossible: the daemon detects collisions.
 * 58 bits stay an immediate; a boxed label crashes the VM.
 */
#include "config/spec.h"
#include "kprofd/etf.h"

#define TCW_MASK 0xFFFFFFF
#define OLD_MASK 0xFF
#define OLD_SHIFT 28
#define MIX_MASK 0xFFF
#define MIX_SHIFT 36
#define LABEL_CONST_MASK (UINT64_C(0x3FF) << 48)
/*
 * Which calls are sampled: by a hash of the control word, since remainders
 * alias with regular traffic.  With H = tcw * HASH_1 it is
 *   ((((H bxor (H bsr 15)) band TCW_MASK) * HASH_2) bsr 20) band 16#FFFFFF
 * and every product stays within 56 bits.  One multiplication alone is not
 * enough: 57 kinds of requests in rotation with 1 in 32 gave some of them
 * 0.6 of their share.  This one keeps within what fair draws give for
 * rotations of 1 to 130 kinds and 1 in 2 to 1 in 1024.
 */
#define HASH_1 0x9E3779B
#define HASH_2 0x85EBCA7
#define HASH_BITS 24

struct spec {
	const struct kp_mfa *f;
	const struct kp_spec_params *p;
	bool entry;
	struct kp_buf clauses;
	uint32_t n;
};

static void
call(struct kp_buf *b, const char *name, uint32_t arity)
{
	kp_etf_tuple(b, arity + 1);
	kp_etf_atom(b, name);
}

/* {set_tcw, ({get_tcw} + 1) band TCW_MASK} */
static void
step_put(struct kp_buf *b)
{
	call(b, "set_tcw", 1);
	call(b, "band", 2);
	call(b, "+", 2);
	call(b, "get_tcw", 0);
	kp_etf_int(b, 1);
	kp_etf_int(b, TCW_MASK);
}

static void
clear_put(struct kp_buf *b)
{
	call(b, "set_seq_token", 2);
	kp_etf_atom(b, "sequential_trace_token");
	kp_etf_nil(b);
}

/* {map_get, X, {const, #{true => 1, false => 2}}} opens an if; X follows. */
static void
pick_begin(struct kp_buf *b)
{
	call(b, "element", 2);
	call(b, "map_get", 2);
}

static void
pick_end(struct kp_buf *b)
{
	call(b, "const", 1);
	kp_etf_map(b, 2);
	kp_etf_atom(b, "true");
	kp_etf_int(b, 1);
	kp_etf_atom(b, "false");
	kp_etf_int(b, 2);
}

/*
 * The label of the token there is, 0 if there is none.  A body cannot branch,
 * and an exception in it would make the label the atom 'EXIT', for ever; so
 * what is and what else would do are put into a tuple, and a test picks one.
 */
static void
old_label_put(struct kp_buf *b)
{
	call(b, "element", 2);
	kp_etf_int(b, 2);
	pick_begin(b);
	call(b, "is_tuple", 1);
	call(b, "get_seq_token", 0);
	pick_end(b);
	kp_etf_tuple(b, 1);
	kp_etf_tuple(b, 2);
	call(b, "get_seq_token", 0);
	call(b, "const", 1);
	kp_etf_tuple(b, 2);
	kp_etf_int(b, 0);
	kp_etf_int(b, 0);
}

/* Other people's labels may be any term: only integers have low bits. */
static void
mix_put(struct kp_buf *b)
{
	call(b, "bsl", 2);
	call(b, "band", 2);
	pick_begin(b);
	call(b, "is_integer", 1);
	old_label_put(b);
	pick_end(b);
	kp_etf_tuple(b, 1);
	kp_etf_tuple(b, 2);
	old_label_put(b);
	kp_etf_int(b, 0);
	kp_etf_int(b, MIX_MASK);
	kp_etf_int(b, MIX_SHIFT);
}

/* Counter and constant; the step is evaluated first, being the last. */
static void
count_put(struct kp_buf *b, uint64_t label_const)
{
	call(b, "bor", 2);
	call(b, "bor", 2);
	call(b, "band", 2);
	call(b, "get_tcw", 0);
	kp_etf_int(b, TCW_MASK);
	kp_etf_int(b, (int64_t)label_const);
	call(b, "bsl", 2);
	call(b, "band", 2);
	step_put(b);
	kp_etf_int(b, OLD_MASK);
	kp_etf_int(b, OLD_SHIFT);
}

/*
 * Clears the token and gives the new label: the mix is read first, the
 * clearing (it returns true, here 0) comes last.
 */
static void
label_put(struct kp_buf *b, uint64_t label_const)
{
	call(b, "bor", 2);
	call(b, "map_get", 2);
	clear_put(b);
	call(b, "const", 1);
	kp_etf_map(b, 1);
	kp_etf_atom(b, "true");
	kp_etf_int(b, 0);
	call(b, "bor", 2);
	count_put(b, label_const);
	mix_put(b);
}

/* How the identity of a clause is to be written. */
enum ident_kind { IDENT_NONE, IDENT_BODY, IDENT_OTHER };

static void
ident_put(struct kp_buf *b, const struct gen *g, const struct node *body,
    enum ident_kind kind)
{
	if (kind == IDENT_OTHER) {
		kp_etf_tuple(b, 1);
		kp_etf_tuple(b, 2);
		kp_etf_atom(b, "_other");
		kp_etf_int(b, body->pos.line);
	} else if (kind == IDENT_NONE || node_is_atom(body, "undefined")) {
		kp_etf_nil(b);
	} else {
		expr_put(b, g, body);
	}
}

/* The actions of a clause, up to and with the identity's place. */
static void
actions_begin(struct kp_buf *b, const struct spec *s)
{
	kp_etf_list(b, 1 + s->p->exact);
	call(b, "message", 1);
	kp_etf_tuple(b, 1);
	kp_etf_tuple(b, s->entry ? 7 : 3);
}

static void
actions_end(struct kp_buf *b, const struct spec *s)
{
	if (s->entry) {
		call(b, "caller", 0);
		kp_etf_int(b, s->p->one_in);
		call(b, "get_seq_token", 0);
		call(b, "set_seq_token", 2);
		kp_etf_atom(b, "label");
		label_put(b, s->p->label_const);
		kp_etf_nil(b);
		call(b, "get_seq_token", 0);
	} else {
		call(b, "get_seq_token", 0);
		call(b, "caller", 0);
	}
	if (s->p->exact)
		call(b, "exception_trace", 0);
	kp_etf_nil(b);
}

/* n guards, already written; tiers first ask for a token. */
static void
guards_put(struct kp_buf *b, const struct spec *s, const struct kp_buf *made,
    unsigned n)
{
	n += !s->entry;
	if (n > 0)
		kp_etf_list(b, n);
	if (!s->entry)
		call(b, "is_seq_trace", 0);
	kp_buf_put(b, made->p, made->len);
	kp_etf_nil(b);
}

static void
clause_put(struct spec *s, const struct gen *g, const struct kp_buf *guards,
    unsigned n, const struct node *body, enum ident_kind kind)
{
	struct kp_buf *b = &s->clauses;

	s->n++;
	kp_etf_tuple(b, 3);
	if (g == NULL || (!g->selective && g->nvar == 0)) {
		kp_etf_atom(b, "_");
	} else {
		if (s->f->arity > 0)
			kp_etf_list(b, s->f->arity);
		kp_buf_put(b, g->head.p, g->head.len);
		kp_etf_nil(b);
	}
	guards_put(b, s, guards, n);
	actions_begin(b, s);
	ident_put(b, g, body, kind);
	actions_end(b, s);
}

static void
err_keep(enum kp_err *err, enum kp_err more)
{
	if (*err == KP_OK)
		*err = more;
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
	bounds = bounds_put(&b, g, body, guard);
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
	struct gen g = { .f = s->f, .nvars = s->f->arity };
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

/* H: {get_tcw} * HASH_1 */
static void
product_put(struct kp_buf *b)
{
	call(b, "*", 2);
	call(b, "get_tcw", 0);
	kp_etf_int(b, HASH_1);
}

static void
hash_put(struct kp_buf *b)
{
	call(b, "band", 2);
	call(b, "bsr", 2);
	call(b, "*", 2);
	call(b, "band", 2);
	call(b, "bxor", 2);
	product_put(b);
	call(b, "bsr", 2);
	product_put(b);
	kp_etf_int(b, 15);
	kp_etf_int(b, TCW_MASK);
	kp_etf_int(b, HASH_2);
	kp_etf_int(b, 20);
	kp_etf_int(b, (1 << HASH_BITS) - 1);
}

/* What KP_EV_CLEAR carries. */
static void
cleared_put(struct kp_buf *b)
{
	kp_etf_tuple(b, 1);
	kp_etf_tuple(b, 4);
	kp_etf_nil(b);
	call(b, "get_seq_token", 0);
	call(b, "caller", 0);
	kp_etf_nil(b);
}

/*
 * A call that sampling passes over says nothing; but one of set_token ends
 * the request that was set before in its process, and tells of that.
 */
static void
unsampled_message_put(struct kp_buf *b, bool set)
{
	call(b, "message", 1);
	if (set) {
		pick_begin(b);
		call(b, "is_seq_trace", 0);
		pick_end(b);
		kp_etf_tuple(b, 1);
		kp_etf_tuple(b, 2);
		cleared_put(b);
	}
	kp_etf_bool(b, false);
}

/* The first clause of a sampled entry: count and cut. */
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
	kp_etf_list(b, 3);
	step_put(b);
	unsampled_message_put(b, kp_mark(s->f) == KP_MARK_SET);
	clear_put(b);
	kp_etf_nil(b);
}

static enum kp_err
spec_put(const struct kp_conf *c, struct spec *s, struct kp_buf *out)
{
	const struct node *fun = c->identity != NULL ? c->identity->fun : NULL;
	static const struct kp_buf none;
	bool all = false;

	if (out->err != KP_OK)
		return out->err;
	kp_buf_init(&s->clauses, out->max);
	if (s->entry && s->p->one_in > 1)
		unsampled_put(s);
	for (uint32_t i = 0; fun != NULL && i < fun->n && !all &&
	    s->clauses.err == KP_OK; i++)
		all = ident_clause_put(s, fun->kid[i]);
	if (!all)
		clause_put(s, NULL, &none, 0, NULL, IDENT_NONE);
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
	struct spec s = { .f = f, .p = p };

	return spec_put(c, &s, out);
}

enum kp_err
kp_spec_entry(const struct kp_conf *c, const struct kp_mfa *f,
    const struct kp_spec_params *p, struct kp_buf *out)
{
	struct spec s = { .f = f, .p = p, .entry = true };

	/* A label of 0 is the VM's default, and a boxed one a crash. */
	if (p->one_in == 0 || p->one_in > 1u << HASH_BITS ||
	    p->label_const == 0 || (p->label_const & ~LABEL_CONST_MASK) != 0)
		return KP_EFORMAT;
	return spec_put(c, &s, out);
}

bool
kp_spec_identities(const struct kp_conf *c,
    void (*f)(void *ctx, const uint8_t *term, size_t n), void *ctx)
{
	const struct node *fun = c->identity != NULL ? c->identity->fun : NULL;
	const struct node *body;
	bool all = true;
	struct kp_buf b;

	for (uint32_t i = 0; fun != NULL && i < fun->n; i++) {
		body = fun->kid[i]->kid[1];
		if (node_is_atom(body, "undefined"))
			continue;
		kp_buf_init(&b, KP_CONF_SIZE_MAX);
		if (node_is_literal(body))
			raw_put(&b, body);
		if (b.len > 0 && b.err == KP_OK)
			f(ctx, b.p, b.len);
		else
			all = false;
		kp_buf_free(&b);
	}
	return all;
}

bool
kp_spec_names(const struct kp_conf *c, const struct kp_mfa *f)
{
	const struct node *fun = c->identity != NULL ? c->identity->fun : NULL;
	bool meets = false;

	for (uint32_t i = 0; fun != NULL && i < fun->n && !meets; i++) {
		struct gen g = { .f = f, .nvars = f->arity };

		if (node_is_atom(fun->kid[i]->kid[1], "undefined"))
			continue;
		kp_buf_init(&g.head, KP_CONF_SIZE_MAX);
		kp_buf_init(&g.guards, KP_CONF_SIZE_MAX);
		meets = gen_pattern(&g, fun->kid[i]->kid[0]);
		kp_buf_free(&g.head);
		kp_buf_free(&g.guards);
		arena_free(&g.arena);
	}
	return meets;
}

/* [{'_', [{is_seq_trace}], [Message, Clear]}] */
enum kp_err
kp_spec_clear(struct kp_buf *out)
{
	kp_etf_list(out, 1);
	kp_etf_tuple(out, 3);
	kp_etf_atom(out, "_");
	kp_etf_list(out, 1);
	call(out, "is_seq_trace", 0);
	kp_etf_nil(out);
	kp_etf_list(out, 2);
	call(out, "message", 1);
	cleared_put(out);
	clear_put(out);
	kp_etf_nil(out);
	kp_etf_nil(out);
	return out->err;
}
