/* handshake_check.c - cuts the bytes into messages; reads the status and the challenge. */
#include <stdio.h>
#include <string.h>

#include "conn/handshake_check.h"

#define MESSAGE_MAX 65536u	/* bytes of one: OTP's have less than 600 */
#define CHALLENGE_HEAD 19u	/* 'N', flags, challenge, creation, length */
#define ALERT 0x15		/* of TLS: a record's first byte */

/* Flags of a challenge, and the release that was the first to have them. */
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
handshake_release(const uint8_t *challenge, size_t n)
{
	uint64_t flags;

	if (n >= 9 && challenge[0] == 'N')
		flags = big_endian(challenge + 1, 8);
	else if (n >= 7 && challenge[0] == 'n')
		flags = big_endian(challenge + 3, 4);
	else
		return 0;
	return flags & DFLAG_MANDATORY_25_DIGEST ? HANDSHAKE_RELEASE_LEAST :
	    flags & DFLAG_V4_NC ? 24 : flags & DFLAG_SPAWN ? 23 : 22;
}

const char *
handshake_release_text(unsigned release)
{
	return release == 24 ? "OTP 24" : release == 23 ? "OTP 23" :
	    "OTP 22 or earlier";
}

/* People also name a node's host otherwise than it does itself. */
static bool
is_right_node(const struct handshake_check *h)
{
	size_t n = h->exact ? strlen(h->node) : strcspn(h->node, "@") + 1;

	return strncmp(h->name, h->node, n) == 0 &&
	    (!h->exact || h->name[n] == '\0');
}

static enum handshake_said
read_challenge(struct handshake_check *h)
{
	const uint8_t *m = h->message;
	const char *name = (const char *)m + CHALLENGE_HEAD;
	size_t len;

	h->release = handshake_release(m, h->length);
	if (h->release != 0 && h->release < HANDSHAKE_RELEASE_LEAST)
		return HANDSHAKE_TOO_OLD;
	if (h->length < CHALLENGE_HEAD || m[0] != 'N')
		return HANDSHAKE_NO_NODE;
	len = (size_t)big_endian(m + CHALLENGE_HEAD - 2, 2);
	if (CHALLENGE_HEAD + len > h->length ||
	    CHALLENGE_HEAD + len > HANDSHAKE_KEPT)
		return HANDSHAKE_NO_NODE;
	if (kp_node_name_ok(name, len))
		snprintf(h->name, sizeof(h->name), "%.*s", (int)len, name);
	return is_right_node(h) ? HANDSHAKE_FINE : HANDSHAKE_OTHER_NODE;
}

static enum handshake_said
read_status(struct handshake_check *h)
{
	size_t n = h->length - 1;

	if (h->message[0] != 's')
		return HANDSHAKE_NO_NODE;
	if (n >= sizeof(h->status))
		n = sizeof(h->status) - 1;
	memcpy(h->status, h->message + 1, n);
	h->status[n] = '\0';
	return HANDSHAKE_FINE;
}

static enum handshake_said
read_message(struct handshake_check *h)
{
	unsigned i = h->messages++;

	h->nhead = h->nmessage = 0;
	return i == 0 ? read_status(h) : i == 1 ? read_challenge(h) :
	    HANDSHAKE_FINE;
}

static size_t
head_size(const struct handshake_check *h)
{
	return h->tls ? 4 : 2;
}

static enum handshake_said
read_head(struct handshake_check *h)
{
	h->length = (size_t)big_endian(h->head, head_size(h));
	if (!h->tls && h->messages == 0 && h->head[0] == ALERT &&
	    h->head[1] == 3)
		return HANDSHAKE_TLS;
	return h->length == 0 || h->length > MESSAGE_MAX ? HANDSHAKE_NO_NODE :
	    HANDSHAKE_FINE;
}

enum handshake_said
handshake_check(struct handshake_check *h, const uint8_t *p, size_t n)
{
	enum handshake_said said = HANDSHAKE_FINE;
	size_t more, keep;

	while (n > 0 && said == HANDSHAKE_FINE) {
		if (h->nhead < head_size(h)) {
			h->head[h->nhead++] = *p++;
			n--;
			if (h->nhead == head_size(h))
				said = read_head(h);
			continue;
		}
		more = h->length - h->nmessage;
		if (more > n)
			more = n;
		keep = h->nmessage < HANDSHAKE_KEPT ?
		    HANDSHAKE_KEPT - h->nmessage : 0;
		if (keep > 0)
			memcpy(h->message + h->nmessage, p,
			    more < keep ? more : keep);
		h->nmessage += more;
		p += more;
		n -= more;
		if (h->nmessage == h->length)
			said = read_message(h);
	}
	return said;
}
