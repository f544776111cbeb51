/*
 * plan_answer.c - decodes the target's answer into modules and their functions,
 * marks exported ones, and recognises callbacks that return a state.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/config.h"
#include "plan/plan_answer.h"

/* Limits the memory for one module's answer. */
#define MODULE_FNS_MAX 20000

void
answer_free(struct answer *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		free(a->v[i].fns);
	free(a->v);
}

/* Reads [{Name, Arity}, ...] */
static struct answer_fn *
read_fns(struct kp_term *r, uint32_t *n, enum kp_err *err)
{
	struct answer_fn *v;
	int64_t arity;

	*n = kp_term_list(r);
	if (*n == 0)
		return NULL;
	if (*n > MODULE_FNS_MAX) {
		*err = KP_ELIMIT;
		return NULL;
	}
	v = calloc(*n, sizeof(*v));
	if (v == NULL) {
		*err = KP_ENOMEM;
		return NULL;
	}
	for (uint32_t i = 0; i < *n; i++) {
		kp_term_tuple_n(r, 2);
		v[i].name = kp_term_atom(r);
		arity = kp_term_int(r);
		if (arity < 0 || arity > 255)
			*err = KP_EFORMAT;
		v[i].arity = (uint32_t)arity;
	}
	kp_term_nil(r);
	return v;
}

/* Defines any total order. */
static int
fn_compare(const void *a, const void *b)
{
	const struct answer_fn *f = a, *g = b;

	if (f->arity != g->arity)
		return f->arity < g->arity ? -1 : 1;
	if (f->name.n != g->name.n)
		return f->name.n < g->name.n ? -1 : 1;
	return f->name.n > 0 ? memcmp(f->name.p, g->name.p, f->name.n) : 0;
}

/* Sorts, since a target may name thousands in each of very many modules. */
static void
mark_exported(struct answer_module *m, struct answer_fn *exports, uint32_t n)
{
	if (n == 0)
		return;
	qsort(exports, n, sizeof(*exports), fn_compare);
	for (uint32_t i = 0; i < m->nfns; i++)
		m->fns[i].exported = bsearch(&m->fns[i], exports, n,
		    sizeof(*exports), fn_compare) != NULL;
}

static enum kp_err
read_module(struct kp_term *r, struct answer_module *m)
{
	struct answer_fn *exports;
	uint32_t nexports;
	struct kp_span what;
	enum kp_err err = KP_OK;
	uint32_t n = kp_term_tuple(r);

	m->name = kp_term_atom(r);
	what = kp_term_atom(r);
	m->loaded = kp_span_is(what, "ok");
	if (r->err == KP_OK && n != (m->loaded ? 5 : 4))
		return KP_EFORMAT;
	if (!m->loaded) {
		m->why = kp_term_raw(r);
		m->others = kp_term_raw(r);
		return r->err;
	}
	exports = read_fns(r, &nexports, &err);
	if (err == KP_OK)
		m->fns = read_fns(r, &m->nfns, &err);
	if (err == KP_OK)
		m->behaviours = kp_term_raw(r);
	if (err == KP_OK && r->err == KP_OK)
		mark_exported(m, exports, nexports);
	free(exports);
	return err != KP_OK ? err : r->err;
}

enum kp_err
answer_read(struct kp_term *r, struct answer *a)
{
	uint32_t n = kp_term_list(r);
	enum kp_err err = r->err;

	if (err == KP_OK && n > KP_TIER_FNS_MAX + 2 * KP_ENTRY_MAX)
		err = KP_ELIMIT;
	if (err == KP_OK && n > 0 && (a->v = calloc(n, sizeof(*a->v))) == NULL)
		err = KP_ENOMEM;
	for (uint32_t i = 0; err == KP_OK && i < n; i++) {
		a->n = i + 1;
		err = read_module(r, &a->v[i]);
	}
	if (err == KP_OK && n > 0)
		kp_term_nil(r);
	return err != KP_OK ? err : r->err;
}

const struct answer_module *
answer_find(const struct answer *a, const char *name)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (kp_span_is(a->v[i].name, name))
			return &a->v[i];
	return NULL;
}

/* ---- callbacks of behaviours ---- */

/*
 * Callbacks that return their process's state, which 'exact' would copy with every
 * message.  fun NULL: any exported function, like the states of a gen_statem.
 */
static const struct {
	const char *behaviour, *fun;
	uint32_t arity;
} returns_state[] = {
	{ "gen_server", "init", 1 }, { "gen_server", "handle_call", 3 },
	{ "gen_server", "handle_cast", 2 }, { "gen_server", "handle_info", 2 },
	{ "gen_server", "handle_continue", 2 },
	{ "gen_server", "code_change", 3 },
	{ "gen_statem", "init", 1 }, { "gen_statem", "handle_event", 4 },
	{ "gen_statem", "code_change", 4 }, { "gen_statem", NULL, 3 },
	{ "gen_event", "init", 1 }, { "gen_event", "handle_event", 2 },
	{ "gen_event", "handle_call", 2 }, { "gen_event", "handle_info", 2 },
	{ "gen_event", "code_change", 3 },
};

/* Some other behaviours have the callbacks of a gen_server. */
static bool
behaviour_is(struct kp_span s, const char *name)
{
	return kp_span_is(s, name) || (strcmp(name, "gen_server") == 0 &&
	    (kp_span_is(s, "gen_server2") ||
	    kp_span_is(s, "Elixir.GenServer")));
}

const char *
plan_state_callback(struct kp_span behaviours, struct kp_span fun,
    uint32_t arity, bool exported)
{
	size_t rows = sizeof(returns_state) / sizeof(returns_state[0]);
	struct kp_span name;
	struct kp_term r;
	uint32_t n;

	kp_term_begin_raw(&r, behaviours.p, behaviours.n);
	n = kp_term_list(&r);
	for (uint32_t i = 0; i < n && r.err == KP_OK; i++) {
		name = kp_term_atom(&r);
		for (size_t k = 0; r.err == KP_OK && k < rows; k++)
			if (behaviour_is(name, returns_state[k].behaviour) &&
			    returns_state[k].arity == arity &&
			    (returns_state[k].fun == NULL ? exported :
			    kp_span_is(fun, returns_state[k].fun)))
				return returns_state[k].behaviour;
	}
	return NULL;
}
