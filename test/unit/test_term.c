/* test_term.c - the bounded term reader: values, bounds and hostile input. */
#include <float.h>

#include "cases.h"
#include "kprofd/etf.h"
#include "kprofd/term.h"
#include "corpus.h"

#define BYTES(...) \
	(const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

static struct kp_term
raw(const uint8_t *p, size_t n)
{
	struct kp_term r;

	kp_term_begin_raw(&r, p, n);
	return r;
}

static enum kp_err
skip_err(const uint8_t *p, size_t n)
{
	struct kp_term r = raw(p, n);

	kp_term_skip(&r);
	return r.err;
}

static void
assert_int(const uint8_t *p, size_t n, int64_t want)
{
	struct kp_term r = raw(p, n);

	assert_true(kp_term_int(&r) == want);
	assert_int_equal(kp_term_finish(&r), KP_OK);
}

TEST(ints)
{
	struct kp_term r;

	assert_int(BYTES(97, 255), 255);
	assert_int(BYTES(98, 255, 255, 255, 255), -1);
	assert_int(BYTES(98, 128, 0, 0, 0), INT32_MIN);
	assert_int(BYTES(110, 0, 1), 0);
	assert_int(BYTES(110, 5, 0, 0, 0, 0, 0, 1), INT64_C(1) << 32);
	assert_int(BYTES(110, 8, 1, 0, 0, 0, 0, 0, 0, 0, 128), INT64_MIN);
	assert_int(BYTES(110, 8, 0, 255, 255, 255, 255, 255, 255, 255, 127),
	    INT64_MAX);
	assert_int(BYTES(111, 0, 0, 0, 2, 1, 1, 1), -257);

	r = raw(BYTES(110, 8, 0, 0, 0, 0, 0, 0, 0, 0, 128));
	assert_true(kp_term_int(&r) == 0);
	assert_int_equal(r.err, KP_EFORMAT);
	r = raw(BYTES(110, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
	assert_int_equal(kp_term_peek(&r), KP_TERM_INT);
	kp_term_int(&r);
	assert_int_equal(r.err, KP_EFORMAT);
	r = raw(BYTES(110, 9, 0, 0, 0));
	kp_term_int(&r);
	assert_int_equal(r.err, KP_ESHORT);
}

TEST(atoms)
{
	struct kp_term r;

	r = raw(BYTES(104, 4, 119, 2, 'o', 'k', 118, 0, 2, 'o', 'k', 115, 2,
	    'o', 'k', 100, 0, 2, 'o', 'k'));
	kp_term_tuple_n(&r, 4);
	for (int i = 0; i < 4; i++)
		assert_true(kp_span_is(kp_term_atom(&r), "ok"));
	assert_int_equal(kp_term_finish(&r), KP_OK);
	r = raw(BYTES(119, 3, 'o', 'k'));
	assert_true(kp_span_is(kp_term_atom(&r), ""));
	assert_int_equal(r.err, KP_ESHORT);
}

/* Calls after an error do nothing and keep the first one. */
TEST(first_error_sticks)
{
	struct kp_term r = raw(BYTES(97, 1, 97, 2));

	kp_term_atom(&r);
	assert_int_equal(r.err, KP_EFORMAT);
	assert_int_equal(kp_term_peek(&r), KP_TERM_NONE);
	assert_true(kp_term_int(&r) == 0);
	assert_int_equal(kp_term_tuple(&r), 0);
	assert_int_equal(kp_term_pid(&r).id, 0);
	assert_int_equal(kp_term_raw(&r).n, 0);
	assert_int_equal(kp_term_binary(&r).n, 0);
	assert_int_equal(kp_term_finish(&r), KP_EFORMAT);
}

TEST(version_and_rest)
{
	struct kp_term r;

	kp_term_begin(&r, "\x83\x6a", 2);
	kp_term_nil(&r);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	kp_term_begin(&r, "\x83\x6a\x6a", 3);
	kp_term_nil(&r);
	assert_int_equal(kp_term_finish(&r), KP_EFORMAT);
	kp_term_begin(&r, "\x82\x6a", 2);
	assert_int_equal(r.err, KP_EFORMAT);
	kp_term_begin(&r, "", 0);
	assert_int_equal(r.err, KP_ESHORT);
	kp_term_begin(&r, NULL, 0);
	assert_int_equal(r.err, KP_ESHORT);
}

TEST(pids)
{
	struct kp_term r;
	struct kp_pid pid;

	r = raw(BYTES(88, 119, 3, 'a', '@', 'b', 0, 0, 1, 2, 0, 0, 0, 3, 1, 2, 3,
	    4));
	pid = kp_term_pid(&r);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	assert_true(kp_span_is(pid.node, "a@b"));
	assert_fields(pid, IS(id, 258) IS(serial, 3) IS(creation, 0x01020304));

	r = raw(BYTES(103, 100, 0, 3, 'a', '@', 'b', 0, 0, 1, 2, 0, 0, 0, 3, 7));
	pid = kp_term_pid(&r);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	assert_int_equal(pid.creation, 7);

	/* the node must be an atom, and all of it be there */
	assert_int_equal(skip_err(BYTES(88, 97, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	    0, 0, 0)), KP_EFORMAT);
	assert_int_equal(skip_err(BYTES(88, 119, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 0,
	    0, 0, 0)), KP_ESHORT);
}

TEST(lists_and_strings)
{
	struct kp_term r;
	char buf[4];

	r = raw(BYTES(106));
	assert_int_equal(kp_term_list(&r), 0);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	r = raw(BYTES(108, 0, 0, 0, 1, 97, 5, 106));
	assert_int_equal(kp_term_list(&r), 1);
	assert_true(kp_term_int(&r) == 5);
	kp_term_nil(&r);
	assert_int_equal(kp_term_finish(&r), KP_OK);

	r = raw(BYTES(107, 0, 2, 'a', 'b'));
	assert_int_equal(kp_term_string(&r, buf, sizeof(buf)), 2);
	assert_memory_equal(buf, "ab", 2);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	r = raw(BYTES(108, 0, 0, 0, 2, 97, 'c', 97, 'd', 106));
	assert_int_equal(kp_term_string(&r, buf, sizeof(buf)), 2);
	assert_memory_equal(buf, "cd", 2);
	r = raw(BYTES(106));
	assert_int_equal(kp_term_string(&r, buf, sizeof(buf)), 0);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	r = raw(BYTES(107, 0, 2, 'a', 'b'));
	assert_int_equal(kp_term_string(&r, buf, 1), 0);
	assert_int_equal(r.err, KP_ELIMIT);
	r = raw(BYTES(108, 0, 0, 0, 1, 98, 0, 0, 1, 0, 106));
	kp_term_string(&r, buf, sizeof(buf));
	assert_int_equal(r.err, KP_EFORMAT);
	r = raw(BYTES(107, 0, 1, 'a'));
	kp_term_list(&r);
	assert_int_equal(r.err, KP_EFORMAT);
}

TEST(binaries)
{
	struct kp_term r = raw(BYTES(109, 0, 0, 0, 2, 'h', 'i'));

	assert_true(kp_span_is(kp_term_binary(&r), "hi"));
	assert_int_equal(kp_term_finish(&r), KP_OK);
	r = raw(BYTES(77, 0, 0, 0, 1, 3, 0xa0));
	assert_int_equal(kp_term_peek(&r), KP_TERM_BINARY);
	assert_int_equal(kp_term_binary(&r).n, 0);
	assert_int_equal(r.err, KP_EFORMAT);
	assert_int_equal(skip_err(BYTES(77, 0, 0, 0, 1, 3, 0xa0)), KP_OK);
}

/* A length is believed only as far as there are bytes for it. */
TEST(lying_lengths)
{
	assert_int_equal(skip_err(BYTES(108, 255, 255, 255, 255)), KP_ESHORT);
	assert_int_equal(skip_err(BYTES(105, 255, 255, 255, 255, 106)),
	    KP_ESHORT);
	assert_int_equal(skip_err(BYTES(116, 255, 255, 255, 255, 106)),
	    KP_ESHORT);
	assert_int_equal(skip_err(BYTES(109, 255, 255, 255, 255, 0)), KP_ESHORT);
	assert_int_equal(skip_err(BYTES(114, 255, 255, 119, 0, 0)), KP_ESHORT);
	assert_int_equal(skip_err(BYTES(112, 0, 0, 0, 0)), KP_EFORMAT);
	assert_int_equal(skip_err(BYTES(112, 255, 255, 255, 255)), KP_ESHORT);
	assert_int_equal(skip_err(BYTES(108, 0, 0, 0, 0, 106)), KP_EFORMAT);
	assert_int_equal(skip_err(BYTES(121, 1, 2, 3)), KP_EFORMAT);
	assert_int_equal(skip_err(BYTES(80, 0, 0, 0, 1, 0)), KP_EFORMAT);
	assert_int_equal(skip_err(BYTES(0)), KP_EFORMAT);
}

TEST(depth)
{
	uint8_t deep[2 * (KP_TERM_DEPTH_MAX + 1) + 1];
	size_t at_limit = sizeof(deep) - 2;

	for (size_t i = 0; i + 1 < sizeof(deep); i += 2) {
		deep[i] = 104;
		deep[i + 1] = 1;
	}
	deep[sizeof(deep) - 1] = 106;
	assert_int_equal(skip_err(deep, sizeof(deep)), KP_ELIMIT);
	deep[at_limit - 1] = 106;
	assert_int_equal(skip_err(deep, at_limit), KP_OK);
}

/* Every beginning of a good term ends early; none reads past its end. */
static void
assert_prefixes(const uint8_t *p, size_t n)
{
	struct kp_term r;
	uint8_t *copy;

	for (size_t len = 0; len < n; len++) {
		/* of its own size, so that a sanitizer sees each step beyond */
		copy = malloc(len + 1);
		memcpy(copy + 1, p, len);
		kp_term_begin(&r, copy + 1, len);
		kp_term_skip(&r);
		assert_int_equal(r.err, KP_ESHORT);
		free(copy);
	}
}

static void
assert_prints(const uint8_t *p, size_t n, const char *want)
{
	struct kp_buf b;
	struct kp_term r = raw(p, n);

	kp_buf_init(&b, 4096);
	kp_term_print(&r, &b, 4000);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	assert_string_equal(kp_buf_cstr(&b), want);
	kp_buf_free(&b);
}

TEST(printing)
{
	assert_prints(BYTES(119, 2, 'o', 'k'), "ok");
	assert_prints(BYTES(119, 3, 'e', 'n', 'd'), "'end'");
	assert_prints(BYTES(119, 2, 'o', 0), "'o\\x{0}'");
	assert_prints(BYTES(119, 0), "''");
	assert_prints(BYTES(119, 3, 'I', '\'', '\\'), "'I\\'\\\\'");
	assert_prints(BYTES(119, 2, 0xc3, 0xa9), "'\xc3\xa9'");
	assert_prints(BYTES(115, 1, 0xe9), "'\xc3\xa9'");
	assert_prints(BYTES(119, 1, 0x9b), "'\\x{9b}'");
	assert_prints(BYTES(98, 255, 255, 255, 254), "-2");
	assert_prints(BYTES(110, 9, 1, 0xff, 0, 0, 0, 0, 0, 0, 0, 1),
	    "-16#100000000000000FF");
	assert_prints(BYTES(70, 0x3f, 0xb9, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9a),
	    "0.1");
	assert_prints(BYTES(70, 0x44, 0x15, 0xaf, 0x1d, 0x78, 0xb5, 0x8c, 0x40),
	    "1.0e+20");
	assert_prints(BYTES(70, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0), "#Float<>");
	assert_prints(BYTES(107, 0, 3, 'a', '"', 10), "\"a\\\"\\n\"");
	assert_prints(BYTES(107, 0, 2, 1, 2), "[1,2]");
	assert_prints(BYTES(109, 0, 0, 0, 2, 'h', 'i'), "<<\"hi\">>");
	assert_prints(BYTES(109, 0, 0, 0, 2, 0xc3, 0xa9),
	    "<<\"\xc3\xa9\"/utf8>>");
	assert_prints(BYTES(109, 0, 0, 0, 2, 0xc0, 0x80), "<<192,128>>");
	assert_prints(BYTES(109, 0, 0, 0, 0), "<<>>");
	assert_prints(BYTES(77, 0, 0, 0, 2, 3, 9, 0xa0), "<<9,5:3>>");
	assert_prints(BYTES(104, 2, 106, 104, 0), "{[],{}}");
	assert_prints(BYTES(108, 0, 0, 0, 2, 97, 1, 97, 2, 106), "[1,2]");
	assert_prints(BYTES(108, 0, 0, 0, 1, 97, 1, 97, 2), "[1|2]");
	assert_prints(BYTES(116, 0, 0, 0, 2, 97, 1, 97, 2, 97, 3, 106),
	    "#{1 => 2,3 => []}");
	assert_prints(BYTES(113, 119, 1, 'm', 119, 1, 'f', 97, 2), "fun m:f/2");
	assert_prints(BYTES(88, 119, 3, 'a', '@', 'b', 0, 0, 0, 9, 0, 0, 0, 1,
	    0, 0, 0, 1), "<a@b.9.1>");
}

static void
print_cut(const uint8_t *p, size_t n, size_t max, const char *want)
{
	struct kp_buf b;
	struct kp_term r = raw(p, n);

	kp_buf_init(&b, 4096);
	kp_buf_str(&b, "x=");
	kp_term_print(&r, &b, max);
	assert_int_equal(kp_term_finish(&r), KP_OK);
	assert_string_equal(kp_buf_cstr(&b), want);
	kp_buf_free(&b);
}

TEST(printing_is_bounded)
{
	print_cut(BYTES(119, 6, 'a', 'b', 'c', 'd', 'e', 'f'), 6, "x=abcdef");
	print_cut(BYTES(119, 6, 'a', 'b', 'c', 'd', 'e', 'f'), 5, "x=...");
	print_cut(BYTES(107, 0, 6, 'a', 'b', 'c', 'd', 'e', 'f'), 7,
	    "x=\"abc...");
	print_cut(BYTES(119, 6, 'a', 'b', 'c', 'd', 'e', 'f'), 2, "x=..");
	print_cut(BYTES(119, 6, 'a', 'b', 'c', 'd', 'e', 'f'), 0, "x=");
	/* never in the middle of a character */
	print_cut(BYTES(119, 6, 0xc3, 0xa9, 0xc3, 0xa9, 0xc3, 0xa9), 7,
	    "x='\xc3\xa9...");
}

/* Terms from a real VM: test/fuzz/corpus/term, made by make_corpus.escript */
TEST(real_terms)
{
	static const struct {
		const char *file, *want;
	} terms[] = {
		{ "atoms", "[ok,'hello world','\xc3\xa9t\xc3\xa9',"
			   "'\xe6\x97\xa5\xe6\x9c\xac','end','']" },
		{ "ints", "[0,255,256,-1,2147483647,-2147483648,2147483648,"
			  "9223372036854775807,-9223372036854775808,"
			  "16#8000000000000000]" },
		{ "hugeint", "16#100000000000000000..." },
		{ "floats", "[0.0,1.5,-1.0e-07,0.1]" },
		{ "binaries", "[<<>>,<<\"text\">>,<<1,2,3>>,<<5:3>>,<<255,1:1>>]" },
		{ "strings", "[\"abc\",[1,2,3],[1000],[1,2|3]]" },
		{ "map", "#{a => 1,<<\"k\">> => #{}}" },
		{ "bigtuple", "{1,2,3,4,5,6,7,8,9,10,..." },
		{ "idents", "[<nonode@nohost.0.0>,#Port<>,#Ref<>,"
			    "fun erlang:self/0,#Fun<>]" },
	};
	struct kp_buf b;
	struct kp_term r;
	uint8_t *p;
	size_t n;

	kp_buf_init(&b, 4096);
	for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
		p = corpus_read("term", terms[i].file, &n);
		kp_term_begin(&r, p, n);
		kp_buf_reset(&b);
		kp_term_print(&r, &b, strlen(terms[i].want));
		assert_int_equal(kp_term_finish(&r), KP_OK);
		assert_string_equal(kp_buf_cstr(&b), terms[i].want);
		assert_prefixes(p, n < 1000 ? n : 1000);
		test_free(p);
	}
	kp_buf_free(&b);
}

TESTS(NULL, NULL)
