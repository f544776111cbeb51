/*
 * peer_release.h - reads from a handshake of what OTP release a node is.  Pure.
 *
 * A release that kprofd cannot profile is refused by it, before the node is
 * shown the cookie's digest, asked anything, or sent a module.
 */
#ifndef KPROFD_DIST_PEER_RELEASE_H
#define KPROFD_DIST_PEER_RELEASE_H

#include <stddef.h>
#include <stdint.h>

#define PEER_RELEASE_LEAST 25	/* the agent is compiled for it */

/*
 * challenge: n bytes of the node's message, without its length.  Returns 0 if that is
 * no challenge; 22 for OTP 22 and earlier; 23; 24; or PEER_RELEASE_LEAST, for that
 * release and later ones.
 */
unsigned peer_release(const uint8_t *challenge, size_t n);
/* "OTP 24", "OTP 22 or earlier" */
const char *peer_release_text(unsigned release);

#endif
