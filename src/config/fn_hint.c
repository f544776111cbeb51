/*
 * fn_hint.c - shows how a function is written in a tiers.conf, where it stands
 * there as code has it: shop_handler:init/2, {MyApp.Repo, :all, 2}, MyApp.Repo.
 */
#include <inttypes.h>
#include <string.h>

#include "config/conf_ctx.h"
#include "kprofd/term.h"

#define HINT_MAX 1000u	/* bytes: less than a message has */
#define ARITY_MAX 255
#define ELIXIR "Elixir."

/* The function that was probably meant. */
struct meant {
	const char *mod, *fun;	/* NULL: not given */
	bool alias;		/* mod is an alias of Elixir */
	int64_t arity;		/* -1: any, or not given */
};

static bool
is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* :all */
static bool
is_elixir_atom(const struct node *v)
{
	return v->kind == N_FN && v->text == NULL && v->mod != NULL &&
	    !v->alias;
}

static bool
mean_module(const struct node *v, struct meant *m)
{
	if (v->kind == N_ATOM && v->len > 0 && !node_is_atom(v, "_")) {
		m->mod = v->text;
		return true;
	}
	if (v->kind == N_VAR && is_upper(v->text[0])) {
		m->mod = v->text;
		m->alias = true;
		return true;
	}
	if (v->kind != N_FN || v->text != NULL || v->num >= 0)
		return false;
	m->mod = v->mod;
	m->alias = v->alias;
	return v->mod != NULL;
}

static bool
mean_arity(const struct node *v, struct meant *m)
{
	if (v->kind == N_INT && v->num >= 0 && v->num <= ARITY_MAX)
		m->arity = v->num;
	return m->arity >= 0 || node_is_atom(v, "_") || node_is_wildcard(v);
}

/* init, :init, init/2 or :init/2 */
static bool
mean_fun(const struct node *v, struct meant *m)
{
	if (v->kind == N_OP && v->n == 2 && strcmp(v->text, "/") == 0 &&
	    v->kid[0]->kind == N_ATOM && mean_arity(v->kid[1], m))
		v = v->kid[0];
	if (is_elixir_atom(v)) {
		m->fun = v->mod;
		m->arity = v->num;
		return true;
	}
	m->fun = v->text;
	return v->kind == N_ATOM && v->len > 0;
}

/* The elements of a tuple, or of one that lacks its own braces. */
static bool
mean_parts(struct node *const *kid, uint32_t n, struct meant *m)
{
	return (n == 2 || n == 3) && mean_module(kid[0], m) &&
	    mean_fun(kid[1], m) && (n == 2 || mean_arity(kid[2], m));
}

static bool
mean(const struct node *v, struct meant *m)
{
	switch (v->kind) {
	case N_FN:
		if (is_elixir_atom(v) && v->num >= 0)
			return mean_fun(v, m);
		m->mod = v->mod;
		m->alias = v->alias;
		m->fun = v->text;
		m->arity = v->num;
		return true;
	case N_CALL:
		m->mod = v->mod;
		m->alias = v->alias;
		m->fun = v->text;
		m->arity = v->n <= ARITY_MAX ? (int64_t)v->n : -1;
		return true;
	case N_OP:
		return mean_fun(v, m);
	case N_TUPLE:
		return mean_parts(v->kid, v->n, m);
	default:
		return mean_module(v, m);
	}
}

/* Is it a function's name that Elixir writes without quotes? */
static bool
is_plain(const char *fun)
{
	size_t n = strspn(fun, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
	    "VWXYZ0123456789_");

	return n > 0 && !is_upper(fun[0]) && (fun[n] == '\0' ||
	    ((fun[n] == '?' || fun[n] == '!') && fun[n + 1] == '\0'));
}

/* "Shop.Repo.all/2" */
static void
put_alias(struct kp_buf *b, const char *mod, const struct meant *m)
{
	if (m->fun == NULL) {
		kp_buf_printf(b, "\"%s.function/arity\", or \"%s\" for all "
		    "that it exports", mod, mod);
		return;
	}
	kp_buf_printf(b, "\"%s.%s", mod, m->fun);
	if (m->arity >= 0)
		kp_buf_printf(b, "/%" PRId64 "\"", m->arity);
	else
		kp_buf_str(b, "/_\"");
}

/* {shop_handler, init, 2} */
static void
put_tuple(struct kp_buf *b, const struct meant *m)
{
	kp_buf_str(b, m->alias ? "{'" ELIXIR : "{");
	if (m->alias)
		kp_buf_printf(b, "%s'", m->mod);
	else if (m->mod != NULL)
		kp_atom_print(b, m->mod);
	else
		kp_buf_str(b, "Module");
	kp_buf_str(b, ", ");
	if (m->fun != NULL)
		kp_atom_print(b, m->fun);
	else
		kp_buf_str(b, "Function");
	if (m->arity >= 0)
		kp_buf_printf(b, ", %" PRId64 "}", m->arity);
	else
		kp_buf_str(b, m->fun == NULL ? ", Arity}" : ", '_'}");
	if (m->fun != NULL)
		return;
	kp_buf_str(b, ", or \"");
	kp_atom_print(b, m->mod);
	kp_buf_str(b, "\" for all that it exports");
}

static void
put_meant(struct kp_buf *b, struct meant *m)
{
	if (m->alias && strncmp(m->mod, ELIXIR, strlen(ELIXIR)) == 0)
		m->mod += strlen(ELIXIR);
	if (m->alias && (m->fun == NULL || is_plain(m->fun)))
		put_alias(b, m->mod, m);
	else
		put_tuple(b, m);
}

static bool
report(struct conf_ctx *x, const struct node *at, const char *name,
    struct meant *m)
{
	char found[NODE_TEXT_MAX];
	struct kp_buf b;
	bool fits;

	kp_buf_init(&b, HINT_MAX);
	if (name != NULL) {
		kp_buf_u8(&b, '{');
		kp_atom_print(&b, name);
		kp_buf_str(&b, ", ");
	}
	put_meant(&b, m);
	if (name != NULL)
		kp_buf_u8(&b, '}');
	if (m->fun != NULL && m->arity < 0)
		kp_buf_str(&b, " (_: any arity)");
	fits = b.err == KP_OK;
	if (fits)
		diag_error(x->diags, at->pos, "found %s, expected %s",
		    node_describe(at, found), kp_buf_cstr(&b));
	kp_buf_free(&b);
	return fits;
}

bool
conf_fn_hint(struct conf_ctx *x, const struct node *v)
{
	struct meant m = { .arity = -1 };

	return mean(v, &m) && report(x, v, NULL, &m);
}

bool
conf_flat_hint(struct conf_ctx *x, const struct node *v)
{
	struct meant m = { .arity = -1 };

	return v->n > 2 && v->kid[0]->kind == N_ATOM &&
	    mean_parts(v->kid + 1, v->n - 1, &m) && m.fun != NULL &&
	    report(x, v, v->kid[0]->text, &m);
}
