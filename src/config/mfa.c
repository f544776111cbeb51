/*
 * mfa.c - functions named in a string: "db:query/2", "MyApp.Repo.all/2".
 *
 *   Module                  every exported function of it
 *   Module:Function[/Arity] Erlang; either name may be 'quoted'
 *   {Module,Function,Arity} the same, as a term
 *   Alias.function[/Arity]  Elixir: the module is 'Elixir.Alias', the function
 *                           may be "quoted"
 *   :module.function        Elixir's way to name an Erlang module
 *   anonymous fn/Arity in Alias.function/Arity
 *                           a fun in that function, as Elixir's stack traces
 *                           have it; the second and further ones have (fun-1)
 *                           before the "in"
 * Function and Arity may be _ for any.  Within quotes \ escapes, as in Erlang.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "config/lang.h"

#define ELIXIR "Elixir."

struct text {
	const char *p;
	size_t n;
};

/* It is too long if n is more than there is room for. */
struct name {
	char s[ATOM_BYTES_MAX + 1];
	size_t n;
	bool quoted;
};

static bool
is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static void
add(struct name *to, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++, to->n++)
		if (to->n < ATOM_BYTES_MAX)
			to->s[to->n] = s[i];
}

static bool
is_wild(const struct name *v)
{
	return v->n == 1 && v->s[0] == '_';
}

/* Takes up to `most` digits of a base from *i on. */
static uint32_t
take_digits(const struct text *in, size_t *i, int base, unsigned most)
{
	uint32_t c = 0;
	int d;

	for (; most > 0 && *i < in->n; most--, ++*i) {
		d = digit_value((unsigned char)in->p[*i]);
		if (d >= base)
			break;
		c = c * (uint32_t)base + (uint32_t)d;
	}
	return c;
}

/* \x1b, \x{202e}, \u202e, \u{202e}, \033, \n, \': after the backslash. */
static bool
take_escape(const struct text *in, size_t *i, struct name *to)
{
	static const char letters[] = "ntrsebfvd", meant[] = "\n\t\r \033\b\f\v\177";
	char text[UTF8_BYTES_MAX], c;
	const char *at;
	uint32_t v;

	if (*i == in->n)
		return false;
	c = in->p[(*i)++];
	if (c >= '0' && c <= '7') {
		(*i)--;
		v = take_digits(in, i, 8, 3);
	} else if ((c == 'x' || c == 'u') && *i < in->n && in->p[*i] == '{') {
		(*i)++;
		v = take_digits(in, i, 16, 6);
		if (*i == in->n || in->p[(*i)++] != '}')
			return false;
	} else if (c == 'x' || c == 'u') {
		v = take_digits(in, i, 16, c == 'x' ? 2 : 4);
	} else {
		at = strchr(letters, c);
		add(to, at != NULL ? &meant[at - letters] : &c, 1);
		return true;
	}
	add(to, text, v > 0 && utf8_is_char(v) ? utf8_put(text, v) : 0);
	return v > 0 && utf8_is_char(v);
}

static bool
take_quoted(struct text *in, struct name *name)
{
	char quote = in->p[0];
	size_t i = 1;

	name->quoted = true;
	while (i < in->n && in->p[i] != quote) {
		if (in->p[i] != '\\')
			add(name, &in->p[i++], 1);
		else if (i++, !take_escape(in, &i, name))
			return false;
	}
	if (i == in->n)
		return false;
	in->p += i + 1;
	in->n -= i + 1;
	return name->n > 0;
}

/* Takes a name off the front: quoted, or up to one of stop. */
static bool
take_name(struct text *in, const char *stop, struct name *name)
{
	size_t n = 0;

	*name = (struct name){ .n = 0 };
	if (in->n > 0 && (in->p[0] == '\'' || in->p[0] == '"'))
		return take_quoted(in, name);
	while (n < in->n && strchr(stop, in->p[n]) == NULL &&
	    (unsigned char)in->p[n] > ' ')
		n++;
	add(name, in->p, n);
	in->p += n;
	in->n -= n;
	return n > 0;
}

/* Is all of `in` a number up to 255, or _? */
static bool
is_arity(struct text in, int *arity)
{
	size_t i = 0;

	*arity = -1;
	if (in.n == 1 && in.p[0] == '_')
		return true;
	if (in.n == 0 || in.n > 3)
		return false;
	*arity = (int)take_digits(&in, &i, 10, 3);
	return i == in.n && *arity <= 255;
}

/* "/2", "/_" or nothing. */
static bool
take_arity(struct text *in, int *arity)
{
	*arity = -1;
	return in->n == 0 || (in->p[0] == '/' &&
	    is_arity((struct text){ in->p + 1, in->n - 1 }, arity));
}

/*
 * The length of the module, up to the dot before the function: the first dot
 * after which no Elixir alias begins.  Without one, all of it is the module.
 */
static size_t
alias_length(struct text in)
{
	size_t i;

	for (i = 0; i + 1 < in.n && in.p[i] != '/'; i++) {
		if (in.p[i] == '.' && !is_upper(in.p[i + 1]))
			break;
	}
	return i + 1 >= in.n || in.p[i] == '/' ? in.n : i;
}

static char *
mod_dup(const struct name *mod)
{
	size_t pre = !mod->quoted && is_upper(mod->s[0]) &&
	    (mod->n < strlen(ELIXIR) ||
	    memcmp(mod->s, ELIXIR, strlen(ELIXIR)) != 0) ? strlen(ELIXIR) : 0;
	char *s = malloc(pre + mod->n + 1);

	if (s == NULL)
		return NULL;
	memcpy(s, ELIXIR, pre);
	memcpy(s + pre, mod->s, mod->n);
	s[pre + mod->n] = '\0';
	return s;
}

/* Is there a colon outside quotes? */
static bool
has_colon(const struct text *in)
{
	for (size_t i = 0; i < in->n && in->p[i] != '"'; i++)
		if (in->p[i] == ':')
			return true;
	return false;
}

/* Takes the module; *sep: the character that has to follow before a function. */
static bool
split_mod(struct text *in, struct name *mod, char *sep)
{
	size_t n;

	*sep = '.';
	if (in->n > 1 && in->p[0] == ':') {
		in->p++;
		in->n--;
		return take_name(in, "./:", mod);
	}
	if (is_upper(in->p[0]) && !has_colon(in)) {
		n = alias_length(*in);
		*mod = (struct name){ .n = 0 };
		add(mod, in->p, n);
		in->p += n;
		in->n -= n;
		return mod->n > ATOM_BYTES_MAX ||
		    (memchr(mod->s, '/', mod->n) == NULL &&
		    mod->s[mod->n - 1] != '.');
	}
	*sep = ':';
	return take_name(in, is_upper(in->p[0]) ? ":/" : ":/.", mod);
}

/* A module and, if it is named, a function. */
struct names {
	struct name mod, fun;
	int arity;
};

static bool
skip(struct text *in, char c)
{
	while (in->n > 0 && in->p[0] == ' ')
		in->p++, in->n--;
	if (in->n == 0 || in->p[0] != c)
		return false;
	in->p++;
	in->n--;
	while (in->n > 0 && in->p[0] == ' ')
		in->p++, in->n--;
	return true;
}

static bool
take_term(struct text in, struct names *v)
{
	struct text arity;

	if (!skip(&in, '{') || !take_name(&in, ",}", &v->mod) ||
	    !skip(&in, ',') || !take_name(&in, ",}", &v->fun) ||
	    !skip(&in, ',') || in.n == 0 || in.p[in.n - 1] != '}')
		return false;
	arity = (struct text){ in.p, in.n - 1 };
	while (arity.n > 0 && arity.p[arity.n - 1] == ' ')
		arity.n--;
	if (arity.n == 3 && memcmp(arity.p, "'_'", 3) == 0)
		arity = (struct text){ "_", 1 };
	/* The module is an atom: it is taken as it stands. */
	v->mod.quoted = true;
	return is_arity(arity, &v->arity);
}

static bool
take_text(struct text in, struct names *v)
{
	char sep;

	if (!split_mod(&in, &v->mod, &sep))
		return false;
	if (in.n == 0)
		return true;
	if (in.p[0] != sep)
		return false;
	in.p++;
	in.n--;
	if (sep == '.' && in.n > 1 && memcmp(in.p, "//", 2) == 0) {
		add(&v->fun, in.p++, 1);	/* Kernel.//2 */
		in.n--;
		return take_arity(&in, &v->arity);
	}
	return take_name(&in, "/:", &v->fun) && take_arity(&in, &v->arity);
}

/* Takes this off the front, if it is there. */
static bool
take_word(struct text *in, const char *word)
{
	size_t n = strlen(word);

	if (in->n < n || memcmp(in->p, word, n) != 0)
		return false;
	in->p += n;
	in->n -= n;
	return true;
}

/* Takes the arity before a blank. */
static bool
take_closure_arity(struct text *in, int *arity)
{
	const char *blank = memchr(in->p, ' ', in->n);
	struct text digits = { in->p, blank != NULL ?
		(size_t)(blank - in->p) : in->n };

	in->p += digits.n;
	in->n -= digits.n;
	return is_arity(digits, arity);
}

/* The compiler's name: -total/1-fun-0-, with the arity of the fun itself. */
static bool
take_closure(struct text in, struct names *v)
{
	char tail[40];
	struct names f = { .arity = -1 };
	uint32_t which = 0;
	size_t i = 0;

	if (!take_closure_arity(&in, &v->arity))
		return false;
	if (take_word(&in, " (fun-")) {
		which = take_digits(&in, &i, 10, 4);
		in.p += i;
		in.n -= i;
		if (i == 0 || !take_word(&in, ")"))
			return false;
	}
	if (!take_word(&in, " in ") || in.n == 0 || !take_text(in, &f) ||
	    f.fun.n == 0 || f.arity < 0)
		return false;
	v->mod = f.mod;
	add(&v->fun, "-", 1);
	add(&v->fun, f.fun.s, f.fun.n < ATOM_BYTES_MAX ? f.fun.n :
	    ATOM_BYTES_MAX);
	add(&v->fun, tail, (size_t)snprintf(tail, sizeof(tail),
	    "/%d-fun-%" PRIu32 "-", f.arity, which));
	return true;
}

enum kp_err
kp_mfa_pat_parse(struct kp_mfa_pat *out, const char *s, size_t n)
{
	struct text in = { s, n };
	struct names v = { .arity = -1 };
	struct kp_mfa_pat p;

	if (n == 0 || memchr(s, '\0', n) != NULL ||
	    !(take_word(&in, "anonymous fn/") ? take_closure(in, &v) :
	    s[0] == '{' ? take_term(in, &v) : take_text(in, &v)) ||
	    is_wild(&v.mod))
		return KP_EFORMAT;
	if (v.mod.n + strlen(ELIXIR) > ATOM_BYTES_MAX ||
	    v.fun.n > ATOM_BYTES_MAX)
		return KP_ELIMIT;
	p = (struct kp_mfa_pat){ .mod = mod_dup(&v.mod), .arity = v.arity };
	if (v.fun.n > 0 && !is_wild(&v.fun))
		p.fun = strndup(v.fun.s, v.fun.n);
	if (p.mod == NULL || (p.fun == NULL && v.fun.n > 0 &&
	    !is_wild(&v.fun))) {
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
