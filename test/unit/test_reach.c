/* test_reach.c - options of a connection: values, needs, and passing on. */
#include <unistd.h>

#include "cases.h"
#include "conn/reach.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static struct reach got;
static const struct opt table[] = { REACH_OPTIONS(got) };

/* Parses up to a NULL; what is wrong, or "". */
static const char *
parse(const char *const *args)
{
	static char why[512];
	struct opt_parser p = { .table = table, .n = LEN(table),
		.near = { .edits = 2, .kept = 1 } };
	bool good = true;

	got = (struct reach){ .name = NULL };
	kp_buf_init(&p.why, OPT_WHY_MAX);
	for (int i = 0; good && args[i] != NULL; i++)
		good = opt_take(&p, (char **)(uintptr_t)args, &i);
	snprintf(why, sizeof(why), "%s", kp_buf_cstr(&p.why));
	kp_buf_free(&p.why);
	if (good && !reach_finish(&got, why, sizeof(why)))
		assert_string_not_equal(why, "");
	return why;
}

#define ARGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void
no_environment(void)
{
	unsetenv("ERL_DIST_PORT");
	unsetenv("KPROFD_TLS_OPTFILE");
}

TEST(test_values)
{
	static const char PORT[] = "port from 1 to 65535", FORM[] = "give NODE=ADDR",
	    NUMBER[] = "number from 1 to 65535";
	static const struct {
		const char *option, *value, *wrong;
	} cases[] = {
		{ "-dist-port", "4370", "" }, { "-dist-port", "0", PORT },
		{ "-dist-port", "65536", PORT }, { "-dist-port", "-1", PORT },
		{ "-dist-port", "4370x", PORT }, { "-dist-port", "", PORT },
		{ "-epmd", "4369", "" }, { "-epmd", "db1", "" },
		{ "-epmd", "db1:4369", "" }, { "-epmd", "[::1]:4369", "" },
		{ "-epmd", "::1", "" }, { "-epmd", "0", PORT },
		{ "-epmd", "70000", PORT }, { "-epmd", "db1:", NUMBER },
		{ "-epmd", "db1:x", NUMBER }, { "-epmd", ":4369", "empty" },
		{ "-epmd", "", "empty" }, { "-epmd", "a b", "not a host" },
		{ "-resolve", "app@pod=10.0.0.7:4370", "" },
		{ "-resolve", "app@pod=10.0.0.7", "" },
		{ "-resolve", "pod=[::1]:4370", "" },
		{ "-resolve", "pod=db1", "" }, { "-resolve", "app@::1=db1", "" },
		{ "-resolve", "::1=db1", "" }, { "-resolve", "app@pod", FORM },
		{ "-resolve", "", FORM }, { "-resolve", "=db1", "empty" },
		{ "-resolve", "app@pod=", "empty" },
		{ "-resolve", "app@pod=db1:0", NUMBER },
		{ "-resolve", "app@pod:1=db1", "behind the address" },
		{ "-resolve", "app@[::1]=db1", "without brackets" },
		{ "-resolve", "a b@pod=db1", "not the name of a node" },
		{ "-resolve", "app@pod=a@b", "not a host" },
		{ "-name", "kprofd-1", "" }, { "-name", "k@h", "" },
		{ "-name", "k.p", "not letters" }, { "-name", "k@", "not letters" },
		{ "-name", "", "empty" }, { "-tls-cert", "", "empty" },
		{ "-tls-verify", "yes", "choose one of peer,none" },
	};
	const char *why;

	no_environment();
	for (size_t i = 0; i < LEN(cases); i++) {
		why = parse(ARGS(cases[i].option, cases[i].value));
		if ((cases[i].wrong[0] == '\0') != (why[0] == '\0') ||
		    strstr(why, cases[i].wrong) == NULL)
			fail_msg("%s '%s': %s", cases[i].option,
			    cases[i].value, why);
	}
	assert_string_equal(parse(ARGS("-dist-port=65535")), "");
	assert_int_equal(got.dist_port, 65535);
}

/* The file cert of this test, with or without a key. */
static const char *
cert(char *path, bool key)
{
	FILE *f;
	int fd;

	strcpy(path, "/tmp/test_reach.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	f = fdopen(fd, "w");
	fprintf(f, "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
	if (key)
		fprintf(f, "-----BEGIN EC PRIVATE KEY-----\n");
	fclose(f);
	return path;
}

static void
wrong(const char *const *args, const char *what)
{
	const char *why = parse(args);

	if (why[0] == '\0' || strstr(why, what) == NULL)
		fail_msg("'%s', not '%s'", why, what);
}

TEST(test_needs)
{
	char with[32], without[32];

	no_environment();
	cert(with, true);
	cert(without, false);
	wrong(ARGS("-tls-cert", without, "-tls-ca", "ca"), "-tls-key FILE");
	assert_string_equal(parse(ARGS("-tls-cert", with, "-tls-ca", "ca")), "");
	assert_string_equal(parse(ARGS("-tls-cert", without, "-tls-key", "k",
	    "-tls-ca", "ca")), "");
	/* reported when it is needed: it may be there by then */
	assert_string_equal(parse(ARGS("-tls-cert", "/nowhere/cert", "-tls-ca",
	    "ca")), "");
	assert_string_equal(parse(ARGS("-tls-ca", "ca")), "");
	assert_true(tls_wanted(&got.tls));
	assert_int_equal(got.tls.verify, TLS_VERIFY_UNSET);
	wrong(ARGS("-tls-key", "k", "-tls-ca", "ca"), "-tls-cert FILE");
	wrong(ARGS("-tls-cert", with), "-tls-ca FILE");
	assert_string_equal(parse(ARGS("-tls-cert", with, "-tls-verify",
	    "none")), "");
	wrong(ARGS("-tls-verify", "none"), "nothing is encrypted");
	assert_string_equal(parse(ARGS("-tls-verify", "peer")), "");
	assert_int_equal(got.tls.verify, TLS_VERIFY_PEER);
	/* a node's file may have what is not given beside it, but no other's key */
	assert_string_equal(parse(ARGS("-tls-optfile", "f", "-tls-cert",
	    with)), "");
	assert_string_equal(parse(ARGS("-tls-optfile", "f", "-tls-key", "k")),
	    "");
	wrong(ARGS("-tls-optfile", "f", "-tls-cert", without), "-tls-key FILE");
	wrong(ARGS("-dist-port", "4370", "-epmd", "db1"), "choose one");
	unlink(with);
	unlink(without);
}

TEST(test_environment)
{
	no_environment();
	setenv("ERL_DIST_PORT", "4370", 1);
	setenv("KPROFD_TLS_OPTFILE", "/etc/ssl_dist.conf", 1);
	assert_string_equal(parse(ARGS("-name", "k")), "");
	assert_int_equal(got.dist_port, 4370);
	assert_true(got.port_env);
	assert_string_equal(got.tls.optfile, "/etc/ssl_dist.conf");
	assert_true(got.tls.optfile_env);
	/* what is given goes first */
	assert_string_equal(parse(ARGS("-dist-port", "4371", "-tls-ca", "ca")),
	    "");
	assert_int_equal(got.dist_port, 4371);
	assert_null(got.tls.optfile);
	assert_string_equal(parse(ARGS("-epmd", "4444")), "");
	assert_int_equal(got.dist_port, 0);
	setenv("ERL_DIST_PORT", "none", 1);
	wrong(ARGS("-name", "k"), "$ERL_DIST_PORT 'none': not a port");
	setenv("ERL_DIST_PORT", "", 1);
	setenv("KPROFD_TLS_OPTFILE", "", 1);
	assert_string_equal(parse(ARGS("-name", "k")), "");
	assert_int_equal(got.dist_port, 0);
	assert_false(tls_wanted(&got.tls));
	no_environment();
}

/* What is passed on is understood as it was given. */
TEST(test_passing_on)
{
	static struct reach_args a;
	static const char *args[REACH_ARGS_MAX + 1];
	static struct reach before;
	const char *const all[] = { "-cookie-file", "c", "-name", "k@h",
		"-dist-port", "65535", "-tls-cert", "cert", "-tls-key", "key",
		"-tls-ca", "ca", "-tls-optfile", "f", "-tls-verify", "none",
		"-resolve", "a@h=db1:1", "-resolve", "h=db2", NULL };

	no_environment();
	assert_string_equal(parse(all), "");
	before = got;
	reach_args(&a, &before);
	assert_int_equal(a.n, LEN(all) - 1);
	memcpy(args, a.v, a.n * sizeof(*args));
	args[a.n] = NULL;
	assert_string_equal(parse(args), "");
	for (size_t i = 0; i < a.n; i++)
		assert_string_equal(args[i], all[i]);
	assert_memory_equal(&got.resolve, &before.resolve,
	    sizeof(got.resolve));
	assert_int_equal(got.dist_port, before.dist_port);
	assert_int_equal(got.tls.verify, TLS_VERIFY_NONE);
	/* each of its options is passed, and no more fit in than there is room */
	before.epmd = "db1";
	before.resolve.n = OPT_LIST_MAX;
	reach_args(&a, &before);
	assert_int_equal(a.n, REACH_ARGS_MAX);
	assert_int_equal(LEN(table), REACH_TEXTS_MAX + 1);
	before = (struct reach){ .name = NULL };
	reach_args(&a, &before);
	assert_int_equal(a.n, 0);
	assert_null(reach_given(&before));
	before.tls.verify = TLS_VERIFY_NONE;
	assert_string_equal(reach_given(&before), "tls-verify");
	/* an options file may say none, so that peer is passed on, too */
	before.tls.verify = TLS_VERIFY_PEER;
	assert_string_equal(reach_given(&before), "tls-verify");
	reach_args(&a, &before);
	assert_fields(a, IS(n, 2) IS(v[1], "peer"));
	before.dist_port = 1;
	assert_string_equal(reach_given(&before), "dist-port");
	before = (struct reach){ .resolve.n = 1 };
	assert_string_equal(reach_given(&before), "resolve");
}

TESTS(NULL, NULL)
