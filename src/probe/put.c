/*
 * put.c - writes an event's definitions, weight and record into the ring;
 * publishes them all, or undoes and counts them.
 */
#include "probe/checked.h"
#include "probe/put.h"
#include "probe/term_put.h"

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
	count(&e->t->ring.dropped_entries, e->rec.kind == KP_NATIVE_ENTRY);
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
