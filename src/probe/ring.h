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

/* What is read of a ring at once: whole records [from, to). */
struct ring_part {
	struct ring *r;
	unsigned number;	/* the caller's, of the ring */
	uint64_t from, to;
	uint64_t events;	/* among them */
	uint64_t shorts;	/* and of these: KP_NATIVE_SHORT */
	int64_t oldest;		/* the first one's time; of no events: undefined */
	/* the event that follows, with what stands before it: up to `next` */
	uint64_t head, next;
	int64_t ts;
	bool is_short;
};

/* Nothing yet, of what is published now. */
struct ring_part ring_part(struct ring *r, unsigned number);
/* Is there an event that follows?  Its time is part->ts then. */
bool ring_follows(struct ring_part *part);

/* It is of the part. */
static inline void
ring_take(struct ring_part *part)
{
	if (part->events++ == 0)
		part->oldest = part->ts;
	part->shorts += part->is_short;
	part->to = part->next;
}

/* The writer may have that room again. */
void ring_release(const struct ring_part *part);
/* Records that wait. */
uint64_t ring_waiting(const struct ring *r);
#endif
