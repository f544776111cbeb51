/*
 * counts.c - decodes rows and names from kprof_counters.erl, and adds readings
 * up.
 *
 * Every figure of the target is bounded, so that sums over all rows stay below
 * 2^63.
 */
#include <stdlib.h>

#include "base/vec.h"
#include "calls/counts.h"
#include "decode/term_bytes.h"

#define COUNT_MAX (INT64_C(1) << 42)	/* with 2^21 rows: 2^63 */
#define ELAPSED_MAX (400 * 86400 * KP_NS_PER_S)
#define ELAPSED_SUM_MAX (INT64_MAX / 2)

const char *const kp_counts_types[] = { [KP_COUNTS_CALLS] = "count",
	[KP_COUNTS_TIME] = "time", [KP_COUNTS_MEMORY] = "memory" };

void
kp_counts_free(struct kp_counts *p)
{
	free(p->rows);
	*p = (struct kp_counts){ .type = p->type, .by_process = p->by_process,
		.names = p->names };
}

enum kp_err
kp_counts_put(struct kp_counts *p, const struct kp_counts_row *row)
{
	enum kp_err e = vec_room(&p->rows, &p->room, p->nrows,
	    KP_COUNTS_ROWS_MAX);

	if (e == KP_OK)
		p->rows[p->nrows++] = *row;
	return e;
}

/* ---- what a target sends ---- */

static void
fail_unless(struct kp_term *r, enum kp_err e)
{
	if (e != KP_OK)
		term_fail(r, e);
}

static uint32_t
read_proc(struct kp_counts *p, struct kp_term *r)
{
	struct kp_pid pid;
	uint32_t proc = KP_PROC_OTHERS;
	bool added;

	if (kp_term_peek(r) == KP_TERM_ATOM) {
		fail_unless(r, kp_span_is(kp_term_atom(r), "others") ? KP_OK :
		    KP_EFORMAT);
		return proc;
	}
	pid = kp_term_pid(r);
	if (r->err == KP_OK)
		fail_unless(r, kp_call_proc_put(p->names, 0, pid.id,
		    pid.serial, &proc, &added));
	return proc;
}

static void
read_row(struct kp_counts *p, struct kp_term *r, uint32_t fn)
{
	struct kp_counts_row row = { .fn = fn };

	kp_term_tuple_n(r, 3);
	row.proc = read_proc(p, r);
	row.calls = kp_term_count(r, COUNT_MAX);
	row.value = kp_term_count(r, COUNT_MAX);
	if (r->err == KP_OK)
		fail_unless(r, kp_counts_put(p, &row));
}

static void
read_fn(struct kp_counts *p, struct kp_term *r)
{
	struct kp_counts_row row = { .proc = KP_PROC_ALL };
	struct kp_span mod, fun;
	uint32_t arity, n;
	bool added;

	kp_term_tuple_n(r, 6);
	mod = kp_term_atom(r);
	fun = kp_term_atom(r);
	arity = (uint32_t)kp_term_count(r, 255);
	row.calls = kp_term_count(r, COUNT_MAX);
	row.value = kp_term_count(r, COUNT_MAX);
	if (r->err == KP_OK)
		fail_unless(r, kp_call_fn_put(p->names, mod, fun, arity,
		    &row.fn, &added));
	if (r->err == KP_OK && !p->by_process)
		fail_unless(r, kp_counts_put(p, &row));
	if (!p->by_process) {
		kp_term_skip(r);
		return;
	}
	n = kp_term_list(r);
	for (uint32_t i = 0; i < n && r->err == KP_OK; i++)
		read_row(p, r, row.fn);
	if (n > 0)
		kp_term_nil(r);
}

enum kp_err
kp_counts_rows(struct kp_counts *p, struct kp_term *r)
{
	uint32_t n = kp_term_list(r);

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++)
		read_fn(p, r);
	if (n > 0)
		kp_term_nil(r);
	return kp_term_finish(r);
}

/* [{Pid, Name}] of registered processes. */
static void
read_names(struct kp_counts *p, struct kp_term *r)
{
	uint32_t n = kp_term_list(r), proc;
	struct kp_span name;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 2);
		proc = read_proc(p, r);
		name = kp_term_atom(r);
		/* '' is a name that a process can have; it shows nothing */
		if (r->err == KP_OK && name.n > 0)
			fail_unless(r, kp_call_proc_name(p->names, proc,
			    name));
	}
	if (n > 0)
		kp_term_nil(r);
}

static void
read_ahead(struct kp_counts *p, struct kp_term *r)
{
	struct kp_span why = kp_term_atom(r);

	p->ahead = kp_span_is(why, "others") ? KP_COUNTS_OTHERS :
	    kp_span_is(why, "exclude") ? KP_COUNTS_EXCLUDE : KP_COUNTS_AHEAD;
}

enum kp_err
kp_counts_end(struct kp_counts *p, struct kp_term *r)
{
	uint32_t n = kp_term_map(r);
	struct kp_span key;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		key = kp_term_atom(r);
		if (kp_span_is(key, "elapsed"))
			p->elapsed = (kp_dur_ns)kp_term_count(r, ELAPSED_MAX);
		else if (kp_span_is(key, "gone"))
			p->gone = kp_term_count(r, COUNT_MAX);
		else if (kp_span_is(key, "deleted"))
			p->deleted = kp_term_count(r, COUNT_MAX);
		else if (kp_span_is(key, "merged"))
			p->merged = kp_term_count(r, COUNT_MAX);
		else if (kp_span_is(key, "came"))
			p->came = kp_term_count(r, COUNT_MAX);
		else if (kp_span_is(key, "missed"))
			p->missed = kp_term_count(r, COUNT_MAX);
		else if (kp_span_is(key, "ahead"))
			read_ahead(p, r);
		else if (kp_span_is(key, "names"))
			read_names(p, r);
		else if (kp_span_is(key, "stretch"))
			p->stretch = kp_term_count(r, COUNT_MAX);
		else
			kp_term_skip(r);
	}
	return kp_term_finish(r);
}

/* ---- sums ---- */

static int
row_order(const void *pa, const void *pb)
{
	const struct kp_counts_row *a = pa, *b = pb;

	if (a->fn != b->fn)
		return a->fn < b->fn ? -1 : 1;
	return (a->proc > b->proc) - (a->proc < b->proc);
}

void
kp_counts_merge(struct kp_counts *p)
{
	size_t n = 0;

	if (p->nrows > 0)
		qsort(p->rows, p->nrows, sizeof(*p->rows), row_order);
	for (size_t i = 0; i < p->nrows; i++) {
		if (n > 0 && row_order(&p->rows[n - 1], &p->rows[i]) == 0) {
			p->rows[n - 1].calls += p->rows[i].calls;
			p->rows[n - 1].value += p->rows[i].value;
		} else {
			p->rows[n++] = p->rows[i];
		}
	}
	p->nrows = n;
}

enum kp_err
kp_counts_add(struct kp_counts *p, const struct kp_counts *before)
{
	enum kp_err e = KP_OK;

	if (p->stretch == before->stretch) {
		p->nrows = 0;
		p->elapsed = 0;
		p->gone = p->deleted = p->merged = 0;
	}
	for (size_t i = 0; i < before->nrows && e == KP_OK; i++)
		e = kp_counts_put(p, &before->rows[i]);
	kp_counts_merge(p);
	if (before->elapsed < ELAPSED_SUM_MAX)
		p->elapsed += before->elapsed;
	/* Both may have lost the same functions. */
	if (before->gone > p->gone)
		p->gone = before->gone;
	if (before->deleted > p->deleted)
		p->deleted = before->deleted;
	p->merged += before->merged;
	/* The node counts them from its start on. */
	if (before->came > p->came)
		p->came = before->came;
	if (before->missed > p->missed)
		p->missed = before->missed;
	return e;
}
