/*
 * native_feed.h - batches as the native probe's agent sends them, for tests
 * and fuzzers.
 */
#ifndef TEST_NATIVE_FEED_H
#define TEST_NATIVE_FEED_H

#include <string.h>

#include "kprofd/etf.h"
#include "kprofd/native.h"

/* Opens a batch of so many chunks; they follow, then kp_etf_nil(). */
static inline void
feed_batch(struct kp_buf *b, uint64_t seq, uint32_t chunks)
{
	kp_etf_version(b);
	kp_etf_tuple(b, 6);
	kp_etf_atom(b, "kprof_events");
	kp_etf_int(b, (int64_t)seq);
	kp_etf_int(b, 1000);
	kp_etf_int(b, 0);
	kp_etf_int(b, 0);
	if (chunks > 0)
		kp_etf_list(b, chunks);
}

/* {Mod, Fun, Arity} as the VM writes it. */
static inline void
feed_mfa(struct kp_buf *b, const char *mod, const char *fun, int arity)
{
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, mod);
	kp_etf_atom(b, fun);
	kp_etf_int(b, arity);
}

static inline void
feed_head(struct kp_buf *b, uint16_t ring, uint32_t records)
{
	struct kp_native_chunk head = { .magic = KP_NATIVE_MAGIC,
		.version = KP_NATIVE_VERSION, .ring = ring,
		.records = records };

	kp_buf_put(b, &head, sizeof(head));
}

static inline void
feed_record(struct kp_buf *b, const struct kp_native_record *rec)
{
	kp_buf_put(b, rec, sizeof(*rec));
}

static inline void
feed_define(struct kp_buf *b, enum kp_native_kind kind, uint16_t slot,
    const struct kp_buf *term)
{
	struct kp_native_record rec = { .kind = (uint8_t)kind, .fn = slot,
		.caller = (uint16_t)term->len };
	size_t end = b->len + kp_native_records((uint32_t)term->len) *
	    sizeof(rec);

	kp_buf_put(b, &rec, KP_NATIVE_HEAD);
	kp_buf_put(b, term->p, term->len);
	while (b->len < end && b->err == KP_OK)
		kp_buf_u8(b, 0);
}

#endif
