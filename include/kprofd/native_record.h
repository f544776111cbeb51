/*
 * native_record.h - defines the bytes that the native probe writes.
 *
 * A drain returns a chunk for each ring that is not empty: a header and records
 * of one size, in the order in which one thread wrote them.  All numbers are
 * little-endian; the probe is not built for other machines.
 *
 * Slots number the functions and request types of each ring.  A definition sets
 * the meaning of a slot from then on, in this ring; it precedes the first
 * record that uses the slot, and a later one may change the meaning.
 */
#ifndef KPROFD_NATIVE_RECORD_H
#define KPROFD_NATIVE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_NATIVE_MAGIC 0x6B
#define KP_NATIVE_VERSION 3
#define KP_NATIVE_RINGS_MAX 4096	/* rings of one target */
#define KP_NATIVE_SLOTS 1024		/* of a kind in a ring: 1 to this */
/* Bytes of a definition's term: two atoms of 255 characters, and their tags. */
#define KP_NATIVE_TERM_MAX 2560

/*
 * The magic byte of a full trace: its records with the flag SHORT are shorter,
 * and `records` counts words of 8 bytes.
 */
#define KP_NATIVE_MIXED 0x6C
#define KP_NATIVE_WORD 8

struct kp_native_chunk {
	uint8_t magic, version;
	uint16_t ring;		/* below KP_NATIVE_RINGS_MAX */
	uint32_t records;	/* number of records that follow */
};

enum kp_native_kind {
	KP_NATIVE_ENTRY = 1,
	KP_NATIVE_CALL,
	KP_NATIVE_CLEAR,
	KP_NATIVE_RETURN_TO,
	KP_NATIVE_RETURN_FROM,
	KP_NATIVE_EXCEPTION_FROM,
	KP_NATIVE_WEIGHT,	/* label: weight of the entries that follow */
	KP_NATIVE_HELD,		/* other: who sent the token that the process of
				   the next entry held */
	KP_NATIVE_FN,		/* defines a function's slot: {M,F,A} */
	KP_NATIVE_IDENTITY,	/* defines a request type's slot, or that of a
				   process of another node: any term */
	/* these have only ts and pid */
	KP_NATIVE_IN,
	KP_NATIVE_OUT,
	KP_NATIVE_GC_START,
	KP_NATIVE_GC_END,
	/* these have a label, the other process and serials as well */
	KP_NATIVE_SEND,		/* a message with a token that has flag send */
	KP_NATIVE_RECEIVE,	/* the same, taken from the mailbox */
	/*
	 * A full trace adds kinds of enum kp_call_kind up to KP_CALL_EXIT
	 * (calls/call_trace.h) to this, with `fn` and `caller` as
	 * there; `other` of a spawn is the child.
	 */
	KP_NATIVE_CALLS = 16
};

/* Returns whether it is about garbage collection or scheduling. */
static inline bool
kp_native_is_pause(unsigned kind)
{
	return kind >= KP_NATIVE_IN && kind <= KP_NATIVE_GC_END;
}

/* Returns whether the bytes of a term follow. */
static inline bool
kp_native_is_definition(unsigned kind)
{
	return kind == KP_NATIVE_FN || kind == KP_NATIVE_IDENTITY;
}

/* Returns whether it says what the records that follow mean. */
static inline bool
kp_native_is_setting(unsigned kind)
{
	return kind == KP_NATIVE_WEIGHT || kind == KP_NATIVE_HELD ||
	    kp_native_is_definition(kind);
}

/*
 * Flags of the token's sender, or of the receiver (SEND): `other` is its pid,
 * or the slot of that.  Neither: the record does not name that process.
 */
#define KP_NATIVE_HAS_FROM 1	/* on the target itself */
#define KP_NATIVE_FROM_AFAR 2	/* on another node */
/* The record ends before `label`; that and the rest are 0. */
#define KP_NATIVE_SHORT 4
#define KP_NATIVE_SHORT_BYTES 24
/* The process had a foreign token, so the entry began no request. */
#define KP_NATIVE_FOREIGN 8

/* Slot 0 stands for no name: [] or undefined. */
struct kp_native_record {
	uint8_t kind, flags;
	uint16_t fn;		/* called, left or returned to; a definition:
				   the slot it defines */
	uint16_t caller;	/* a definition: bytes of its term */
	uint16_t identity;
	int64_t ts;		/* the target's monotonic ns */
	uint64_t pid;		/* serial << 32 | number */
	uint64_t label;		/* the token's after the call; CLEAR: before */
	uint64_t other;		/* ENTRY: the label before; else see flags */
	uint32_t serial, last;	/* of the token: see struct kp_event */
};

/*
 * A definition's term, in the external format without its version byte, begins
 * at ts and takes as many whole records as it needs.
 */
#define KP_NATIVE_HEAD 8	/* bytes of a definition before its term */

static inline uint32_t
kp_native_records(uint32_t term_bytes)
{
	return (KP_NATIVE_HEAD + term_bytes +
	    (uint32_t)sizeof(struct kp_native_record) - 1) /
	    (uint32_t)sizeof(struct kp_native_record);
}

/* Returns whether it begins a request that counts: one without a token is only timed. */
static inline bool
kp_native_begins(const struct kp_native_record *r)
{
	return r->kind == KP_NATIVE_ENTRY &&
	    (r->label != 0 || (r->flags & KP_NATIVE_FOREIGN) != 0);
}

/* Returns the bytes of a record in a chunk, with the rest of a definition. */
static inline uint32_t
kp_native_bytes(const struct kp_native_record *rec, int mixed)
{
	if (kp_native_is_definition(rec->kind))
		return kp_native_records(rec->caller) *
		    (uint32_t)sizeof(*rec);
	return mixed && (rec->flags & KP_NATIVE_SHORT) != 0 ?
	    KP_NATIVE_SHORT_BYTES : (uint32_t)sizeof(*rec);
}

_Static_assert(offsetof(struct kp_native_record, label) ==
    KP_NATIVE_SHORT_BYTES, "what is short is the beginning");
_Static_assert(sizeof(struct kp_native_record) == 48, "records are packed");
_Static_assert(sizeof(struct kp_native_chunk) == 8, "headers are packed");

#endif
