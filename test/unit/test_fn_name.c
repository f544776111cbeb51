/*
 * Names of functions: what is printed is read back as the same function, and is
 * what Erlang and Elixir write.
 */
#include "cases.h"
#include "kprofd/config.h"
#include "kprofd/term.h"
#include "kprofd/fn_name.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const awkward[] = { "seq", "MY-mod", "weird fun", "a.b",
	"+", "/", "=:=", "-map/2-fun-0-", "if", "maybe", "_x", "X", "1a", "a@b",
	"it's", "back\\slash", "say \"so\"", "a:b", "a;b", "a,b", "{x", "x}",
	"new\nline", "tab\tand\rreturn", "\x1b[31m", "\x7f", "one!", "ok?",
	"?", "a?b", "f#{1}", "\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82",
	"caf\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", "\xe2\x80\xae" "abc",
	"\xf0\x9f\x90\x99", "Elixir", "Elixir.", "Elixir.Repo",
	"Elixir.MyApp.Repo", "Elixir.Elixir.Repo", "Elixir.repo", "Elixir.A..B",
	"Elixir.A.b.C", "Elixir.My-App", "MACRO-foo", "a b c", " lead", "trail ",
	"'", "\"", "\\", "%", "$a",
	"-all/2-fun-0-", "-all/2-fun-7-", "-one!/1-fun-12-", "-a b/1-fun-0-",
	"-//2-fun-0-", "-/2-fun-0-", "-a/300-fun-0-", "-a/01-fun-0-",
	"-a/1-fun-00-", "-a/1-fun-10000-", "-a/1-fun-x-", "-a/1-fun-1",
	"-_/1-fun-0-", "-a/1-fun-0-/1-fun-1-", "-all/2-lc$^0/1-0-", "//", "---",
	"anonymous fn/1 in A.b/2", "anonymous fn/", "<<<", "|>", "..", "::" };

static void
assert_back(const char *mod, const char *fun, uint32_t arity)
{
	struct kp_mfa_pat p;
	struct kp_buf b;

	kp_buf_init(&b, 1 << 16);
	fn_name_put(&b, mod, fun, arity);
	if (kp_mfa_pat_parse(&p, kp_buf_cstr(&b), b.len) != KP_OK)
		fail_msg("%s is not read back", kp_buf_cstr(&b));
	if (strcmp(p.mod, mod) != 0 || p.fun == NULL ||
	    strcmp(p.fun, fun) != 0 || p.arity != (int)arity)
		fail_msg("%s is read back as '%s' '%s' %d", kp_buf_cstr(&b),
		    p.mod, p.fun != NULL ? p.fun : "(none)", p.arity);
	kp_mfa_pat_free(&p);
	kp_buf_free(&b);
}

TEST(test_back)
{
	for (size_t i = 0; i < LEN(awkward); i++)
		for (size_t j = 0; j < LEN(awkward); j++)
			assert_back(awkward[i], awkward[j],
			    (uint32_t)(i * j % 256));
}

/* Of signs that mean something, and a few that do not. */
static void
random_name(char *s, unsigned *seed)
{
	static const char *const signs[] = { "a", "Z", "9", "_", "@", ".", ":",
		"/", "'", "\"", "\\", "{", "}", ",", " ", "\n", "\x1b", "!",
		"?", "-", "\xc3\xa9", "\xe2\x80\xae", "Elixir.", "x41" };
	int n = 1 + rand_r(seed) % 8;

	for (*s = '\0'; n > 0; n--)
		strcat(s, signs[(size_t)rand_r(seed) % LEN(signs)]);
}

TEST(test_random)
{
	char mod[256], fun[256];
	unsigned seed = 7;

	for (int i = 0; i < 200000; i++) {
		random_name(mod, &seed);
		random_name(fun, &seed);
		/* Neither is a name: they mean any. */
		if (strcmp(mod, "_") != 0 && strcmp(fun, "_") != 0)
			assert_back(mod, fun, 3);
	}
}

TEST(test_printed)
{
	static const struct {
		const char *mod, *fun, *text;
	} v[] = { { "lists", "seq", "lists:seq/2" },
		{ "MY-mod", "weird fun", "'MY-mod':'weird fun'/2" },
		{ "erlang", "+", "erlang:'+'/2" },
		{ "lists", "-map/2-fun-0-", "lists:'-map/2-fun-0-'/2" },
		{ "m", "if", "m:'if'/2" }, { "m", "a\nb", "m:'a\\nb'/2" },
		{ "m", "\x1b[1m", "m:'\\x{1b}[1m'/2" },
		{ "m", "\xd0\xbf", "m:'\xd0\xbf'/2" },
		{ "Elixir.MyApp.Repo", "one", "MyApp.Repo.one/2" },
		{ "Elixir.MyApp.Repo", "one!", "MyApp.Repo.one!/2" },
		/* as Exception.format_mfa/3 of Elixir 1.14 has them */
		{ "Elixir.Kernel", "+", "Kernel.+/2" },
		{ "Elixir.Kernel", "/", "Kernel.//2" },
		{ "Elixir.Bitwise", "<<<", "Bitwise.<<</2" },
		{ "Elixir.Kernel", "..", "Kernel.\"..\"/2" },
		{ "Elixir.A", "odd name", "A.\"odd name\"/2" },
		{ "Elixir.A", "MACRO-m", "A.\"MACRO-m\"/2" },
		{ "Elixir.String.Chars.A.B", "to_string",
		    "String.Chars.A.B.to_string/2" },
		{ "Elixir.A.B", "-b/1-fun-0-", "anonymous fn/2 in A.B.b/1" },
		{ "Elixir.A", "-b?/1-fun-0-", "anonymous fn/2 in A.b?/1" },
		{ "Elixir.A", "-+/1-fun-0-", "anonymous fn/2 in A.+/1" },
		{ "Elixir.A", "-odd name/1-fun-0-",
		    "anonymous fn/2 in A.\"odd name\"/1" },
		{ "Elixir.A", "-b/1-lc$^0/1-0-", "A.\"-b/1-lc$^0/1-0-\"/2" },
		/* not the same function as the one above */
		{ "Elixir.A", "-b/1-fun-3-", "anonymous fn/2 (fun-3) in A.b/1" },
		{ "Elixir.my-app", "f", "'Elixir.my-app':f/2" } };
	struct kp_buf b;

	for (size_t i = 0; i < LEN(v); i++) {
		kp_buf_init(&b, 4096);
		fn_name_put(&b, v[i].mod, v[i].fun, 2);
		assert_string_equal(kp_buf_cstr(&b), v[i].text);
		kp_buf_free(&b);
	}
}

/*
 * Functions that the compiler makes: OTP 25 named those of the first rows, which hold
 * what the second says.  Nobody names the others so.
 */
TEST(test_read)
{
	static const struct {
		const char *mod, *fun, *text;
	} v[] = { { "t", "-lc/1-lc$^0/1-0-", "t:lc/1 (list comprehension)" },
		{ "t", "-nested/1-lc$^1/1-1-",
		    "t:nested/1 (list comprehension 2)" },
		{ "t", "-bc/1-lbc$^0/2-0-", "t:bc/1 (binary comprehension)" },
		{ "t", "-mc/1-mc$^0/1-0-", "t:mc/1 (map comprehension)" },
		{ "t", "-f/1-fun-0-", "t:f/1 (fun)" },
		{ "t", "-ff/1-fun-11-", "t:ff/1 (fun 12)" },
		{ "t", "-named/1-G/1-0-", "t:named/1 (fun G)" },
		{ "t", "-f/1-lists^map/1-0-", "t:f/1 (lists:map)" },
		{ "t", "-af/1-after$^0/0-0-", "t:af/1 (after)" },
		{ "t", "-odd name/1/1-lc$^0/1-0-",
		    "t:'odd name/1'/1 (list comprehension)" },
		{ "my-mod", "-a-b/2-fun-0-", "'my-mod':'a-b'/2 (fun)" },
		{ "Elixir.A", "-b/1-lc$^0/1-0-", "A.b/1 (list comprehension)" },
		{ "Elixir.A", "-b/1-lists^foldl/2-0-", "A.b/1 (lists:foldl)" },
		/* as Elixir's stack traces have it */
		{ "Elixir.A", "-b/1-fun-0-", "anonymous fn/7 in A.b/1" },
		{ "t", "-f/1-fun-0", "t:'-f/1-fun-0'/7" },
		{ "t", "-f/1-inner-0-", "t:'-f/1-inner-0-'/7" },
		{ "t", "-f-fun-0-", "t:'-f-fun-0-'/7" },
		{ "t", "-/1-fun-0-", "t:'-/1-fun-0-'/7" },
		{ "t", "--fun-0-", "t:'--fun-0-'/7" },
		{ "t", "--0-", "t:'--0-'/7" },
		{ "t", "f", "t:f/7" } };
	char name[FN_NAME_MAX], text[FN_NAME_MAX];
	struct kp_buf b;

	for (size_t i = 0; i < LEN(v); i++) {
		fn_name(name, sizeof(name), v[i].mod, v[i].fun, 7);
		assert_string_equal(fn_read(text, sizeof(text), name),
		    v[i].text);
		kp_buf_init(&b, 4096);
		fn_read_put(&b, v[i].mod, v[i].fun, 7);
		assert_string_equal(kp_buf_cstr(&b), v[i].text);
		kp_buf_free(&b);
	}
	assert_string_equal(fn_read(text, sizeof(text), "t:'-f/1-fun-0-'"),
	    "t:'-f/1-fun-0-'");
	assert_string_equal(fn_read(text, sizeof(text), "(not seen)"),
	    "(not seen)");
}

/* The longest that there can be, all of it escaped, is whole. */
TEST(test_long)
{
	struct kp_buf b;
	char name[256];

	memset(name, '\x1b', 255);
	name[255] = '\0';
	kp_buf_init(&b, 3 * KP_ATOM_TEXT_MAX);
	fn_name_put(&b, name, name, 255);
	assert_fields(b, IS(err, KP_OK) IS(len, 2 * (255 * 6 + 2) + 5));
	kp_buf_free(&b);
}

TEST(test_terms)
{
	static const struct {
		const char *text, *mod, *fun;
		int arity;
	} v[] = { { "{lists,seq,2}", "lists", "seq", 2 },
		{ "{ lists , seq , 2 }", "lists", "seq", 2 },
		{ "{lists,seq,'_'}", "lists", "seq", -1 },
		{ "{lists,'_',_}", "lists", NULL, -1 },
		{ "{'MY-mod','weird fun',0}", "MY-mod", "weird fun", 0 },
		{ "{'Elixir.MyApp','a,b',1}", "Elixir.MyApp", "a,b", 1 },
		{ "anonymous fn/_ in A.b/2", "Elixir.A", "-b/2-fun-0-", -1 },
		{ "anonymous fn/2 in :lists.map/2", "lists", "-map/2-fun-0-", 2 } };
	static const char *const bad[] = { "anonymous fn/", "anonymous fn/1",
		"anonymous fn/1 in ", "anonymous fn/1 in A", "anonymous fn/1 in A.b",
		"anonymous fn/x in A.b/1", "anonymous fn/1 (fun-) in A.b/1",
		"anonymous fn/1 (fun-1 in A.b/1", "anonymous fn/1in A.b/1",
		"Kernel./2", "Kernel.//x",
 "{", "{lists}", "{lists,seq}",
		"{lists,seq,2", "{lists,seq,256}", "{lists,seq,x}", "{,seq,2}",
		"{lists,seq,2}x", "{lists,seq,}", "{_,seq,2}", "'\\x{0}':f/1",
		"'\\x{110000}':f/1", "'a\\", "'\\x{1'" };
	struct kp_mfa_pat p;

	for (size_t i = 0; i < LEN(v); i++) {
		assert_int_equal(kp_mfa_pat_parse(&p, v[i].text,
		    strlen(v[i].text)), KP_OK);
		assert_string_equal(p.mod, v[i].mod);
		if (v[i].fun != NULL)
			assert_string_equal(p.fun, v[i].fun);
		else
			assert_null(p.fun);
		assert_int_equal(p.arity, v[i].arity);
		kp_mfa_pat_free(&p);
	}
	for (size_t i = 0; i < LEN(bad); i++)
		if (kp_mfa_pat_parse(&p, bad[i], strlen(bad[i])) != KP_EFORMAT)
			fail_msg("%s", bad[i]);
}

/* What the database and JSON have: Elixir's names only are written anew. */
TEST(test_shown)
{
	static const struct {
		const char *kept, *shown;
	} t[] = {
		{ "lists:seq/2", "lists:seq/2" }, { "", "" },
		{ "Elixir.MyApp.Repo:all/2", "MyApp.Repo.all/2" },
		{ "Elixir.A:-all/2-fun-0-/1", "anonymous fn/1 in A.all/2" },
		{ "Elixir.MyApp.Repo", "MyApp.Repo" },
		{ "Elixir.MyApp.Repo:all/2 [a/1 b]", "MyApp.Repo.all/2 [a/1 b]" },
		{ "Elixir.A:-all/2-fun-0-/1 [x]", "anonymous fn/1 in A.all/2 [x]" },
		{ "db:all/2 [x]", "db:all/2 [x]" }, { "Elixir.A:b/2 [x", "Elixir.A:b/2 [x" },
		{ "Elixir.A:b", "Elixir.A:b" }, { "Elixir.A:b/2x", "Elixir.A:b/2x" }, { "Elixirs:f/0", "Elixirs:f/0" },
	};
	char text[FN_NAME_MAX];

	for (size_t i = 0; i < LEN(t); i++)
		assert_string_equal(fn_shown(text, sizeof(text), t[i].kept),
		    t[i].shown);
	assert_string_equal(fn_name(text, sizeof(text), "Elixir.MyApp.Repo",
	    "one", 2), "MyApp.Repo.one/2");
	assert_string_equal(fn_name(text, 6, "Elixir.MyApp", "f", 1), "MyApp");
}

TESTS(NULL, NULL)
