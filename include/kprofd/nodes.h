/*
 * nodes.h - names of nodes: checks them, reads lists of them, and matches
 * them against globs.  Pure.
 *
 * Lists come from files that people and programs write, names also from
 * nodes that kprofd was told to follow: neither is trusted.
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
 * What may be before the '@': letters, digits, '_' and '-', of ASCII.  A VM
 * refuses any other for itself, and answers it "nok" in the handshake, as it
 * does a name that is in use (seen on OTP 25, 27 and 29).
 */
bool kp_node_alive_ok(const char *s, size_t n);
/*
 * That, one '@' and a host of printable ASCII with no blank, '#' or quote.
 * The VM takes almost anything for a host.
 */
bool kp_node_name_ok(const char *s, size_t n);

struct kp_node_list {
	char **v;		/* owned; no name twice, in order */
	size_t n;
	size_t more;		/* names past the cap: counted, not kept */
};

/*
 * A name a line, blanks around it; what follows a '#' is a comment.  No more
 * than max names are kept.  KP_EFORMAT: *line, from 1, has no name of a node;
 * KP_ELIMIT: more than KP_NODE_FILE_MAX bytes; KP_ENOMEM.  On error there is
 * nothing to free.
 */
enum kp_err kp_node_list_parse(struct kp_node_list *out, const char *text,
    size_t n, size_t max, uint32_t *line);
void kp_node_list_free(struct kp_node_list *l);
bool kp_node_list_has(const struct kp_node_list *l, const char *name);

/*
 * Does the glob match all of s?  '*' any text, '?' any byte, '[a-c]' one of a
 * set, '[^a-c]' one that is not in it, as SQLite's GLOB.  A set that does not
 * end matches nothing.  Takes time by the product of both lengths at most.
 */
bool kp_glob(const char *glob, const char *s);

#endif
