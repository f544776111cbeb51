/*
 * fns.c - functions: decoded the first time, then looked up by their bytes; a
 * small cache answers most look-ups.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/vec.h"
#include "request/names.h"

#define FN_TEXT_MAX 2048	/* two names of 255 bytes, all escaped */

void
fns_free(struct fns *f)
{
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

char *
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
 * The entry of a function, new if need be; NULL: it cannot be kept.  called: it needs
 * one in v, whether the configuration has it or not.
 */
static const struct interned *
fns_add(struct fns *f, struct kp_span raw, bool called)
{
	const struct interned *known = intern_get(&f->by_raw, raw.p, raw.n);
	struct kp_fn fn = { 0 };
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
fns_called(struct fns *f, struct kp_span raw)
{
	return fns_number(f, raw, true);
}

uint32_t
fns_caller(struct fns *f, struct kp_span raw)
{
	return fns_number(f, raw, false);
}
