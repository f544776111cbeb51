/*
 * fuzz_profile.c - what a target says that its counters are, on any bytes: one
 * or two messages of rows, then the end of them, and all of it shown, and added
 * to itself; and what is kept as CSV is read again, as any bytes are.
 * The first byte says how it is shown, the second where a message ends.
 */
#include <string.h>

#include "base/utf8.h"
#include "profile/report/counts_report.h"
#include "profile/report/counts_diff.h"
#include "fuzz.h"

static void
read_all(struct kp_counts *p, const uint8_t *data, size_t size, size_t cut)
{
	struct kp_term r;
	enum kp_err e;

	kp_term_begin_raw(&r, data, cut);
	e = kp_counts_rows(p, &r);
	kp_term_begin_raw(&r, data + cut, size - cut);
	if (e == KP_OK)
		kp_counts_rows(p, &r);
	kp_term_begin_raw(&r, data + cut, size - cut);
	kp_counts_end(p, &r);
	REQUIRE(p->elapsed >= 0);
	for (size_t i = 0; i < p->nrows; i++)
		REQUIRE(p->rows[i].fn < p->names->nfns &&
		    (p->rows[i].proc >= KP_PROC_OTHERS ||
		    p->rows[i].proc < p->names->nprocs));
}

static enum kp_err
kept(const char *s, size_t n)
{
	struct counts_diff_view v = { .top = 3 };
	struct counts_kept k;
	char why[200];
	struct kp_buf b;
	enum kp_err e;

	e = counts_kept_read(&k, s, n, why, sizeof(why));
	REQUIRE(e == KP_OK || k.n == 0);
	kp_buf_init(&b, 1 << 22);
	counts_diff_table(&b, &k, &k, &v, 0);
	kp_buf_free(&b);
	counts_kept_free(&k);
	return e;
}

static void
show_all(const struct kp_counts *p, unsigned how)
{
	struct counts_view v = { .sort = (enum counts_sort)(how % 6),
		.reverse = how & 8,
		.top = how & 32 ? 2 : 0, .target = "a@b" };
	struct kp_buf b;

	kp_buf_init(&b, 1 << 22);
	counts_table(&b, p, &v, how & 64 ? 40 : 0);
	REQUIRE(b.err != KP_OK || utf8_valid((const char *)b.p, b.len));
	kp_buf_reset(&b);
	counts_json(&b, p, &v);
	REQUIRE(b.err != KP_OK || utf8_valid((const char *)b.p, b.len));
	kp_buf_reset(&b);
	v.top = 0;
	counts_csv(&b, p, &v);
	if (b.err == KP_OK)
		REQUIRE(kept((const char *)b.p, b.len) == KP_OK);
	kp_buf_free(&b);
}

/* A function has one row, or one for each process, however often it is added. */
static void
add_up(const struct kp_counts *p)
{
	struct kp_counts q = { .type = p->type, .stretch = p->stretch + 1,
		.by_process = p->by_process, .names = p->names };
	size_t n;

	if (kp_counts_add(&q, p) == KP_OK) {
		n = q.nrows;
		REQUIRE(n <= p->nrows);
		REQUIRE(kp_counts_add(&q, p) != KP_OK || q.nrows == n);
	}
	kp_counts_free(&q);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_counts p = { 0 };

	if (size < 2)
		return 0;
	p.names = kp_call_names_new();
	p.by_process = data[0] & 16;
	p.type = (enum kp_counts_type)(data[0] % 3);
	read_all(&p, data + 2, size - 2,
	    data[1] < size - 2 ? data[1] : size - 2);
	show_all(&p, data[0]);
	add_up(&p);
	kept((const char *)data, size);
	kp_counts_free(&p);
	kp_call_names_free(p.names);
	return 0;
}
