/*
 * calls_file.h - the format of the files that keep full traces.  Pure: bytes
 * in, events out, and the other way round.
 *
 * The file: the 7 bytes KPTRACE, a byte with the version, and records, each a
 * tag of one byte and its fields.  A field is an unsigned LEB128 number; a
 * text is its length and its bytes; what has a sign is zigzag coded.
 *
 *   'T'  target's name, OTP release, time offset (zigzag)	the first
 *   'F'  module, function, arity	defines the next function, from 3 on
 *   'P'  id, serial			defines the next process, from 0 on
 *   'N'  process, its registered name
 *    1   process, time, function, caller	call
 *    2   process, time, function	return_to
 *    3   process, time, function	in
 *    4   process, time, function	out
 *    5   process, time			gc_start
 *    6   process, time			gc_end
 *    7   process, time, function, child	spawn
 *    8   process, time			exit
 *    9   process, time, number		request
 *   10   process, time, request, serial	send
 *   11   process, time, request, serial, sender	receive
 *   'A'  text			arguments of the next record, which is a call
 *   'Q'  requests asked for, begun, ended	of a trace by request
 * of several nodes, from version 2 on:
 *   'M'  name, OTP release		defines the next node, from 1 on; 0 is
 *					the target; release 0: it is not traced
 *   'p'  node, id, serial		the next process, of another node
 *   'O'  node, offset (zigzag), error	of its clock: + offset is that of node
 *					0, to within error ns; the last counts
 *   'B'  request, node			it began there, and is one of those
 *					that were asked for; others are not
 *   'S'  request, request		are the same one
 *   'W'  node, why			why its tracing ended early
 *   'E'  why it ended, events lost	the last; without it the file is cut
 *
 * A time is the difference to the time of the event before (zigzag; the first
 * one's to 0), in ns of its node's clock.  Functions 0, 1 and 2 are
 * undefined, suspend and garbage_collect; an event's function is 0 or one of
 * those that were defined.  A reader refuses every later version.
 *
 * Events of several nodes are as they came: in order are only those of one
 * node.  calls_merge.h brings them in order.
 */
#ifndef KPROFD_CALLS_FILE_H
#define KPROFD_CALLS_FILE_H

#include "kprofd/calls.h"

#define KP_CALLS_MAGIC "KPTRACE"
#define KP_CALLS_VERSION 2

/* ---- writing ---- */

/*
 * Appends to b, whose owner may put it away and reset it whenever it likes.
 * Errors stick in b.  Zeroed, and then b set, is a new file.
 */
struct kp_calls_writer {
	struct kp_buf *b;
	kp_target_ns last;
	uint32_t fns, procs, nodes;	/* defined so far; private */
};

/* Header and what is known of the target. */
void kp_calls_write_begin(struct kp_calls_writer *w, struct kp_buf *b,
    const struct kp_calls_info *info);
/* Defines what it names first, where that has not been done. */
void kp_calls_write(struct kp_calls_writer *w, const struct kp_call_names *t,
    const struct kp_call_event *ev);
/* Of several nodes: what the names say of a node's clock, and of its end. */
void kp_calls_write_clock(struct kp_calls_writer *w,
    const struct kp_call_names *t, uint32_t node);
void kp_calls_write_why(struct kp_calls_writer *w,
    const struct kp_call_names *t, uint32_t node);
void kp_calls_write_begun(struct kp_calls_writer *w,
    const struct kp_call_names *t, uint32_t request, uint32_t node);
void kp_calls_write_same(struct kp_calls_writer *w, uint32_t request,
    uint32_t as);
/* The registered names of processes, and the end. */
void kp_calls_write_end(struct kp_calls_writer *w,
    const struct kp_call_names *t, const struct kp_calls_info *info);

/* ---- reading ---- */

/* Requests of several nodes: what is said of them as it is read. */
struct kp_calls_said {
	void (*begun)(void *ctx, uint32_t request, uint32_t node);
	void (*same)(void *ctx, uint32_t request, uint32_t as);
	void *ctx;
};

/* Fields but info are private. */
struct kp_calls_reader {
	const uint8_t *p, *end;
	kp_target_ns last;
	struct kp_span args;	/* of the call that is next */
	uint8_t version;
	bool again;		/* all that it defines is known */
	const struct kp_calls_said *said;	/* or NULL */
	enum kp_err err;
	struct kp_call_names *names;
	struct kp_calls_info info;	/* whole when KP_END was returned */
};

/*
 * The bytes stay the caller's and are to stay; names, which is to be new, gets
 * what is defined.  KP_EFORMAT: it is no such file; KP_ESTATE: of another
 * version.
 */
enum kp_err kp_calls_read_begin(struct kp_calls_reader *r, const void *p,
    size_t n, struct kp_call_names *names);
/* The same once more, when all of it was read: names are known, and stay. */
enum kp_err kp_calls_read_again(struct kp_calls_reader *r, const void *p,
    size_t n, struct kp_call_names *names);
/*
 * KP_OK: an event; KP_END: there are no more, and info.end says why: also
 * where the file is cut short.  KP_EFORMAT, KP_ELIMIT and KP_ENOMEM stick.
 * Arguments are among the bytes that are read.
 */
enum kp_err kp_calls_read(struct kp_calls_reader *r,
    struct kp_call_event *ev);

#endif
