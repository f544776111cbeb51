/*
 * fuzz_frame.c - the frame reader on any stream: what comes out must not
 * depend on how the bytes were cut on their way.  The sizes of the pieces are
 * taken from the stream itself.
 */
#include <string.h>

#include "kprofd/frame.h"
#include "fuzz.h"

#define FRAME_MAX 2000

static void
put_span(struct kp_buf *log, struct kp_span s)
{
	kp_buf_be32(log, s.n);
	kp_buf_put(log, s.p, s.n);
}

/* Writes down every frame that is there. */
static void
drain(struct kp_frames *f, struct kp_buf *log)
{
	struct kp_frame fr;
	enum kp_err err;

	while ((err = kp_frames_next(f, &fr)) != KP_END) {
		/* sticks, and so would be seen once a piece */
		if (err == KP_ELIMIT)
			return;
		kp_buf_u8(log, (uint8_t)err);
		kp_buf_u8(log, (uint8_t)fr.kind);
		kp_buf_be32(log, fr.op);
		put_span(log, fr.control);
		put_span(log, fr.from);
		put_span(log, fr.to);
		put_span(log, fr.payload);
	}
}

static void
feed_in_pieces(struct kp_frames *f, const uint8_t *data, size_t size,
    struct kp_buf *log)
{
	uint8_t *to;
	size_t n, room;

	for (size_t at = 0; at < size; at += n) {
		n = 1 + data[at] % 61;
		if (n > size - at)
			n = size - at;
		if (data[at] & 0x40) {
			REQUIRE(kp_frames_feed(f, data + at, n) == KP_OK);
		} else {
			REQUIRE(kp_frames_space(f, &to, &room) == KP_OK);
			REQUIRE(room >= n);
			memcpy(to, data + at, n);
			kp_frames_filled(f, n);
		}
		drain(f, log);
		if (f->err != KP_OK)
			return;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kp_frames f;
	struct kp_buf whole, pieces;
	enum kp_err err;

	if (size > KP_FRAMES_ROOM)
		return 0;
	kp_buf_init(&whole, 64u << 20);
	kp_buf_init(&pieces, 64u << 20);
	kp_frames_init(&f, FRAME_MAX);
	REQUIRE(kp_frames_feed(&f, data, size) == KP_OK);
	drain(&f, &whole);
	err = f.err;
	kp_frames_free(&f);
	feed_in_pieces(&f, data, size, &pieces);
	REQUIRE(f.err == err);
	REQUIRE(f.cap <= 4 + FRAME_MAX + KP_FRAMES_ROOM);
	kp_frames_free(&f);
	REQUIRE(whole.len == pieces.len);
	REQUIRE(whole.len == 0 || memcmp(whole.p, pieces.p, whole.len) == 0);
	kp_buf_free(&whole);
	kp_buf_free(&pieces);
	return 0;
}
