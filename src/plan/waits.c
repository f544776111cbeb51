/*
 * waits.c - reads a target's list of servers that answer later, and writes what the
 * user can change in tiers.conf.
 */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "kprofd/fn_name.h"
#include "kprofd/waits.h"
#include "text/text.h"

/* poolboy's clients, those of Ecto, and those of Finch and Mint in NimblePool. */
static const struct kp_pool_fn pool_fns[] = {
	{ "poolboy", "checkout", true },
	{ "poolboy", "transaction", false },
	{ "Elixir.DBConnection.Holder", "checkout", true },
	{ "Elixir.DBConnection", "transaction", false },
	{ "Elixir.NimblePool", "checkout!", false }
};

const struct kp_pool_fn *
kp_pool_fn(const char *mod, const char *fun)
{
	for (size_t i = 0; i < sizeof(pool_fns) / sizeof(pool_fns[0]); i++)
		if (strcmp(pool_fns[i].mod, mod) == 0 &&
		    strcmp(pool_fns[i].fun, fun) == 0)
			return &pool_fns[i];
	return NULL;
}

/* ---- what a target says ---- */

static void
copy(struct kp_span s, char text[KP_WAITS_FN_MAX])
{
	snprintf(text, KP_WAITS_FN_MAX, "%.*s", (int)s.n,
	    s.n > 0 ? (const char *)s.p : "");
}

/* {M, F, A}, or [], of which mod is "". */
static uint32_t
read_fn(struct kp_term *r, char mod[KP_WAITS_FN_MAX],
    char fun[KP_WAITS_FN_MAX])
{
	struct kp_span m = { NULL, 0 }, f = { NULL, 0 };
	uint32_t arity = 0;

	if (kp_term_peek(r) == KP_TERM_NIL)
		kp_term_nil(r);
	else
		arity = kp_term_mfa(r, &m, &f);
	copy(m, mod);
	copy(f, fun);
	return arity;
}

enum kp_err
kp_server_read(struct kp_term *r, char name[KP_SERVER_NAME_MAX])
{
	char reg[KP_WAITS_FN_MAX] = "", mod[KP_WAITS_FN_MAX],
	    fun[KP_WAITS_FN_MAX], shown[FN_NAME_MAX];
	const char *whole;
	uint32_t arity;
	struct kp_buf b;

	name[0] = '\0';
	kp_term_tuple_n(r, 2);
	if (kp_term_peek(r) == KP_TERM_NIL)
		kp_term_nil(r);
	else
		copy(kp_term_atom(r), reg);
	arity = read_fn(r, mod, fun);
	if (r->err != KP_OK)
		return r->err;
	kp_buf_init(&b, 4 * FN_NAME_MAX);
	text_put(&b, fn_shown(shown, sizeof(shown), reg));
	/* erlang:apply/2 is how a fun begins: it says nothing. */
	if (mod[0] != '\0' && strcmp(mod, "erlang") != 0) {
		kp_buf_str(&b, reg[0] != '\0' ? " (" : "");
		fn_name_put(&b, mod, fun, arity);
		kp_buf_str(&b, reg[0] != '\0' ? ")" : "");
	}
	whole = kp_buf_cstr(&b);
	snprintf(name, KP_SERVER_NAME_MAX, "%.*s", (int)utf8_fit(whole, b.len,
	    KP_SERVER_NAME_MAX - 1), whole);
	kp_buf_free(&b);
	return KP_OK;
}

enum kp_err
kp_waits_read(struct kp_term *r, struct kp_waits *v, size_t max, size_t *n)
{
	uint32_t count = kp_term_list(r);
	struct kp_waits w;
	int64_t waiting;

	*n = 0;
	for (uint32_t i = 0; i < count && r->err == KP_OK; i++) {
		w = (struct kp_waits){ .waiting = 0 };
		kp_term_tuple_n(r, 3);
		kp_server_read(r, w.server);
		waiting = kp_term_int(r);
		w.arity = read_fn(r, w.mod, w.fun);
		if (r->err != KP_OK)
			break;
		if (waiting < 0 || w.arity > 255)
			return KP_EFORMAT;
		w.waiting = (uint64_t)waiting;
		/* A fun has no name of its own that tiers.conf could have. */
		if (w.fun[0] == '-')
			w.mod[0] = '\0';
		if (w.server[0] != '\0' && *n < max)
			v[(*n)++] = w;
	}
	if (count > 0)
		kp_term_nil(r);
	return r->err;
}

/* ---- what it means ---- */

bool
kp_waits_has_tier(const struct kp_waits *w, const struct kp_conf *c)
{
	const struct kp_mfa_pat *p;

	for (size_t i = 0; w->mod[0] != '\0' && i < c->ntiers; i++)
		for (size_t k = 0; k < c->tiers[i].nfns; k++) {
			p = &c->tiers[i].fns[k];
			if (strcmp(p->mod, w->mod) == 0 && (p->fun == NULL ||
			    strcmp(p->fun, w->fun) == 0))
				return true;
		}
	return false;
}

/* As an item of tiers.conf. */
static void
put_tier(struct kp_buf *b, const char *mod, const char *fun, int arity)
{
	const struct kp_mfa_pat p = { .mod = (char *)(uintptr_t)mod,
		.fun = (char *)(uintptr_t)fun, .arity = arity };
	bool word = fun[0] >= 'a' && fun[0] <= 'z' && fun[strspn(fun,
	    "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';

	kp_buf_printf(b, "{%s, ", word ? fun : "pool");
	if (fn_is_elixir(mod)) {
		kp_buf_u8(b, '"');
		fn_pat_put(b, &p);
		kp_buf_str(b, "\"}");
		return;
	}
	kp_buf_u8(b, '{');
	kp_atom_print(b, mod);
	kp_buf_str(b, ", ");
	kp_atom_print(b, fun);
	if (arity < 0)
		kp_buf_str(b, ", '_'}}");
	else
		kp_buf_printf(b, ", %d}}", arity);
}

static void
put_tiers(const struct kp_waits *w, struct kp_buf *b)
{
	const struct kp_pool_fn *known = kp_pool_fn(w->mod, w->fun), *f;

	put_tier(b, w->mod, w->fun, known != NULL ? -1 : (int)w->arity);
	/* A function that has a worker for a time: of the same module, or of one above. */
	for (f = pool_fns; known != NULL && known->gives && f < pool_fns +
	    sizeof(pool_fns) / sizeof(pool_fns[0]); f++)
		if (!f->gives && strncmp(f->mod, w->mod, strlen(f->mod)) == 0) {
			kp_buf_str(b, " and ");
			put_tier(b, f->mod, f->fun, -1);
		}
}

void
kp_waits_put(const struct kp_waits *w, const struct kp_conf *c, bool all,
    struct kp_buf *b)
{
	kp_buf_printf(b, "%s answers requests later than it takes their messages, as a "
	    "pool does whose workers are all taken (%llu waited for it at once): "
	    "such an answer may have another request's token, which kprofd puts "
	    "right", w->server, (unsigned long long)w->waiting);
	kp_buf_str(b, all ? "" : " only where that one is sampled ({sampling, "
	    "all} samples each)");
	if (kp_waits_has_tier(w, c))
		return;
	kp_buf_str(b, "; to see how long requests wait, ");
	if (w->mod[0] == '\0') {
		kp_buf_str(b, "name the function in which they do as a tier");
		return;
	}
	kp_buf_str(b, "add to tiers: ");
	put_tiers(w, b);
}
