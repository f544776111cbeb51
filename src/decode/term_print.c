/*
 * term_print.c - writes a term in Erlang's syntax, for logs and errors.
 *
 * The term is checked whole before the first byte is written, and the levels
 * of nesting live in an array: so printing cannot fail half way and does not
 * recurse.  What comes from a target ends on people's terminals: everything
 * that is not printable is escaped, and the output is always UTF-8.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/term.h"
#include "base/utf8.h"
#include "decode/term_bytes.h"

struct level {
	uint64_t left; /* terms to come */
	uint64_t done;
	uint8_t tag;
};

struct printer {
	struct kp_buf *out;
	size_t start, max;
	bool cut;
	unsigned depth;
	struct level levels[KP_TERM_DEPTH_MAX + 1];
};

static void
put(struct printer *pr, const char *s, size_t n)
{
	if (pr->cut)
		return;
	if (n > pr->max - (pr->out->len - pr->start)) {
		pr->cut = true;
		return;
	}
	kp_buf_put(pr->out, s, n);
}

static void
puts_(struct printer *pr, const char *s)
{
	put(pr, s, strlen(s));
}

static void __attribute__((format(printf, 2, 3)))
putf(struct printer *pr, const char *fmt, ...)
{
	char tmp[64]; /* every caller writes less */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(tmp, sizeof(tmp), fmt, ap);
	va_end(ap);
	puts_(pr, tmp);
}

/* Makes room for dots where the text was cut, at a character's start. */
static void
end_cut(struct printer *pr)
{
	struct kp_buf *b = pr->out;
	size_t dots = pr->max < 3 ? pr->max : 3;
	size_t keep = pr->start + pr->max - dots;

	if (b->err != KP_OK)
		return;
	if (b->len > keep) {
		while (keep > pr->start && (b->p[keep] & 0xc0) == 0x80)
			keep--;
		b->len = keep;
	}
	kp_buf_put(b, "...", dots);
}

static bool
is_print(uint32_t c)
{
	return !utf8_unsafe(c);
}

static bool
is_text(uint32_t c)
{
	return is_print(c) || c == '\n' || c == '\r' || c == '\t';
}

/* One character inside quotes. */
static void
put_char(struct printer *pr, char quote, uint32_t c)
{
	char u[UTF8_BYTES_MAX];

	if (c == (unsigned char)quote || c == '\\') {
		putf(pr, "\\%c", (int)c);
	} else if (c == '\n' || c == '\r' || c == '\t') {
		puts_(pr, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
	} else if (!is_print(c)) {
		putf(pr, "\\x{%x}", c);
	} else {
		put(pr, u, utf8_put(u, c));
	}
}

static void
put_quoted(struct printer *pr, char quote, struct kp_span s, bool latin1)
{
	uint32_t c;
	size_t len = 1;

	putf(pr, "%c", quote);
	for (size_t i = 0; i < s.n && !pr->cut; i += len) {
		c = latin1 ? UTF8_BAD : utf8_next(s.p + i, s.n - i, &len);
		/* latin1, or a byte that belongs to no character */
		put_char(pr, quote, c == UTF8_BAD ? s.p[i] : c);
	}
	putf(pr, "%c", quote);
}

static bool
is_name_char(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '@';
}

static bool
is_bare_atom(struct kp_span s)
{
	static const char *const reserved[] = { "after", "and", "andalso",
		"band", "begin", "bnot", "bor", "bsl", "bsr", "bxor", "case",
		"catch", "cond", "div", "else", "end", "fun", "if", "let",
		"maybe", "not", "of", "or", "orelse", "receive", "rem", "try",
		"when", "xor" };

	if (s.n == 0 || s.p[0] < 'a' || s.p[0] > 'z')
		return false;
	for (uint32_t i = 0; i < s.n; i++) {
		if (!is_name_char(s.p[i]))
			return false;
	}
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		if (kp_span_is(s, reserved[i]))
			return false;
	}
	return true;
}

static void
put_atom(struct printer *pr, struct kp_term *r)
{
	bool latin1 = r->p[0] == ETF_ATOM || r->p[0] == ETF_SMALL_ATOM;
	struct kp_span s = kp_term_atom(r);

	if (is_bare_atom(s))
		put(pr, (const char *)s.p, s.n);
	else
		put_quoted(pr, '\'', s, latin1);
}

static void
put_name(struct kp_buf *out, const char *name, char quote, bool bare)
{
	struct printer pr = { .out = out, .start = out->len,
		.max = KP_ATOM_TEXT_MAX };
	struct kp_span s = { (const uint8_t *)name, (uint32_t)strlen(name) };

	if (bare && is_bare_atom(s))
		puts_(&pr, name);
	else
		put_quoted(&pr, quote, s, false);
}

void
kp_atom_print(struct kp_buf *out, const char *name)
{
	put_name(out, name, '\'', true);
}

void
kp_quoted_print(struct kp_buf *out, const char *name)
{
	put_name(out, name, '"', false);
}

/* Writes integers that exceed int64_t in base 16, which takes linear time. */
static void
put_int(struct printer *pr, struct kp_term *r)
{
	struct kp_term start = *r;
	int64_t v = kp_term_int(r);
	struct kp_span s;
	uint32_t digits;

	if (r->err == KP_OK) {
		putf(pr, "%lld", (long long)v);
		return;
	}
	*r = start;
	s = kp_term_raw(r);
	digits = s.p[0] == ETF_SMALL_BIG ? 3 : 6;
	puts_(pr, s.p[digits - 1] ? "-16#" : "16#");
	while (s.n > digits + 1 && s.p[s.n - 1] == 0)
		s.n--;
	for (uint32_t i = s.n; i > digits && !pr->cut; i--)
		putf(pr, i == s.n ? "%X" : "%02X", s.p[i - 1]);
}

static void
put_float(struct printer *pr, struct kp_term *r)
{
	struct kp_term start = *r;
	double v = kp_term_float(r);
	char tmp[40];
	size_t whole;

	if (r->err != KP_OK) {
		*r = start;
		kp_term_skip(r);
		puts_(pr, "#Float<>");
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(tmp, sizeof(tmp), "%.*g", digits, v);
		if (strtod(tmp, NULL) <= v && strtod(tmp, NULL) >= v)
			break;
	}
	/* Erlang wants a point: 1.0e20 */
	whole = strcspn(tmp, ".e");
	put(pr, tmp, whole);
	if (tmp[whole] != '.')
		puts_(pr, ".0");
	puts_(pr, tmp + whole);
}

static void
put_numbers(struct printer *pr, struct kp_span s)
{
	for (uint32_t i = 0; i < s.n && !pr->cut; i++)
		putf(pr, i > 0 ? ",%u" : "%u", s.p[i]);
}

static void
put_string(struct printer *pr, struct kp_term *r)
{
	struct kp_span s = kp_term_raw(r);
	bool text = true;

	s.p += 3;
	s.n -= 3;
	for (uint32_t i = 0; i < s.n && text; i++)
		text = is_text(s.p[i]);
	if (text) {
		put_quoted(pr, '"', s, true);
		return;
	}
	puts_(pr, "[");
	put_numbers(pr, s);
	puts_(pr, "]");
}

static void
put_bits(struct printer *pr, struct kp_term *r)
{
	struct kp_span s = kp_term_raw(r);
	unsigned bits = s.p[5] <= 8 ? s.p[5] : 8; /* of the last byte */

	s.p += 6;
	s.n -= 6;
	puts_(pr, "<<");
	if (s.n > 0) {
		s.n--;
		put_numbers(pr, s);
		putf(pr, s.n > 0 ? ",%u:%u" : "%u:%u", s.p[s.n] >> (8 - bits),
		    bits);
	}
	puts_(pr, ">>");
}

static void
put_binary(struct printer *pr, struct kp_term *r)
{
	struct kp_span s;
	bool text = true, ascii = true;
	uint32_t c;
	size_t len;

	if (r->p[0] == ETF_BIT_BINARY) {
		put_bits(pr, r);
		return;
	}
	s = kp_term_binary(r);
	for (size_t i = 0; i < s.n && text; i += len) {
		c = utf8_next(s.p + i, s.n - i, &len);
		text = c != UTF8_BAD && is_text(c);
		ascii = ascii && len == 1;
	}
	puts_(pr, "<<");
	if (text && s.n > 0)
		put_quoted(pr, '"', s, false);
	else
		put_numbers(pr, s);
	puts_(pr, text && !ascii ? "/utf8>>" : ">>");
}

static void
put_pid(struct printer *pr, struct kp_term *r)
{
	struct kp_term node = { r->p + 1, r->end, KP_OK };
	struct kp_pid pid = kp_term_pid(r);

	puts_(pr, "<");
	put_atom(pr, &node);
	putf(pr, ".%u.%u>", pid.id, pid.serial);
}

static void
put_other(struct printer *pr, struct kp_term *r)
{
	switch (r->p[0]) {
	case ETF_NEW_FUN:
		puts_(pr, "#Fun<>");
		break;
	case ETF_REFERENCE:
	case ETF_NEW_REFERENCE:
	case ETF_NEWER_REFERENCE:
		puts_(pr, "#Ref<>");
		break;
	default:
		puts_(pr, "#Port<>");
		break;
	}
	kp_term_skip(r);
}

static void
put_leaf(struct printer *pr, struct kp_term *r)
{
	switch (kp_term_peek(r)) {
	case KP_TERM_INT:
		put_int(pr, r);
		break;
	case KP_TERM_FLOAT:
		put_float(pr, r);
		break;
	case KP_TERM_ATOM:
		put_atom(pr, r);
		break;
	case KP_TERM_NIL:
		kp_term_nil(r);
		puts_(pr, "[]");
		break;
	case KP_TERM_LIST:
		put_string(pr, r);
		break;
	case KP_TERM_BINARY:
		put_binary(pr, r);
		break;
	case KP_TERM_PID:
		put_pid(pr, r);
		break;
	default:
		put_other(pr, r);
		break;
	}
}

/* Opens a container and returns true, or leaves the term for put_leaf(). */
static bool
open_level(struct printer *pr, struct kp_term *r)
{
	struct level *l = &pr->levels[pr->depth];

	*l = (struct level){ .tag = r->p[0] };
	switch (r->p[0]) {
	case ETF_SMALL_TUPLE:
	case ETF_LARGE_TUPLE:
		l->left = kp_term_tuple(r);
		puts_(pr, "{");
		break;
	case ETF_LIST:
		l->left = (uint64_t)kp_term_list(r) + 1;
		puts_(pr, "[");
		break;
	case ETF_MAP:
		l->left = (uint64_t)kp_term_map(r) * 2;
		puts_(pr, "#{");
		break;
	case ETF_EXPORT:
		r->p++;
		l->left = 3;
		puts_(pr, "fun ");
		break;
	default:
		return false;
	}
	pr->depth++;
	return true;
}

/* Writes the separator before the next term of this level. */
static const char *
separator(const struct level *l)
{
	if (l->done == 0)
		return "";
	if (l->tag == ETF_MAP && l->done % 2 == 1)
		return " => ";
	if (l->tag == ETF_LIST && l->left == 1)
		return "|";
	if (l->tag == ETF_EXPORT)
		return l->done == 1 ? ":" : "/";
	return ",";
}

/* Closes what is complete; false when that was everything. */
static bool
next_term(struct printer *pr, struct kp_term *r)
{
	struct level *l;

	while (pr->depth > 0) {
		l = &pr->levels[pr->depth - 1];
		/* a proper list's tail is not shown */
		if (l->tag == ETF_LIST && l->left == 1 && r->p[0] == ETF_NIL) {
			kp_term_nil(r);
			l->left = 0;
		}
		if (l->left > 0) {
			puts_(pr, separator(l));
			l->left--;
			l->done++;
			return true;
		}
		if (l->tag != ETF_EXPORT)
			puts_(pr, l->tag == ETF_LIST ? "]" : "}");
		pr->depth--;
	}
	return false;
}

void
kp_term_print(struct kp_term *r, struct kp_buf *out, size_t max)
{
	struct printer pr;
	struct kp_span whole = kp_term_raw(r);
	struct kp_term t;

	if (r->err != KP_OK)
		return;
	pr.out = out;
	pr.start = out->len;
	pr.max = max;
	pr.cut = false;
	pr.depth = 0;
	kp_term_begin_raw(&t, whole.p, whole.n);
	do {
		if (!open_level(&pr, &t))
			put_leaf(&pr, &t);
	} while (!pr.cut && next_term(&pr, &t));
	if (pr.cut)
		end_cut(&pr);
}
