/*
 * test_shape.c - shapes of calls: what is asked of a target, and what is made of
 * its answers.  That real nodes answer so is tested by
 * test/integration/check_tests.erl.
 */
#include "cases.h"
#include "config/spec.h"

#define FILE_KEYS "{tiers, [{t, {m, f, 2}}]}.\n" \
	"{identity, fun({m, f, [#{verb := V, <<\"k\">> := #{7 := _}}, _]}) -> V; " \
	"(_) -> undefined end}."

static struct kp_conf *conf;
static struct kp_buf term;

FIXTURE(begin)
{
	struct kp_diags d;

	assert_int_equal(kp_conf_parse(&conf, FILE_KEYS, strlen(FILE_KEYS), &d),
	    KP_OK);
	kp_diags_free(&d);
	kp_buf_init(&term, 1 << 20);
	return 0;
}

FIXTURE(end)
{
	kp_buf_free(&term);
	kp_conf_free(conf);
	return 0;
}

/* ---- the keys ---- */

TEST(keys)
{
	struct shape_keys k;

	shape_keys(&k, conf);
	assert_string_equal(k.v[0]->text, "verb");
	assert_int_equal(k.v[1]->kind, N_BIN);
	assert_int_equal(k.v[2]->num, 7);	/* of a map in a map */
	assert_string_equal(k.v[3]->text, "method");
	assert_true(k.n > 10 && k.n <= SHAPE_KEYS_MAX);
}

/* ---- the expression ---- */

static size_t
spec(enum kp_shape shape)
{
	struct kp_spec_params p = { .one_in = 1, .clauses = true,
		.label_const = UINT64_C(1) << 42, .shape = shape };
	struct kp_mfa f = { "m", "f", 2 };

	kp_buf_reset(&term);
	assert_int_equal(kp_spec_entry(conf, &f, &p, &term), KP_OK);
	return term.len;
}

/* Is there {{X}}, a value by itself?  The message's other tuples are larger. */
static bool
has_values(void)
{
	static const uint8_t alone[] = { 104, 1, 104, 1 };

	return memmem(term.p, term.len, alone, sizeof(alone)) != NULL;
}

TEST(expression)
{
	size_t none, types;

	none = spec(KP_SHAPE_NONE);
	types = spec(KP_SHAPE_TYPES);
	assert_true(types > none);
	assert_false(has_values());
	/* {Type, Size, Keys, Value} and {Leaf, Tag, ...}: these copy as well */
	assert_true(spec(KP_SHAPE_VALUES) > types);
	assert_true(has_values());
	/* all functions of a plan have to fit into one message of 8 MiB */
	assert_true(term.len < 256 << 10);
}

/* ---- the answer ---- */

static void
leaf(int type, int elements, int keys_of)
{
	kp_etf_tuple(&term, 4);
	kp_etf_int(&term, type);
	if (elements >= 0)
		kp_etf_int(&term, elements);
	else
		kp_etf_bool(&term, false);
	if (keys_of >= 0)
		kp_etf_int(&term, keys_of);
	else
		kp_etf_bool(&term, false);
	kp_etf_bool(&term, false);
}

static void
value(int type, const char *text)
{
	kp_etf_tuple(&term, 4);
	kp_etf_int(&term, type);
	kp_etf_bool(&term, false);
	kp_etf_bool(&term, false);
	kp_etf_tuple(&term, 1);
	kp_etf_binary(&term, text, strlen(text));
}

static void
falses(unsigned n)
{
	while (n-- > 0)
		kp_etf_bool(&term, false);
}

static void
args(uint32_t n)
{
	kp_buf_reset(&term);
	kp_etf_tuple(&term, n);
}

static void
plain(int type)
{
	kp_etf_tuple(&term, 6);
	leaf(type, -1, -1);
	falses(5);
}

static void
reads(uint32_t arity, const char *want)
{
	struct kp_mfa f = { "m", "f", arity };
	struct kp_buf out;

	kp_buf_init(&out, 4096);
	assert_int_equal(kp_shape_text(conf, &f, term.p, term.len, &out), KP_OK);
	assert_string_equal(kp_buf_cstr(&out), want);
	kp_buf_free(&out);
	/* cut anywhere, it is an error, and nothing is read past the end */
	for (size_t n = 0; n < term.len; n++) {
		uint8_t *cut = malloc(n + 1);

		memcpy(cut, term.p, n);
		kp_buf_init(&out, 4096);
		assert_int_equal(kp_shape_text(conf, &f, cut, n, &out),
		    KP_EFORMAT);
		kp_buf_free(&out);
		free(cut);
	}
}

TEST(answers)
{
	args(0);
	reads(0, "m:f()");
	args(2);
	plain(SHAPE_NIL);
	plain(SHAPE_ATOM);
	reads(2, "m:f([], atom)");
	reads(3, "m:f([], atom, ...)");
	args(1);
	plain(99);
	reads(1, "m:f(term)");
}

TEST(tuples)
{
	args(1);
	kp_etf_tuple(&term, 6);
	leaf(SHAPE_TUPLE, 7, -1);
	kp_etf_atom(&term, "user");
	kp_etf_tuple(&term, SHAPE_ELEMENTS);
	leaf(SHAPE_ATOM, -1, -1);
	leaf(SHAPE_TUPLE, 2, -1);
	leaf(SHAPE_TUPLE, 9, -1);
	leaf(SHAPE_MAP, -1, 3);
	leaf(SHAPE_LIST, -1, -1);
	falses(3);
	reads(1, "m:f({user, {_, _}, {... 9 elements}, #{... 3 keys}, list, "
	    "... 7 elements})");
	args(1);
	kp_etf_tuple(&term, 6);
	leaf(SHAPE_TUPLE, 0, -1);
	falses(1);
	kp_etf_tuple(&term, SHAPE_ELEMENTS);
	falses(SHAPE_ELEMENTS);
	falses(3);
	reads(1, "m:f({})");
	args(1);
	kp_etf_tuple(&term, 6);
	leaf(SHAPE_LIST, -1, -1);
	falses(3);
	leaf(SHAPE_INTEGER, -1, -1);
	falses(1);
	reads(1, "m:f([integer | _])");
}

TEST(maps)
{
	struct shape_keys k;

	shape_keys(&k, conf);
	args(1);
	kp_etf_tuple(&term, 6);
	leaf(SHAPE_MAP, -1, 5);
	falses(2);
	kp_etf_atom(&term, "Elixir.Plug.Conn");
	falses(1);
	kp_etf_tuple(&term, k.n);
	leaf(SHAPE_ATOM, -1, -1);
	value(SHAPE_BINARY, "x\033[2J");
	falses(k.n - 2);
	reads(1, "m:f(#{'__struct__' := 'Elixir.Plug.Conn', verb := atom, "
	    "<<\"k\">> := <<120,27,91,50,74>>, ... 5 keys})");
	/* all keys are shown */
	args(1);
	kp_etf_tuple(&term, 6);
	leaf(SHAPE_MAP, -1, 1);
	falses(4);
	kp_etf_tuple(&term, k.n);
	leaf(SHAPE_PID, -1, -1);
	falses(k.n - 1);
	reads(1, "m:f(#{verb := pid})");
}

/* More arguments than the function has, or something else. */
TEST(nonsense)
{
	struct kp_mfa f = { "m", "f", 1 };
	struct kp_buf out;

	kp_buf_init(&out, 4096);
	args(2);
	plain(SHAPE_ATOM);
	plain(SHAPE_ATOM);
	assert_int_equal(kp_shape_text(conf, &f, term.p, term.len, &out),
	    KP_EFORMAT);
	kp_buf_reset(&term);
	kp_etf_atom(&term, "EXIT");
	assert_int_equal(kp_shape_text(conf, &f, term.p, term.len, &out),
	    KP_EFORMAT);
	kp_buf_free(&out);
}

TESTS(begin, end)
