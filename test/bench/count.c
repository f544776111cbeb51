/*
 * count.c - a fixed load through some of the stages, for callgrind: how many
 * instructions an event takes.  See instructions.sh.
 *
 *	build/bench/count relay|native decode|requests|series IN-FLIGHT
 *	build/bench/count native merge CHUNKS
 *
 * The latter decodes a batch of so many chunks, whose events take turns.
 *
 * Only what is below count_stage() is to be counted; the events that went
 * through that are what is printed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "load.h"
#include "stages.h"

#define BATCHES 40		/* counted; more come before */
#define WARM 80
#define IDENTS 50
#define MERGED 10		/* events of each chunk */

void count_stage(struct stages *r, const struct kp_buf *b, bool decode);

__attribute__((noinline)) void
count_stage(struct stages *r, const struct kp_buf *b, bool decode)
{
	if (decode)
		stages_decode(r, 0, b);
	else
		stages_feed(r, 0, b);
}

static void
merged_batch(struct kp_buf *b, uint32_t chunks)
{
	struct kp_native_record r = { .kind = KP_NATIVE_RETURN_TO, .pid = 1 };

	feed_batch(b, 1, chunks);
	for (uint32_t c = 0; c < chunks; c++) {
		kp_buf_u8(b, 109);	/* a binary */
		kp_buf_be32(b, (uint32_t)(8 + MERGED * sizeof(r)));
		feed_head(b, (uint16_t)c, MERGED);
		for (uint32_t i = 0; i < MERGED; i++) {
			r.ts = (int64_t)i * chunks + c;
			feed_record(b, &r);
		}
	}
	kp_etf_nil(b);
}

static int
merge(uint32_t chunks)
{
	struct stages r;
	struct kp_buf b;
	uint64_t before;

	kp_buf_init(&b, 1 << 22);
	stages_init(&r, 1, true);
	merged_batch(&b, chunks);
	if (b.err != KP_OK)
		return 1;
	stages_decode(&r, 0, &b);
	before = r.events;
	count_stage(&r, &b, true);
	printf("%" PRIu64 "\n", r.events - before);
	kp_buf_free(&b);
	stages_free(&r);
	return 0;
}

int
main(int argc, char **argv)
{
	struct load l = { .idents = IDENTS };
	struct stages r;
	struct kp_buf b;
	uint64_t before = 0;
	size_t warm;

	if (argc != 4 || atol(argv[3]) < 1)
		return 2;
	if (strcmp(argv[2], "merge") == 0)
		return merge((uint32_t)atol(argv[3]));
	l.native = strcmp(argv[1], "native") == 0;
	l.flight = (uint64_t)atol(argv[3]);
	warm = WARM + l.flight * LOAD_EVENTS / LOAD_BATCH;
	/* So that as much is forgotten as comes: labels are kept for 30 s. */
	step = KP_NS_PER_MS;
	stages_init(&r, 1, l.native);
	r.no_stats = strcmp(argv[2], "requests") == 0;
	kp_buf_init(&b, 1 << 22);
	for (size_t i = 0; i < warm + BATCHES; i++) {
		load_batch(&l, &b);
		if (i < warm) {
			stages_feed(&r, 0, &b);
			before = r.events;
		} else {
			count_stage(&r, &b, strcmp(argv[2], "decode") == 0);
		}
	}
	printf("%" PRIu64 "\n", r.events - before);
	kp_buf_free(&b);
	stages_free(&r);
	return 0;
}
