/*
 * etf.h - defines the tags of Erlang's external term format, and writes it into
 * a kp_buf.  kprofd/term.h reads it.
 *
 * Source: "External Term Format", ERTS User's Guide (erl_ext_dist).  It writes
 * only terms that kprofd sends.  Write the head of a compound term first:
 * kp_etf_tuple(b, 2) and then two terms; kp_etf_list(b, n), n terms and then
 * kp_etf_nil(b).  Errors stick in the buffer.
 */
#ifndef KPROFD_ETF_H
#define KPROFD_ETF_H

#include <stdbool.h>

#include "kprofd/buf.h"

/* The tags that nodes of OTP 25 and later send. */
enum etf_tag {
	ETF_VERSION = 131, /* the first byte of every term, not a tag */
	ETF_NEW_FLOAT = 70,
	ETF_BIT_BINARY = 77,
	ETF_NEW_PID = 88,
	ETF_NEW_PORT = 89,
	ETF_NEWER_REFERENCE = 90,
	ETF_SMALL_INTEGER = 97,
	ETF_INTEGER = 98,
	ETF_ATOM = 100, /* latin1 */
	ETF_REFERENCE = 101,
	ETF_PORT = 102,
	ETF_PID = 103,
	ETF_SMALL_TUPLE = 104,
	ETF_LARGE_TUPLE = 105,
	ETF_NIL = 106,
	ETF_STRING = 107,
	ETF_LIST = 108,
	ETF_BINARY = 109,
	ETF_SMALL_BIG = 110,
	ETF_LARGE_BIG = 111,
	ETF_NEW_FUN = 112,
	ETF_EXPORT = 113,
	ETF_NEW_REFERENCE = 114,
	ETF_SMALL_ATOM = 115, /* latin1 */
	ETF_MAP = 116,
	ETF_ATOM_UTF8 = 118,
	ETF_SMALL_ATOM_UTF8 = 119,
	ETF_V4_PORT = 120
};

/* Writes the first byte of every external term. */
void kp_etf_version(struct kp_buf *b);
/* name: UTF-8, at most 255 bytes; longer ones are KP_ELIMIT. */
void kp_etf_atom(struct kp_buf *b, const char *name);
void kp_etf_atom_n(struct kp_buf *b, const char *name, size_t n);
void kp_etf_bool(struct kp_buf *b, bool v);
void kp_etf_int(struct kp_buf *b, int64_t v);
void kp_etf_float(struct kp_buf *b, double v);
void kp_etf_tuple(struct kp_buf *b, uint32_t arity);
/* n > 0 elements follow, then the tail (kp_etf_nil for a proper list). */
void kp_etf_list(struct kp_buf *b, uint32_t n);
void kp_etf_nil(struct kp_buf *b);
void kp_etf_binary(struct kp_buf *b, const void *p, size_t n);
/* Writes a list of bytes, n <= 65535; [] if n is 0. */
void kp_etf_string(struct kp_buf *b, const char *p, size_t n);
/* n pairs follow: key, value, key, value ... */
void kp_etf_map(struct kp_buf *b, uint32_t n);
/* node: the name of the process's node, UTF-8. */
void kp_etf_pid(struct kp_buf *b, const char *node, uint32_t id,
    uint32_t serial, uint32_t creation);

#endif
