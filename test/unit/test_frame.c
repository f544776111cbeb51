/* test_frame.c - distribution frames: in any chunks, bounded, and written. */
#include "cases.h"
#include "kprofd/etf.h"
#include "kprofd/frame.h"
#include "corpus.h"

static const char *
text(struct kp_buf *b, struct kp_span s)
{
	struct kp_term r;

	kp_buf_reset(b);
	if (s.n > 0 && s.p[0] == 131) {
		s.p++;
		s.n--;
	}
	kp_term_begin_raw(&r, s.p, s.n);
	kp_term_print(&r, b, 40);
	return kp_buf_cstr(b);
}

/*
 * What a node of OTP 25 sent to a hidden C node: two answers to rpc, a link,
 * messages with and without a token, to a pid and to a name, unlink, exit.
 */
TEST(real_stream)
{
	static const struct {
		enum kp_frame_kind kind;
		uint32_t op;
		const char *payload;
	} want[] = {
		{ KP_FRAME_SEND, KP_OP_SEND,
		    "{rex,[1000,1001,1002,1003,1004,1005,1..." },
		{ KP_FRAME_SEND, KP_OP_SEND,
		    "{rex,[<t1@vm.0.0>,<t1@vm.1.0>,<t1@vm.2.0..." },
		{ KP_FRAME_OTHER, 1, "" },
		{ KP_FRAME_SEND, KP_OP_SEND_TT, "with_token" },
		{ KP_FRAME_SEND, KP_OP_SEND,
		    "{plain,'\xc3\xa9t\xc3\xa9',<t1@vm.89.0>}" },
		{ KP_FRAME_REG_SEND, KP_OP_REG_SEND, "{named,#Ref<>}" },
		{ KP_FRAME_OTHER, 35, "" },
		{ KP_FRAME_OTHER, 8, "" },
		{ KP_FRAME_SEND, KP_OP_SEND, "{rex,{ok,<t1@vm.89.0>}}" },
	};
	struct kp_frames f;
	struct kp_frame fr;
	struct kp_buf b;
	uint8_t *p;
	size_t n, i = 0, min;

	p = corpus_read("frame", "otp25", &n);
	kp_buf_init(&b, 100);
	kp_frames_init(&f, 0);
	/* byte by byte */
	for (size_t at = 0; at < n; at++) {
		assert_int_equal(kp_frames_feed(&f, p + at, 1), KP_OK);
		if (kp_frames_next(&f, &fr) == KP_END)
			continue;
		assert_true(i < sizeof(want) / sizeof(want[0]));
		assert_fields(fr, IS(kind, want[i].kind) IS(op, want[i].op));
		text(&b, fr.payload);
		min = strlen(want[i].payload);
		min = min < 37 ? min : 37;
		assert_memory_equal(kp_buf_cstr(&b), want[i].payload, min);
		if (fr.kind == KP_FRAME_SEND)
			assert_string_equal(text(&b, fr.to), "<cap@vm.0.0>");
		if (fr.kind == KP_FRAME_REG_SEND) {
			assert_true(kp_span_is(fr.to, "some_name"));
			assert_string_equal(text(&b, fr.from), "<t1@vm.89.0>");
		}
		i++;
	}
	assert_int_equal(i, sizeof(want) / sizeof(want[0]));
	kp_frames_free(&f);
	kp_buf_free(&b);
	test_free(p);
}

static void
pid_span(struct kp_buf *b, struct kp_span *s)
{
	kp_buf_init(b, 300);
	kp_etf_pid(b, "k@h", 1, 2, 3);
	*s = (struct kp_span){ b->p, (uint32_t)b->len };
}

/* What is written is read back, ticks between. */
TEST(round_trip)
{
	struct kp_frames f;
	struct kp_frame fr;
	struct kp_buf out, pid;
	struct kp_span self;

	pid_span(&pid, &self);
	kp_buf_init(&out, 4096);
	kp_frame_reg_send(&out, self, "rex", "\x83\x61\x07", 3);
	kp_frame_tick(&out);
	kp_frame_send(&out, self, "\x83\x6a", 2);
	assert_int_equal(out.err, KP_OK);

	kp_frames_init(&f, 0);
	assert_int_equal(kp_frames_next(&f, &fr), KP_END);
	assert_int_equal(kp_frames_feed(&f, out.p, out.len), KP_OK);
	assert_int_equal(kp_frames_next(&f, &fr), KP_OK);
	assert_fields(fr, IS(kind, KP_FRAME_REG_SEND) IS(op, KP_OP_REG_SEND));
	assert_true(kp_span_is(fr.to, "rex"));
	assert_int_equal(fr.from.n, self.n);
	assert_memory_equal(fr.from.p, self.p, self.n);
	assert_int_equal(fr.payload.n, 3);
	assert_memory_equal(fr.payload.p, "\x83\x61\x07", 3);
	assert_int_equal(kp_frames_next(&f, &fr), KP_OK);
	assert_int_equal(fr.kind, KP_FRAME_TICK);
	assert_int_equal(kp_frames_next(&f, &fr), KP_OK);
	assert_int_equal(fr.kind, KP_FRAME_SEND);
	assert_memory_equal(fr.to.p, self.p, self.n);
	assert_fields(fr, IS(payload.n, 2) IS(from.n, 0));
	assert_int_equal(kp_frames_next(&f, &fr), KP_END);
	kp_frames_free(&f);
	kp_buf_free(&out);
	kp_buf_free(&pid);
}

TEST(bad_payload_is_not_written)
{
	struct kp_buf out, pid;
	struct kp_span self;

	pid_span(&pid, &self);
	kp_buf_init(&out, 40);
	kp_frame_send(&out, self, "\x6a\x6a", 2);
	assert_int_equal(out.err, KP_EFORMAT);
	kp_buf_reset(&out);
	kp_frame_send(&out, self, NULL, 0);
	assert_int_equal(out.err, KP_EFORMAT);
	kp_buf_reset(&out);
	kp_frame_reg_send(&out, self, "a_name_too_long_for_it", "\x83\x6a", 2);
	assert_int_equal(out.err, KP_ELIMIT);
	kp_buf_free(&out);
	kp_buf_free(&pid);
}

static enum kp_err
one(const char *bytes, size_t n)
{
	struct kp_frames f;
	struct kp_frame fr;
	uint8_t head[4] = { 0, 0, 0, (uint8_t)n };
	enum kp_err err;

	kp_frames_init(&f, 0);
	assert_int_equal(kp_frames_feed(&f, head, 4), KP_OK);
	assert_int_equal(kp_frames_feed(&f, bytes, n), KP_OK);
	err = kp_frames_next(&f, &fr);
	/* whatever it was, it is passed over */
	assert_int_equal(kp_frames_next(&f, &fr), KP_END);
	kp_frames_free(&f);
	return err;
}
#define ONE(lit) one(lit, sizeof(lit) - 1)

TEST(malformed_frames)
{
	/* {1, [], []}: a link, however strange, is not looked into */
	assert_int_equal(ONE("\x70\x83\x68\x03\x61\x01\x6a\x6a"), KP_OK);
	/* {33, [], []}, [] : ALIAS_SEND */
	assert_int_equal(ONE("\x70\x83\x68\x03\x61\x21\x6a\x6a\x83\x6a"),
	    KP_OK);
	/* not pass through; no version; op is not there, 0, or too large */
	assert_int_equal(ONE("\x83\x44\x00"), KP_EFORMAT);
	assert_int_equal(ONE("\x70\x68\x01\x61\x01"), KP_EFORMAT);
	assert_int_equal(ONE("\x70"), KP_EFORMAT);
	assert_int_equal(ONE("\x70\x83\x68\x00"), KP_EFORMAT);
	assert_int_equal(ONE("\x70\x83\x68\x01\x61\x00"), KP_EFORMAT);
	assert_int_equal(ONE("\x70\x83\x68\x01\x62\x00\x00\x01\x00"),
	    KP_EFORMAT);
	/* a send to no pid, of too few parts, and with no message */
	assert_int_equal(ONE("\x70\x83\x68\x03\x61\x02\x6a\x6a\x83\x6a"),
	    KP_EFORMAT);
	assert_int_equal(ONE("\x70\x83\x68\x02\x61\x02\x6a\x83\x6a"),
	    KP_EFORMAT);
	assert_int_equal(ONE("\x70\x83\x68\x03\x61\x02\x6a\x58\x77\x01n"
			     "\0\0\0\0\0\0\0\0\0\0\0\0"),
	    KP_EFORMAT);
	assert_int_equal(ONE("\x70\x83\x68\x03\x61\x02\x6a\x58\x77\x01n"
			     "\0\0\0\0\0\0\0\0\0\0\0\0\x83\x6a"),
	    KP_OK);
}

TEST(too_large_a_frame_sticks)
{
	struct kp_frames f;
	struct kp_frame fr;

	kp_frames_init(&f, 1000);
	assert_int_equal(kp_frames_feed(&f, "\x00\x00\x03\xe9", 4), KP_OK);
	assert_int_equal(kp_frames_next(&f, &fr), KP_ELIMIT);
	assert_int_equal(kp_frames_next(&f, &fr), KP_ELIMIT);
	kp_frames_free(&f);
	kp_frames_init(&f, 0);
	assert_int_equal(kp_frames_feed(&f, "\x02\x00\x00\x01", 4), KP_OK);
	assert_int_equal(kp_frames_next(&f, &fr), KP_ELIMIT);
	kp_frames_free(&f);
}

/* Puts n bytes in as a socket would, in what space is offered. */
static void
pour(struct kp_frames *f, const uint8_t *p, size_t n)
{
	uint8_t *to;
	size_t room;

	while (n > 0) {
		assert_int_equal(kp_frames_space(f, &to, &room), KP_OK);
		assert_true(room >= KP_FRAMES_ROOM);
		if (room > n)
			room = n;
		memcpy(to, p, room);
		kp_frames_filled(f, room);
		p += room;
		n -= room;
	}
}

TEST(buffer_grows_and_shrinks)
{
	const uint32_t size = 5u << 20;
	struct kp_frames f;
	struct kp_frame fr;
	struct kp_buf pid, out, payload;
	struct kp_span self;
	uint8_t *p;
	size_t n;

	pid_span(&pid, &self);
	kp_buf_init(&payload, 8u << 20);
	kp_buf_init(&out, 8u << 20);
	kp_etf_version(&payload);
	kp_buf_u8(&payload, 109);
	kp_buf_be32(&payload, size);
	for (uint32_t i = 0; i < size / 4; i++)
		kp_buf_be32(&payload, i);
	kp_frame_send(&out, self, payload.p, payload.len);
	assert_int_equal(out.err, KP_OK);

	kp_frames_init(&f, 0);
	/* a claim alone takes no memory */
	pour(&f, out.p, 100);
	assert_int_equal(kp_frames_next(&f, &fr), KP_END);
	assert_true(f.cap <= 2 * KP_FRAMES_ROOM);
	pour(&f, out.p + 100, out.len - 100);
	assert_int_equal(kp_frames_next(&f, &fr), KP_OK);
	assert_int_equal(fr.payload.n, payload.len);
	assert_memory_equal(fr.payload.p, payload.p, payload.len);
	assert_true(f.cap > size);
	assert_int_equal(kp_frames_space(&f, &p, &n), KP_OK);
	assert_true(f.cap == KP_FRAMES_KEEP);
	kp_frames_free(&f);
	kp_buf_free(&payload);
	kp_buf_free(&out);
	kp_buf_free(&pid);
}

/* Who never asks for frames cannot make the buffer grow without end. */
TEST(memory_is_capped)
{
	static uint8_t ticks[1000];
	struct kp_frames f;
	struct kp_frame fr;
	uint8_t *p;
	size_t n, fed = 0, out = 0;

	kp_frames_init(&f, 1000);
	while (kp_frames_feed(&f, ticks, sizeof(ticks)) == KP_OK) {
		fed += sizeof(ticks);
		assert_true(fed < 2 * KP_FRAMES_ROOM);
	}
	assert_true(f.cap <= 4 + 1000 + KP_FRAMES_ROOM);
	assert_int_equal(kp_frames_space(&f, &p, &n), KP_ELIMIT);
	assert_int_equal(n, 0);
	/* nothing of it is lost */
	while (kp_frames_next(&f, &fr) == KP_OK)
		out += 4;
	assert_int_equal(out, fed);
	assert_int_equal(kp_frames_space(&f, &p, &n), KP_OK);
	kp_frames_free(&f);
}

TESTS(NULL, NULL)
