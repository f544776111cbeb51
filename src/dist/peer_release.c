/*
 * peer_release.c - finds the capabilities in a node's challenge, and the release
 * that was the first to have them.
 *
 * Source: "Distribution Protocol" of OTP 29, section "Distribution Handshake":
 * DFLAG_MANDATORY_25_DIGEST and when each flag was introduced.
 */
#include <stdbool.h>

#include "dist/peer_release.h"

#define DFLAG_MANDATORY_25_DIGEST (UINT64_C(1) << 26)
#define DFLAG_SPAWN (UINT64_C(1) << 32)		/* OTP 23 */
#define DFLAG_V4_NC (UINT64_C(1) << 34)		/* OTP 24 */

/* Takes one message off.  False: not all of it is there. */
static bool
message(const uint8_t **at, size_t *left, size_t header, const uint8_t **m,
    size_t *n)
{
	size_t len = 0;

	if (*left < header)
		return false;
	for (size_t i = 0; i < header; i++)
		len = len << 8 | (*at)[i];
	if (len > *left - header)
		return false;
	*m = *at + header;
	*n = len;
	*at += header + len;
	*left -= header + len;
	return true;
}

static uint64_t
big_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

/*
 * The challenge's name may reach past the bytes that were kept, so its own
 * length is not asked for: the flags are at its beginning.  Its older form has
 * a version of two bytes before 32 of the flags.
 */
unsigned
peer_release(const uint8_t *in, size_t n, size_t header)
{
	const uint8_t *status;
	uint64_t flags;
	size_t len;

	if (!message(&in, &n, header, &status, &len) || n < header + 1)
		return 0;
	in += header;
	n -= header;
	if (in[0] == 'N' && n >= 9)
		flags = big_endian(in + 1, 8);
	else if (in[0] == 'n' && n >= 7)
		flags = big_endian(in + 3, 4);
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
