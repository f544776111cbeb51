/*
 * ring.h - records from one thread to another, without a lock.
 *
 * One thread writes: ring_next() for each record, then ring_publish() for all
 * of them at once, or ring_undo().  One thread reads, at any time.  When the
 * ring is full the writer counts what it drops.  Nothing here allocates or
 * enters the kernel.
 */
#ifndef KPROFD_PROBE_RING_H
#define KPROFD_PROBE_RING_H

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
	uint64_t tail_seen;	/* tail was at least this */
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

/* Returns the place of the next record, or NULL if the ring is full. */
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
 * Writes a definition of n bytes, at most KP_NATIVE_TERM_MAX, and does not
 * publish it; false: the ring is full.
 */
bool ring_define(struct ring *r, enum kp_native_kind kind, uint16_t slot,
    const uint8_t *term, uint32_t n);

/* The whole records of a ring that are read at once: [from, to). */
struct ring_part {
	struct ring *r;
	unsigned number;	/* the caller's number of the ring */
	uint64_t from, to;
	uint64_t events;	/* among these records */
	uint64_t shorts;	/* events that are KP_NATIVE_SHORT */
	int64_t oldest;		/* time of the first event, if any */
	/* the next event with its definitions: [to, next) */
	uint64_t head, next;
	int64_t ts;
	bool is_short;
};

/* Returns an empty part of what is published now. */
struct ring_part ring_part(struct ring *r, unsigned number);
/* Is there a next event?  Sets part->ts to its time. */
bool ring_follows(struct ring_part *part);

/* Takes the next event into the part. */
static inline void
ring_take(struct ring_part *part)
{
	if (part->events++ == 0)
		part->oldest = part->ts;
	part->shorts += part->is_short;
	part->to = part->next;
}

/* Gives the room of the part back to the writer. */
void ring_release(const struct ring_part *part);
/* Returns the number of records that wait to be read. */
uint64_t ring_waiting(const struct ring *r);

/*
 * Takes the oldest of all events into the parts, which are of different rings
 * and empty: no event younger than `until`, and at most `max` records, or one
 * event with its definitions; events of the same time as the last come along.
 * Changes the order of the parts.  Returns true if more events are left.
 */
bool merge_oldest(struct ring_part *part, unsigned n, uint64_t max,
    int64_t until);

#endif
