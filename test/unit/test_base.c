/* test_base.c - the bounded buffer, terms written and read back, waiting. */
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "base/utf8.h"
#include "kprofd/clock.h"
#include "kprofd/buf.h"
#include "kprofd/etf.h"
#include "kprofd/loss.h"
#include "kprofd/secret.h"
#include "kprofd/term.h"

TEST(buf_writes_big_endian)
{
	struct kp_buf b;

	kp_buf_init(&b, 100);
	kp_buf_u8(&b, 1);
	kp_buf_be16(&b, 0x0203);
	kp_buf_be32(&b, 0x04050607);
	kp_buf_be64(&b, UINT64_C(0x08090a0b0c0d0e0f));
	assert_int_equal(b.len, 15);
	for (uint8_t i = 0; i < 15; i++)
		assert_int_equal(b.p[i], i + 1);
	kp_buf_free(&b);
}

TEST(buf_limit_sticks)
{
	struct kp_buf b;

	kp_buf_init(&b, 5);
	kp_buf_str(&b, "abc");
	kp_buf_str(&b, "def");
	assert_int_equal(b.err, KP_ELIMIT);
	kp_buf_str(&b, "d");
	assert_int_equal(b.len, 3);
	assert_string_equal(kp_buf_cstr(&b), "");
	kp_buf_reset(&b);
	kp_buf_str(&b, "12345");
	assert_int_equal(b.err, KP_OK);
	kp_buf_u8(&b, '6');
	assert_int_equal(b.err, KP_ELIMIT);
	kp_buf_free(&b);
}

TEST(buf_grows_and_prints)
{
	struct kp_buf b;

	kp_buf_init(&b, 10000);
	for (int i = 0; i < 1000; i++)
		kp_buf_printf(&b, "%03d,", i);
	assert_fields(b, IS(err, KP_OK) IS(len, 4000));
	assert_memory_equal(b.p, "000,001,", 8);
	assert_int_equal(strlen(kp_buf_cstr(&b)), 4000);
	kp_buf_free(&b);
	assert_int_equal(b.max, 10000);
	assert_null(b.p);
}

TEST(etf_ints)
{
	static const int64_t ints[] = { 0, 1, 255, 256, -1, INT32_MAX,
		(int64_t)INT32_MAX + 1, INT32_MIN, (int64_t)INT32_MIN - 1,
		INT64_MAX, INT64_MIN };
	struct kp_buf b;
	struct kp_term r;

	kp_buf_init(&b, 100);
	for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++) {
		kp_buf_reset(&b);
		kp_etf_version(&b);
		kp_etf_int(&b, ints[i]);
		kp_term_begin(&r, b.p, b.len);
		assert_true(kp_term_int(&r) == ints[i]);
		assert_int_equal(kp_term_finish(&r), KP_OK);
	}
	kp_buf_free(&b);
}

static void
write_all(struct kp_buf *b)
{
	kp_etf_version(b);
	kp_etf_tuple(b, 9);
	kp_etf_atom(b, "h\xc3\xa9");
	kp_etf_bool(b, true);
	kp_etf_float(b, -0.25);
	kp_etf_list(b, 1);
	kp_etf_nil(b);
	kp_etf_nil(b);
	kp_etf_binary(b, "bin", 3);
	kp_etf_string(b, "str", 3);
	kp_etf_string(b, "", 0);
	kp_etf_map(b, 1);
	kp_etf_int(b, 1);
	kp_etf_int(b, 2);
	kp_etf_pid(b, "n@h", 4000000000u, 2, 3);
}

TEST(etf_round_trip)
{
	struct kp_buf b;
	struct kp_term r;
	struct kp_pid pid;
	char s[3];

	kp_buf_init(&b, 1000);
	write_all(&b);
	kp_term_begin(&r, b.p, b.len);
	kp_term_tuple_n(&r, 9);
	assert_true(kp_span_is(kp_term_atom(&r), "h\xc3\xa9"));
	assert_true(kp_span_is(kp_term_atom(&r), "true"));
	assert_int_equal((int)(kp_term_float(&r) * 100), -25);
	assert_int_equal(kp_term_list(&r), 1);
	kp_term_nil(&r);
	kp_term_nil(&r);
	assert_true(kp_span_is(kp_term_binary(&r), "bin"));
	assert_int_equal(kp_term_string(&r, s, 3), 3);
	assert_memory_equal(s, "str", 3);
	assert_int_equal(kp_term_string(&r, s, 3), 0);
	assert_int_equal(kp_term_map(&r), 1);
	assert_true(kp_term_int(&r) == 1);
	assert_true(kp_term_int(&r) == 2);
	pid = kp_term_pid(&r);
	assert_true(kp_span_is(pid.node, "n@h"));
	assert_true(pid.id == 4000000000u);
	assert_fields(pid, IS(serial, 2) IS(creation, 3));
	assert_int_equal(kp_term_finish(&r), KP_OK);
	kp_buf_free(&b);
}

TEST(etf_large_tuples_and_limits)
{
	struct kp_buf b;
	struct kp_term r;
	char name[256];

	kp_buf_init(&b, 10000);
	kp_etf_tuple(&b, 256);
	for (int i = 0; i < 256; i++)
		kp_etf_nil(&b);
	kp_term_begin_raw(&r, b.p, b.len);
	assert_int_equal(kp_term_raw(&r).n, b.len);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	memset(name, 'a', sizeof(name));
	kp_etf_atom_n(&b, name, 255);
	assert_int_equal(b.err, KP_OK);
	kp_etf_atom_n(&b, name, 256);
	assert_int_equal(b.err, KP_ELIMIT);
	kp_buf_free(&b);
}

TEST(every_error_and_loss_has_words)
{
	for (int e = KP_OK; e <= KP_ETIMEOUT; e++)
		assert_string_not_equal(kp_err_str((enum kp_err)e),
		    "unknown error");
	for (int c = 0; c < KP_LOSS_COUNT; c++) {
		assert_non_null(kp_loss_name((enum kp_loss)c));
		assert_non_null(kp_loss_unit((enum kp_loss)c));
		assert_non_null(kp_loss_help((enum kp_loss)c));
	}
}

/* Every character is written and read back; surrogates are none. */
TEST(utf8_reads_what_it_writes)
{
	char s[UTF8_BYTES_MAX];
	size_t n, len;

	for (uint32_t c = 0; c <= 0x110000; c++) {
		n = utf8_put(s, c);
		if (utf8_is_char(c))
			assert_int_equal(utf8_next(s, n, &len), c);
		else
			assert_int_equal(utf8_next(s, n, &len),
			    UTF8_REPLACEMENT);
		assert_int_equal(len, n);
		assert_true(utf8_valid(s, n));
		/* cut short it is none, and only one byte is taken */
		for (size_t k = 1; k < n; k++) {
			assert_int_equal(utf8_next(s, k, &len), UTF8_BAD);
			assert_int_equal(len, 1);
		}
	}
	assert_false(utf8_is_char(0xd800));
	assert_false(utf8_is_char(0xdfff));
	assert_false(utf8_is_char(0x110000));
	assert_false(utf8_is_char(UTF8_BAD));
}

/* Of all texts of three bytes, those are taken that a writer can write. */
TEST(utf8_takes_nothing_else)
{
	uint8_t s[4] = { 0 };
	char back[UTF8_BYTES_MAX];
	size_t len;
	uint32_t c;

	for (uint32_t i = 0; i < 1u << 24; i++) {
		s[0] = (uint8_t)(i >> 16);
		s[1] = (uint8_t)(i >> 8);
		s[2] = (uint8_t)i;
		c = utf8_next(s, 3, &len);
		if (c == UTF8_BAD ? len != 1 : utf8_put(back, c) != len ||
		    memcmp(back, s, len) != 0)
			fail_msg("%06x reads as %x", i, c);
	}
	assert_false(utf8_valid("\xc0\xaf", 2));
	assert_false(utf8_valid("ok\xed\xa0\x80", 5));
	assert_false(utf8_valid("\xf4\x90\x80\x80", 4));
	assert_false(utf8_valid("\xf8\x88\x80\x80\x80", 5));
	assert_true(utf8_valid("", 0));
}

TEST(utf8_fits_whole_characters)
{
	static const char s[] = "a\xc3\xb6\xe6\x9d\xb1";
	static const size_t fit[] = { 0, 1, 1, 3, 3, 3, 6, 6 };

	for (size_t max = 0; max < 8; max++)
		assert_int_equal(utf8_fit(s, 6, max), fit[max]);
}

/* A terminal obeys these, or hides them; joiners and accents are text. */
TEST(utf8_names_what_is_unsafe)
{
	static const uint32_t bad[] = { 0, 0x1b, 0x7f, 0x9b, 0x61c, 0x200b,
		0x200f, 0x2028, 0x202e, 0x2066, 0x2069, 0xfeff, 0xfff9,
		0xe0041 };
	static const uint32_t good[] = { ' ', '~', 0xa0, 0x300, 0x5d0, 0x627,
		0x200c, 0x200d, 0x2027, 0x4e00, 0x1f600, 0xe0100, 0x10ffff };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(utf8_unsafe(bad[i]));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_false(utf8_unsafe(good[i]));
}

/*
 * From half a second, twice as long each time, to half a minute; and anew when
 * it worked for as long as that.
 */
TEST(backoff_doubles)
{
	static const int want_ms[] = { 500, 1000, 2000, 4000, 8000, 16000,
		30000, 30000 };
	struct kp_backoff b = { 0 };
	kp_mono_ns now = KP_NS_PER_S;

	for (int times = 0; times < 2; times++) {
		for (size_t i = 0; i < sizeof(want_ms) / sizeof(want_ms[0]);
		    i++)
			assert_int_equal(kp_backoff_next(&b, now),
			    want_ms[i] * KP_NS_PER_MS);
		kp_backoff_works(&b, now);
		now += 30 * KP_NS_PER_S;
		kp_backoff_works(&b, now);
	}
	for (int i = 0; i < 1000000; i++)
		assert_true(kp_backoff_next(&b, now) <= 30 * KP_NS_PER_S);
}

/* What is armed and gone again at once is not tried twice a second for ever. */
TEST(backoff_works_briefly)
{
	struct kp_backoff b = { 0 };
	kp_mono_ns now = KP_NS_PER_S;

	assert_int_equal(kp_backoff_next(&b, now), 500 * KP_NS_PER_MS);
	kp_backoff_works(&b, now);
	assert_int_equal(kp_backoff_next(&b, now + 499 * KP_NS_PER_MS),
	    KP_NS_PER_S);
	kp_backoff_works(&b, now);
	assert_int_equal(kp_backoff_next(&b, now + KP_NS_PER_S),
	    500 * KP_NS_PER_MS);
}

#define SECRET_GROUP 64242	/* in no database */

/* What is said of the file of a secret with this mode; NULL: nothing, it is private. */
static const char *
said_of(const char *path, mode_t mode, gid_t gid)
{
	static char why[512];
	const char *reason;
	struct stat st;
	FILE *f;
	bool private;

	assert_int_equal(chown(path, (uid_t)-1, gid), 0);
	assert_int_equal(chmod(path, mode), 0);
	f = kp_secret_open(path, &st, &reason);
	assert_non_null(f);
	private = kp_secret_is_private(f, &st, path, "cookie file",
	    "-cookie-file", why, sizeof(why));
	fclose(f);
	return private ? NULL : why;
}

static void
make_secret(char dir[32], char path[64])
{
	FILE *f;

	strcpy(dir, "/tmp/test_base.XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, 64, "%s/COOKIE", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	unsetenv("CREDENTIALS_DIRECTORY");
}

TEST(secret_says_who_reads_it)
{
	char dir[32], path[64], text[256];

	make_secret(dir, path);
	assert_null(said_of(path, 0600, getegid()));
	assert_null(said_of(path, 0400, getegid()));
	snprintf(text, sizeof(text), "cookie file '%s' can be read by everybody "
	    "(chmod 600 it, or copy it with install -m 600 and name the copy "
	    "with -cookie-file)", path);
	assert_string_equal(said_of(path, 0644, getegid()), text);
	assert_has(said_of(path, 0660, getegid()), "its group, which");
	unlink(path);
	rmdir(dir);
}

/* Only what lies in the directory itself, and only the group may read it. */
TEST(secret_knows_credentials)
{
	char dir[32], path[64], other[128];

	if (geteuid() != 0)
		skip();
	make_secret(dir, path);
	assert_has(said_of(path, 0440, SECRET_GROUP), "this process does not belong");
	assert_has(said_of(path, 0440, SECRET_GROUP),
	    "set CREDENTIALS_DIRECTORY to its directory");
	setenv("CREDENTIALS_DIRECTORY", dir, 1);
	assert_null(said_of(path, 0440, SECRET_GROUP));
	assert_non_null(said_of(path, 0444, SECRET_GROUP));
	snprintf(other, sizeof(other), "%s/..%s/COOKIE", dir, dir + 4);
	assert_non_null(said_of(other, 0440, SECRET_GROUP));
	setenv("CREDENTIALS_DIRECTORY", "", 1);
	assert_non_null(said_of(path, 0440, SECRET_GROUP));
	unsetenv("CREDENTIALS_DIRECTORY");
	unlink(path);
	rmdir(dir);
}

/*
 * The files of a secret in a pod with an fsGroup are root:GROUP 0440, whatever the mode
 * in its manifest says, and nobody can change them.  They were refused.
 */
TEST(secret_of_a_pod)
{
	static const gid_t groups[] = { SECRET_GROUP };
	char dir[32], path[64];
	struct group *shadow = getgrnam("shadow");
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	make_secret(dir, path);
	chmod(dir, 0755);
	assert_int_equal(chown(path, 0, SECRET_GROUP), 0);
	assert_int_equal(chmod(path, 0440), 0);
	pid = fork();
	if (pid == 0) {
		const char *reason;
		char why[512];
		struct stat st;
		FILE *f;

		if (setgroups(1, groups) != 0 || setgid(65534) != 0 ||
		    setuid(65534) != 0)
			_exit(2);
		f = kp_secret_open(path, &st, &reason);
		_exit(f == NULL ? 3 : !kp_secret_is_private(f, &st, path, "c",
		    "-c", why, sizeof(why)));
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* Not in a group, even if root can read everything. */
	if (shadow != NULL)
		assert_non_null(said_of(path, 0440, shadow->gr_gid));
	/* Owned by somebody else, whose file it is. */
	assert_int_equal(chown(path, 65534, getegid()), 0);
	assert_has(said_of(path, 0440, getegid()), "who owns it");
	unlink(path);
	rmdir(dir);
}

TESTS(NULL, NULL)
