/* test_peer_release.c - handshakes as nodes of several releases begin them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "dist/peer_release.h"

/* Status "ok", then a challenge with these flags, for the name t@127.0.0.1. */
static size_t
shake(uint8_t out[64], size_t header, uint64_t flags)
{
	static const char name[] = "t@127.0.0.1";
	uint8_t *p = out;

	memset(out, 0, 64);
	p[header - 1] = 3;
	memcpy(p + header, "sok", 3);
	p += header + 3;
	p[header - 1] = (uint8_t)(19 + strlen(name));
	p += header;
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

	return peer_release(in, shake(in, 2, flags), 2);
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
	static const uint8_t old[] = "\0\3sok\0\x16n\0\5\0\xdf\x7f\xbd\1\2\3\4t@host";
	static const uint8_t now[] = "\0\3sok\0\x16n\0\5\7\xdf\x7f\xbd\1\2\3\4t@host";

	(void)state;
	assert_int_equal(peer_release(old, sizeof(old) - 1, 2), 22);
	assert_int_equal(peer_release(now, sizeof(now) - 1, 2), 25);
}

static void
test_longer_header(void **state)
{
	uint8_t in[64];
	size_t n = shake(in, 4, UINT64_C(0xd03df7fbd));

	(void)state;
	assert_int_equal(peer_release(in, n, 4), 24);
	assert_int_equal(peer_release(in, n, 2), 0);
}

/* Of any part of it, and of a length that lies, nothing is known. */
static void
test_cut(void **state)
{
	uint8_t in[64];

	(void)state;
	shake(in, 2, UINT64_C(0xd03df7fbd));
	for (size_t n = 0; n < 16; n++)
		assert_int_equal(peer_release(in, n, 2), 0);
	assert_int_equal(peer_release(in, 16, 2), 24);
	memset(in, 0xff, sizeof(in));
	assert_int_equal(peer_release(in, sizeof(in), 2), 0);
	assert_int_equal(peer_release(in, sizeof(in), 4), 0);
	assert_int_equal(peer_release((const uint8_t *)"\0\3sok\0\5sfoo!", 12, 2), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_releases),
		cmocka_unit_test(test_older_form),
		cmocka_unit_test(test_longer_header),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests_name("peer_release", tests, NULL, NULL);
}
