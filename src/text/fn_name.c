/*
 * fn_name.c - writes a function in Erlang's or in Elixir's syntax, with quotes
 * where they are needed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/fn_name.h"
#include "kprofd/term.h"
#include "text/text.h"

#define ELIXIR "Elixir."
#define CLOSURES_MAX 9999u	/* anonymous functions of one function */

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

/* Those that Elixir writes without quotes, and that kp_mfa_pat_parse() can read. */
static bool
is_operator(const char *fun)
{
	static const char *const ops[] = { "+", "-", "*", "/", "**", "!", "^",
		"~~~", "++", "--", "+++", "---", "<>", "|>", "<<<", ">>>",
		"<<~", "~>>", "<~", "~>", "<~>", "<|>", "<", ">", "<=", ">=",
		"==", "!=", "=~", "===", "!==", "&&", "&&&", "||", "|||",
		"^^^", "&", "=", "@", "|", "<-" };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strcmp(fun, ops[i]) == 0)
			return true;
	return false;
}

static void
put_elixir_fun(struct kp_buf *b, const char *fun)
{
	size_t n = strlen(fun);
	bool marked = n > 1 && (fun[n - 1] == '?' || fun[n - 1] == '!');

	if ((((fun[0] >= 'a' && fun[0] <= 'z') || fun[0] == '_') &&
	    is_word(fun, n - marked) && strcmp(fun, "_") != 0) ||
	    is_operator(fun))
		kp_buf_str(b, fun);
	else
		kp_quoted_print(b, fun);
}

/* A function that the compiler makes of a part of another one, which holds it. */
struct made {
	char in[FN_NAME_MAX];	/* the holder, of this arity */
	char what[FN_NAME_MAX];	/* "fun", "lc$^0/1", "lists^map/2", "Loop/1" */
	unsigned arity, which;		/* which one of those in it */
};

/* Reads a number without leading zeros backwards, from *end on. */
static bool
number_before(const char *s, size_t *end, unsigned max, unsigned *v)
{
	size_t at = *end;

	while (at > 0 && s[at - 1] >= '0' && s[at - 1] <= '9')
		at--;
	if (at == *end || *end - at > 4 || (s[at] == '0' && *end - at > 1))
		return false;
	*v = 0;
	for (size_t i = at; i < *end; i++)
		*v = 10 * *v + (unsigned)(s[i] - '0');
	*end = at;
	return *v <= max;
}

/* Does s end here with this?  Takes it off. */
static bool
text_before(const char *s, size_t *end, const char *text)
{
	size_t n = strlen(text);

	if (*end < n || memcmp(s + *end - n, text, n) != 0)
		return false;
	*end -= n;
	return true;
}

/* The compiler's name for it: -total/1-fun-0-. */
static bool
made_read(const char *fun, struct made *m)
{
	size_t n = strlen(fun), end;

	if (fun[0] != '-' || !text_before(fun, &n, "-") ||
	    !number_before(fun, &n, CLOSURES_MAX, &m->which) ||
	    !text_before(fun, &n, "-"))
		return false;
	for (end = n; n > 0 && fun[n - 1] != '-'; n--)
		;
	snprintf(m->what, sizeof(m->what), "%.*s", (int)(end - n), fun + n);
	if (n == end || !text_before(fun, &n, "-") ||
	    !number_before(fun, &n, 255, &m->arity) ||
	    !text_before(fun, &n, "/") || n < 2 || n > sizeof(m->in))
		return false;
	memcpy(m->in, fun + 1, n - 1);
	m->in[n - 1] = '\0';
	return strcmp(m->in, "_") != 0;
}

/*
 * As Elixir's stack traces have it: anonymous fn/1 in Shop.Cart.total/1.  They do
 * not tell the second one in a function from the first; here it is a different
 * function.
 */
static void
put_closure(struct kp_buf *b, const char *mod, const struct made *c, int arity)
{
	kp_buf_str(b, "anonymous fn/");
	if (arity >= 0)
		kp_buf_printf(b, "%d", arity);
	else
		kp_buf_str(b, "_");
	if (c->which > 0)
		kp_buf_printf(b, " (fun-%u)", c->which);
	kp_buf_printf(b, " in %s.", mod);
	put_elixir_fun(b, c->in);
	kp_buf_printf(b, "/%u", c->arity);
}

static void
put_arity(struct kp_buf *b, int arity)
{
	if (arity >= 0)
		kp_buf_printf(b, "/%d", arity);
	else
		kp_buf_str(b, "/_");
}

/* fun NULL: the module alone.  arity -1: any. */
static void
put_name(struct kp_buf *b, const char *mod, const char *fun, int arity)
{
	const char *name = alias(mod);
	struct made c;

	if (name != NULL && fun != NULL && made_read(fun, &c) &&
	    strcmp(c.what, "fun") == 0) {
		put_closure(b, name, &c, arity);
		return;
	}
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
	put_arity(b, arity);
}

bool
fn_is_elixir(const char *mod)
{
	return alias(mod) != NULL;
}

void
fn_name_put(struct kp_buf *b, const char *mod, const char *fun,
    uint32_t arity)
{
	put_name(b, mod, fun, (int)arity);
}

void
fn_pat_put(struct kp_buf *b, const struct kp_mfa_pat *p)
{
	put_name(b, p->mod, p->fun, p->arity);
}

/* ---- as people read them ---- */

/*
 * What it is in words; a fun may have a name.  Elixir's compiler has functions of lists
 * made into such parts.  Nothing: no such kind is known.
 */
static void
put_kind(struct kp_buf *b, const char *what)
{
	static const struct {
		const char *begin, *word;
	} kinds[] = { { "lc$^", "list comprehension" },
		{ "lbc$^", "binary comprehension" },
		{ "bc$^", "binary comprehension" },
		{ "mc$^", "map comprehension" }, { "after$^", "after" } };
	const char *caret = strchr(what, '^');

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strncmp(what, kinds[i].begin, strlen(kinds[i].begin)) == 0)
			kp_buf_str(b, kinds[i].word);
	if (strcmp(what, "fun") == 0)
		kp_buf_str(b, "fun");
	else if (strncmp(what, "lists^", strlen("lists^")) == 0)
		kp_buf_printf(b, "lists:%.*s", (int)strcspn(caret + 1, "/"),
		    caret + 1);
	else if (caret == NULL && (what[0] == '_' || (what[0] >= 'A' &&
	    what[0] <= 'Z')))
		kp_buf_printf(b, "fun %.*s", (int)strcspn(what, "/"), what);
}

void
fn_read_put(struct kp_buf *b, const char *mod, const char *fun, uint32_t arity)
{
	struct kp_buf kind;
	struct made m;

	kp_buf_init(&kind, KP_ATOM_TEXT_MAX);
	if (made_read(fun, &m) && !(alias(mod) != NULL &&
	    strcmp(m.what, "fun") == 0))
		put_kind(&kind, m.what);
	if (kind.len == 0) {
		fn_name_put(b, mod, fun, arity);
	} else {
		fn_name_put(b, mod, m.in, m.arity);
		kp_buf_str(b, " (");
		text_put(b, kp_buf_cstr(&kind));
		if (m.which > 0)
			kp_buf_printf(b, " %u", m.which + 1);
		kp_buf_str(b, ")");
	}
	kp_buf_free(&kind);
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

/* Only names in quotes are those of the compiler. */
const char *
fn_read(char *text, size_t n, const char *name)
{
	struct kp_mfa_pat p;
	struct kp_buf b;

	if ((strstr(name, "'-") == NULL && strstr(name, "\"-") == NULL) ||
	    kp_mfa_pat_parse(&p, name, strlen(name)) != KP_OK)
		return name;
	if (p.fun == NULL || p.arity < 0) {
		kp_mfa_pat_free(&p);
		return name;
	}
	kp_buf_init(&b, 3 * KP_ATOM_TEXT_MAX);
	fn_read_put(&b, p.mod, p.fun, (uint32_t)p.arity);
	kp_mfa_pat_free(&p);
	return take_text(text, n, &b);
}

const char *
fn_label(const char *name, const char **arity)
{
	const char *slash = name, *end;

	while ((slash = strchr(slash, '/')) != NULL) {
		slash++;
		end = slash + strspn(slash, "0123456789");
		if (end == slash || (*end != '\0' && (strncmp(end, " [", 2) != 0 ||
		    end[strlen(end) - 1] != ']')))
			continue;
		*arity = slash;
		return end;
	}
	return NULL;
}

/* The first colon ends the module, as no alias has one. */
const char *
fn_shown(char *text, size_t n, const char *name)
{
	struct kp_mfa_pat p = { .arity = -1 };
	char copy[FN_NAME_MAX], *colon;
	const char *label = "", *arity;
	struct kp_buf b;

	if (strncmp(name, ELIXIR, strlen(ELIXIR)) != 0)
		return name;
	snprintf(copy, sizeof(copy), "%s", name);
	p.mod = copy;
	colon = strchr(copy, ':');
	if (colon != NULL) {
		*colon = '\0';
		p.fun = colon + 1;
		label = fn_label(colon + 1, &arity);
		if (label == NULL)
			return name;
		p.arity = atoi(arity);
		copy[arity - 1 - copy] = '\0';
	}
	kp_buf_init(&b, 3 * KP_ATOM_TEXT_MAX);
	fn_pat_put(&b, &p);
	kp_buf_str(&b, label);
	return take_text(text, n, &b);
}

/* anonymous fn/1 in MyApp.Repo.all/2: what is behind the "in". */
static const char *
without_closure(const char *frame, size_t *n)
{
	static const char begins[] = "anonymous fn/", in[] = " in ";
	const char *at;

	if (*n < strlen(begins) || memcmp(frame, begins, strlen(begins)) != 0)
		return frame;
	at = memmem(frame, *n, in, strlen(in));
	if (at == NULL)
		return frame;
	at += strlen(in);
	*n -= (size_t)(at - frame);
	return at;
}

const char *
fn_module(const char *frame, size_t *n)
{
	size_t end = 0;

	frame = without_closure(frame, n);
	if (*n == 0 || frame[0] < 'A' || frame[0] > 'Z') {
		while (end < *n && frame[end] != ':')
			end++;
		*n = end;
		return frame;
	}
	for (size_t i = 0; i < *n && frame[i] != '/' && frame[i] != '"'; i++)
		if (frame[i] == '.')
			end = i;
	*n = end;
	return frame;
}
