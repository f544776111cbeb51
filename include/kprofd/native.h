/*
 * native.h - decodes the chunks of the native probe into trace events.  Pure.
 *
 * The agent sends them in batches like any other,
 *   {kprof_events, Seq, SentAt, QueueLen, Dropped, [Chunk, ...]}
 * each chunk a binary (kprofd/native_record.h).  A batch holds the events of a
 * process in their order, but in the chunks of several rings: the decoder
 * merges them by time.
 *
 * It keeps the definitions of slots from batch to batch, KP_NATIVE_BYTES_MAX of
 * them at most.  Everything else points into the batch.
 */
#ifndef KPROFD_NATIVE_H
#define KPROFD_NATIVE_H

#include "kprofd/native_record.h"
#include "kprofd/trace.h"

/* Chunks of one batch: one for each ring. */
#define KP_NATIVE_CHUNKS_MAX KP_NATIVE_RINGS_MAX
/* Memory for all definitions of one target, besides 16 KiB for each ring. */
#define KP_NATIVE_BYTES_MAX (64u << 20)

struct kp_native;

/* NULL when out of memory. */
struct kp_native *kp_native_new(void);
void kp_native_free(struct kp_native *nd);
/* Forgets all definitions, because another probe follows, in this node. */
void kp_native_restart(struct kp_native *nd, const char *node);

/*
 * Gets the next event of a batch that kp_batch_begin() has begun, from either
 * probe: if its elements are not chunks this is kp_batch_next().  KP_OK,
 * KP_END, and KP_ENOENT for a record of unknown kind or with an undefined slot,
 * a definition that cannot be kept, or the malformed rest of a chunk; other
 * errors as in kp_batch_next().  An event's pointers are valid until the first
 * call for another batch.  Read a batch to its end or to one of those other
 * errors.
 */
enum kp_err kp_events_next(struct kp_native *nd, struct kp_batch *b,
    struct kp_event *ev);

/* A record, and the definitions of its slots: raw terms, or empty. */
struct kp_native_event {
	struct kp_native_record rec;
	struct kp_span fn, caller;
};

/* The same, only for records of full traces (KP_NATIVE_CALLS). */
enum kp_err kp_native_next_record(struct kp_native *nd, struct kp_batch *b,
    struct kp_native_event *ev);

#endif
