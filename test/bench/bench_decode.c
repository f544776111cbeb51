/*
 * bench_decode.c - what it costs to read trace events.
 *
 *	build/bench/bench_decode [rounds]
 *	valgrind --tool=callgrind build/bench/bench_decode 10
 *
 * One batch of 500 events as a target with five tiers sends it: a request
 * is an entry, and calls that cross to another process and back, each with
 * its return_to.  Machines differ: compare instructions, or ratios.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kprofd/frame.h"
#include "kprofd/trace.h"

#include "events.h"

#define EVENTS 500
static void
put_batch(struct kp_buf *b)
{
	kp_etf_version(b);
	kp_etf_tuple(b, 6);
	kp_etf_atom(b, "kprof_events");
	for (int i = 0; i < 4; i++)
		kp_etf_int(b, 1000 * i);
	kp_etf_list(b, EVENTS);
	for (uint32_t i = 0; i < EVENTS; i += 10) {
		for (uint32_t tier = 0; tier < 5; tier++) {
			now += 12345;
			if (tier == 0)
				put_entry(b, "create", 1000 + i, 200 + i);
			else
				put_call(b, &fns[tier], &server, 1000 + i,
				    200 + i, 201 + i);
			put_return(b, &server, 200 + i);
		}
	}
	kp_etf_nil(b);
}

/* Sums something of every event up, so that no work can be left out. */
static uint64_t
read_batch(const void *p, size_t n)
{
	struct kp_batch batch;
	struct kp_event ev;
	uint64_t sum = 0;
	enum kp_err err;

	if (kp_batch_begin(&batch, p, n) != KP_OK)
		exit(1);
	while ((err = kp_batch_next(&batch, &ev)) == KP_OK)
		sum += ev.label + ev.pid.id + ev.mfa.n + ev.caller.n +
		       (uint64_t)ev.ts;
	if (err != KP_END)
		exit(1);
	return sum;
}

/* The same through frames, as bytes come from a socket. */
static uint64_t
read_frame(struct kp_frames *f, const struct kp_buf *frame)
{
	struct kp_frame fr;

	if (kp_frames_feed(f, frame->p, frame->len) != KP_OK ||
	    kp_frames_next(f, &fr) != KP_OK)
		exit(1);
	return read_batch(fr.payload.p, fr.payload.n);
}

static double
per_event(kp_mono_ns since, long rounds)
{
	return (double)(kp_mono_now() - since) / (double)rounds / EVENTS;
}

int
main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 20000;
	struct kp_frames f;
	struct kp_buf b, frame, pid;
	uint64_t sum = 0;
	kp_mono_ns start;

	kp_buf_init(&b, 1 << 20);
	kp_buf_init(&frame, 1 << 20);
	kp_buf_init(&pid, 1 << 10);
	put_batch(&b);
	kp_etf_pid(&pid, "kprofd@web-1.example.com", 1, 0, 1);
	kp_frame_send(
	    &frame, (struct kp_span){ pid.p, (uint32_t)pid.len }, b.p, b.len);
	if (b.err != KP_OK || frame.err != KP_OK || rounds < 1)
		return 1;
	kp_frames_init(&f, 0);

	start = kp_mono_now();
	for (long i = 0; i < rounds; i++)
		sum += read_batch(b.p, b.len);
	printf("decode: batch %.1f ns/event (%zu bytes/event)\n",
	    per_event(start, rounds), b.len / EVENTS);
	start = kp_mono_now();
	for (long i = 0; i < rounds; i++)
		sum += read_frame(&f, &frame);
	printf("decode: frame and batch %.1f ns/event (sum %" PRIx64 ")\n",
	    per_event(start, rounds), sum);
	kp_frames_free(&f);
	kp_buf_free(&pid);
	kp_buf_free(&frame);
	kp_buf_free(&b);
	return 0;
}
