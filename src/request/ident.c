/*
 * ident.c - identities: terms from the target to short texts to numbers.
 *
 * An identity is whatever the user's fun returned: an atom, a string, a
 * number, or tuples of them ({get, "/users"} reads "get /users").  Texts are
 * rewritten by the user's patterns and then counted, up to a cap.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "request/intern.h"

static bool
utf8_valid(const uint8_t *p, size_t n)
{
	size_t i = 0, more;

	while (i < n) {
		if (p[i] < 0x80)
			more = 0;
		else if (p[i] >= 0xC2 && p[i] < 0xE0)
			more = 1;
		else if (p[i] >= 0xE0 && p[i] < 0xF0)
			more = 2;
		else if (p[i] >= 0xF0 && p[i] < 0xF5)
			more = 3;
		else
			return false;
		if (n - i <= more)
			return false;
		for (size_t k = 1; k <= more; k++)
			if ((p[i + k] & 0xC0) != 0x80)
				return false;
		i += more + 1;
	}
	return true;
}

/* Control characters, and bytes that are no UTF-8, become \xHH. */
static void
text_put(struct kp_buf *b, const uint8_t *p, size_t n)
{
	bool utf8 = utf8_valid(p, n);

	for (size_t i = 0; i < n; i++)
		if (p[i] < 0x20 || p[i] == 0x7F || (!utf8 && p[i] >= 0x80))
			kp_buf_printf(b, "\\x%02X", p[i]);
		else
			kp_buf_u8(b, p[i]);
}

static void
text_codepoint(struct kp_buf *b, int64_t c)
{
	uint8_t u[4];
	size_t n;

	if (c < 0 || c > 0x10FFFF)
		c = 0xFFFD;
	if (c < 0x80) {
		u[0] = (uint8_t)c;
		n = 1;
	} else if (c < 0x800) {
		u[0] = (uint8_t)(0xC0 | c >> 6);
		u[1] = (uint8_t)(0x80 | (c & 0x3F));
		n = 2;
	} else if (c < 0x10000) {
		u[0] = (uint8_t)(0xE0 | c >> 12);
		u[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
		u[2] = (uint8_t)(0x80 | (c & 0x3F));
		n = 3;
	} else {
		u[0] = (uint8_t)(0xF0 | c >> 18);
		u[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
		u[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
		u[3] = (uint8_t)(0x80 | (c & 0x3F));
		n = 4;
	}
	text_put(b, u, n);
}

/* A list of code points, however it was sent; anything else is printed. */
static void
text_list(struct kp_buf *b, struct kp_term *r)
{
	struct kp_term at = *r;
	uint8_t bytes[KP_IDENT_BYTES_MAX];
	uint32_t n;
	size_t len;

	len = kp_term_string(&at, bytes, sizeof(bytes));
	if (at.err == KP_OK) {
		*r = at;
		for (size_t i = 0; i < len; i++)
			text_codepoint(b, bytes[i]);
		return;
	}
	at = *r;
	n = kp_term_list(&at);
	for (uint32_t i = 0; i < n && kp_term_peek(&at) == KP_TERM_INT; i++)
		text_codepoint(b, kp_term_int(&at));
	kp_term_nil(&at);
	if (at.err == KP_OK)
		*r = at;
	else
		kp_term_print(r, b, IDENT_TEXT_MAX);
}

static void
text_simple(struct kp_buf *b, struct kp_term *r)
{
	struct kp_span s;

	switch (kp_term_peek(r)) {
	case KP_TERM_ATOM:
		s = kp_term_atom(r);
		text_put(b, s.p, s.n);
		break;
	case KP_TERM_BINARY:
		s = kp_term_binary(r);
		text_put(b, s.p, s.n);
		break;
	case KP_TERM_LIST:
		text_list(b, r);
		break;
	case KP_TERM_NIL:
		kp_term_nil(r);
		break;
	default:
		kp_term_print(r, b, IDENT_TEXT_MAX);
	}
}

/* Tuples are flattened: left counts the terms still to come. */
static void
text_term(struct kp_buf *b, struct kp_span raw)
{
	struct kp_term r;
	uint64_t left = 1;
	bool first = true;

	kp_term_begin_raw(&r, raw.p, raw.n);
	while (left > 0 && r.err == KP_OK && b->err == KP_OK) {
		left--;
		if (kp_term_peek(&r) == KP_TERM_TUPLE) {
			left += kp_term_tuple(&r);
			continue;
		}
		if (!first)
			kp_buf_u8(b, ' ');
		first = false;
		text_simple(b, &r);
	}
}

static uint32_t
ident_add(struct idents *t, const char *text, bool *overflow)
{
	size_t n = strlen(text);
	uint64_t hash = hash_bytes(text, n);
	uint32_t *known = intern_get(&t->by_text, text, n, hash);
	char **v;

	if (known != NULL)
		return *known;
	if (t->len >= t->max) {
		*overflow = true;
		return KP_IDENT_OTHER;
	}
	if (t->len == t->cap) {
		v = realloc(t->text, (t->cap + 64) * sizeof(*v));
		if (v == NULL)
			return KP_IDENT_OTHER;
		t->text = v;
		t->cap += 64;
	}
	t->text[t->len] = strdup(text);
	if (t->text[t->len] == NULL)
		return KP_IDENT_OTHER;
	if (!intern_put(&t->by_text, text, n, hash, t->len)) {
		free(t->text[t->len]);
		return KP_IDENT_OTHER;
	}
	return t->len++;
}

bool
idents_init(struct idents *t, const struct kp_conf *conf, uint32_t max)
{
	/* In the order of KP_IDENT_TOTAL, KP_IDENT_NONE, KP_IDENT_OTHER. */
	static const char *const fixed[] = { "_total", "undefined", "_other" };
	bool overflow = false;

	*t = (struct idents){ .conf = conf, .max = max };
	for (size_t i = 0; i < 3; i++)
		if (ident_add(t, fixed[i], &overflow) != i)
			return false;
	if (conf == NULL || conf->nrewrites == 0)
		return true;
	t->rewrites = calloc(conf->nrewrites, sizeof(*t->rewrites));
	if (t->rewrites == NULL)
		return false;
	/* The parser has compiled each of them already: this cannot fail. */
	for (size_t i = 0; i < conf->nrewrites; i++)
		if (regcomp(&t->rewrites[i], conf->rewrites[i].pattern,
		    REG_EXTENDED) != 0)
			return false;
	return true;
}

void
idents_free(struct idents *t)
{
	intern_free(&t->by_raw);
	intern_free(&t->by_text);
	for (uint32_t i = 0; i < t->len; i++)
		free(t->text[i]);
	free(t->text);
	if (t->rewrites != NULL)
		for (size_t i = 0; i < t->conf->nrewrites; i++)
			regfree(&t->rewrites[i]);
	free(t->rewrites);
	*t = (struct idents){ 0 };
}

/* Each pattern replaces its first match; they apply in the file's order. */
static void
ident_rewrite(const struct idents *t, char *text, size_t size)
{
	char out[IDENT_TEXT_MAX * 2];
	regmatch_t m;

	for (size_t i = 0; t->rewrites != NULL && i < t->conf->nrewrites; i++) {
		if (regexec(&t->rewrites[i], text, 1, &m, 0) != 0)
			continue;
		snprintf(out, sizeof(out), "%.*s%s%s", (int)m.rm_so, text,
		    t->conf->rewrites[i].to, text + m.rm_eo);
		snprintf(text, size, "%.*s", (int)size - 1, out);
	}
}

uint32_t
idents_intern(struct idents *t, struct kp_span raw, bool *overflow)
{
	uint64_t hash = hash_bytes(raw.p, raw.n);
	uint32_t *known = intern_get(&t->by_raw, raw.p, raw.n, hash);
	char text[IDENT_TEXT_MAX];
	struct kp_buf b;
	uint32_t id;

	*overflow = false;
	if (known != NULL)
		return *known;
	kp_buf_init(&b, IDENT_TEXT_MAX * 64);
	text_term(&b, raw);
	snprintf(text, sizeof(text), "%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
	ident_rewrite(t, text, sizeof(text));
	id = ident_add(t, text[0] != '\0' ? text : "undefined", overflow);
	/* "_other" made by the target's own bound is KP_IDENT_OTHER too. */
	if (t->by_raw.len < IDENT_RAW_MAX && !*overflow)
		intern_put(&t->by_raw, raw.p, raw.n, hash, id);
	return id;
}
