/*
 * frame.c - cuts a stream into the frames of the distribution protocol.
 *
 * One buffer holds [start, end) of bytes that came and were not yet handed
 * out.  Frames are handed out in place; bytes move only when space is asked
 * for.  The buffer doubles while the bytes of a large frame come in, so a
 * peer that only claims a length gets no memory for it.
 */
#include <stdlib.h>
#include <string.h>

#include "kprofd/frame.h"
#include "decode/term_bytes.h"

/* The byte before a control message that has no distribution header. */
#define PASS_THROUGH 112
#define HEADER 4 /* bytes of a frame's length */
/* At the end of a pid: number, serial and creation, 4 bytes each. */
#define PID_TAIL 12

/* Where the sends have their parts; 0: the operation has none. */
static const struct send_op {
	uint8_t arity, from, to;
	uint8_t kind;
} send_ops[] = {
	[KP_OP_SEND] = { 3, 0, 2, KP_FRAME_SEND },
	[KP_OP_REG_SEND] = { 4, 1, 3, KP_FRAME_REG_SEND },
	[KP_OP_SEND_TT] = { 4, 0, 2, KP_FRAME_SEND },
	[KP_OP_REG_SEND_TT] = { 5, 1, 3, KP_FRAME_REG_SEND },
	[KP_OP_SEND_SENDER] = { 3, 1, 2, KP_FRAME_SEND },
	[KP_OP_SEND_SENDER_TT] = { 4, 1, 2, KP_FRAME_SEND },
};

void
kp_frames_init(struct kp_frames *f, size_t max)
{
	*f = (struct kp_frames){ .max = max > 0 ? max : KP_FRAME_MAX };
	if (f->max > UINT32_MAX)
		f->max = UINT32_MAX;
}

void
kp_frames_free(struct kp_frames *f)
{
	free(f->p);
	kp_frames_init(f, f->max);
}

static enum kp_err
resize(struct kp_frames *f, size_t cap)
{
	uint8_t *p = realloc(f->p, cap);

	if (p == NULL)
		return KP_ENOMEM;
	f->p = p;
	f->cap = cap;
	return KP_OK;
}

/* Makes room for `want` more bytes, and gives back what a large frame took. */
static enum kp_err
make_room(struct kp_frames *f, size_t want)
{
	/* the largest frame, and a read that goes on into the next one */
	const size_t limit = HEADER + f->max + KP_FRAMES_ROOM;
	size_t len = f->end - f->start;
	size_t cap = f->cap > 0 ? f->cap : 2 * (size_t)KP_FRAMES_ROOM;

	if (len == 0)
		f->start = f->end = 0;
	if (want > limit - len)
		return KP_ELIMIT;
	if (f->start > 0 && f->cap - f->end < want) {
		memmove(f->p, f->p + f->start, len);
		f->start = 0;
		f->end = len;
	}
	if (f->start == 0 && cap > KP_FRAMES_KEEP &&
	    len + want <= KP_FRAMES_KEEP / 2)
		resize(f, KP_FRAMES_KEEP); /* if not, it just stays large */
	if (f->cap > 0 && f->cap - f->end >= want)
		return KP_OK;
	while (cap - f->end < want)
		cap *= 2;
	return resize(f, cap < limit ? cap : limit);
}

enum kp_err
kp_frames_space(struct kp_frames *f, uint8_t **p, size_t *n)
{
	enum kp_err err = make_room(f, KP_FRAMES_ROOM);

	*p = NULL;
	*n = 0;
	if (err != KP_OK)
		return err;
	*p = f->p + f->end;
	*n = f->cap - f->end;
	return KP_OK;
}

void
kp_frames_filled(struct kp_frames *f, size_t n)
{
	f->end += n;
}

enum kp_err
kp_frames_feed(struct kp_frames *f, const void *p, size_t n)
{
	enum kp_err err;

	if (n == 0)
		return KP_OK;
	err = make_room(f, n);
	if (err != KP_OK)
		return err;
	memcpy(f->p + f->end, p, n);
	f->end += n;
	return KP_OK;
}

/* The receiver and the sender of a message, by the operation's layout. */
static void
read_send(struct kp_term *r, const struct send_op *op, struct kp_frame *out)
{
	struct kp_term start;

	for (uint8_t i = 1; i < op->arity; i++) {
		start = *r;
		if (i == op->to && op->kind == KP_FRAME_REG_SEND) {
			out->to = kp_term_atom(r);
			continue;
		}
		if (i != op->to && i != op->from) {
			kp_term_skip(r);
			continue;
		}
		kp_term_pid(r);
		if (i == op->to)
			out->to = term_since(r, start.p);
		else
			out->from = term_since(r, start.p);
	}
}

static enum kp_err
read_frame(struct kp_frame *out, const uint8_t *p, size_t n)
{
	const struct send_op *op = NULL;
	struct kp_term r, control;
	uint32_t arity;
	int64_t num;

	if (*p != PASS_THROUGH)
		return KP_EFORMAT;
	kp_term_begin(&r, p + 1, n - 1);
	control = r;
	out->control = kp_term_raw(&r);
	arity = kp_term_tuple(&control);
	num = kp_term_int(&control);
	if (r.err != KP_OK || control.err != KP_OK || num < 1 ||
	    num > UINT8_MAX)
		return KP_EFORMAT;
	out->op = (uint32_t)num;
	out->kind = KP_FRAME_OTHER;
	if (out->op < sizeof(send_ops) / sizeof(send_ops[0]))
		op = &send_ops[out->op];
	if (op == NULL || op->arity == 0)
		return KP_OK;
	if (arity != op->arity)
		return KP_EFORMAT;
	out->kind = op->kind;
	read_send(&control, op, out);
	if (control.err != KP_OK || term_tag(&r) != ETF_VERSION)
		return KP_EFORMAT;
	out->payload = (struct kp_span){ r.p, (uint32_t)term_left(&r) };
	return KP_OK;
}

enum kp_err
kp_frames_next(struct kp_frames *f, struct kp_frame *out)
{
	size_t have = f->end - f->start;
	const uint8_t *p;
	uint32_t len;
	enum kp_err err;

	*out = (struct kp_frame){ .kind = KP_FRAME_TICK };
	if (f->err != KP_OK)
		return f->err;
	if (have < HEADER)
		return KP_END;
	p = f->p + f->start;
	len = term_be32(p);
	if (len > f->max) {
		f->err = KP_ELIMIT;
		return KP_ELIMIT;
	}
	if (have - HEADER < len)
		return KP_END;
	f->start += HEADER + len;
	if (len == 0)
		return KP_OK;
	err = read_frame(out, p + HEADER, len);
	if (err != KP_OK)
		*out = (struct kp_frame){ .kind = KP_FRAME_OTHER };
	return err;
}

bool
kp_frame_is_to(const struct kp_frame *f, const struct kp_buf *pid)
{
	return f->kind == KP_FRAME_SEND && f->to.n > PID_TAIL &&
	    pid->len > PID_TAIL && memcmp(f->to.p + f->to.n - PID_TAIL,
	    pid->p + pid->len - PID_TAIL, PID_TAIL) == 0;
}

void
kp_frame_tick(struct kp_buf *b)
{
	kp_buf_be32(b, 0);
}

/* Starts a frame whose length is not known yet; returns where it goes. */
static size_t
frame_begin(struct kp_buf *b)
{
	size_t at = b->len;

	kp_buf_be32(b, 0);
	kp_buf_u8(b, PASS_THROUGH);
	kp_etf_version(b);
	return at;
}

static void
frame_end(struct kp_buf *b, size_t at, const void *payload, size_t n)
{
	size_t len;

	if (n < 2 || *(const uint8_t *)payload != ETF_VERSION) {
		if (b->err == KP_OK)
			b->err = KP_EFORMAT;
		return;
	}
	kp_buf_put(b, payload, n);
	if (b->err != KP_OK)
		return;
	len = b->len - at - HEADER;
	if (len > UINT32_MAX) {
		b->err = KP_ELIMIT;
		return;
	}
	for (int i = 0; i < HEADER; i++)
		b->p[at + i] = (uint8_t)(len >> (24 - 8 * i));
}

void
kp_frame_reg_send(struct kp_buf *b, struct kp_span from, const char *to,
    const void *payload, size_t n)
{
	size_t at = frame_begin(b);

	kp_etf_tuple(b, 4);
	kp_etf_int(b, KP_OP_REG_SEND);
	kp_buf_put(b, from.p, from.n);
	kp_etf_atom(b, ""); /* was the cookie once */
	kp_etf_atom(b, to);
	frame_end(b, at, payload, n);
}

void
kp_frame_send(
    struct kp_buf *b, struct kp_span to, const void *payload, size_t n)
{
	size_t at = frame_begin(b);

	kp_etf_tuple(b, 3);
	kp_etf_int(b, KP_OP_SEND);
	kp_etf_atom(b, "");
	kp_buf_put(b, to.p, to.n);
	frame_end(b, at, payload, n);
}
