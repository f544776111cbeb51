/*
 * naming.c - turns request types ("identities") from terms of the target into
 * short texts, and numbers these.
 *
 * An identity is what the user's fun returned: an atom, a string, a number, or
 * tuples of them ({get, "/users"} reads "get /users").  Texts are rewritten by
 * the user's patterns and then numbered, up to a cap.
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/vec.h"
#include "request/names.h"

/* Copies what fits, in whole characters; text is valid UTF-8. */
static void
text_copy(char *to, size_t size, const char *text)
{
	size_t n = utf8_fit(text, strlen(text), size - 1);

	memcpy(to, text, n);
	to[n] = '\0';
}

static void
text_codepoint(struct kp_buf *b, int64_t c)
{
	char u[UTF8_BYTES_MAX];

	c = c < 0 || c > UINT32_MAX ? UTF8_REPLACEMENT : c;
	utf8_put_name(b, (const uint8_t *)u, utf8_put(u, (uint32_t)c),
	    IDENT_TEXT_MAX);
}

/* Writes a list of code points, in either encoding, as text; prints any other. */
static void
text_list(struct kp_buf *b, struct kp_term *r)
{
	struct kp_term at = *r;
	uint8_t bytes[KP_IDENT_BYTES_MAX];
	size_t len, before = b->len;
	uint32_t n;

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
	if (at.err == KP_OK) {
		*r = at;
	} else {
		b->len = before;
		kp_term_print(r, b, IDENT_TEXT_MAX);
	}
}

/* A module of Elixir, such as a controller, without the prefix of its atom. */
static struct kp_span
without_prefix(struct kp_span atom)
{
	static const char prefix[] = "Elixir.";
	uint32_t n = sizeof(prefix) - 1;

	if (atom.n <= n || memcmp(atom.p, prefix, n) != 0 ||
	    atom.p[n] < 'A' || atom.p[n] > 'Z')
		return atom;
	return (struct kp_span){ atom.p + n, atom.n - n };
}

static void
text_simple(struct kp_buf *b, struct kp_term *r)
{
	struct kp_span s;

	switch (kp_term_peek(r)) {
	case KP_TERM_ATOM:
		s = without_prefix(kp_term_atom(r));
		utf8_put_name(b, s.p, s.n, IDENT_TEXT_MAX);
		break;
	case KP_TERM_BINARY:
		s = kp_term_binary(r);
		utf8_put_name(b, s.p, s.n, IDENT_TEXT_MAX);
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

/* Flattens tuples; left: terms still to be read. */
static void
text_term(struct kp_buf *b, struct kp_span raw)
{
	struct kp_term r;
	uint64_t left = 1;
	bool first = true;

	kp_term_begin_raw(&r, raw.p, raw.n);
	while (left > 0 && r.err == KP_OK && b->len < IDENT_TEXT_MAX) {
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
	const struct interned *known = intern_get(&t->by_text, text, n);
	enum kp_err e;

	if (known != NULL)
		return known->val;
	e = vec_room(&t->text, &t->room, t->len, t->max);
	*overflow |= e == KP_ELIMIT;
	if (e != KP_OK)
		return KP_IDENT_OTHER;
	t->text[t->len] = strdup(text);
	if (t->text[t->len] == NULL)
		return KP_IDENT_OTHER;
	if (intern_put(&t->by_text, text, n, t->len) == NULL) {
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
	/* The parser of tiers.conf has compiled each already, without errors. */
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
	map_free(&t->reported);
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
	const struct kp_rewrite *rw;
	struct kp_buf b;
	regmatch_t m;

	for (size_t i = 0; t->rewrites != NULL && i < t->conf->nrewrites; i++) {
		if (regexec(&t->rewrites[i], text, 1, &m, 0) != 0)
			continue;
		rw = &t->conf->rewrites[i];
		kp_buf_init(&b, KP_CONF_SIZE_MAX + size);
		kp_buf_put(&b, text, (size_t)m.rm_so);
		kp_buf_str(&b, rw->to);
		kp_buf_str(&b, text + m.rm_eo);
		text_copy(text, size, kp_buf_cstr(&b));
		kp_buf_free(&b);
	}
}

uint32_t
ident_unbounded(struct kp_span raw)
{
	struct kp_term r;
	int64_t line;

	kp_term_begin_raw(&r, raw.p, raw.n);
	if (kp_term_peek(&r) != KP_TERM_TUPLE || kp_term_tuple(&r) != 2 ||
	    !kp_span_is(kp_term_atom(&r), "_other"))
		return 0;
	line = kp_term_int(&r);
	return kp_term_finish(&r) == KP_OK && line > 0 && line <= UINT32_MAX ?
	    (uint32_t)line : 0;
}

bool
idents_report_once(struct idents *t, uint32_t line)
{
	return map_get(&t->reported, line) == NULL &&
	    t->reported.len < IDENT_LINES_MAX && map_put(&t->reported, line, 1);
}

uint32_t
idents_intern(struct idents *t, struct kp_span raw, bool *overflow)
{
	const struct interned *known = intern_get(&t->by_raw, raw.p, raw.n);
	char text[IDENT_TEXT_MAX];
	struct kp_buf b;
	uint32_t id;

	*overflow = false;
	if (known != NULL)
		return known->val;
	kp_buf_init(&b, IDENT_TEXT_MAX * 4);
	text_term(&b, raw);
	text_copy(text, sizeof(text), kp_buf_cstr(&b));
	kp_buf_free(&b);
	ident_rewrite(t, text, sizeof(text));
	id = ident_add(t, text[0] != '\0' ? text : "undefined", overflow);
	/*
	 * If the user's fun returned "_other" that is KP_IDENT_OTHER, too.
	 * "_total" would count twice.
	 */
	if (id == KP_IDENT_TOTAL)
		id = KP_IDENT_OTHER;
	if (t->by_raw.len < IDENT_RAW_MAX && raw.n <= IDENT_RAW_BYTES &&
	    !*overflow)
		intern_put(&t->by_raw, raw.p, raw.n, id);
	return id;
}
