/* test_peer_release.c - handshakes as nodes of several releases begin them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "dist/peer_release.h"

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

	return peer_release(in, challenge(in, flags));
}

/* The flags that erl_dist's constants make of these releases' own. */
static void
test_releases(void **state)
{
	(void)state;
	assert_int_equal(of_flags(UINT64_C(0x000007df7fbd)), 25);
	assert_int_equal(of_flags(UINT64_C(0xd07df7fbd)), 25);
	/* 28 and later: DFLAG_ALTACT_SIG as well */
	assert_int_equal(of_flags(UINT64_C(0x2d07df7fbd)), 25);
	assert_int_equal(of_flags(UINT64_C(0xd03df7fbd)), 24);
	assert_int_equal(of_flags(UINT64_C(0x101df7fbd)), 23);
	assert_int_equal(of_flags(UINT64_C(0x0df7fbd)), 22);
	assert_string_equal(peer_release_text(24), "OTP 24");
	assert_string_equal(peer_release_text(23), "OTP 23");
	assert_string_equal(peer_release_text(22), "OTP 22 or earlier");
}

/* Before OTP 23: a version, and 32 flags. */
static void
test_older_form(void **state)
{
	static const uint8_t old[] = "n\0\5\0\xdf\x7f\xbd\1\2\3\4t@host";
	static const uint8_t now[] = "n\0\5\7\xdf\x7f\xbd\1\2\3\4t@host";

	(void)state;
	assert_int_equal(peer_release(old, sizeof(old) - 1), 22);
	assert_int_equal(peer_release(now, sizeof(now) - 1), 25);
}

/* Of any part of it, and of another message, nothing is known. */
static void
test_cut(void **state)
{
	uint8_t in[64];

	(void)state;
	challenge(in, UINT64_C(0xd03df7fbd));
	for (size_t n = 0; n < 9; n++)
		assert_int_equal(peer_release(in, n), 0);
	assert_int_equal(peer_release(in, 9), 24);
	memset(in, 0xff, sizeof(in));
	assert_int_equal(peer_release(in, sizeof(in)), 0);
	assert_int_equal(peer_release((const uint8_t *)"sok_simultaneous", 16),
	    0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_releases),
		cmocka_unit_test(test_older_form),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests_name("peer_release", tests, NULL, NULL);
}
