/*
 * peer_release.c - finds the capabilities in a node's challenge, and the release
 * that was the first to have them.
 *
 * Source: "Distribution Protocol" of OTP 29, section "Distribution Handshake":
 * DFLAG_MANDATORY_25_DIGEST and when each flag was introduced.
 */
#include "dist/peer_release.h"

#define DFLAG_MANDATORY_25_DIGEST (UINT64_C(1) << 26)
#define DFLAG_SPAWN (UINT64_C(1) << 32)		/* OTP 23 */
#define DFLAG_V4_NC (UINT64_C(1) << 34)		/* OTP 24 */

static uint64_t
big_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

/* The older form has a version of two bytes before 32 of the flags. */
unsigned
peer_release(const uint8_t *challenge, size_t n)
{
	uint64_t flags;

	if (n >= 9 && challenge[0] == 'N')
		flags = big_endian(challenge + 1, 8);
	else if (n >= 7 && challenge[0] == 'n')
		flags = big_endian(challenge + 3, 4);
	else
		return 0;
	return flags & DFLAG_MANDATORY_25_DIGEST ? PEER_RELEASE_LEAST :
	    flags & DFLAG_V4_NC ? 24 : flags & DFLAG_SPAWN ? 23 : 22;
}

const char *
peer_release_text(unsigned release)
{
	return release == 24 ? "OTP 24" : release == 23 ? "OTP 23" :
	    "OTP 22 or earlier";
}
