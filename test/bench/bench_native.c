/*
 * bench_native.c - what it costs to read the native probe's records.
 *
 *	build/bench/bench_native [rounds]
 *	valgrind --tool=callgrind build/bench/bench_native 10
 *
 * One batch of four rings, a call and a return in turn, each ring ten events
 * ahead before the next one is: so chunks are merged as from busy schedulers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kprofd/clock.h"
#include "../support/native_feed.h"

#define RINGS 4
#define EVENTS 2000	/* of each */
#define RUN 10

static void
put_ring(struct kp_buf *b, uint16_t ring)
{
	struct kp_native_record rec;
	struct kp_buf chunk, fn;

	kp_buf_init(&fn, 1 << 10);
	kp_buf_init(&chunk, 1 << 22);
	feed_mfa(&fn, "requests", "handle_request", 2);
	feed_head(&chunk, ring, EVENTS +
	    kp_native_records((uint32_t)fn.len));
	feed_define(&chunk, KP_NATIVE_FN, 1, &fn);
	for (int i = 0; i < EVENTS; i++) {
		rec = (struct kp_native_record){ .fn = 1, .pid = 100u + ring,
			.kind = i % 2 == 0 ? KP_NATIVE_CALL :
			    KP_NATIVE_RETURN_FROM,
			.ts = (i / RUN * RINGS + ring) * RUN + i % RUN,
			.caller = i % 2 == 0, .label = 1 + ring };
		feed_record(&chunk, &rec);
	}
	kp_etf_binary(b, chunk.p, chunk.len);
	kp_buf_free(&chunk);
	kp_buf_free(&fn);
}

/* Sums something of every event up, so that no work can be left out. */
static uint64_t
read_batch(struct kp_native *nd, const struct kp_buf *b)
{
	struct kp_batch batch;
	struct kp_event ev;
	uint64_t sum = 0;
	enum kp_err err;

	if (kp_batch_begin(&batch, b->p, b->len) != KP_OK)
		exit(1);
	while ((err = kp_events_next(nd, &batch, &ev)) == KP_OK)
		sum += ev.label + ev.pid.id + ev.mfa.n + ev.caller.n +
		       (uint64_t)ev.ts;
	if (err != KP_END)
		exit(1);
	return sum;
}

int
main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 2000;
	struct kp_native *nd = kp_native_new();
	struct kp_buf b;
	kp_mono_ns since;
	uint64_t sum = 0;

	kp_buf_init(&b, 1 << 24);
	feed_batch(&b, 1, RINGS);
	for (uint16_t ring = 0; ring < RINGS; ring++)
		put_ring(&b, ring);
	kp_etf_nil(&b);
	if (nd == NULL || b.err != KP_OK)
		return 1;
	kp_native_restart(nd, "app@host");
	read_batch(nd, &b);
	since = kp_mono_now();
	for (long i = 0; i < rounds; i++)
		sum += read_batch(nd, &b);
	printf("native: batch %.1f ns/event (%zu bytes/event), sum %" PRIu64
	    "\n", (double)(kp_mono_now() - since) / (double)rounds /
	    (RINGS * EVENTS), sizeof(struct kp_native_record), sum);
	kp_buf_free(&b);
	kp_native_free(nd);
	return 0;
}
