/*
 * native_record.h - what the native probe writes, as bytes.
 *
 * A drain gives a chunk for each ring that had something: a header and
 * records of one size, in the order in which one thread wrote them.  All
 * numbers are little-endian; the probe is not built for other machines.
 *
 * Functions and identities are numbered by slots, for each ring its own.  A
 * definition says what a slot stands for from then on, in this ring; it comes
 * before the first record that uses the slot, and may come again with
 * another meaning.
 */
#ifndef KPROFD_NATIVE_RECORD_H
#define KPROFD_NATIVE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KP_NATIVE_MAGIC 0x6B
#define KP_NATIVE_VERSION 1
#define KP_NATIVE_RINGS_MAX 4096	/* rings of one target */
#define KP_NATIVE_SLOTS 1024		/* of a kind in a ring: 1 to this */
/* Bytes of a definition's term: two atoms of 255 characters, and some. */
#define KP_NATIVE_TERM_MAX 2560

/*
 * MIXED: of a full trace, whose records are shorter where they have the flag
 * SHORT, and `records` counts words of 8 bytes.
 */
#define KP_NATIVE_MIXED 0x6C
#define KP_NATIVE_WORD 8

struct kp_native_chunk {
	uint8_t magic, version;
	uint16_t ring;		/* below KP_NATIVE_RINGS_MAX */
	uint32_t records;	/* that follow */
};

enum kp_native_kind {
	KP_NATIVE_ENTRY = 1,
	KP_NATIVE_CALL,
	KP_NATIVE_CLEAR,
	KP_NATIVE_RETURN_TO,
	KP_NATIVE_RETURN_FROM,
	KP_NATIVE_EXCEPTION_FROM,
	KP_NATIVE_WEIGHT,	/* of the entries that follow: label */
	KP_NATIVE_FN,		/* defines a function's slot: {M,F,A} */
	KP_NATIVE_IDENTITY,	/* defines an identity's slot, or that of a
				   process of another node: any term */
	/* of these only ts and pid are filled in */
	KP_NATIVE_IN,
	KP_NATIVE_OUT,
	KP_NATIVE_GC_START,
	KP_NATIVE_GC_END,
	KP_NATIVE_SEND,		/* a message with a token that asks for it */
	KP_NATIVE_RECEIVE,	/* the same, taken from the mailbox */
	/*
	 * Of a full trace: this and what enum kp_call_kind (profile/trace/call_trace.h)
	 * has up to KP_CALL_EXIT.  `fn` and `caller` as there; of a spawn
	 * `other` is the child.
	 */
	KP_NATIVE_CALLS = 16
};

/* Is it about garbage collection or scheduling? */
static inline bool
kp_native_is_pause(unsigned kind)
{
	return kind >= KP_NATIVE_IN && kind <= KP_NATIVE_GC_END;
}

/* It is followed by bytes of a term. */
static inline bool
kp_native_is_definition(unsigned kind)
{
	return kind == KP_NATIVE_FN || kind == KP_NATIVE_IDENTITY;
}

/*
 * Flags of who sent the token, or of whom it is sent to (SEND): `other` is its
 * name, or the slot of that.  Neither: it has none that says its process.
 */
#define KP_NATIVE_HAS_FROM 1	/* of the target's own */
#define KP_NATIVE_FROM_AFAR 2	/* of another node */
/* Ends before `label`, which is 0 as all that follows. */
#define KP_NATIVE_SHORT 4
#define KP_NATIVE_SHORT_BYTES 24
/* An entry that met a foreign token and began no request. */
#define KP_NATIVE_FOREIGN 8

/* Slot 0: none, which is [] and undefined. */
struct kp_native_record {
	uint8_t kind, flags;
	uint16_t fn;		/* called, left or returned to; a definition:
				   the slot it defines */
	uint16_t caller;	/* a definition: bytes of its term */
	uint16_t identity;
	int64_t ts;		/* the target's monotonic ns */
	uint64_t pid;		/* serial << 32 | number */
	uint64_t label;		/* of the token after the call; CLEAR: before */
	uint64_t other;		/* ENTRY: the label before; else see flags */
};

/*
 * A message's number, which with label and sender distinguishes it from all
 * others: in place of fn (its low half) and caller.
 */
static inline void
kp_native_set_serial(struct kp_native_record *rec, uint32_t serial)
{
	rec->fn = (uint16_t)serial;
	rec->caller = (uint16_t)(serial >> 16);
}

/*
 * A definition's term, in the external format without its version byte,
 * begins where ts would be and goes on over as many whole records as it
 * needs.
 */
#define KP_NATIVE_HEAD 8	/* bytes of a definition before its term */

static inline uint32_t
kp_native_records(uint32_t term_bytes)
{
	return (KP_NATIVE_HEAD + term_bytes +
	    (uint32_t)sizeof(struct kp_native_record) - 1) /
	    (uint32_t)sizeof(struct kp_native_record);
}

/* Bytes of a record in a chunk, with the rest of a definition. */
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
_Static_assert(sizeof(struct kp_native_record) == 40, "records are packed");
_Static_assert(sizeof(struct kp_native_chunk) == 8, "headers are packed");

#endif
