/*
 * nodes.h - checks names of nodes, splits off what people type behind them, reads
 * lists of them, and matches them against globs.  Pure.
 *
 * Lists come from files that people and programs write, names also from nodes
 * that kprofd follows: neither is trusted.
 */
#ifndef KPROFD_NODES_H
#define KPROFD_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/err.h"

#define KP_NODE_NAME_MAX 255		/* bytes of name@host: an atom's */
/* Bytes of a node as people type it: its address in brackets, and a port. */
#define KP_NODE_TYPED_MAX (KP_NODE_NAME_MAX + 8)
#define KP_NODE_FILE_MAX (64u << 10)	/* bytes of a list of nodes */

/*
 * Checks the part before the '@': ASCII letters, digits, '_' and '-'.  A VM
 * refuses any other name for itself, and answers "nok" to it in the handshake,
 * as to a name that is in use (seen on OTP 25, 27 and 29).
 */
bool kp_node_alive_ok(const char *s, size_t n);
/*
 * Checks that part, one '@' and a host of printable ASCII without blank, '#' or
 * quote.  The VM accepts almost anything as a host.
 */
bool kp_node_name_ok(const char *s, size_t n);

/* ---- what people type ---- */

/* A host and a port. */
struct kp_host_at {
	char host[KP_NODE_NAME_MAX + 1];	/* a name or an address */
	unsigned port;				/* 0: none is given */
};

/* A node and a port. */
struct kp_node_at {
	char node[KP_NODE_NAME_MAX + 1];	/* app@host, as it names itself */
	unsigned port;				/* 0: none is given */
};

/*
 * Splits host, host:4370, ::1, [::1] or [::1]:4370.  More than one colon without
 * brackets is an address alone: ::1:4370 has no port.  Returns NULL, or what is
 * wrong, such as "the port is not a number from 1 to 65535"; *to is not set then.
 */
const char *kp_host_split(const char *s, size_t n, struct kp_host_at *to);
#define KP_NODE_WRONG "not the name of a node, such as app@host"
/*
 * The same of app@ and a host.  Brackets are not part of the name: app@[::1]:4370
 * is the node app@::1 at port 4370.
 */
const char *kp_node_split(const char *s, size_t n, struct kp_node_at *to);
/* 1 to 65535, in decimal digits. */
bool kp_port_parse(const char *s, size_t n, unsigned *port);
/* Copies what was typed without its port, or as it is, cut; returns node. */
const char *kp_node_bare(const char *typed, char node[KP_NODE_NAME_MAX + 1]);
/*
 * Returns whether both are the same node, with whatever port, as app@h and
 * app@h:4370 are.  What cannot be split is compared as it is.
 */
bool kp_node_same(const char *a, const char *b);

/* ---- lists ---- */

struct kp_node_list {
	char **v;		/* owned; as typed, distinct nodes, in order */
	size_t n;
	size_t more;		/* names past the cap: counted, not kept */
};

/*
 * Parses one node per line, for kp_node_split(), with blanks around it; '#' starts
 * a comment.  Keeps at most max nodes, and of one that is there twice the port that
 * either line has.  KP_EFORMAT: *why is what is wrong with *line, from 1;
 * KP_ELIMIT: more than KP_NODE_FILE_MAX bytes; KP_ENOMEM.  After an error there is
 * nothing to free.
 */
enum kp_err kp_node_list_parse(struct kp_node_list *out, const char *text,
    size_t n, size_t max, uint32_t *line, const char **why);
void kp_node_list_free(struct kp_node_list *l);
/* Returns the line of the same node (kp_node_same()); NULL: it is not there. */
const char *kp_node_list_find(const struct kp_node_list *l, const char *name);

/*
 * Returns whether the glob matches all of s.  As in SQLite's GLOB, '*' matches
 * any text, '?' any byte, '[a-c]' one byte of a set, '[^a-c]' one that is not
 * in it, and so does '[!a-c]', as in a shell.  A set without an end matches
 * nothing.  The time is at most proportional to the product of both lengths.
 */
bool kp_glob(const char *glob, const char *s);
/*
 * Returns whether one of the globs does, with blanks between them; those longer
 * than KP_NODE_NAME_MAX match nothing.
 */
bool kp_globs(const char *globs, const char *s);

#endif
