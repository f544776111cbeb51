/*
 * profile_rows.c - decodes rows and names from kprof_counters.erl into a
 * profile.
 *
 * Every count is bounded, so that sums over all rows stay below 2^63.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/profile.h"
#include "base/vec.h"

#define COUNT_MAX (INT64_C(1) << 42)	/* with 2^21 rows: 2^63 */
#define ELAPSED_MAX (400 * 86400 * KP_NS_PER_S)
#define NAME_MAX_BYTES 1024u		/* an atom: 255 characters */

void
kp_profile_free(struct kp_profile *p)
{
	for (size_t i = 0; i < p->nfns; i++) {
		free(p->fns[i].mod);
		free(p->fns[i].fun);
	}
	for (size_t i = 0; i < p->nnames; i++)
		free(p->names[i].name);
	free(p->fns);
	free(p->rows);
	free(p->names);
	*p = (struct kp_profile){ .type = p->type };
}

static void
fail(struct kp_term *r, enum kp_err e)
{
	r->p = r->end;
	if (r->err == KP_OK)
		r->err = e;
}

static uint64_t
read_bounded(struct kp_term *r, int64_t max)
{
	int64_t v = kp_term_int(r);

	if (v < 0 || v > max)
		fail(r, KP_EFORMAT);
	return r->err == KP_OK ? (uint64_t)v : 0;
}

static char *
read_name(struct kp_term *r)
{
	struct kp_span s = kp_term_atom(r);
	char *name = NULL;

	if (s.n > NAME_MAX_BYTES || (s.n > 0 && memchr(s.p, '\0', s.n) != NULL))
		fail(r, KP_EFORMAT);
	if (r->err == KP_OK) {
		name = strndup(s.n > 0 ? (const char *)s.p : "", s.n);
		if (name == NULL)
			fail(r, KP_ENOMEM);
	}
	return name;
}

static struct kp_profile_proc
read_proc(struct kp_term *r)
{
	struct kp_profile_proc proc = { 0 };
	struct kp_pid pid;

	if (kp_term_peek(r) == KP_TERM_ATOM) {
		proc.others = true;
		if (!kp_span_is(kp_term_atom(r), "others"))
			fail(r, KP_EFORMAT);
		return proc;
	}
	pid = kp_term_pid(r);
	proc.id = pid.id;
	proc.serial = pid.serial;
	return proc;
}

static void
fail_unless(struct kp_term *r, enum kp_err e)
{
	if (e != KP_OK)
		fail(r, e);
}

static void
read_row(struct kp_profile *p, struct kp_term *r)
{
	struct kp_profile_row row = { .fn = (uint32_t)(p->nfns - 1) };

	fail_unless(r, vec_room(&p->rows, &p->rows_room, p->nrows,
	    KP_PROFILE_ROWS_MAX));
	kp_term_tuple_n(r, 3);
	row.proc = read_proc(r);
	row.calls = read_bounded(r, COUNT_MAX);
	row.value = read_bounded(r, COUNT_MAX);
	if (r->err == KP_OK)
		p->rows[p->nrows++] = row;
}

static void
read_fn(struct kp_profile *p, struct kp_term *r)
{
	struct kp_profile_fn fn = { 0 };
	uint32_t n;

	fail_unless(r, vec_room(&p->fns, &p->fns_room, p->nfns,
	    KP_PROFILE_FNS_MAX));
	kp_term_tuple_n(r, 6);
	fn.mod = read_name(r);
	fn.fun = read_name(r);
	fn.arity = (uint32_t)read_bounded(r, 255);
	fn.calls = read_bounded(r, COUNT_MAX);
	fn.value = read_bounded(r, COUNT_MAX);
	if (r->err != KP_OK) {
		free(fn.mod);
		free(fn.fun);
		return;
	}
	p->fns[p->nfns++] = fn;
	n = kp_term_list(r);
	for (uint32_t i = 0; i < n && r->err == KP_OK; i++)
		read_row(p, r);
	if (n > 0)
		kp_term_nil(r);
}

enum kp_err
kp_profile_rows(struct kp_profile *p, struct kp_term *r)
{
	uint32_t n = kp_term_list(r);

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++)
		read_fn(p, r);
	if (n > 0)
		kp_term_nil(r);
	return kp_term_finish(r);
}

static void
read_named(struct kp_profile *p, struct kp_term *r)
{
	struct kp_profile_name name = { 0 };

	fail_unless(r, vec_room(&p->names, &p->names_room, p->nnames,
	    KP_PROFILE_NAMES_MAX));
	kp_term_tuple_n(r, 2);
	name.proc = read_proc(r);
	name.name = read_name(r);
	if (r->err == KP_OK)
		p->names[p->nnames++] = name;
	else
		free(name.name);
}

static void
read_names(struct kp_profile *p, struct kp_term *r)
{
	uint32_t n = kp_term_list(r);

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++)
		read_named(p, r);
	if (n > 0)
		kp_term_nil(r);
}

enum kp_err
kp_profile_end(struct kp_profile *p, struct kp_term *r)
{
	uint32_t n = kp_term_map(r);
	struct kp_span key;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		key = kp_term_atom(r);
		if (kp_span_is(key, "elapsed"))
			p->elapsed = (kp_dur_ns)read_bounded(r, ELAPSED_MAX);
		else if (kp_span_is(key, "gone"))
			p->gone = read_bounded(r, COUNT_MAX);
		else if (kp_span_is(key, "merged"))
			p->merged = read_bounded(r, COUNT_MAX);
		else if (kp_span_is(key, "names"))
			read_names(p, r);
		else if (kp_span_is(key, "stretch"))
			p->stretch = read_bounded(r, COUNT_MAX);
		else
			kp_term_skip(r);
	}
	return kp_term_finish(r);
}
