/*
 * frame.h - reads and writes frames of the distribution protocol, after its
 * handshake.  Pure.
 *
 * Reading is incremental: it takes bytes as they come, and returns whole
 * frames.
 *
 *	kp_frames_space(f, &p, &n);
 *	kp_frames_filled(f, read(fd, p, n));
 *	while ((err = kp_frames_next(f, &frame)) == KP_OK)
 *		...
 *
 * Peers are not trusted: the largest frame allowed bounds the memory, and a
 * claimed length allocates nothing until the bytes are there.
 *
 * Source: "Distribution Protocol", ERTS User's Guide (erl_dist_protocol),
 * without atom cache and fragments, which kprofd does not offer.
 */
#ifndef KPROFD_FRAME_H
#define KPROFD_FRAME_H

#include "kprofd/buf.h"
#include "kprofd/err.h"
#include "kprofd/term.h"

/* Bytes of one frame: a batch is 100 KB, a large rpc result a few MB. */
#define KP_FRAME_MAX (32u << 20)
/* The least room for one read(), and the buffer's usual size. */
#define KP_FRAMES_ROOM (64u << 10)
/* A buffer that a large frame made larger shrinks to this. */
#define KP_FRAMES_KEEP (1u << 20)

/* The control operations that kprofd reads; it skips all others. */
enum kp_frame_op {
	KP_OP_SEND = 2,
	KP_OP_REG_SEND = 6,
	KP_OP_SEND_TT = 12, /* _TT: the sender had a sequential trace token */
	KP_OP_REG_SEND_TT = 16,
	KP_OP_SEND_SENDER = 22,
	KP_OP_SEND_SENDER_TT = 23
};

enum kp_frame_kind {
	KP_FRAME_TICK,	   /* a keep-alive; answer it with another */
	KP_FRAME_SEND,	   /* to a pid */
	KP_FRAME_REG_SEND, /* to a registered name */
	KP_FRAME_OTHER	   /* link, exit, monitor, alias_send, ... */
};

/* Spans point into the buffer: valid until kp_frames_space(). */
struct kp_frame {
	enum kp_frame_kind kind;
	uint32_t op;	       /* as on the wire; 0 for a tick */
	struct kp_span control; /* raw control tuple */
	struct kp_span from;   /* raw pid of the sender; empty: unknown */
	struct kp_span to;     /* SEND: raw pid.  REG_SEND: the name's bytes */
	struct kp_span payload; /* the message with its version byte, not
				   checked; empty for a tick and OTHER */
};

/* Received bytes that are not yet returned.  Fields are private. */
struct kp_frames {
	uint8_t *p;
	size_t start, end, cap;
	size_t max; /* bytes of one frame */
	enum kp_err err;
};

/* max: bytes of the largest frame, 0 for KP_FRAME_MAX.  Allocates nothing. */
void kp_frames_init(struct kp_frames *f, size_t max);
void kp_frames_free(struct kp_frames *f);

/*
 * Returns room for KP_FRAMES_ROOM received bytes at least.  It invalidates
 * earlier frames.  KP_ENOMEM, or KP_ELIMIT while whole frames wait for
 * kp_frames_next(); *n is then 0, and nothing is lost.
 */
enum kp_err kp_frames_space(struct kp_frames *f, uint8_t **p, size_t *n);
/* Adds n bytes, which the caller has put there. */
void kp_frames_filled(struct kp_frames *f, size_t n);
/* Does both, with a copy.  On error it takes nothing. */
enum kp_err kp_frames_feed(struct kp_frames *f, const void *p, size_t n);

/*
 * Gets the next frame: KP_OK, KP_END if it needs more bytes, KP_EFORMAT for a
 * malformed frame, which it skips, KP_ELIMIT for one that is too large.  That
 * error sticks: close the connection.
 */
enum kp_err kp_frames_next(struct kp_frames *f, struct kp_frame *out);

/*
 * True: a message to the process of this pid, a raw term.  A process that an earlier
 * kprofd started sends to that one's pid, whose node name is the same; number and
 * creation differ.
 */
bool kp_frame_is_to(const struct kp_frame *f, const struct kp_buf *pid);

/*
 * These append whole frames to a buffer, whose error sticks.  Pids are raw
 * terms (kp_etf_pid); the payload is an external term with its version byte:
 * KP_EFORMAT if it cannot be one.
 */
void kp_frame_tick(struct kp_buf *b);
void kp_frame_reg_send(struct kp_buf *b, struct kp_span from, const char *to,
    const void *payload, size_t n);
void kp_frame_send(struct kp_buf *b, struct kp_span to, const void *payload,
    size_t n);

#endif
