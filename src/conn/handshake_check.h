/*
 * handshake_check.h - looks at what a node says in the distribution handshake, before
 * ei believes it.  Pure.
 *
 * ei allocates as much as the head of a message announces, and answers the challenge
 * of any node with a digest of the cookie.  So a peer that is no node, another node,
 * or one of a release that kprofd cannot profile is refused before it gets an answer:
 * it has seen nothing but our name.
 *
 * Source: "Distribution Protocol" of OTP 29, section "Distribution Handshake".
 */
#ifndef KPROFD_CONN_HANDSHAKE_CHECK_H
#define KPROFD_CONN_HANDSHAKE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kprofd/nodes.h"

#define HANDSHAKE_RELEASE_LEAST 25	/* the agent is compiled for it */
#define HANDSHAKE_KEPT 512u		/* bytes: what is looked at is in here */

enum handshake_said {
	HANDSHAKE_FINE,		/* so far */
	HANDSHAKE_NO_NODE,	/* not the distribution protocol */
	HANDSHAKE_TLS,		/* an alert of TLS, to a plain handshake */
	HANDSHAKE_TOO_OLD,
	HANDSHAKE_OTHER_NODE,
};

/* Zeroed but for the first three, which the caller sets. */
struct handshake_check {
	const char *node;	/* app@host: who should answer */
	bool exact;		/* its host, too, has to be the same */
	bool tls;		/* the head of a message has 4 bytes, not 2 */
	/* From the node's messages. */
	unsigned messages;	/* that came whole: the status, the challenge */
	char status[32];	/* "ok", "nok", ... */
	unsigned release;	/* as handshake_release() */
	char name[KP_NODE_NAME_MAX + 1];	/* "": none, or no name of a node */
	/* Private: the message that is coming. */
	uint8_t head[4], message[HANDSHAKE_KEPT];
	size_t nhead, length, nmessage;
};

/*
 * The next n bytes that came.  What is not HANDSHAKE_FINE is the end: ei must not
 * get these bytes, and there are no more calls.
 */
enum handshake_said handshake_check(struct handshake_check *h,
    const uint8_t *p, size_t n);

/*
 * challenge: n bytes of the node's message, without its length.  Returns 0 if that is
 * no challenge; 22 for OTP 22 and earlier; 23; 24; or HANDSHAKE_RELEASE_LEAST, for that
 * release and later ones.
 */
unsigned handshake_release(const uint8_t *challenge, size_t n);
/* "OTP 24", "OTP 22 or earlier" */
const char *handshake_release_text(unsigned release);

#endif
