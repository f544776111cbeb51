/*
 * conf_rewrite.c - {rewrite, [{"/users/[0-9]+", "/users/:id"}]}.
 *
 * Patterns are compiled here once, to find bad ones.  regcomp() writes {m,n} out
 * n times and + twice, and nested repetitions multiply: (((a{99}){99}){99}), or
 * an a followed by forty +, would take all memory.  In nested loops it also
 * tries all ways through what is optional: an a followed by twelve times +?
 * takes minutes.  So both the length and the nesting are bounded first.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "config/conf_ctx.h"

/* s is at a [: returns the ] that ends it, or the end of the text. */
static const char *
skip_bracket(const char *s)
{
	const char *class;

	s += s[1] == '^';
	s += s[1] == ']';
	while (*++s != '\0' && *s != ']') {
		if (*s != '[' || strchr(":.=", s[1]) == NULL || s[1] == '\0')
			continue;
		class = strchr(s + 2, s[1]);
		s = class != NULL && class[1] == ']' ? class + 1 : s;
	}
	return s;
}

/* *s is at a {: returns the largest number in {m,n}; moves *s to its end. */
static unsigned long
largest(const char **s)
{
	unsigned long most = 1, v = 0;

	for (; (*s)[1] != '\0' && (*s)[1] != '}'; ++*s) {
		v = (*s)[1] >= '0' && (*s)[1] <= '9' ?
		    v * 10 + (unsigned long)((*s)[1] - '0') : 0;
		if (v > CONF_UNROLLED_MAX)
			return v;
		most = v > most ? v : most;
	}
	*s += (*s)[1] == '}';
	return most;
}

struct extent {
	unsigned long chars;	/* with repetitions written out */
	unsigned nest;		/* repetitions of repetitions */
};

static void
repeat(struct extent *e, unsigned long times)
{
	e->chars *= times;
	e->nest++;
}

static void
add(struct extent *to, const struct extent *e)
{
	to->chars += e->chars;
	to->nest = e->nest > to->nest ? e->nest : to->nest;
}

/* Measures a pattern; stops at a value above CONF_UNROLLED_MAX. */
static struct extent
extent(const char *s)
{
	static const struct extent none = { 0, 0 }, one = { 1, 0 };
	struct extent outer[CONF_REWRITE_BYTES_MAX];	/* before each ( */
	struct extent before = none, last = none;	/* in this group */
	size_t depth = 0;

	for (; *s != '\0' && before.chars + last.chars <= CONF_UNROLLED_MAX;
	     s++) {
		if (*s == '+') {
			repeat(&last, 2);
		} else if (*s == '*' || *s == '?') {
			repeat(&last, 1);
		} else if (*s == '{') {
			repeat(&last, largest(&s));
		} else if (*s == '(') {
			add(&before, &last);
			outer[depth++] = before;
			before = last = none;
		} else if (*s == ')' && depth > 0) {
			add(&last, &before);
			before = outer[--depth];
		} else {
			add(&before, &last);
			last = one;
			s = *s == '[' ? skip_bracket(s) : s + (*s == '\\');
		}
		if (*s == '\0')
			break;
	}
	add(&before, &last);
	return before;
}

static bool
pattern_ok(struct conf_ctx *x, const struct node *v, const char *pattern)
{
	struct extent e;
	char why[128];
	regex_t re;
	int err;

	if (*pattern == '\0') {
		conf_expected(x, v, "a regular expression");
		return false;
	}
	if (strlen(pattern) > CONF_REWRITE_BYTES_MAX) {
		diag_error(x->diags, v->pos, "this pattern is longer than %d "
		    "bytes", CONF_REWRITE_BYTES_MAX);
		return false;
	}
	e = extent(pattern);
	if (e.chars > CONF_UNROLLED_MAX) {
		diag_error(x->diags, v->pos, "this pattern is longer than %d "
		    "characters with its repetitions written out",
		    CONF_UNROLLED_MAX);
		return false;
	}
	if (e.nest > CONF_REPEAT_MAX) {
		diag_error(x->diags, v->pos, "this pattern repeats what is "
		    "repeated itself, more than %d deep", CONF_REPEAT_MAX);
		return false;
	}
	err = regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB);
	if (err != 0) {
		regerror(err, &re, why, sizeof(why));
		diag_error(x->diags, v->pos, "bad regular expression: %s", why);
		return false;
	}
	regfree(&re);
	return true;
}

static void
add_rewrite(struct conf_ctx *x, const struct node *v)
{
	struct kp_conf *c = x->conf;
	struct kp_rewrite r = { 0 };
	bool ok;

	if (v->kind != N_TUPLE || v->n != 2) {
		conf_expected(x, v, "{\"pattern\", \"text\"}");
		return;
	}
	r.pattern = conf_string(x, v->kid[0], "a regular expression");
	r.to = conf_string(x, v->kid[1], "a text");
	ok = r.pattern != NULL && pattern_ok(x, v->kid[0], r.pattern);
	if (r.to != NULL && strlen(r.to) > CONF_REWRITE_BYTES_MAX) {
		diag_error(x->diags, v->kid[1]->pos, "this text is longer "
		    "than %d bytes", CONF_REWRITE_BYTES_MAX);
		ok = false;
	}
	if (!ok || r.to == NULL ||
	    !conf_room(x, &c->rewrites, c->nrewrites)) {
		free(r.pattern);
		free(r.to);
		return;
	}
	c->rewrites[c->nrewrites++] = r;
}

void
conf_rewrites(struct conf_ctx *x, const struct node *form)
{
	const struct node *list = form->kid[1];

	if (conf_list(x, list, "a list of {\"pattern\", \"text\"}"))
		conf_each(x, list, "rewrite", CONF_REWRITE_MAX, add_rewrite);
}
