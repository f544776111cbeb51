/*
 * nodes.h - checks names of nodes, reads lists of them, and matches them
 * against globs.  Pure.
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

struct kp_node_list {
	char **v;		/* owned; distinct names, in order */
	size_t n;
	size_t more;		/* names past the cap: counted, not kept */
};

/*
 * Parses one name per line, with blanks around it; '#' starts a comment.  Keeps
 * at most max names.  KP_EFORMAT: *line, from 1, is not the name of a node;
 * KP_ELIMIT: more than KP_NODE_FILE_MAX bytes; KP_ENOMEM.  After an error there
 * is nothing to free.
 */
enum kp_err kp_node_list_parse(struct kp_node_list *out, const char *text,
    size_t n, size_t max, uint32_t *line);
void kp_node_list_free(struct kp_node_list *l);
bool kp_node_list_has(const struct kp_node_list *l, const char *name);

/*
 * Returns whether the glob matches all of s.  As in SQLite's GLOB, '*' matches
 * any text, '?' any byte, '[a-c]' one byte of a set, '[^a-c]' one that is not
 * in it.  A set without an end matches nothing.  The time is at most
 * proportional to the product of both lengths.
 */
bool kp_glob(const char *glob, const char *s);
/*
 * Returns whether one of the globs does, with blanks between them; those longer
 * than KP_NODE_NAME_MAX match nothing.
 */
bool kp_globs(const char *globs, const char *s);

#endif
