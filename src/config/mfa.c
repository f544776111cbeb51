/*
 * mfa.c - functions named in a string: "db:query/2", "MyApp.Repo.all/2".
 *
 *   Module                  every exported function of it
 *   Module:Function[/Arity] Erlang; either name may be 'quoted'
 *   Alias.function[/Arity]  Elixir: the module is 'Elixir.Alias'
 *   :module.function        Elixir's way to name an Erlang module
 * Function and Arity may be _ for any.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/config.h"

#define NAME_BYTES_MAX 255u	/* what an atom's short form can carry */
#define ELIXIR "Elixir."

struct text {
	const char *p;
	size_t n;
};

static bool
is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* Takes a name off the front: quoted, or up to one of stop. */
static bool
take_name(struct text *in, const char *stop, struct text *name)
{
	size_t n = 0;

	if (in->n > 0 && in->p[0] == '\'') {
		const char *end = memchr(in->p + 1, '\'', in->n - 1);

		if (end == NULL || end == in->p + 1)
			return false;
		*name = (struct text){ in->p + 1, (size_t)(end - in->p) - 1 };
		n = name->n + 2;
	} else {
		while (n < in->n && strchr(stop, in->p[n]) == NULL &&
		    (unsigned char)in->p[n] > ' ')
			n++;
		*name = (struct text){ in->p, n };
	}
	in->p += n;
	in->n -= n;
	return name->n > 0;
}

/* "/2", "/_" or nothing. */
static bool
take_arity(struct text *in, int *arity)
{
	int v = 0;
	size_t i;

	*arity = -1;
	if (in->n == 0 || (in->n == 2 && memcmp(in->p, "/_", 2) == 0))
		return true;
	if (in->p[0] != '/' || in->n < 2 || in->n > 4)
		return false;
	for (i = 1; i < in->n; i++) {
		if (in->p[i] < '0' || in->p[i] > '9')
			return false;
		v = v * 10 + (in->p[i] - '0');
	}
	*arity = v;
	return v <= 255;
}

/*
 * Splits at the dot before the function: the first whose next segment does
 * not begin like an Elixir alias; none: all of it is the module.
 */
static void
split_elixir(struct text in, struct text *mod, struct text *rest)
{
	size_t i;

	for (i = 0; i + 1 < in.n && in.p[i] != '/'; i++) {
		if (in.p[i] == '.' && !is_upper(in.p[i + 1]))
			break;
	}
	if (i + 1 >= in.n || in.p[i] == '/')
		i = in.n;
	*mod = (struct text){ in.p, i };
	*rest = (struct text){ in.p + i, in.n - i };
}

static char *
mod_dup(struct text mod)
{
	size_t pre = is_upper(mod.p[0]) && (mod.n < strlen(ELIXIR) ||
	    memcmp(mod.p, ELIXIR, strlen(ELIXIR)) != 0) ? strlen(ELIXIR) : 0;
	char *s = malloc(pre + mod.n + 1);

	if (s == NULL)
		return NULL;
	memcpy(s, ELIXIR, pre);
	memcpy(s + pre, mod.p, mod.n);
	s[pre + mod.n] = '\0';
	return s;
}

/* Takes the module; *sep is what has to part it from a function. */
static bool
split_mod(struct text *in, struct text *mod, char *sep)
{
	*sep = '.';
	if (in->n > 1 && in->p[0] == ':') {
		in->p++;
		in->n--;
		return take_name(in, "./:", mod);
	}
	if (is_upper(in->p[0]) && memchr(in->p, ':', in->n) == NULL) {
		split_elixir(*in, mod, in);
		return memchr(mod->p, '/', mod->n) == NULL &&
		    mod->p[mod->n - 1] != '.';
	}
	*sep = ':';
	return take_name(in, is_upper(in->p[0]) ? ":/" : ":/.", mod);
}

enum kp_err
kp_mfa_pat_parse(struct kp_mfa_pat *out, const char *s, size_t n)
{
	struct text in = { s, n }, mod, fun = { 0 };
	struct kp_mfa_pat p = { .arity = -1 };
	char sep;

	if (n == 0 || memchr(s, '\0', n) != NULL ||
	    !split_mod(&in, &mod, &sep) || (mod.n == 1 && mod.p[0] == '_'))
		return KP_EFORMAT;
	if (mod.n + strlen(ELIXIR) > NAME_BYTES_MAX)
		return KP_ELIMIT;
	if (in.n > 0) {
		if (in.p[0] != sep)
			return KP_EFORMAT;
		in.p++;
		in.n--;
		if (!take_name(&in, "/:", &fun) || !take_arity(&in, &p.arity))
			return KP_EFORMAT;
		if (fun.n > NAME_BYTES_MAX)
			return KP_ELIMIT;
	}
	p.mod = mod_dup(mod);
	if (fun.n > 0 && !(fun.n == 1 && fun.p[0] == '_'))
		p.fun = strndup(fun.p, fun.n);
	if (p.mod == NULL || (p.fun == NULL && fun.n > 0 &&
	    !(fun.n == 1 && fun.p[0] == '_'))) {
		kp_mfa_pat_free(&p);
		return KP_ENOMEM;
	}
	*out = p;
	return KP_OK;
}

void
kp_mfa_pat_free(struct kp_mfa_pat *p)
{
	free(p->mod);
	free(p->fun);
	p->mod = p->fun = NULL;
}

bool
kp_mfa_pat_covers(const struct kp_mfa_pat *p, const struct kp_mfa *f)
{
	return strcmp(p->mod, f->mod) == 0 &&
	    (p->fun == NULL || strcmp(p->fun, f->fun) == 0) &&
	    (p->arity < 0 || (uint32_t)p->arity == f->arity);
}
