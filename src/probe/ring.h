/*
 * ring.h - records from one thread to another, without a lock.
 *
 * One thread writes: ring_next() for each record, then ring_publish() for all
 * of them at once, or ring_undo().  One thread reads, at any time.  What does
 * not fit is not written: the writer counts it.  Nothing here allocates or
 * enters the kernel.
 */
#ifndef KP_PROBE_RING_H
#define KP_PROBE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/native_record.h"

#define RING_LINE 64	/* bytes that one core owns at a time */

struct ring {
	/* the writer's */
	_Alignas(RING_LINE) _Atomic uint64_t head;	/* published up to here */
	uint64_t pos;		/* written up to here */
	uint64_t tail_seen;	/* the reader had come so far, at least */
	_Atomic uint64_t dropped, dropped_entries;	/* since the start */
	/* the reader's */
	_Alignas(RING_LINE) _Atomic uint64_t tail;	/* read up to here */
	/* both only read these */
	_Alignas(RING_LINE) struct kp_native_record *v;
	uint64_t mask;
};

/* v: n records, a power of two. */
void ring_init(struct ring *r, struct kp_native_record *v, uint64_t n);

static inline struct kp_native_record *
ring_at(const struct ring *r, uint64_t pos)
{
	return &r->v[pos & r->mask];
}

/* Where the next record goes; NULL: full. */
static inline struct kp_native_record *
ring_next(struct ring *r)
{
	if (r->pos - r->tail_seen > r->mask) {
		r->tail_seen = atomic_load_explicit(&r->tail,
		    memory_order_acquire);
		if (r->pos - r->tail_seen > r->mask)
			return NULL;
	}
	return ring_at(r, r->pos++);
}

static inline void
ring_publish(struct ring *r)
{
	atomic_store_explicit(&r->head, r->pos, memory_order_release);
}

static inline void
ring_undo(struct ring *r)
{
	r->pos = atomic_load_explicit(&r->head, memory_order_relaxed);
}

/*
 * Writes a definition, not yet published; false: full.  n is at most
 * KP_NATIVE_TERM_MAX.
 */
bool ring_define(struct ring *r, enum kp_native_kind kind, uint16_t slot,
    const uint8_t *term, uint32_t n);

/* Whole records [from, to), definitions never cut. */
struct ring_part {
	uint64_t from, to;
	uint64_t events;	/* among them */
	int64_t oldest, last;	/* their times; of no events: undefined */
	bool more;		/* `max` kept others back */
};

/*
 * What there is to read: events not younger than `until`, about `max`
 * records at most, though more by a definition.
 */
struct ring_part ring_look(const struct ring *r, uint64_t max, int64_t until);
/* The writer may have that room again. */
void ring_release(struct ring *r, const struct ring_part *part);
/* Records that wait. */
uint64_t ring_waiting(const struct ring *r);

#endif
