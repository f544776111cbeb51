/*
 * fn_name.c - writes a function in Erlang's or in Elixir's syntax, with quotes
 * where they are needed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/fn_name.h"
#include "kprofd/term.h"

#define ELIXIR "Elixir."

static bool
is_word(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((s[i] < 'a' || s[i] > 'z') && (s[i] < 'A' || s[i] > 'Z') &&
		    (s[i] < '0' || s[i] > '9') && s[i] != '_')
			return false;
	return n > 0;
}

/* Returns the module's name in Elixir, without "Elixir."; NULL: no alias. */
static const char *
alias(const char *mod)
{
	const char *s = mod + strlen(ELIXIR), *p = s;
	size_t n;

	if (strncmp(mod, ELIXIR, strlen(ELIXIR)) != 0 ||
	    strncmp(s, ELIXIR, strlen(ELIXIR)) == 0)
		return NULL;
	for (;; p += n + 1) {
		n = strcspn(p, ".");
		if (*p < 'A' || *p > 'Z' || !is_word(p, n))
			return NULL;
		if (p[n] == '\0')
			return s;
	}
}

static void
put_elixir_fun(struct kp_buf *b, const char *fun)
{
	size_t n = strlen(fun);
	bool marked = n > 1 && (fun[n - 1] == '?' || fun[n - 1] == '!');

	if (((fun[0] >= 'a' && fun[0] <= 'z') || fun[0] == '_') &&
	    is_word(fun, n - marked) && strcmp(fun, "_") != 0)
		kp_buf_str(b, fun);
	else
		kp_quoted_print(b, fun);
}

/* fun NULL: the module alone. */
static void
put_name(struct kp_buf *b, const char *mod, const char *fun)
{
	const char *name = alias(mod);

	if (name != NULL)
		kp_buf_str(b, name);
	else
		kp_atom_print(b, mod);
	if (fun == NULL)
		return;
	kp_buf_str(b, name != NULL ? "." : ":");
	if (name != NULL)
		put_elixir_fun(b, fun);
	else
		kp_atom_print(b, fun);
}

void
fn_name_put(struct kp_buf *b, const char *mod, const char *fun,
    uint32_t arity)
{
	put_name(b, mod, fun);
	kp_buf_printf(b, "/%" PRIu32, arity);
}

void
fn_pat_put(struct kp_buf *b, const struct kp_mfa_pat *p)
{
	put_name(b, p->mod, p->fun);
	if (p->arity >= 0)
		kp_buf_printf(b, "/%d", p->arity);
	else if (p->fun != NULL)
		kp_buf_str(b, "/_");
}

/* Moves the text out of b, which it frees. */
static const char *
take_text(char *text, size_t n, struct kp_buf *b)
{
	snprintf(text, n, "%s", kp_buf_cstr(b));
	kp_buf_free(b);
	return text;
}

const char *
fn_name(char *text, size_t n, const char *mod, const char *fun, uint32_t arity)
{
	struct kp_buf b;

	kp_buf_init(&b, 3 * KP_ATOM_TEXT_MAX);
	fn_name_put(&b, mod, fun, arity);
	return take_text(text, n, &b);
}

const char *
fn_pat(char *text, size_t n, const struct kp_mfa_pat *p)
{
	struct kp_buf b;

	kp_buf_init(&b, 3 * KP_ATOM_TEXT_MAX);
	fn_pat_put(&b, p);
	return take_text(text, n, &b);
}

/* The first colon ends the module, as no alias has one. */
const char *
fn_shown(char *text, size_t n, const char *name)
{
	struct kp_mfa_pat p = { .arity = -1 };
	char copy[FN_NAME_MAX], *colon, *slash;

	if (strncmp(name, ELIXIR, strlen(ELIXIR)) != 0)
		return name;
	snprintf(copy, sizeof(copy), "%s", name);
	p.mod = copy;
	colon = strchr(copy, ':');
	if (colon != NULL) {
		*colon = '\0';
		p.fun = colon + 1;
		slash = strrchr(p.fun, '/');
		if (slash == NULL || slash[1] == '\0' ||
		    slash[1 + strspn(slash + 1, "0123456789")] != '\0')
			return name;
		*slash = '\0';
		p.arity = atoi(slash + 1);
	}
	return fn_pat(text, n, &p);
}
