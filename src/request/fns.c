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

static void
fn_classify(struct kp_fn *fn, const struct kp_conf *c, const struct kp_mfa *mfa)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->ntiers; i++)
		if (pats_cover(c->tiers[i].fns, c->tiers[i].nfns, mfa))
			fn->tiers |= UINT64_C(1) << i;
	fn->finish = pats_cover(c->finishes, c->nfinishes, mfa);
	fn->mark = kp_mark(mfa);
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

/* Decodes {M,F,A}; false if it is none, or out of memory. */
static bool
fn_make(struct kp_fn *fn, const struct kp_conf *c, struct kp_span raw)
{
	char mod[256], fun[256];
	struct kp_span m, f;
	struct kp_mfa mfa;
	struct kp_term r;
	uint32_t arity;

	kp_term_begin_raw(&r, raw.p, raw.n);
	arity = kp_term_mfa(&r, &m, &f);
	if (kp_term_finish(&r) != KP_OK || m.n >= sizeof(mod) ||
	    f.n >= sizeof(fun))
		return false;
	snprintf(mod, sizeof(mod), "%.*s", (int)m.n, (const char *)m.p);
	snprintf(fun, sizeof(fun), "%.*s", (int)f.n, (const char *)f.p);
	mfa = (struct kp_mfa){ mod, fun, arity };
	*fn = (struct kp_fn){ .text = fn_text(m, f, mfa.arity) };
	fn_classify(fn, c, &mfa);
	return fn->text != NULL;
}

/* The function's entry, new if need be; NULL: it cannot be kept. */
static const struct interned *
fns_add(struct fns *f, struct kp_span raw)
{
	const struct interned *known = intern_get(&f->by_raw, raw.p, raw.n);

	if (known != NULL)
		return known;
	if (vec_room(&f->v, &f->room, f->len, FN_MAX) != KP_OK ||
	    !fn_make(&f->v[f->len], f->conf, raw))
		return NULL;
	known = intern_put(&f->by_raw, raw.p, raw.n, f->len);
	if (known == NULL)
		free((char *)(uintptr_t)f->v[f->len].text);
	else
		f->len++;
	return known;
}

/* Not inlined, so that a hit in `recent` saves no registers. */
static __attribute__((noinline)) uint32_t
fns_look_up(struct fns *f, struct kp_span raw, struct recent *r)
{
	const struct interned *s = fns_add(f, raw);

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
uint32_t
fns_intern(struct fns *f, struct kp_span raw)
{
	struct recent *r;
	uint64_t h;

	if (raw.n < 16)
		return fns_look_up(f, raw, NULL);
	h = (read64(raw.p + raw.n - 8) ^ raw.n) * UINT64_C(0x9E3779B97F4A7C15);
	r = &f->recent[h >> (64 - RECENT_BITS)];
	if (r->keylen == raw.n && same_bytes(r->key, raw.p, raw.n))
		return r->val;
	return fns_look_up(f, raw, r);
}
