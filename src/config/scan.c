/*
 * scan.c - cuts text into Erlang tokens, one at a time.
 *
 * Text that is not a token is reported here and becomes T_BAD; scanning goes on
 * after it.
 */
#include <string.h>

#include "config/lang.h"

/* A symbol comes before those that it begins with. */
static const char *const symbols[] = { "=:=", "=/=", "...", "->", "<-", "<=",
	"=<", ">=", "==", "/=", "=>", ":=", "||", "<<", ">>", "++", "--", "::",
	"(", ")", "{", "}", "[", "]", ",", ";", "|", "#", "=", "<", ">", "+",
	"-", "*", "/", ":", "!", "?", ".", "&" };

static const char *const reserved[] = { "after", "and", "andalso", "band",
	"begin", "bnot", "bor", "bsl", "bsr", "bxor", "case", "catch", "div",
	"end", "fun", "if", "not", "of", "or", "orelse", "receive", "rem",
	"try", "when", "xor" };

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

void
scan_init(struct scan *s, const char *src, size_t n, struct arena *a,
    struct kp_diags *d)
{
	*s = (struct scan){ .src = src, .n = n, .pos = { 1, 1 }, .arena = a,
		.diags = d };
	if (n >= 3 && memcmp(src, "\xEF\xBB\xBF", 3) == 0)
		s->off = 3;
}

static void
skip_blanks(struct scan *s)
{
	size_t n;
	uint32_t c;

	for (;;) {
		c = scan_peek(s, &n);
		if (n == 0)
			return;
		if (c == '%') {
			while (n > 0 && c != '\n') {
				scan_take(s);
				c = scan_peek(s, &n);
			}
		} else if (c <= ' ' || c == 0xA0) {
			scan_take(s);
		} else {
			return;
		}
	}
}

static bool
is_lower(uint32_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 0xDF && c <= 0xFF && c != 0xF7);
}

static bool
is_upper(uint32_t c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE && c != 0xD7);
}

static bool
is_name(uint32_t c)
{
	return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9') ||
	    c == '_' || c == '@';
}

/* The length of the word if the n bytes begin with it, otherwise 0. */
static size_t
begins_with(const char *p, size_t n, const char *word)
{
	size_t len = 0;

	while (word[len] != '\0' && len < n && p[len] == word[len])
		len++;
	return word[len] == '\0' ? len : 0;
}

static bool
scan_name(struct scan *s, struct token *t)
{
	size_t n, i;

	while (is_name(scan_peek(s, &n)) && n > 0)
		scan_take(s);
	t->text = t->src;
	t->len = s->off - (size_t)(t->src - s->src);
	if (t->len > ATOM_BYTES_MAX) {
		diag_error(s->diags, t->pos, "this name is longer than %d "
		    "bytes", ATOM_BYTES_MAX);
		return false;
	}
	for (i = 0; t->type == T_ATOM && i < LEN(reserved); i++) {
		if (begins_with(t->text, t->len, reserved[i]) == t->len) {
			t->type = T_SYM;
			t->text = reserved[i];
		}
	}
	return true;
}

static bool
scan_symbol(struct scan *s, struct token *t)
{
	size_t left = s->n - s->off, len, i;

	for (i = 0; i < LEN(symbols); i++) {
		len = begins_with(t->src, left, symbols[i]);
		if (len == 0)
			continue;
		t->text = symbols[i];
		t->len = len;
		while (len-- > 0)
			scan_take(s);
		return true;
	}
	return false;
}

/* A full stop is a '.' before white space, a comment or the end. */
static bool
is_dot(const struct scan *s)
{
	const char *p = s->src + s->off;

	return *p == '.' && (s->off + 1 == s->n ||
	    (unsigned char)p[1] <= ' ' || p[1] == '%');
}

static void
scan_stray(struct scan *s, struct token *t)
{
	uint32_t c = scan_take(s);

	if (c == 0xFFFD)
		diag_error(s->diags, t->pos, "this is not UTF-8 text");
	else
		diag_error(s->diags, t->pos, "found the character '%.*s', "
		    "which has no meaning here",
		    (int)(s->off - (size_t)(t->src - s->src)), t->src);
}

void
scan_next(struct scan *s, struct token *t)
{
	size_t n;
	uint32_t c;
	bool ok = true;

	skip_blanks(s);
	*t = (struct token){ .pos = s->pos, .src = s->src + s->off };
	c = scan_peek(s, &n);
	if (n == 0) {
		t->type = T_EOF;
	} else if (is_dot(s)) {
		t->type = T_DOT;
		scan_take(s);
	} else if (is_lower(c)) {
		t->type = T_ATOM;
		ok = scan_name(s, t);
	} else if (is_upper(c) || c == '_') {
		t->type = T_VAR;
		ok = scan_name(s, t);
	} else if (c >= '0' && c <= '9') {
		t->type = T_INT;
		ok = scan_number(s, t);
	} else if (c == '$') {
		t->type = T_INT;
		ok = scan_char(s, t);
	} else if (c == '"') {
		t->type = T_STR;
		ok = scan_quoted(s, t, c);
	} else if (c == '\'') {
		t->type = T_ATOM;
		ok = scan_quoted(s, t, c);
	} else {
		t->type = T_SYM;
		ok = scan_symbol(s, t);
		if (!ok)
			scan_stray(s, t);
	}
	if (!ok)
		t->type = T_BAD;
	t->srclen = s->off - (size_t)(t->src - s->src);
}
