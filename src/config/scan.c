/*
 * scan.c - cuts text into Erlang tokens, one at a time.
 *
 * The file is UTF-8; columns count characters.  A byte that is not UTF-8 is read as
 * U+FFFD, and then reported as a stray character.  Text that is not a token is reported
 * here and becomes T_BAD; scanning goes on after it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "config/lang.h"

#define NUMBER_BYTES_MAX 64	/* digits of a number, as written */
#define UNCLOSED_MAX 4		/* quotes with no end, per file */

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

/* ---- characters, quoted texts and numbers ---- */

/* The character at s->off; 0 at the end, n its bytes. */
static uint32_t
scan_peek(struct scan *s, size_t *n)
{
	size_t left = s->n - s->off;
	uint32_t c;

	*n = 0;
	if (left == 0)
		return 0;
	c = utf8_next(s->src + s->off, left, n);
	return c == UTF8_BAD || c == 0 ? UTF8_REPLACEMENT : c;
}

/* Returns it, and moves on to the next. */
static uint32_t
scan_take(struct scan *s)
{
	size_t n;
	uint32_t c = scan_peek(s, &n);

	s->off += n;
	if (c == '\n') {
		s->pos.line++;
		s->pos.col = 1;
	} else if (n > 0) {
		s->pos.col++;
	}
	return c;
}

int
digit_value(uint32_t c)
{
	if (c >= '0' && c <= '9')
		return (int)(c - '0');
	if (c >= 'a' && c <= 'z')
		return (int)(c - 'a') + 10;
	if (c >= 'A' && c <= 'Z')
		return (int)(c - 'A') + 10;
	return 99;
}

/* Takes up to max digits of a base; UINT32_MAX: there are none. */
static uint32_t
take_digits(struct scan *s, int base, int max)
{
	size_t n;
	uint32_t v = 0;
	int i;

	for (i = 0; i < max && digit_value(scan_peek(s, &n)) < base; i++)
		v = v * (uint32_t)base + (uint32_t)digit_value(scan_take(s));
	return i == 0 ? UINT32_MAX : v;
}

/* Takes an escape, after its backslash. */
static uint32_t
take_escape(struct scan *s)
{
	static const char names[] = "bdefnrstv";
	static const unsigned char codes[] = { 8, 127, 27, 12, 10, 13, 32, 9,
		11 };
	struct kp_pos at = s->pos;
	size_t n;
	uint32_t c = scan_peek(s, &n), v;
	const char *p;

	if (c >= '0' && c <= '7')
		return take_digits(s, 8, 3);
	scan_take(s);
	if (c == '^')
		return scan_take(s) & 31;
	if (c == 'x') {
		if (scan_peek(s, &n) == '{') {
			scan_take(s);
			v = take_digits(s, 16, 6);
			if (scan_peek(s, &n) == '}')
				scan_take(s);
			else
				v = UINT32_MAX;
		} else {
			v = take_digits(s, 16, 2);
		}
		if (!utf8_is_char(v)) {
			diag_error(s->diags, at, "bad \\x escape, expected "
			    "\\xHH or \\x{HHHHHH}");
			return UTF8_REPLACEMENT;
		}
		return v;
	}
	p = c < 128 && c > 0 ? strchr(names, (int)c) : NULL;
	return p != NULL ? codes[p - names] : c;
}

/* Sets the text of an atom, as UTF-8. */
static bool
atom_from_cps(struct scan *s, struct token *t)
{
	char *p = arena_alloc(s->arena, t->ncps * 4 + 1);
	size_t n = 0;

	if (p == NULL)
		return false;
	for (size_t i = 0; i < t->ncps; i++) {
		if (t->cps[i] == 0) {
			diag_error(s->diags, t->pos, "an atom with a NUL "
			    "character is of no use here");
			return false;
		}
		n += utf8_put(p + n, t->cps[i]);
	}
	if (n > ATOM_BYTES_MAX) {
		diag_error(s->diags, t->pos, "this atom is longer than %d "
		    "bytes", ATOM_BYTES_MAX);
		return false;
	}
	t->text = p;
	t->len = n;
	return true;
}

/* Starts at the opening quote; fills text or cps. */
static bool
scan_quoted(struct scan *s, struct token *t, uint32_t quote)
{
	const char *nl;
	size_t room = 0, n;
	uint32_t c, *more;

	scan_take(s);
	for (;;) {
		c = scan_peek(s, &n);
		if (n == 0) {
			diag_error(s->diags, t->pos, "no closing %c for this "
			    "%s", (int)quote, quote == '"' ? "string" : "atom");
			/*
			 * Go on with the next line, to find more errors; but
			 * only a few times, since each reads to the end.
			 */
			nl = memchr(t->src, '\n',
			    s->n - (size_t)(t->src - s->src));
			if (nl != NULL && s->unclosed++ < UNCLOSED_MAX) {
				s->off = (size_t)(nl - s->src);
				s->pos = t->pos;
			}
			return false;
		}
		scan_take(s);
		if (c == quote)
			break;
		if (t->ncps == room) {
			room = room > 0 ? room * 2 : 32;
			more = arena_alloc(s->arena, room * sizeof(*more));
			if (more == NULL)
				return false;
			if (t->ncps > 0)
				memcpy(more, t->cps, t->ncps * sizeof(*more));
			t->cps = more;
		}
		t->cps[t->ncps++] = c == '\\' ? take_escape(s) : c;
	}
	return quote == '"' || atom_from_cps(s, t);
}

/* Starts at the $. */
static bool
scan_char(struct scan *s, struct token *t)
{
	size_t n;
	uint32_t c;

	scan_take(s);
	c = scan_peek(s, &n);
	if (n == 0) {
		diag_error(s->diags, t->pos, "found the end of the file, "
		    "expected a character after $");
		return false;
	}
	scan_take(s);
	t->num = c == '\\' ? take_escape(s) : c;
	return true;
}

static bool
scan_based(struct scan *s, struct token *t, int64_t base)
{
	size_t n;
	int64_t v = 0;
	int d, digits = 0;

	scan_take(s);
	if (base < 2 || base > 36) {
		diag_error(s->diags, t->pos, "base %lld is not within 2..36",
		    (long long)base);
		return false;
	}
	while ((d = digit_value(scan_peek(s, &n))) < base ||
	    (digits > 0 && scan_peek(s, &n) == '_')) {
		scan_take(s);
		if (d >= base)
			continue;
		digits++;
		if (v > (INT64_MAX - d) / base) {
			diag_error(s->diags, t->pos, "this integer needs more "
			    "than 64 bits");
			return false;
		}
		v = v * base + d;
	}
	if (digits == 0) {
		diag_error(s->diags, t->pos, "no digits of base %lld after #",
		    (long long)base);
		return false;
	}
	t->num = v;
	return true;
}

/* Takes digits, and single underscores between them; keeps digits that fit. */
static size_t
take_decimal(struct scan *s, char *text, size_t len)
{
	const char *p;

	while (s->off < s->n) {
		p = s->src + s->off;
		if (*p >= '0' && *p <= '9') {
			if (len < NUMBER_BYTES_MAX)
				text[len++] = *p;
		} else if (*p != '_' || s->off + 1 == s->n || p[1] < '0' ||
		    p[1] > '9') {
			break;
		}
		scan_take(s);
	}
	return len;
}

static bool
is_digit_at(const struct scan *s, size_t off)
{
	return off < s->n && s->src[off] >= '0' && s->src[off] <= '9';
}

static size_t
take_exponent(struct scan *s, char *text, size_t len)
{
	size_t sign;

	if (s->off == s->n || (s->src[s->off] | 32) != 'e')
		return len;
	sign = s->off + 1 < s->n &&
	    (s->src[s->off + 1] == '-' || s->src[s->off + 1] == '+');
	if (!is_digit_at(s, s->off + 1 + sign))
		return len;
	for (size_t i = 0; i < 1 + sign; i++) {
		if (len < NUMBER_BYTES_MAX)
			text[len++] = s->src[s->off];
		scan_take(s);
	}
	return take_decimal(s, text, len);
}

static bool
scan_number(struct scan *s, struct token *t)
{
	char text[NUMBER_BYTES_MAX + 1];
	size_t len = take_decimal(s, text, 0);

	if (s->off < s->n && s->src[s->off] == '.' &&
	    is_digit_at(s, s->off + 1)) {
		t->type = T_FLOAT;
		if (len < NUMBER_BYTES_MAX)
			text[len++] = '.';
		scan_take(s);
		len = take_exponent(s, text, take_decimal(s, text, len));
	}
	text[len] = '\0';
	errno = 0;
	if (t->type == T_FLOAT) {
		t->real = strtod(text, NULL);
		if (len == NUMBER_BYTES_MAX || t->real > 1.7e308) {
			diag_error(s->diags, t->pos, "this float is too long "
			    "or too large");
			return false;
		}
		return true;
	}
	t->num = strtoll(text, NULL, 10);
	if (errno != 0 || len == NUMBER_BYTES_MAX) {
		diag_error(s->diags, t->pos, "this integer needs more than "
		    "64 bits");
		return false;
	}
	if (s->off < s->n && s->src[s->off] == '#')
		return scan_based(s, t, t->num);
	return true;
}

/* ---- tokens ---- */

void
scan_init(struct scan *s, const char *src, size_t n, struct arena *a,
    struct kp_diags *d)
{
	*s = (struct scan){ .src = src, .n = n, .pos = { 1, 1 }, .arena = a,
		.diags = d };
	if (n >= 3 && memcmp(src, "\xEF\xBB\xBF", 3) == 0)
		s->off = 3;
}

/* Notes a comment behind something that looks like a map of Elixir: %{, %Plug.Conn{ */
static void
map_see(struct scan *s)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "0123456789_.";
	size_t at = s->off, n = s->off + 1;

	while (at > 0 && (s->src[at - 1] == ' ' || s->src[at - 1] == '\t'))
		at--;
	while (n < s->n && memchr(name, s->src[n], sizeof(name) - 1) != NULL)
		n++;
	if (s->map.line == 0 && at > 0 && s->src[at - 1] != '\n' && n < s->n &&
	    s->src[n] == '{')
		s->map = s->pos;
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
			map_see(s);
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
