/*
 * put.c - writes an event's definitions, weight and record into the ring;
 * publishes them all, or undoes and counts them.  A definition is a term in the external
 * format: plain terms are encoded here, the rest by enif_term_to_binary().
 */
#include <stdbool.h>
#include <string.h>

#include "kprofd/etf.h"
#include "probe/checked.h"
#include "probe/put.h"

#define DEPTH_MAX 8	/* more than identities nest */
#define ATOM_CHARS 255

/* ---- terms ---- */

struct out {
	ErlNifEnv *env;
	uint8_t *p;
	uint32_t n, cap;
	bool failed;		/* too long, or not plain; sticks */
};

static void
put(struct out *o, const void *p, uint32_t n)
{
	if (o->cap - o->n < n) {
		o->failed = true;
		return;
	}
	memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void
put_u8(struct out *o, unsigned v)
{
	uint8_t b = (uint8_t)v;

	put(o, &b, 1);
}

static void
put_be(struct out *o, uint64_t v, unsigned bytes)
{
	while (bytes-- > 0)
		put_u8(o, (unsigned)(v >> 8 * bytes & 0xFF));
}

/* Has the VM encode the term. */
static void
put_any(struct out *o, ERL_NIF_TERM term)
{
	ErlNifBinary b;

	if (!enif_term_to_binary(o->env, term, &b)) {
		o->failed = true;
		return;
	}
	if (b.size <= o->cap)
		put(o, b.data + 1, (uint32_t)b.size - 1);
	else
		o->failed = true;
	enif_release_binary(&b);
}

/* Latin-1 to UTF-8: two bytes from U+0080 on. */
static void
put_atom(struct out *o, ERL_NIF_TERM term)
{
	char latin[ATOM_CHARS + 1];
	uint8_t utf8[2 * ATOM_CHARS];
	uint32_t n = 0;
	int len = enif_get_atom(o->env, term, latin, sizeof(latin),
	    ERL_NIF_LATIN1) - 1;

	if (len < 0) {	/* not Latin-1 */
		put_any(o, term);
		return;
	}
	for (int i = 0; i < len; i++) {
		uint8_t c = (uint8_t)latin[i];

		if (c >= 0x80)
			utf8[n++] = (uint8_t)(0xC0 | c >> 6);
		utf8[n++] = c >= 0x80 ? (uint8_t)(0x80 | (c & 0x3F)) : c;
	}
	put_u8(o, n <= UINT8_MAX ? ETF_SMALL_ATOM_UTF8 : ETF_ATOM_UTF8);
	put_be(o, n, n <= UINT8_MAX ? 1 : 2);
	put(o, utf8, n);
}

static void
put_integer(struct out *o, ERL_NIF_TERM term)
{
	ErlNifSInt64 v;
	uint64_t mag;

	if (!enif_get_int64(o->env, term, &v)) {
		o->failed = true;
		return;
	}
	if (v >= 0 && v <= UINT8_MAX) {
		put_u8(o, ETF_SMALL_INTEGER);
		put_u8(o, (unsigned)v);
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		put_u8(o, ETF_INTEGER);
		put_be(o, (uint32_t)v, 4);
	} else {
		mag = v < 0 ? -(uint64_t)v : (uint64_t)v;
		put_u8(o, ETF_SMALL_BIG);
		put_u8(o, 8);
		put_u8(o, v < 0);
		for (unsigned i = 0; i < 8; i++)
			put_u8(o, (unsigned)(mag >> 8 * i & 0xFF));
	}
}

static void
put_float(struct out *o, ERL_NIF_TERM term)
{
	double v = 0;
	uint64_t bits;

	o->failed |= !enif_get_double(o->env, term, &v);
	memcpy(&bits, &v, sizeof(bits));
	put_u8(o, ETF_NEW_FLOAT);
	put_be(o, bits, 8);
}

static void
put_binary(struct out *o, ERL_NIF_TERM term)
{
	ErlNifBinary b;

	if (!vm_binary(o->env, term, &b) || b.size > o->cap) {
		o->failed = true;
		return;
	}
	put_u8(o, ETF_BINARY);
	put_be(o, b.size, 4);
	put(o, b.data, (uint32_t)b.size);
}

static void put_term(struct out *o, ERL_NIF_TERM term, unsigned depth);

static void
put_list(struct out *o, ERL_NIF_TERM term, unsigned depth)
{
	ERL_NIF_TERM head;
	unsigned n;

	if (!enif_get_list_length(o->env, term, &n)) {
		o->failed = true;	/* improper */
		return;
	}
	if (n > 0) {
		put_u8(o, ETF_LIST);
		put_be(o, n, 4);
	}
	while (!o->failed && vm_list_cell(o->env, term, &head, &term))
		put_term(o, head, depth);
	put_u8(o, ETF_NIL);
}

static void
put_elements(struct out *o, const ERL_NIF_TERM v[], unsigned n, unsigned depth)
{
	put_u8(o, ETF_SMALL_TUPLE);
	put_u8(o, n);
	for (unsigned i = 0; i < n && !o->failed; i++)
		put_term(o, v[i], depth);
}

static void
put_tuple(struct out *o, ERL_NIF_TERM term, unsigned depth)
{
	const ERL_NIF_TERM *v;
	int n;

	if (vm_tuple(o->env, term, &n, &v) && n <= UINT8_MAX)
		put_elements(o, v, (unsigned)n, depth);
	else
		o->failed = true;
}

static void
put_term(struct out *o, ERL_NIF_TERM term, unsigned depth)
{
	if (depth == DEPTH_MAX) {
		o->failed = true;
		return;
	}
	switch (enif_term_type(o->env, term)) {
	case ERL_NIF_TERM_TYPE_ATOM:
		put_atom(o, term);
		break;
	case ERL_NIF_TERM_TYPE_INTEGER:
		put_integer(o, term);
		break;
	case ERL_NIF_TERM_TYPE_FLOAT:
		put_float(o, term);
		break;
	case ERL_NIF_TERM_TYPE_BITSTRING:
		put_binary(o, term);
		break;
	case ERL_NIF_TERM_TYPE_LIST:
		put_list(o, term, depth + 1);
		break;
	case ERL_NIF_TERM_TYPE_TUPLE:
		put_tuple(o, term, depth + 1);
		break;
	default:
		o->failed = true;
	}
}

uint32_t
term_put(ErlNifEnv *env, ERL_NIF_TERM term, uint8_t *p, uint32_t cap)
{
	struct out o = { .env = env, .p = p, .cap = cap };

	put_term(&o, term, 0);
	if (o.failed) {
		o.failed = false;
		o.n = 0;
		put_any(&o, term);
	}
	return o.failed ? 0 : o.n;
}

/* The same for a tuple of n plain terms. */
static uint32_t
term_put_tuple(ErlNifEnv *env, const ERL_NIF_TERM v[], unsigned n, uint8_t *p,
    uint32_t cap)
{
	struct out o = { .env = env, .p = p, .cap = cap };

	put_elements(&o, v, n, 1);
	return o.failed ? 0 : o.n;
}

/* ---- events ---- */

void
event_define(struct event *e, struct names *names, enum kp_native_kind kind,
    uint16_t slot, const uint8_t *term, uint32_t n)
{
	e->fresh[e->nfresh].names = names;
	e->fresh[e->nfresh++].slot = slot;
	e->full |= !ring_define(&e->t->ring, kind, slot, term, n);
}

uint16_t
event_fn_of(struct event *e, const ERL_NIF_TERM mfa[3], uint16_t keep)
{
	struct thread *t = e->t;
	struct name_key key = { mfa[0], mfa[1], mfa[2] };
	uint16_t slot;
	bool fresh;
	uint32_t n;

	slot = names_slot(&t->fns, &key, keep, &fresh);
	if (!fresh)
		return slot;
	n = term_put_tuple(e->env, mfa, 3, t->term, sizeof(t->term));
	event_define(e, &t->fns, KP_NATIVE_FN, slot, t->term, n);
	return slot;
}

uint16_t
event_fn(struct event *e, ERL_NIF_TERM mfa, uint16_t keep)
{
	const ERL_NIF_TERM *v;
	int arity;

	if (!vm_tuple(e->env, mfa, &arity, &v) || arity != 3)
		return 0;
	return event_fn_of(e, v, keep);
}

static void
put_weight(struct event *e)
{
	struct kp_native_record *rec;

	if (e->weight == 0 || e->weight == e->t->weight)
		return;
	rec = ring_next(&e->t->ring);
	if (rec == NULL)
		e->full = true;
	else
		*rec = (struct kp_native_record){ .kind = KP_NATIVE_WEIGHT,
			.label = e->weight };
}

static void
write_event(struct event *e)
{
	struct ring *r = &e->t->ring;
	struct kp_native_record *rec;

	put_weight(e);
	if (e->held.kind != 0) {
		rec = ring_next(r);
		if (rec == NULL)
			e->full = true;
		else
			*rec = e->held;
	}
	rec = e->full ? NULL : ring_next(r);
	if (rec == NULL) {
		e->full = true;
		return;
	}
	*rec = e->rec;
	if (e->weight != 0)
		e->t->weight = e->weight;
	ring_publish(r);
}

/* Only this thread writes the counter. */
static void
count(_Atomic uint64_t *n, uint64_t by)
{
	atomic_store_explicit(n, atomic_load_explicit(n,
	    memory_order_relaxed) + by, memory_order_relaxed);
}

/* Undoes what was written.  After PROBE_ORPHAN_NS no owner can be alive. */
static void
drop_event(struct probe *p, struct event *e)
{
	for (unsigned i = 0; i < e->nfresh; i++)
		names_forget(e->fresh[i].names, e->fresh[i].slot);
	ring_undo(&e->t->ring);
	count(&e->t->ring.dropped, 1);
	count(&e->t->ring.dropped_entries, kp_native_begins(&e->rec));
	if (e->rec.ts - atomic_load_explicit(&p->drained_at,
	    memory_order_relaxed) > PROBE_ORPHAN_NS)
		atomic_store_explicit(&p->active, false,
		    memory_order_relaxed);
}

bool
event_put(struct probe *p, struct event *e)
{
	if (!e->full)
		write_event(e);
	if (e->full)
		drop_event(p, e);
	return !e->full;
}
