/*
 * native.h - decodes the chunks of the native probe into trace events.  Pure.
 *
 * The agent sends them in batches like any other,
 *   {kprof_events, Seq, SentAt, QueueLen, Dropped, [Chunk, ...]}
 * each chunk a binary (kprofd/native_record.h).  A batch holds, of each
 * process, the events in their order, but in the chunks of several rings:
 * they are merged by time.
 *
 * The meaning of slots is kept from batch to batch, KP_NATIVE_BYTES_MAX of it
 * at most.  Everything else points into the batch.
 */
#ifndef KPROFD_NATIVE_H
#define KPROFD_NATIVE_H

#include "kprofd/native_record.h"
#include "kprofd/trace.h"

/* Chunks of one batch: a ring has one. */
#define KP_NATIVE_CHUNKS_MAX KP_NATIVE_RINGS_MAX
/* Memory for all definitions of one target, besides 16 KiB for each ring. */
#define KP_NATIVE_BYTES_MAX (64u << 20)

struct kp_native;

/* NULL when out of memory. */
struct kp_native *kp_native_new(void);
void kp_native_free(struct kp_native *nd);
/* Forgets all definitions: another probe follows, in this node. */
void kp_native_restart(struct kp_native *nd, const char *node);

/*
 * The next event of a batch that kp_batch_begin() has begun, of whichever
 * probe: where its elements are not chunks this is kp_batch_next().  KP_OK,
 * KP_END, and KP_ENOENT for what makes no sense: a record of no known kind
 * or of a slot that is not defined, a definition that cannot be kept, the
 * rest of a chunk that cannot be followed.  Other errors as there.  What an
 * event points to is good until the first call for another batch.  A batch is
 * to be read to its end or to an error of the last kind.
 */
enum kp_err kp_native_next(struct kp_native *nd, struct kp_batch *b,
    struct kp_event *ev);

/* A record as it is, and what its slots stand for: raw terms, or empty. */
struct kp_native_event {
	struct kp_native_record rec;
	struct kp_span fn, caller;
};

/* The same for records of full traces (KP_NATIVE_CALLS), and for these alone. */
enum kp_err kp_native_next_record(struct kp_native *nd, struct kp_batch *b,
    struct kp_native_event *ev);

#endif
