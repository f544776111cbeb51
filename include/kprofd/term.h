/*
 * term.h - a bounded reader of Erlang's external term format.
 *
 * Reads terms from untrusted bytes.  It allocates nothing, never reads past the
 * end, nests no deeper than KP_TERM_DEPTH_MAX and never recurses.  The first
 * error sticks: later calls return zeros and empty spans, so a caller reads a
 * whole structure and checks r->err once before it uses any of it.
 *
 * What nodes of OTP 25 and later never send is refused with KP_EFORMAT: old
 * floats and funs, compressed terms, atom caches, LIST_EXT of no elements.
 * So is LOCAL_EXT (OTP 26.1+), which only its own writer can read or pass.
 *
 * Source: "External Term Format", ERTS User's Guide (erl_ext_dist).
 */
#ifndef KPROFD_TERM_H
#define KPROFD_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/buf.h"
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
	KP_TERM_OTHER	/* reference, port, fun, ...: known, only skippable */
};

/*
 * Starts on bytes that open with the version byte 131; 4 GiB and more are
 * KP_ELIMIT.
 */
void kp_term_begin(struct kp_term *r, const void *p, size_t n);
/* Starts on a term without a version byte (a span from kp_term_raw). */
void kp_term_begin_raw(struct kp_term *r, const void *p, size_t n);
/* KP_OK if no error and every byte was read; KP_EFORMAT if bytes remain. */
enum kp_err kp_term_finish(struct kp_term *r);

enum kp_term_kind kp_term_peek(const struct kp_term *r);

int64_t kp_term_int(struct kp_term *r);	 /* KP_EFORMAT if it does not fit */
double kp_term_float(struct kp_term *r); /* finite */
/* UTF-8 from every current node, but not checked; latin1 if sent as that. */
struct kp_span kp_term_atom(struct kp_term *r);
struct kp_span kp_term_binary(struct kp_term *r); /* whole bytes only */
void kp_term_nil(struct kp_term *r);
struct kp_pid kp_term_pid(struct kp_term *r);
/* The arity; its elements follow. */
uint32_t kp_term_tuple(struct kp_term *r);
/* Reads a tuple head and demands this arity. */
void kp_term_tuple_n(struct kp_term *r, uint32_t arity);
/*
 * The number of elements that follow; after them comes the tail, to be read
 * with kp_term_nil() for a proper list.  [] gives 0 and has no tail to read.
 * A STRING_EXT is an error here: use kp_term_string().
 */
uint32_t kp_term_list(struct kp_term *r);
/*
 * A list of bytes, whichever way it was sent: STRING_EXT, [], or a list of
 * small integers.  Copies into buf at most cap bytes (no NUL) and returns
 * their number; longer ones are KP_ELIMIT, other elements KP_EFORMAT.
 */
size_t kp_term_string(struct kp_term *r, void *buf, size_t cap);
uint32_t kp_term_map(struct kp_term *r);	/* pairs follow */
/* {Module, Function, Arity}; returns the arity, which is at most 255. */
uint32_t kp_term_mfa(struct kp_term *r, struct kp_span *mod,
    struct kp_span *fun);
/* Passes one whole term. */
void kp_term_skip(struct kp_term *r);
/* Passes one whole term and returns its bytes (without version byte). */
struct kp_span kp_term_raw(struct kp_term *r);

bool kp_span_is(struct kp_span s, const char *lit);

/*
 * Writes one term in Erlang's own syntax, for logs and errors: bounded by
 * max bytes, cut with "..." where it is longer; never fails on good terms.
 * Always valid UTF-8 without control characters.  Passes the term; a
 * malformed one writes nothing and sets r->err.
 */
void kp_term_print(struct kp_term *r, struct kp_buf *out, size_t max);

/* 255 characters, each of them written as \x{202e} at the longest. */
#define KP_ATOM_TEXT_MAX 4096u	/* bytes */

/* An atom likewise, quoted where Erlang needs that: seq, 'my fun'. */
void kp_atom_print(struct kp_buf *out, const char *name);
/* In the double quotes that Elixir has for a function's name: "my fun" */
void kp_quoted_print(struct kp_buf *out, const char *name);

#endif
