/*
 * scan_text.c - characters, quoted texts and numbers of Erlang.
 *
 * The file is UTF-8; columns count characters.  A byte that is not UTF-8 is
 * read as U+FFFD, which scan.c then reports as a stray character.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "config/lang.h"

#define NUMBER_BYTES_MAX 64	/* digits of a number, as written */
#define UNCLOSED_MAX 4		/* quotes with no end, per file */

uint32_t
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

uint32_t
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

bool
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

bool
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

bool
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
