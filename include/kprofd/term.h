/*
 * term.h - reads Erlang's external term format from untrusted bytes.
 *
 * A reader allocates nothing, never reads past the end, nests no deeper than
 * KP_TERM_DEPTH_MAX and never recurses.  The first error sticks: later calls
 * return zeros and empty spans, so a caller reads a whole structure and checks
 * r->err once before it uses any of it.
 *
 * It refuses with KP_EFORMAT what nodes of OTP 25 and later never send: old
 * floats and funs, compressed terms, atom caches, LIST_EXT of no elements; and
 * LOCAL_EXT (OTP 26.1+), which only its own writer can read or skip.
 *
 * Source: "External Term Format", ERTS User's Guide (erl_ext_dist).
 */
#ifndef KPROFD_TERM_H
#define KPROFD_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"
#include "kprofd/err.h"

/*
 * Containers inside containers; deeper terms are refused.  kprofd's own
 * messages nest about six deep.
 */
#define KP_TERM_DEPTH_MAX 256

/* Borrowed bytes of another buffer; valid as long as that is. */
struct kp_span {
	const uint8_t *p;
	uint32_t n;
};

/* A process identifier.  node is the span of the node's name (UTF-8). */
struct kp_pid {
	struct kp_span node;
	uint32_t id, serial, creation;
};

struct kp_term {
	const uint8_t *p, *end; /* p == end after an error */
	enum kp_err err; /* KP_OK, KP_ESHORT, KP_EFORMAT or KP_ELIMIT; sticks */
};

enum kp_term_kind {
	KP_TERM_NONE,	/* at the end, or after an error */
	KP_TERM_INT,	/* any integer, also those too wide for int64_t */
	KP_TERM_FLOAT,
	KP_TERM_ATOM,
	KP_TERM_TUPLE,
	KP_TERM_NIL,
	KP_TERM_LIST,	/* one cell or more; also a STRING_EXT */
	KP_TERM_BINARY,	/* also bit strings */
	KP_TERM_MAP,
	KP_TERM_PID,
	KP_TERM_OTHER	/* reference, port, fun, ...: only to be skipped */
};

/*
 * Starts on bytes that begin with the version byte 131; 4 GiB and more are
 * KP_ELIMIT.
 */
void kp_term_begin(struct kp_term *r, const void *p, size_t n);
/* Starts on a term without a version byte (a span from kp_term_raw). */
void kp_term_begin_raw(struct kp_term *r, const void *p, size_t n);
/* KP_OK: no error, and every byte was read.  KP_EFORMAT: bytes remain. */
enum kp_err kp_term_finish(struct kp_term *r);

enum kp_term_kind kp_term_peek(const struct kp_term *r);

int64_t kp_term_int(struct kp_term *r);	 /* KP_EFORMAT if it does not fit */
/* An integer of [0, max], and a time on the target's clock; others KP_EFORMAT */
uint64_t kp_term_count(struct kp_term *r, int64_t max);
kp_target_ns kp_term_time(struct kp_term *r);
double kp_term_float(struct kp_term *r); /* finite */
/* UTF-8 from every current node, but not checked; latin1 if it was sent so. */
struct kp_span kp_term_atom(struct kp_term *r);
struct kp_span kp_term_binary(struct kp_term *r); /* whole bytes only */
void kp_term_nil(struct kp_term *r);
struct kp_pid kp_term_pid(struct kp_term *r);
/* Returns the arity; the elements follow. */
uint32_t kp_term_tuple(struct kp_term *r);
/* Reads a tuple head; KP_EFORMAT if the arity differs. */
void kp_term_tuple_n(struct kp_term *r, uint32_t arity);
/*
 * Returns the number of elements that follow; after them read the tail, of a
 * proper list with kp_term_nil().  [] gives 0 and has no tail to read.  A
 * STRING_EXT is an error here: use kp_term_string().
 */
uint32_t kp_term_list(struct kp_term *r);
/*
 * Reads a list of bytes in any form: STRING_EXT, [], or a list of small
 * integers.  Copies at most cap bytes into buf (no NUL) and returns their
 * number; longer ones are KP_ELIMIT, other elements KP_EFORMAT.
 */
size_t kp_term_string(struct kp_term *r, void *buf, size_t cap);
uint32_t kp_term_map(struct kp_term *r);	/* pairs follow */
/* Reads {Module, Function, Arity}; returns the arity, at most 255. */
uint32_t kp_term_mfa(struct kp_term *r, struct kp_span *mod,
    struct kp_span *fun);
/* Skips one whole term. */
void kp_term_skip(struct kp_term *r);
/* Skips one whole term and returns its bytes (without version byte). */
struct kp_span kp_term_raw(struct kp_term *r);

bool kp_span_is(struct kp_span s, const char *lit);
struct kp_span kp_span_of(const char *text);
char *kp_span_dup(struct kp_span s);	/* NULL: out of memory */

/*
 * Reads one term and writes it in Erlang's syntax, for logs and errors: at most
 * max bytes, cut with "..." if it is longer; never fails on good terms.  The
 * text is valid UTF-8 without control characters.  A malformed term writes
 * nothing and sets r->err.
 */
void kp_term_print(struct kp_term *r, struct kp_buf *out, size_t max);

/* 255 characters, each at most \x{202e}. */
#define KP_ATOM_TEXT_MAX 4096u	/* bytes */

/* Writes an atom likewise, quoted if Erlang needs that: seq, 'my fun'. */
void kp_atom_print(struct kp_buf *out, const char *name);
/* Writes it in double quotes, as Elixir does for a function's name: "my fun" */
void kp_quoted_print(struct kp_buf *out, const char *name);

#endif
