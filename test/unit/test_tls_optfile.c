/* test_tls_optfile.c - options of TLS distribution, taken, passed over and refused. */
#include "cases.h"
#include "conn/tls_optfile.h"

static struct tls_settings s;
static char why[512];

FIXTURE(setup)
{
	tls_settings_init(&s);
	return 0;
}

FIXTURE(teardown)
{
	tls_settings_free(&s);
	return 0;
}

static const char *
parsed(const char *text)
{
	enum kp_err e;

	tls_settings_free(&s);
	why[0] = '\0';
	e = tls_optfile_parse(&s, text, strlen(text), "/etc/dist.conf", why,
	    sizeof(why));
	assert_int_equal(e == KP_OK, why[0] == '\0');
	return why;
}

TEST(test_taken)
{
	assert_string_equal(parsed("%% of a node\n[{server, [{certfile, \"no\"}]},\n"
	    " {client, [{certfile, <<\"c.pem\">>}, {keyfile, \"k.pem\"},\n"
	    "  {password, \"secret\"}, {cacertfile, \"\xc3\xa4/ca.pem\"},\n"
	    "  {verify, verify_peer}, {depth, 3}, {versions, ['tlsv1.3', "
	    "'tlsv1.1']},\n"
	    "  {server_name_indication, \"db\"}, {secure_renegotiate, true},\n"
	    "  {ciphers, [\"A-B\", \"TLS_C\"]}, {crl_check, false}, nodelay]}]."),
	    "");
	assert_fields(s, IS(npairs, 1) IS(pairs[0].cert, "c.pem")
	    IS(pairs[0].key, "k.pem") IS(pairs[0].password, "secret")
	    IS(ca, "\xc3\xa4/ca.pem") IS(sni, "db") IS(ciphers, "A-B:TLS_C")
	    IS(depth, 3));
	assert_true(s.versions && s.v13 && !s.v12);
	assert_false(s.no_verify || s.no_sni);
}

/* The first of several counts; a list may do without its full stop. */
TEST(test_first_counts)
{
	assert_string_equal(parsed("[{client, [{verify, verify_none}, {verify, "
	    "verify_peer}, {cacertfile, \"a\"}, {cacertfile, \"b\"}]}]"), "");
	assert_true(s.no_verify);
	assert_fields(s, IS(ca, "a") IS(npairs, 0) IS(depth, -1));
	assert_string_equal(parsed("[{client, []}]."), "");
	assert_false(s.versions);
}

TEST(test_cipher_string)
{
	assert_string_equal(parsed("[{client, [{ciphers, \"A-B:TLS_C\"}, "
	    "{ciphers, \"D\"}]}]."), "");
	assert_string_equal(s.ciphers, "A-B:TLS_C");
}

/* {Hash, Sign} of OTP is SIGN+HASH of OpenSSL. */
TEST(test_algorithms)
{
	assert_string_equal(parsed("[{client, [{eccs, [secp521r1, "
	    "brainpoolP256r1]}, {supported_groups, [x25519, ffdhe2048]}, "
	    "{signature_algs, [{sha256, ecdsa}, {sha, rsa}, {sha512, "
	    "rsa_pss_rsae}, eddsa_ed25519, rsa_pss_pss_sha384, "
	    "ecdsa_secp256r1_sha256]}, {signature_algs_cert, "
	    "[rsa_pkcs1_sha256, {sha384, ecdsa}]}]}]."), "");
	assert_fields(s, IS(groups12, "secp521r1:brainpoolP256r1")
	    IS(groups13, "x25519:ffdhe2048")
	    IS(sigalgs, "ECDSA+SHA256:RSA+SHA1:RSA-PSS+SHA512:ed25519:"
	    "rsa_pss_pss_sha384:ecdsa_secp256r1_sha256")
	    IS(cert_sigalgs, "rsa_pkcs1_sha256:ECDSA+SHA384"));
}

TEST(test_several_certificates)
{
	assert_string_equal(parsed("[{client, [{certs_keys, [#{certfile => "
	    "\"a\", keyfile => \"ak\"}, #{password => \"p\", certfile => "
	    "\"b\"}]}]}]."), "");
	assert_fields(s, IS(npairs, 2) IS(pairs[1].cert, "b"));
	assert_null(s.pairs[1].key);
	assert_string_equal(s.pairs[1].password, "p");
}

TEST(test_refused)
{
#define CANNOT(o) "/etc/dist.conf:1: kprofd cannot follow the client's option " \
	"'" o "' (name -tls-cert, -tls-key and -tls-ca in place of -tls-optfile " \
	"to connect without)"
	static const struct {
		const char *client, *why;
	} v[] = {
		{ "{verify_fun, {m, f, []}}", CANNOT("verify_fun") },
		{ "{signature_algs_cert, []}", "/etc/dist.conf:1: found an "
		    "empty list, expected names for signature_algs_cert" },
		{ "{signature_algs, []}", "/etc/dist.conf:1: found an empty "
		    "list, expected names for signature_algs" },
		{ "{signature_algs, [{sha256, 'RSA+SHA1:x'}]}", NULL },
		{ "{signature_algs, [{sha256, rsa, x}]}", NULL },
		{ "{signature_algs, \"RSA+SHA256\"}", NULL },
		{ "{eccs, secp256r1}", NULL },
		{ "{eccs, ['P-256:x']}", "/etc/dist.conf:1: found the atom "
		    "'P-256:x', expected atoms such as secp256r1 for eccs" },
		{ "{supported_groups, [\"x25519\"]}", NULL },
		{ "{cacerts, []}", CANNOT("cacerts") },
		{ "{crl_check, best_effort}", "/etc/dist.conf:1: crl_check: "
		    "kprofd does not read revocation lists (name -tls-cert, "
		    "-tls-key and -tls-ca in place of -tls-optfile to connect "
		    "without)" },
		{ "{versions, ['tlsv1.1']}", "/etc/dist.conf:1: versions has "
		    "neither 'tlsv1.2' nor 'tlsv1.3', which kprofd speaks" },
		{ "{verify, true}", "/etc/dist.conf:1: found the atom 'true', "
		    "expected verify_peer or verify_none for verify" },
		{ "{certfile, ok}", "/etc/dist.conf:1: found the atom 'ok', "
		    "expected a string for certfile" },
		{ "certfile", "/etc/dist.conf:1: found the atom 'certfile', "
		    "expected a value for certfile" },
		{ "{ciphers, [#{cipher => aes}]}", NULL },
		{ "{ciphers, [\"A:@SECLEVEL=0\"]}", "/etc/dist.conf:1: ciphers: "
		    "'A:@SECLEVEL=0' is not the name of one" },
		{ "{ciphers, \"A-B:ADH-AES128-GCM-SHA256:@SECLEVEL=0\"}",
		    "/etc/dist.conf:1: ciphers: '@SECLEVEL=0' is not the name "
		    "of one" },
		{ "{ciphers, \"A-B:!B\"}", "/etc/dist.conf:1: ciphers: '!B' "
		    "is not the name of one" },
		{ "{password, \"a\\0b\"}", "/etc/dist.conf:1: password has a "
		    "NUL, or more than 4095 bytes" },
		{ "{server_name_indication, \".db\"}", "/etc/dist.conf:1: "
		    "server_name_indication is no host of at most 255 bytes" },
		{ "{depth, -1}", NULL },
		{ "{certs_keys, [#{keyfile => \"k\"}]}", NULL },
		{ "{certs_keys, [#{cert => \"k\"}]}", NULL },
		{ "{certs_keys, [a | b]}", NULL },
		{ "{{a, b}, c}", NULL },
	};
	char text[400];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		snprintf(text, sizeof(text), "[{client, [%s]}].", v[i].client);
		assert_int_not_equal(parsed(text)[0], '\0');
		if (v[i].why != NULL)
			assert_string_equal(why, v[i].why);
	}
}

/* A longer one was cut, so that another host was asked for, and verified. */
TEST(test_longest_host)
{
	char text[400];

	for (int n = 255; n <= 256; n++) {
		snprintf(text, sizeof(text), "[{client, "
		    "[{server_name_indication, \"%0*d\"}]}].", n, 0);
		assert_int_equal(parsed(text)[0] == '\0', n == 255);
	}
	assert_has(why, "is no host of at most 255 bytes");
}

/* What is said of a password goes to logs: it must not have any of it. */
TEST(test_password)
{
	static const char *const v[] = {
		"{password, hunter2}", "{password, \"hunter2\\0\"}",
		"{password, hunter2()}", "{password, Hunter2}",
		"{password, {hunter2, \"hunter2\"}}", "{password, 'hunter2'",
		"{password, \"hunter2}", "{password, hunter2 hunter2}",
		"{certs_keys, [#{certfile => \"c\", password => hunter2}]}",
	};
	char text[400];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		snprintf(text, sizeof(text), "[{client, [%s]}].", v[i]);
		assert_int_not_equal(parsed(text)[0], '\0');
		if (strcasestr(why, "hunter") != NULL)
			fail_msg("%s", why);
	}
	assert_string_equal(parsed("[{client, [{password, hunter2}]}]."),
	    "/etc/dist.conf:1: expected a string for password");
	/* that of OTP's default */
	assert_string_equal(parsed("[{client, [{certfile, \"c\"}, {password, "
	    "\"\"}, {certs_keys, [#{certfile => \"d\", password => "
	    "<<>>}]}]}]."), "");
	assert_int_equal(s.npairs, 2);
	assert_null(s.pairs[0].password);
	assert_null(s.pairs[1].password);
}

TEST(test_no_file_of_it)
{
	assert_string_equal(parsed(""), "/etc/dist.conf: there is no term in "
	    "it, expected [{server, Options}, {client, Options}].");
	assert_string_equal(parsed("[{server, []}]."), "/etc/dist.conf:1: it has "
	    "no {client, Options}, which we need to connect");
	assert_string_equal(parsed("[\n{client, [}]."), "/etc/dist.conf:2: found "
	    "'}', expected a term");
	assert_memory_equal(parsed("\xff\xfe"), "/etc/dist.conf:1: ", 18);
	assert_memory_equal(parsed("[server]."), "/etc/dist.conf:1: found the "
	    "atom 'server'", 38);
}

TESTS_ONCE(setup, teardown)
