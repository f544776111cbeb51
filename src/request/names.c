/*
 * names.c - functions, request types and receivers.
 *
 * Functions are decoded the first time, then looked up by their bytes; a
 * small cache answers most look-ups.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/vec.h"
#include "request/names.h"

#define FN_TEXT_MAX 2048	/* two names of 255 bytes, all escaped */
#define PART_TEXT_MAX (255 * 4 + sizeof(KP_PART_SEP) + IDENT_TEXT_MAX)
#define OTHER "_other"

/* --------------------------------------------------------- request types ---- */

/*
 * Turns request types ("identities"), and labels of calls, from terms of the target
 * into short texts, and numbers these.
 *
 * An identity is what the user's fun returned: an atom, a string, a number, or
 * tuples of them ({get, "/users"} reads "get /users").  Texts are rewritten by
 * the user's patterns and then numbered, up to a cap.
 */

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
	static const char *const fixed[] = { "_total", "undefined", OTHER };
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

/* Of n digits; lower case, as W3C Trace Context has it. */
static bool
is_hex(const char *s, size_t n)
{
	return strspn(s, "0123456789abcdef") >= n;
}

bool
kp_traceparent_parse(char out[KP_TRACEPARENT], const void *p, size_t n)
{
	static const char form[] = "00-00000000000000000000000000000000-"
	    "0000000000000000-0";
	char s[KP_TRACEPARENT] = "";
	bool ok = n >= KP_TRACEPARENT - 1 && n <= KP_TRACE_BYTES_MAX;

	out[0] = '\0';
	if (!ok)
		return false;
	memcpy(s, p, KP_TRACEPARENT - 1);
	ok = s[2] == '-' && s[35] == '-' && s[52] == '-' && is_hex(s, 2) &&
	    is_hex(s + KP_TRACE_ID_AT, KP_TRACE_ID_LEN) &&
	    is_hex(s + KP_TRACE_SPAN_AT, 16) && is_hex(s + 53, 2) &&
	    memcmp(s, "ff", 2) != 0 &&
	    memcmp(s + KP_TRACE_ID_AT, form + KP_TRACE_ID_AT, KP_TRACE_ID_LEN) != 0 &&
	    memcmp(s + KP_TRACE_SPAN_AT, form + KP_TRACE_SPAN_AT, 16) != 0 &&
	    (n == KP_TRACEPARENT - 1 || (memcmp(s, form, 2) != 0 &&
	    ((const char *)p)[KP_TRACEPARENT - 1] == '-'));
	if (!ok)
		return false;
	s[0] = s[1] = s[53] = '0';
	s[54] = "01"[strchr("13579bdf", s[54]) != NULL];
	memcpy(out, s, KP_TRACEPARENT);
	return true;
}

bool
kp_is_trace_id(const char *s)
{
	return strlen(s) == KP_TRACE_ID_LEN && is_hex(s, KP_TRACE_ID_LEN);
}

bool
kp_traceparent_sampled(const char *traceparent)
{
	return traceparent[0] != '\0' && traceparent[KP_TRACEPARENT - 2] == '1';
}

bool
ident_trace(struct kp_span *raw, struct kp_span *traceparent)
{
	struct kp_span at, rest;
	struct kp_term r;

	kp_term_begin_raw(&r, raw->p, raw->n);
	if (kp_term_peek(&r) != KP_TERM_TUPLE || kp_term_tuple(&r) != 3 ||
	    !kp_span_is(kp_term_atom(&r), KP_TRACE_TAG))
		return false;
	at = kp_term_raw(&r);
	rest = kp_term_raw(&r);
	if (kp_term_finish(&r) != KP_OK)
		return false;
	kp_term_begin_raw(&r, rest.p, rest.n);
	if (kp_term_peek(&r) == KP_TERM_NIL || (kp_term_peek(&r) == KP_TERM_ATOM &&
	    kp_span_is(kp_term_atom(&r), "undefined")))
		rest.n = 0;
	*traceparent = at;
	*raw = rest;
	return true;
}

void
ident_traceparent(struct kp_span raw, char traceparent[KP_TRACEPARENT])
{
	uint8_t bytes[KP_TRACE_BYTES_MAX];
	struct kp_span text;
	struct kp_term r;
	size_t n;

	kp_term_begin_raw(&r, raw.p, raw.n);
	if (kp_term_peek(&r) == KP_TERM_BINARY) {
		text = kp_term_binary(&r);
	} else {
		n = kp_term_string(&r, bytes, sizeof(bytes));
		text = (struct kp_span){ bytes, r.err == KP_OK ? (uint32_t)n : 0 };
	}
	kp_traceparent_parse(traceparent, text.p, text.n);
}

bool
ident_label(struct kp_span *raw)
{
	struct kp_span label;
	struct kp_term r;

	kp_term_begin_raw(&r, raw->p, raw->n);
	if (kp_term_peek(&r) != KP_TERM_TUPLE || kp_term_tuple(&r) != 2 ||
	    !kp_span_is(kp_term_atom(&r), KP_LABEL_TAG))
		return false;
	label = kp_term_raw(&r);
	if (kp_term_finish(&r) != KP_OK)
		return false;
	*raw = label;
	return true;
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
idents_known(const struct idents *t, struct kp_span raw)
{
	const struct interned *known = intern_get(&t->by_raw, raw.p, raw.n);

	return known != NULL ? known->val : KP_NONE;
}

uint32_t
idents_intern(struct idents *t, struct kp_span raw, bool *overflow)
{
	uint32_t known = idents_known(t, raw);
	char text[IDENT_TEXT_MAX];
	struct kp_buf b;
	uint32_t id;

	*overflow = false;
	if (known != KP_NONE)
		return known;
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

/* ------------------------------------------------------------- functions ---- */

bool
fns_init(struct fns *f, const struct kp_conf *conf)
{
	*f = (struct fns){ .conf = conf, .parts = { .max = KP_PARTS_MAX } };
	return idents_init(&f->labels, conf, KP_LABELS_MAX + KP_IDENT_OTHER + 1);
}

void
fns_free(struct fns *f)
{
	idents_free(&f->labels);
	idents_free(&f->parts);
	map_free(&f->labelled);
	intern_free(&f->by_raw);
	intern_free(&f->callers);
	for (uint32_t i = 0; i < f->len; i++)
		free((char *)(uintptr_t)f->v[i].text);
	free(f->v);
	*f = (struct fns){ 0 };
}

static bool
pats_cover(const struct kp_mfa_pat *p, size_t n, const struct kp_mfa *mfa)
{
	for (size_t i = 0; i < n; i++)
		if (kp_mfa_pat_covers(&p[i], mfa))
			return true;
	return false;
}

/* Returns whether the configuration has it traced. */
static bool
fn_classify(struct kp_fn *fn, const struct kp_conf *c, const struct kp_mfa *mfa)
{
	bool entry = false;

	if (c == NULL)
		return false;
	for (size_t i = 0; i < c->ntiers; i++)
		if (pats_cover(c->tiers[i].fns, c->tiers[i].nfns, mfa))
			fn->tiers |= UINT64_C(1) << i;
	for (size_t i = 0; i < c->nentries; i++)
		entry |= kp_mfa_pat_covers(&c->entries[i].fn, mfa);
	fn->finish = pats_cover(c->finishes, c->nfinishes, mfa);
	fn->mark = kp_mark(mfa);
	return entry || fn->tiers != 0 || fn->finish || fn->mark != KP_MARK_NONE;
}

/* "db:query/2"; owned by the caller, NULL when out of memory. */
static char *
fn_text(struct kp_span mod, struct kp_span fun, uint32_t arity)
{
	struct kp_buf b;
	char *text;

	kp_buf_init(&b, 2 * FN_TEXT_MAX);
	utf8_put_name(&b, mod.p, mod.n, FN_TEXT_MAX);
	kp_buf_u8(&b, ':');
	utf8_put_name(&b, fun.p, fun.n, FN_TEXT_MAX);
	kp_buf_printf(&b, "/%u", arity);
	text = strdup(kp_buf_cstr(&b));
	kp_buf_free(&b);
	return text;
}

struct name {
	char mod[256], fun[256];
	struct kp_span m, f;
	struct kp_mfa mfa;
};

/* Decodes {M,F,A}; false if it is none. */
static bool
name_read(struct name *to, struct kp_span raw)
{
	struct kp_term r;
	uint32_t arity;

	kp_term_begin_raw(&r, raw.p, raw.n);
	arity = kp_term_mfa(&r, &to->m, &to->f);
	if (kp_term_finish(&r) != KP_OK || to->m.n >= sizeof(to->mod) ||
	    to->f.n >= sizeof(to->fun))
		return false;
	snprintf(to->mod, sizeof(to->mod), "%.*s", (int)to->m.n,
	    (const char *)to->m.p);
	snprintf(to->fun, sizeof(to->fun), "%.*s", (int)to->f.n,
	    (const char *)to->f.p);
	to->mfa = (struct kp_mfa){ to->mod, to->fun, arity };
	return true;
}

/* The entry of a function that is not traced.  NULL: out of memory. */
static const struct interned *
caller_add(struct fns *f, struct kp_span raw)
{
	uint32_t number = FN_CALLER |
	    (uint32_t)(intern_hash(raw.p, raw.n) >> 34);

	if (f->callers.len == FN_CALLERS_MAX) {
		intern_free(&f->callers);
		memset(f->recent, 0, sizeof(f->recent));	/* its keys */
	}
	return intern_put(&f->callers, raw.p, raw.n, number);
}

/*
 * Returns the entry of a function, and makes it if there is none; NULL if there is no
 * room.  called: the function needs one in v, even if the configuration does not name it.
 */
static const struct interned *
fns_add(struct fns *f, struct kp_span raw, bool called)
{
	const struct interned *known = intern_get(&f->by_raw, raw.p, raw.n);
	struct kp_fn fn = { .base = f->len };
	struct name name;

	if (known == NULL && !called)
		known = intern_get(&f->callers, raw.p, raw.n);
	if (known != NULL)
		return known;
	if (!name_read(&name, raw))
		return NULL;
	if (!fn_classify(&fn, f->conf, &name.mfa) && !called)
		return caller_add(f, raw);
	if (vec_room(&f->v, &f->room, f->len, FN_MAX) != KP_OK ||
	    (fn.text = fn_text(name.m, name.f, name.mfa.arity)) == NULL)
		return NULL;
	known = intern_put(&f->by_raw, raw.p, raw.n, f->len);
	if (known == NULL)
		free((char *)(uintptr_t)fn.text);
	else
		f->v[f->len++] = fn;
	return known;
}

/*
 * The part of fn's first tier that calls with the label are of, plus one; 0: there is no
 * tier, or no room.  A path of tiers has ';' between them.
 */
static uint32_t
part_of(struct fns *f, const struct kp_fn *fn, const char *label)
{
	char text[PART_TEXT_MAX];
	const struct interned *known;
	bool overflow = false;
	uint32_t n = f->parts.len, part;

	if (fn->tiers == 0)
		return 0;
	snprintf(text, sizeof(text), "%s" KP_PART_SEP "%s",
	    f->conf->tiers[__builtin_ctzll(fn->tiers)].name, label);
	for (char *p = text; *p != '\0'; p++)
		*p = *p == ';' ? ',' : *p;
	known = intern_get(&f->parts.by_text, text, strlen(text));
	if (known != NULL)
		return known->val + 1;
	if (n >= KP_LABELS_MAX && strcmp(label, OTHER) != 0)
		return 0;
	part = ident_add(&f->parts, text, &overflow);
	return f->parts.len > n ? part + 1 : 0;
}

/* A copy of fn with the label, or with _other.  KP_NONE: no memory. */
static uint32_t
fns_add_labelled(struct fns *f, uint32_t fn, uint32_t label)
{
	struct kp_fn new = f->v[fn];
	const char *name = f->labels.text[label];
	struct kp_buf b;

	new.part = part_of(f, &new, name);
	if (new.part == 0 && new.tiers != 0) {
		if (label == KP_IDENT_OTHER)
			return KP_NONE;
		return fns_labelled(f, fn, KP_IDENT_OTHER);
	}
	new.other = label == KP_IDENT_OTHER;
	kp_buf_init(&b, 3 * FN_TEXT_MAX);
	kp_buf_printf(&b, "%s [%s]", new.text, name);
	new.text = strdup(kp_buf_cstr(&b));
	kp_buf_free(&b);
	if (new.text == NULL || vec_room(&f->v, &f->room, f->len, FN_MAX) != KP_OK) {
		free((char *)(uintptr_t)new.text);
		return KP_NONE;
	}
	f->v[f->len] = new;
	return f->len++;
}

uint32_t
fns_labelled(struct fns *f, uint32_t fn, uint32_t label)
{
	uint64_t key = (uint64_t)fn << 32 | label;
	const uint64_t *known = map_get(&f->labelled, key);
	uint32_t to;

	if (label == KP_IDENT_NONE)
		return fn;
	if (known != NULL)
		return (uint32_t)*known;
	to = fns_add_labelled(f, fn, label);
	if (to == KP_NONE)
		return fn;
	map_put(&f->labelled, key, to);
	return to;
}

/* Not inlined, so that a hit in `recent` saves no registers. */
static __attribute__((noinline)) uint32_t
fns_look_up(struct fns *f, struct kp_span raw, bool called, struct recent *r)
{
	const struct interned *s = fns_add(f, raw, called);

	if (s == NULL)
		return KP_NONE;
	if (r != NULL)
		*r = (struct recent){ s->key, raw.n, s->val };
	return s->val;
}

/* n >= 16: the last bytes may overlap those before. */
static inline bool
same_bytes(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	const uint8_t *last = a + n - 16;

	for (; a < last; a += 16, b += 16)
		if (memcmp(a, b, 16) != 0)
			return false;
	return memcmp(last, b - (a - last), 16) == 0;
}

/*
 * Called two or three times for an event.  Most calls are of few functions: the
 * cache finds them by the end of the function's name and its arity.
 */
static inline uint32_t
fns_number(struct fns *f, struct kp_span raw, bool called)
{
	struct recent *r;
	uint64_t h;

	if (raw.n < 16)
		return fns_look_up(f, raw, called, NULL);
	h = (read64(raw.p + raw.n - 8) ^ raw.n) * UINT64_C(0x9E3779B97F4A7C15);
	r = &f->recent[h >> (64 - RECENT_BITS)];
	if (r->keylen == raw.n && same_bytes(r->key, raw.p, raw.n) &&
	    !(called && r->val >= FN_CALLER))
		return r->val;
	return fns_look_up(f, raw, called, r);
}

uint32_t
fns_of_call(struct fns *f, struct kp_span raw)
{
	return fns_number(f, raw, true);
}

uint32_t
fns_of_caller(struct fns *f, struct kp_span raw)
{
	return fns_number(f, raw, false);
}

/* ------------------------------------------------- receivers of messages ---- */

/* Names of processes that receive messages. */

#define NAME_BYTES 256		/* of an atom in a name */
#define PROCS_MAX 65536		/* known at a time: 2 MiB at most */

/* The name's id, new if need be; KP_RECEIVER_OTHER if there is no room. */
static uint32_t
name_id(struct receivers *r, const char *name)
{
	for (uint32_t i = 0; i < r->n; i++)
		if (strcmp(r->name[i], name) == 0)
			return i;
	if (r->n == KP_RECEIVERS_MAX ||
	    (r->name[r->n] = strdup(name)) == NULL)
		return KP_RECEIVER_OTHER;
	return r->n++;
}

bool
receivers_init(struct receivers *r)
{
	static const char *const first[] = { [KP_RECEIVER_OTHER] = "_other",
		[KP_RECEIVER_GONE] = "_gone", [KP_RECEIVER_ENTRY] = "_entry" };

	*r = (struct receivers){ .n = 0 };
	for (uint32_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		if (name_id(r, first[i]) != i || r->n == i)
			return false;
	return true;
}

void
receivers_free(struct receivers *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		free(r->name[i]);
	map_free(&r->procs);
}

bool
receivers_add(struct receivers *r, uint64_t proc)
{
	if (map_get(&r->procs, proc) != NULL)
		return false;
	if (r->procs.len == PROCS_MAX)
		map_free(&r->procs);
	/* If this fails its name is requested again. */
	map_put(&r->procs, proc, 0);
	return true;
}

/* The text of a raw name, owned by the caller; NULL: it is not a name. */
static char *
name_text(struct kp_span name)
{
	struct kp_span mod, fun;
	struct kp_term r;
	struct kp_buf b;
	char *text = NULL;
	uint32_t arity;

	kp_term_begin_raw(&r, name.p, name.n);
	kp_buf_init(&b, 2 * NAME_BYTES);
	if (kp_term_peek(&r) == KP_TERM_ATOM) {
		mod = kp_term_atom(&r);
		utf8_put_name(&b, mod.p, mod.n, NAME_BYTES);
		if (kp_term_finish(&r) == KP_OK && b.err == KP_OK)
			text = strdup(kp_buf_cstr(&b));
	} else if (kp_term_peek(&r) == KP_TERM_TUPLE) {
		arity = kp_term_mfa(&r, &mod, &fun);
		if (kp_term_finish(&r) == KP_OK)
			text = fn_text(mod, fun, arity);
	}
	kp_buf_free(&b);
	return text;
}

void
receivers_name(struct receivers *r, uint64_t proc, struct kp_span name)
{
	char *text = name_text(name);
	uint32_t id = text != NULL ? name_id(r, text) : KP_RECEIVER_GONE;

	if (map_get(&r->procs, proc) != NULL)
		map_put(&r->procs, proc, UINT64_C(1) + id);
	free(text);
}

uint32_t
receivers_get(const struct receivers *r, uint64_t proc)
{
	const uint64_t *at = map_get(&r->procs, proc);

	return at != NULL && *at > 0 ? (uint32_t)*at - 1 : KP_RECEIVER_GONE;
}
