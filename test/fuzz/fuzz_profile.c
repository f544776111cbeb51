/*
 * fuzz_profile.c - what a target says that its counters are, on any bytes: one
 * or two messages of rows, then the end of them, and all of it shown, and added
 * to itself; and what is kept as CSV is read again, as any bytes are.
 * The first byte says how it is shown, the second where a message ends.
 */
#include <string.h>

#include "base/utf8.h"
#include "profile/report/profile.h"
#include "profile/report/profile_diff.h"
#include "fuzz.h"

static void
read_all(struct kp_profile *p, const uint8_t *data, size_t size, size_t cut)
{
	struct kp_term r;
	enum kp_err e;

	kp_term_begin_raw(&r, data, cut);
	e = kp_profile_rows(p, &r);
	kp_term_begin_raw(&r, data + cut, size - cut);
	if (e == KP_OK)
		kp_profile_rows(p, &r);
	kp_term_begin_raw(&r, data + cut, size - cut);
	kp_profile_end(p, &r);
	REQUIRE(p->elapsed >= 0);
	for (size_t i = 0; i < p->nfns; i++)
		REQUIRE(p->fns[i].mod != NULL && p->fns[i].fun != NULL &&
		    p->fns[i].arity <= 255);
	for (size_t i = 0; i < p->nrows; i++)
		REQUIRE(p->rows[i].fn < p->nfns);
	for (size_t i = 0; i < p->nnames; i++)
		REQUIRE(p->names[i].name != NULL);
}

static enum kp_err
kept(const char *s, size_t n)
{
	struct profile_diff_view v = { .top = 3 };
	struct profile_kept k;
	char why[200];
	struct kp_buf b;
	enum kp_err e;

	e = profile_kept_read(&k, s, n, why, sizeof(why));
	REQUIRE(e == KP_OK || k.n == 0);
	kp_buf_init(&b, 1 << 22);
	profile_diff_table(&b, &k, &k, &v, 0);
	kp_buf_free(&b);
	profile_kept_free(&k);
	return e;
}

static void
show_all(const struct kp_profile *p, unsigned how)
{
	struct profile_view v = { .sort = (enum profile_sort)(how % 6),
		.reverse = how & 8, .by_process = how & 16,
		.top = how & 32 ? 2 : 0, .target = "a@b" };
	struct kp_buf b;

	kp_buf_init(&b, 1 << 22);
	profile_table(&b, p, &v, how & 64 ? 40 : 0);
	REQUIRE(b.err != KP_OK || utf8_valid((const char *)b.p, b.len));
	kp_buf_reset(&b);
	profile_json(&b, p, &v);
	REQUIRE(b.err != KP_OK || utf8_valid((const char *)b.p, b.len));
	kp_buf_reset(&b);
	v.top = 0;
	v.by_process = false;
	profile_csv(&b, p, &v);
	if (b.err == KP_OK)
		REQUIRE(kept((const char *)b.p, b.len) == KP_OK);
	kp_buf_free(&b);
}

/* What is of one function or process is one, however often it is added. */
static void
add_up(const struct kp_profile *p)
{
	struct kp_profile q = { .type = p->type, .stretch = p->stretch + 1 };
	size_t nfns, nrows;

	if (kp_profile_add(&q, p) == KP_OK) {
		nfns = q.nfns;
		nrows = q.nrows;
		REQUIRE(nfns <= p->nfns && nrows <= p->nrows);
		for (size_t i = 0; i < nrows; i++)
			REQUIRE(q.rows[i].fn < nfns);
		REQUIRE(kp_profile_add(&q, p) != KP_OK ||
		    (q.nfns == nfns && q.nrows == nrows));
	}
	kp_profile_free(&q);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_profile p = { 0 };

	if (size < 2)
		return 0;
	p.type = (enum kp_profile_type)(data[0] % 3);
	read_all(&p, data + 2, size - 2,
	    data[1] < size - 2 ? data[1] : size - 2);
	show_all(&p, data[0]);
	add_up(&p);
	kept((const char *)data, size);
	kp_profile_free(&p);
	return 0;
}
