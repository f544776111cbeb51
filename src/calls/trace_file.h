/*
 * trace_file.h - the file format of full traces.  Pure: bytes in, events out,
 * and the other way round.
 *
 * The file: the 7 bytes KPTRACE, a byte with the version, and records, each a
 * tag of one byte and its fields.  A field is an unsigned LEB128 number; a
 * text is its length and its bytes; signed numbers are zigzag coded.
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
 *   'A'  text			arguments of the next record, a call
 *   'Q'  requests asked for, begun, ended	of a trace by request
 * of several nodes, from version 2 on:
 *   'M'  name, OTP release		defines the next node, from 1 on (0 is
 *					the target); release 0: not traced
 *   'p'  node, id, serial		the next process, of another node
 *   'O'  node, offset (zigzag), error	its times + offset are those of node 0,
 *					to within error ns; the last one counts
 *   'B'  request, node			the user asked for this request, and it
 *					began there (also of one node, where only
 *					requests of one type are asked for)
 *   'S'  request, request		both numbers are of the same request
 *   'W'  node, why			why its tracing ended early
 *   'E'  why it ended, events lost	the last; without it the file was cut
 *
 * A time is the difference to the event before (zigzag; at first to 0), in ns of
 * its node's clock.  Functions 0, 1 and 2 are undefined, suspend and
 * garbage_collect; an event's function is 0 or was defined before.  A reader
 * refuses later versions.
 *
 * Events of several nodes are in the order in which they arrived; those of one
 * node are in the order of time.  merge_nodes.h orders all of them.
 */
#ifndef KPROFD_CALLS_TRACE_FILE_H
#define KPROFD_CALLS_TRACE_FILE_H

#include "calls/call_trace.h"

#define KP_CALLS_MAGIC "KPTRACE"
#define KP_CALLS_VERSION 2

/* ---- writing ---- */

/*
 * Appends to b, which its owner may write out and reset between two calls.
 * Errors stick in b.
 */
struct kp_calls_writer {
	struct kp_buf *b;
	kp_target_ns last;
	uint32_t fns, procs, nodes;	/* defined so far; private */
};

/* Starts a file: the header, and the target. */
void kp_calls_write_begin(struct kp_calls_writer *w, struct kp_buf *b,
    const struct kp_calls_info *info);
/* Writes an event, after the definitions of names that are new. */
void kp_calls_write(struct kp_calls_writer *w, const struct kp_call_names *t,
    const struct kp_call_event *ev);
/* Of several nodes: a node's clock, and why its tracing ended, by the names. */
void kp_calls_write_clock(struct kp_calls_writer *w,
    const struct kp_call_names *t, uint32_t node);
void kp_calls_write_why(struct kp_calls_writer *w,
    const struct kp_call_names *t, uint32_t node);
/* Of several nodes: the records 'B' and 'S'. */
void kp_calls_write_begun(struct kp_calls_writer *w,
    const struct kp_call_names *t, uint32_t request, uint32_t node);
void kp_calls_write_same(struct kp_calls_writer *w, uint32_t request,
    uint32_t as);
/* Writes the registered names of processes, and the end. */
void kp_calls_write_end(struct kp_calls_writer *w,
    const struct kp_call_names *t, const struct kp_calls_info *info);

/* ---- reading ---- */

/* Called for records about requests of several nodes. */
struct kp_calls_request_ops {
	void (*begun)(void *ctx, uint32_t request, uint32_t node);
	void (*same)(void *ctx, uint32_t request, uint32_t as);
	void *ctx;
};

/* Fields but info are private. */
struct kp_calls_reader {
	struct kp_bytes in;
	kp_target_ns last;
	struct kp_span args;	/* of the next call */
	uint8_t version;
	bool again;		/* all names are known */
	const struct kp_calls_request_ops *ops;	/* or NULL */
	struct kp_call_names *names;
	struct kp_calls_info info;	/* complete after KP_END */
};

/*
 * The bytes must stay as long as the reader; names, which is to be new, gets the
 * definitions.  again: the same bytes once more, and the names of the first
 * reading.  KP_EFORMAT: this is not a trace; KP_ESTATE: it is of another
 * version.
 */
enum kp_err kp_calls_read_begin(struct kp_calls_reader *r, const void *p,
    size_t n, struct kp_call_names *names, bool again);
/*
 * KP_OK: an event; KP_END: there are no more, or the file is cut short, and
 * info.end says why.  KP_EFORMAT, KP_ELIMIT and KP_ENOMEM stick.  An event's
 * arguments point into the bytes.
 */
enum kp_err kp_calls_read(struct kp_calls_reader *r,
    struct kp_call_event *ev);

#endif
