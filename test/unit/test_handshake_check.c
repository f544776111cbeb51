/*
 * test_handshake_check.c - handshakes as nodes of several releases begin them, and
 * as what is no node does; real nodes are in port_tests and odd_tests.
 */
#include "cases.h"
#include "conn/handshake_check.h"

/* A challenge with these flags, for the name t@127.0.0.1. */
static size_t
challenge(uint8_t out[64], uint64_t flags)
{
	static const char name[] = "t@127.0.0.1";
	uint8_t *p = out;

	memset(out, 0, 64);
	*p++ = 'N';
	for (int i = 56; i >= 0; i -= 8)
		*p++ = (uint8_t)(flags >> i);
	memcpy(p, "\1\2\3\4\0\0\0\1\0\x0b", 10);
	memcpy(p + 10, name, strlen(name));
	return (size_t)(p + 10 + strlen(name) - out);
}

static unsigned
of_flags(uint64_t flags)
{
	uint8_t in[64];

	return handshake_release(in, challenge(in, flags));
}

/* The flags that erl_dist's constants make of these releases' own. */
TEST(test_releases)
{
	assert_int_equal(of_flags(UINT64_C(0x000007df7fbd)), 25);
	assert_int_equal(of_flags(UINT64_C(0xd07df7fbd)), 25);
	/* 28 and later: DFLAG_ALTACT_SIG as well */
	assert_int_equal(of_flags(UINT64_C(0x2d07df7fbd)), 25);
	assert_int_equal(of_flags(UINT64_C(0xd03df7fbd)), 24);
	assert_int_equal(of_flags(UINT64_C(0x101df7fbd)), 23);
	assert_int_equal(of_flags(UINT64_C(0x0df7fbd)), 22);
	assert_string_equal(handshake_release_text(24), "OTP 24");
	assert_string_equal(handshake_release_text(23), "OTP 23");
	assert_string_equal(handshake_release_text(22), "OTP 22 or earlier");
}

/* Before OTP 23: a version, and 32 flags. */
TEST(test_older_form)
{
	static const uint8_t old[] = "n\0\5\0\xdf\x7f\xbd\1\2\3\4t@host";
	static const uint8_t now[] = "n\0\5\7\xdf\x7f\xbd\1\2\3\4t@host";

	assert_int_equal(handshake_release(old, sizeof(old) - 1), 22);
	assert_int_equal(handshake_release(now, sizeof(now) - 1), 25);
}

/* Of any part of it, and of another message, nothing is known. */
TEST(test_cut)
{
	uint8_t in[64];

	challenge(in, UINT64_C(0xd03df7fbd));
	for (size_t n = 0; n < 9; n++)
		assert_int_equal(handshake_release(in, n), 0);
	assert_int_equal(handshake_release(in, 9), 24);
	memset(in, 0xff, sizeof(in));
	assert_int_equal(handshake_release(in, sizeof(in)), 0);
	assert_int_equal(handshake_release((const uint8_t *)"sok_simultaneous", 16),
	    0);
}

/* ---- a handshake as a whole ---- */

#define NODE "t@127.0.0.1"
#define NOW UINT64_C(0xd07df7fbd)

/* Appends a message with its head. */
static size_t
message(uint8_t *out, bool tls, const void *p, size_t n)
{
	size_t head = tls ? 4 : 2;

	memset(out, 0, head);
	out[head - 2] = (uint8_t)(n >> 8);
	out[head - 1] = (uint8_t)n;
	memcpy(out + head, p, n);
	return head + n;
}

/* What is said of a status and then a challenge, that come in pieces. */
static enum handshake_said
said(struct handshake_check *h, const char *status, uint64_t flags,
    size_t piece)
{
	enum handshake_said s = HANDSHAKE_FINE;
	uint8_t in[256], of[64];
	size_t n = message(in, h->tls, status, strlen(status));

	n += message(in + n, h->tls, of, challenge(of, flags));
	for (size_t i = 0; i < n && s == HANDSHAKE_FINE; i += piece)
		s = handshake_check(h, in + i, piece < n - i ? piece : n - i);
	return s;
}

TEST(test_in_pieces)
{
	for (size_t piece = 1; piece < 100; piece++) {
		struct handshake_check h = { .node = NODE, .exact = true,
			.tls = piece % 2 };

		assert_int_equal(said(&h, "sok", NOW, piece), HANDSHAKE_FINE);
		assert_fields(h, IS(messages, 2) IS(status, "ok") IS(name, NODE)
		    IS(release, 25));
	}
}

TEST(test_refused)
{
	static const struct {
		const char *node;
		bool exact;
		const char *status;
		uint64_t flags;
		enum handshake_said said;
	} v[] = {
		{ "t@elsewhere", false, "sok", NOW, HANDSHAKE_FINE },
		{ "t@elsewhere", true, "sok", NOW, HANDSHAKE_OTHER_NODE },
		{ NODE "0", true, "sok", NOW, HANDSHAKE_OTHER_NODE },
		{ "t@127.0.0", true, "sok", NOW, HANDSHAKE_OTHER_NODE },
		{ "tt@127.0.0.1", false, "sok", NOW, HANDSHAKE_OTHER_NODE },
		{ NODE, true, "sok", 0x101df7fbd, HANDSHAKE_TOO_OLD },
		{ "u@127.0.0.1", true, "sok", 0, HANDSHAKE_TOO_OLD },
		{ NODE, true, "220 mail ready", NOW, HANDSHAKE_NO_NODE },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct handshake_check h = { .node = v[i].node,
			.exact = v[i].exact };

		assert_int_equal(said(&h, v[i].status, v[i].flags, 7),
		    v[i].said);
	}
}

static enum handshake_said
first(bool tls, const void *p, size_t n)
{
	struct handshake_check h = { .node = NODE, .tls = tls };

	return handshake_check(&h, p, n);
}

TEST(test_heads)
{
	assert_int_equal(first(false, "\x15\3\3\0\2\2\x28", 7), HANDSHAKE_TLS);
	assert_int_equal(first(false, "\0\0", 2), HANDSHAKE_NO_NODE);
	assert_int_equal(first(false, "\0", 1), HANDSHAKE_FINE);
	assert_int_equal(first(true, "\0\1\0\1", 4), HANDSHAKE_NO_NODE);
	assert_int_equal(first(true, "\0\1\0\0", 4), HANDSHAKE_FINE);
	assert_int_equal(first(true, "HTTP/1.1", 8), HANDSHAKE_NO_NODE);
}

TESTS(NULL, NULL)
