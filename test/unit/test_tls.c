/* test_tls.c - certificates of both sides, and what is said of those that fail. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cases.h"
#include "conn/tls.h"
#include "tls_peer.h"

#define LIMIT (20 * KP_NS_PER_S)	/* that only a failure reaches */

static struct tls_dir dir;

/* Good ones, and one for each thing that can be wrong. */
FIXTURE(setup)
{
	static const struct {
		const char *name;
		struct tls_cert c;
	} v[] = {
		{ "ca", { .ca = true } },
		{ "stranger", { .ca = true } },
		{ "node", { .by = "ca", .hosts = "DNS:vm,IP:127.0.0.1,IP:::1" } },
		{ "ours", { .by = "ca" } },
		{ "ours2", { .by = "ca" } },
		{ "expired", { .by = "ca", .hosts = "DNS:vm", .from = -7200,
		    .until = -3600 } },
		{ "early", { .by = "ca", .hosts = "DNS:vm", .from = 3600,
		    .until = 7200 } },
		{ "alone", { .hosts = "DNS:vm" } },
		{ "strange", { .by = "stranger", .hosts = "DNS:vm" } },
		{ "else", { .by = "ca", .hosts = "DNS:db,IP:10.0.0.7" } },
		{ "nohost", { .by = "ca" } },
		{ "wild", { .by = "ca", .hosts = "DNS:*.0.0.7" } },
		{ "client", { .by = "ca", .hosts = "DNS:vm",
		    .usage = "clientAuth" } },
		{ "middle", { .by = "ca", .ca = true, .sha384 = true } },
		{ "deep", { .by = "middle", .hosts = "DNS:vm" } },
		{ "locked", { .by = "ca", .password = "secret" } },
	};

	tls_dir_make(&dir);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		tls_cert_make(&dir, v[i].name, &v[i].c);
	return 0;
}

FIXTURE(teardown)
{
	tls_dir_free(&dir);
	return 0;
}

/* The file of a name, which may be NULL. */
static const char *
file(const char *name)
{
	return name != NULL ? tls_file(&dir, name) : NULL;
}

static struct tls_opts
opts(const char *cert, const char *key, const char *ca)
{
	return (struct tls_opts){ .cert = file(cert), .key = file(key),
		.ca = file(ca) };
}

static struct tls_opts
good(void)
{
	return opts("ours.pem", "ours.key", "ca.pem");
}

static char why[1024];

/* Connects to app@HOST; the channel, or NULL with why. */
static struct channel *
connect_to(struct tls_peer *p, const char *host, const struct tls_opts *o)
{
	struct node_place at = { .port = 1 };
	struct channel *c = NULL;
	enum kp_err e;

	snprintf(at.node, sizeof(at.node), "app@%s", host);
	why[0] = '\0';
	if (p->dir == NULL)
		p->dir = &dir;
	if (p->cert == NULL)
		p->cert = "node.pem";
	tls_peer_start(p);
	e = tls_connect(&c, p->fd, o, &at, kp_mono_now() + LIMIT, why,
	    sizeof(why));
	assert_int_equal(e == KP_OK, c != NULL);
	return c;
}

/* The reason why it fails. */
static const char *
refused(struct tls_peer p, const char *host, struct tls_opts o)
{
	struct channel *c = connect_to(&p, host, &o);

	assert_null(c);
	tls_peer_join(&p);
	return why;
}

static char *
said(const char *fmt, ...)
{
	static char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return text;
}

/* ---- what works ---- */

static void
works(struct tls_peer p, const char *host, struct tls_opts o, const char *how,
    const char *asked)
{
	struct channel *c = connect_to(&p, host, &o);
	char byte;
	ssize_t n;

	assert_string_equal(why, "");
	assert_string_equal(c->how, how);
	assert_true((strstr(how, "not ") != NULL) == (c->doubt != NULL));
	while ((n = channel_read(c, &byte, 1)) == CHANNEL_WAIT)
		usleep(1000);
	assert_int_equal(n, CHANNEL_END);
	channel_free(c);
	tls_peer_join(&p);
	assert_true(p.accepted);
	assert_string_equal(p.host, asked);
}

TEST(test_works)
{
	struct tls_opts o = good();

	works((struct tls_peer){ .ca = "ca.pem" }, "vm", o,
	    "TLSv1.3, the node verified", "vm");
	works((struct tls_peer){ .ca = "ca.pem", .version = TLS1_2_VERSION },
	    "vm", o, "TLSv1.2, the node verified", "vm");
	/* an address is not asked for, and has to be in the certificate */
	works((struct tls_peer){ .ca = NULL }, "127.0.0.1", o,
	    "TLSv1.3, the node verified", "");
	works((struct tls_peer){ .ca = NULL }, "::1", o,
	    "TLSv1.3, the node verified", "");
	o.verify = TLS_VERIFY_NONE;
	o.ca = NULL;
	works((struct tls_peer){ .cert = "alone.pem" }, "other", o,
	    "TLSv1.3, not verified", "other");
}

/* Both are in one file, as the VM allows. */
TEST(test_key_in_certificate)
{
	char text[8192] = "";
	struct tls_opts o = { .ca = file("ca.pem") };
	FILE *f;

	f = fopen(file("ours.pem"), "r");
	text[fread(text, 1, 4000, f)] = '\0';
	fclose(f);
	f = fopen(file("ours.key"), "r");
	text[strlen(text) + fread(text + strlen(text), 1, 4000, f)] = '\0';
	fclose(f);
	o.cert = tls_write(&dir, "both.pem", text, 0640);
	works((struct tls_peer){ .ca = "ca.pem" }, "vm", o,
	    "TLSv1.3, the node verified", "vm");
	chmod(o.cert, 0644);
	assert_string_equal(refused((struct tls_peer){ .ca = "ca.pem" }, "vm",
	    o), said("the key file '%s' can be read by everybody (chmod o= it)",
	    o.cert));
}

/* A renewed file is taken at the next connection. */
TEST(test_renewed)
{
	struct tls_opts o = opts("now.pem", "now.key", "ca.pem");

	assert_int_equal(link(file("strange.pem"), file("now.pem")), 0);
	assert_int_equal(link(file("strange.key"), file("now.key")), 0);
	assert_has(refused((struct tls_peer){ .ca = "ca.pem",
	    .version = TLS1_2_VERSION }, "vm", o), "it does not know its CA");
	assert_int_equal(rename(file("ours2.pem"), file("now.pem")), 0);
	assert_int_equal(rename(file("ours2.key"), file("now.key")), 0);
	works((struct tls_peer){ .ca = "ca.pem" }, "vm", o,
	    "TLSv1.3, the node verified", "vm");
}

/* ---- the node's certificate ---- */

TEST(test_their_certificate)
{
	struct tls_peer p = { .cert = "expired.pem" };

	refused(p, "vm", good());
	assert_memory_equal(why, "the node's certificate expired on 20", 36);
	assert_has(why, " UTC: it has to be renewed there");
	p.cert = "early.pem";
	refused(p, "vm", good());
	assert_memory_equal(why, "the node's certificate is not valid before 20",
	    45);
	assert_has(why, "(is the clock of this machine right?)");
	p.cert = "alone.pem";
	assert_string_equal(refused(p, "vm", good()), said("the node's "
	    "certificate is signed by itself, and not in '%s' (see -tls-ca)",
	    file("ca.pem")));
	p.cert = "strange.pem";
	assert_string_equal(refused(p, "vm", good()), said("the node's "
	    "certificate is signed by 'stranger', which is not in '%s' (see "
	    "-tls-ca)", file("ca.pem")));
	p.cert = "client.pem";
	assert_string_equal(refused(p, "vm", good()), "the node's certificate "
	    "is not made for a TLS server (its key usage)");
	/* its issuer is neither sent nor known */
	p.cert = "deep.pem";
	assert_string_equal(refused(p, "vm", good()), said("the node's "
	    "certificate is signed by 'middle', which is not in '%s' (see "
	    "-tls-ca)", file("ca.pem")));
}

TEST(test_their_host)
{
	struct tls_peer p = { .cert = "else.pem" };

	assert_string_equal(refused(p, "vm", good()), "the node's certificate "
	    "is for 'db', '10.0.0.7', not for 'vm' (is that the right node? "
	    "if so, name the host of its certificate with "
	    "{server_name_indication, Host} for the client in an options "
	    "file)");
	assert_has(refused(p, "10.0.0.8", good()), "not for '10.0.0.8'");
	assert_has(refused(p, "vm.db", good()), "not for 'vm.db'");
	p.cert = "nohost.pem";
	assert_has(refused(p, "vm", good()), "is for 'nohost', not for 'vm'");
	p.cert = "wild.pem";
	assert_has(refused(p, "10.0.0.7", good()), "'*.0.0.7', ");
}

/* ---- ours ---- */

TEST(test_our_files)
{
	struct tls_peer p = { .ca = "ca.pem" };
	struct tls_opts o = opts("nix.pem", "ours.key", "ca.pem");

	assert_string_equal(refused(p, "vm", o), said("cannot read the "
	    "certificate file '%s': No such file or directory (see -tls-cert)",
	    o.cert));
	o = opts("ours.pem", "nix.key", "ca.pem");
	assert_string_equal(refused(p, "vm", o), said("cannot read the key file "
	    "'%s': No such file or directory (see -tls-key)", o.key));
	o = opts("ours.pem", "ours.key", "nix.pem");
	assert_string_equal(refused(p, "vm", o), said("cannot read the CA file "
	    "'%s': No such file or directory (see -tls-ca)", o.ca));
	o = opts("ours.key", "ours.key", "ca.pem");
	assert_string_equal(refused(p, "vm", o), said("there is no certificate "
	    "in PEM format in '%s' (see -tls-cert)", o.cert));
	o = opts("ours.pem", "ours.key", "ours.key");
	assert_string_equal(refused(p, "vm", o), said("there is no certificate "
	    "in PEM format in '%s' (see -tls-ca)", o.ca));
	o = opts("ours.pem", "node.key", "ca.pem");
	assert_string_equal(refused(p, "vm", o), said("the key '%s' does not "
	    "belong to the certificate '%s' (see -tls-key)", o.key, o.cert));
	o = opts("expired.pem", "expired.key", "ca.pem");
	assert_has(refused(p, "vm", o), said("our certificate '%s' "
	    "expired on 20", o.cert));
	o = opts("early.pem", "early.key", "ca.pem");
	assert_has(refused(p, "vm", o), said("our certificate '%s' "
	    "is not valid before 20", o.cert));
	o = opts("locked.pem", "locked.key", "ca.pem");
	assert_string_equal(refused(p, "vm", o), said("the key file '%s' is "
	    "encrypted: give {password, Text} in the options file (see "
	    "-tls-optfile)", o.key));
	o = opts(NULL, "ours.key", "ca.pem");
	assert_string_equal(refused(p, "vm", o), "-tls-key is for the "
	    "certificate of -tls-cert, which is missing");
	o = opts("ours.pem", "ours.key", NULL);
	assert_string_equal(refused(p, "vm", o), "the node's certificate cannot "
	    "be verified without a CA: see -tls-ca, and -tls-verify");
}

/* With TLS 1.3 the handshake is over for us when the node looks at it. */
static const char *
refused_late(const char *cert, const char *key)
{
	struct tls_peer p = { .ca = "ca.pem", .version = TLS1_3_VERSION };
	struct tls_opts o = opts(cert, key, "ca.pem");
	struct channel *c = connect_to(&p, "vm", &o);
	char byte;
	ssize_t n;

	assert_non_null(c);
	/* what is written meanwhile may meet a closed socket */
	tls_peer_join(&p);
	n = channel_write(c, "name", 4);
	if (n != CHANNEL_FAILED)
		while ((n = channel_read(c, &byte, 1)) == CHANNEL_WAIT)
			usleep(1000);
	assert_int_equal(n, CHANNEL_FAILED);
	assert_int_equal(c->err, 0);
	snprintf(why, sizeof(why), "%s", c->why);
	channel_free(c);
	return why;
}

TEST(test_our_certificate)
{
	struct tls_peer p = { .ca = "ca.pem", .version = TLS1_2_VERSION };
	struct tls_opts o = opts("strange.pem", "strange.key", "ca.pem");

	assert_string_equal(refused(p, "vm", o), said("the node refused our "
	    "certificate '%s': it does not know its CA", o.cert));
	assert_string_equal(refused_late("strange.pem", "strange.key"),
	    said("the node refused our certificate '%s': it does not know its "
	    "CA", file("strange.pem")));
	assert_string_equal(refused_late(NULL, NULL), "the node requires a "
	    "certificate of us (see -tls-cert and -tls-optfile)");
	assert_has(refused(p, "vm", opts(NULL, NULL, "ca.pem")),
	    "it requires a certificate of us (see -tls-cert and -tls-optfile), "
	    "or we have no cipher, group or signature in common");
}

/* ---- the options file ---- */

static struct tls_opts
optfile(const char *client)
{
	char text[4096];

	snprintf(text, sizeof(text), "[{server, []}, {client, [%s]}].\n", client);
	return (struct tls_opts){ .optfile = tls_write(&dir, "dist.conf", text,
	    0640) };
}

#define FILES "{certfile, \"ours.pem\"}, {keyfile, \"ours.key\"}, " \
	"{cacertfile, \"ca.pem\"}"

/* Paths are relative to the working directory, not to the file's. */
TEST(test_optfile)
{
	struct tls_peer p = { .ca = "ca.pem" };
	struct tls_opts o = optfile(FILES);
	char home[4096];

	assert_string_equal(refused(p, "vm", o), said("cannot read the "
	    "certificate file '%s/ours.pem': No such file or directory (see "
	    "-tls-cert)", getcwd(home, sizeof(home))));
	assert_int_equal(chdir(dir.path), 0);
	works(p, "vm", o, "TLSv1.3, the node verified", "vm");
	o = optfile(FILES ", {versions, ['tlsv1.2', 'tlsv1.1']}");
	works(p, "vm", o, "TLSv1.2, the node verified", "vm");
	o = optfile(FILES ", {server_name_indication, \"db\"}");
	p.cert = "else.pem";
	works(p, "vm", o, "TLSv1.3, the node verified", "db");
	o = optfile(FILES ", {server_name_indication, disable}");
	works(p, "vm", o, "TLSv1.3, the node verified, not its host", "");
	o = optfile("{verify, verify_none}, {certs_keys, [#{certfile => "
	    "\"locked.pem\", keyfile => \"locked.key\", password => "
	    "\"secret\"}]}");
	works(p, "vm", o, "TLSv1.3, not verified", "vm");
	chmod(o.optfile, 0644);
	assert_string_equal(refused(p, "vm", o), said("the password in the "
	    "options file '%s' can be read by everybody (chmod o= it)",
	    o.optfile));
	o = optfile(FILES ", {verify, verify_none}, {password, \"\"}");
	chmod(o.optfile, 0644);
	works(p, "vm", o, "TLSv1.3, not verified", "vm");
	p.cert = "node.pem";
	o = optfile("{certfile, \"locked.pem\"}, {keyfile, \"locked.key\"}, "
	    "{password, \"wrong\"}, {cacertfile, \"ca.pem\"}");
	assert_string_equal(refused(p, "vm", o), said("the password of the key "
	    "file '%s' is wrong", file("locked.key")));
	/* options go before it */
	o.cert = file("ours.pem");
	o.key = file("ours.key");
	works(p, "vm", o, "TLSv1.3, the node verified", "vm");
	o.ca = file("stranger.pem");
	assert_has(refused(p, "vm", o), "stranger.pem'");
	assert_int_equal(chdir(home), 0);
}

/*
 * Whether the node is verified was up to the file alone: what was given beside it
 * had no effect, since the default and a "peer" that is given were the same.
 */
TEST(test_verify_beside_optfile)
{
	struct tls_peer p = { .ca = "ca.pem", .cert = "else.pem" };
	struct tls_opts o = optfile(FILES ", {verify, verify_none}");
	char home[4096];

	assert_non_null(getcwd(home, sizeof(home)));
	assert_int_equal(chdir(dir.path), 0);
	works(p, "vm", o, "TLSv1.3, not verified", "vm");
	o.verify = TLS_VERIFY_PEER;
	assert_has(refused(p, "vm", o), "not for 'vm'");
	o.verify = TLS_VERIFY_UNSET;
	o.ca = file("stranger.pem");
	assert_has(refused(p, "vm", o), "stranger.pem'");
	o.verify = TLS_VERIFY_NONE;
	works(p, "vm", o, "TLSv1.3, not verified", "vm");
	o = optfile("{verify, verify_none}");
	o.verify = TLS_VERIFY_PEER;
	assert_has(refused(p, "vm", o), "without a CA");
	o = optfile(FILES);
	o.verify = TLS_VERIFY_NONE;
	works(p, "vm", o, "TLSv1.3, not verified", "vm");
	assert_int_equal(chdir(home), 0);
}

TEST(test_optfile_limits)
{
	struct tls_peer p = { .ca = "ca.pem", .version = TLS1_2_VERSION,
		.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256" };
	struct tls_opts o;
	char home[4096];

	assert_non_null(getcwd(home, sizeof(home)));
	assert_int_equal(chdir(dir.path), 0);
	o = optfile(FILES ", {versions, ['tlsv1.3']}");
	assert_string_equal(refused(p, "vm", o), "the node and we have no "
	    "version of TLS in common: kprofd speaks 1.2 and 1.3 (versions in "
	    "the options file)");
	/* names of OpenSSL and of the standards */
	o = optfile(FILES ", {ciphers, [\"TLS_AES_128_GCM_SHA256\", "
	    "\"ECDHE-ECDSA-AES256-GCM-SHA384\", "
	    "\"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\"]}");
	works(p, "vm", o, "TLSv1.2, the node verified", "vm");
	o = optfile(FILES ", {ciphers, \"ECDHE-ECDSA-AES256-GCM-SHA384\"}");
	assert_has(refused(p, "vm", o), "we have no cipher, "
	    "group or signature in common");
	o = optfile(FILES ", {ciphers, [\"no-such-cipher\"]}");
	assert_string_equal(refused(p, "vm", o), "OpenSSL on this machine can "
	    "use none of the ciphers in the options file: no-such-cipher");
	o = optfile(FILES ", {ciphers, \"ADH-AES128-GCM-SHA256:NULL-SHA256\"}");
	assert_string_equal(refused(p, "vm", o), "OpenSSL on this machine can "
	    "use none of the ciphers in the options file: "
	    "ADH-AES128-GCM-SHA256:NULL-SHA256");
	/* a list for 1.3 alone does not leave 1.2 its defaults */
	o = optfile(FILES ", {ciphers, [\"TLS_AES_128_GCM_SHA256\"]}");
	assert_has(refused(p, "vm", o), "no version of TLS");
	o = optfile(FILES ", {verify_fun, {m, f, []}}");
	assert_has(refused(p, "vm", o), "dist.conf:1: kprofd cannot "
	    "follow the client's option 'verify_fun'");
	assert_int_equal(chdir(home), 0);
}

/*
 * The groups for the keys' exchange, and the signatures, that the file names; those
 * that OpenSSL lacks are passed over, if others are left.
 */
TEST(test_optfile_algorithms)
{
	static const struct {
		const char *options, *why;
	} v[] = {
		{ "{eccs, [secp384r1, secp256r1]}", NULL },
		{ "{eccs, [no_such, secp256r1]}", NULL },
		{ "{supported_groups, [x25519, x448, secp256r1, "
		    "ffdhe2048]}", NULL },
		{ "{supported_groups, [mlkem_of_tomorrow]}", "OpenSSL on this "
		    "machine can use none of the groups in the options file: "
		    "mlkem_of_tomorrow" },
		{ "{signature_algs, [{sha256, ecdsa}, {sha384, ecdsa}]}", NULL },
		{ "{signature_algs, [mldsa99, ecdsa_secp256r1_sha256]}", NULL },
		{ "{signature_algs, [{no, no}]}", "OpenSSL on this machine can "
		    "use none of the signature algorithms in the options file: "
		    "no+no" },
		/* the node's certificate has an elliptic key */
		{ "{signature_algs, [{sha256, rsa}]}", "" },
		{ "{signature_algs_cert, [{sha256, ecdsa}, "
		    "rsa_pkcs1_sha256, mldsa99]}", NULL },
		{ "{signature_algs_cert, [mldsa99]}", "kprofd knows none of the "
		    "signature algorithms for certificates in the options "
		    "file: mldsa99" },
	};
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	struct tls_peer p = { .ca = "ca.pem" };
	char home[4096], text[512];
	const char *said;
	struct tls_opts o;

	assert_non_null(getcwd(home, sizeof(home)));
	assert_int_equal(chdir(dir.path), 0);
	for (size_t i = 0; i < 2 * sizeof(v) / sizeof(v[0]); i++) {
		said = v[i / 2].why;
		p.version = versions[i % 2];
		snprintf(text, sizeof(text), FILES ", %s", v[i / 2].options);
		o = optfile(text);
		if (said == NULL)
			works(p, "vm", o, i % 2 == 0 ? "TLSv1.2, the node "
			    "verified" : "TLSv1.3, the node verified", "vm");
		else if (said[0] != '\0')
			assert_string_equal(refused(p, "vm", o), said);
		else
			refused(p, "vm", o);
	}
	assert_int_equal(chdir(home), 0);
}

/* The file of a node's certificate and the one between it and its CA. */
static const char *
chain(void)
{
	FILE *f = fopen(file("deep.pem"), "r");
	char text[8192];

	text[fread(text, 1, 4000, f)] = '\0';
	fclose(f);
	f = fopen(file("middle.pem"), "r");
	text[strlen(text) + fread(text + strlen(text), 1, 4000, f)] = '\0';
	fclose(f);
	tls_write(&dir, "deep.chain", text, 0644);
	return "deep.chain";
}

/*
 * The node learns which signatures certificates may have; with TLS 1.3 OpenSSL's server
 * goes by it for its own.  A chain is checked here, as OTP does.
 */
TEST(test_signature_algs_cert)
{
	struct tls_peer p = { .cert = "node.pem", .version = TLS1_3_VERSION };
	struct tls_opts o;
	char home[4096];

	assert_non_null(getcwd(home, sizeof(home)));
	assert_int_equal(chdir(dir.path), 0);
	o = optfile(FILES ", {signature_algs_cert, [rsa_pkcs1_sha256]}");
	assert_has(refused(p, "vm", o), "or we have no cipher, group "
	    "or signature in common");
	p.cert = chain();
	refused(p, "vm", o);
	o = optfile(FILES ", {signature_algs_cert, [{sha256, ecdsa}]}");
	assert_string_equal(refused(p, "vm", o), "the certificate of 'middle', "
	    "which vouches for the node's, has the signature "
	    "ecdsa-with-SHA384, which signature_algs_cert in the options file "
	    "leaves out");
	o = optfile(FILES ", {signature_algs_cert, [{sha256, ecdsa}, "
	    "ecdsa_secp384r1_sha384]}");
	works(p, "vm", o, "TLSv1.3, the node verified", "vm");
	p.version = TLS1_2_VERSION;
	o = optfile(FILES ", {signature_algs_cert, [{sha256, ecdsa}]}");
	works(p, "vm", o, "TLSv1.2, the node verified", "vm");
	assert_int_equal(chdir(home), 0);
}

/* depth counts the certificates between the node's and its CA. */
TEST(test_depth)
{
	struct tls_peer p = { .cert = chain() };
	struct tls_opts o;
	char home[4096];

	assert_non_null(getcwd(home, sizeof(home)));
	assert_int_equal(chdir(dir.path), 0);
	works(p, "vm", good(), "TLSv1.3, the node verified", "vm");
	o = optfile(FILES ", {depth, 1}");
	works(p, "vm", o, "TLSv1.3, the node verified", "vm");
	o = optfile(FILES ", {depth, 0}");
	assert_string_equal(refused(p, "vm", o), "there are more than 0 "
	    "certificates between the node's and its CA (depth in the options "
	    "file)");
	assert_int_equal(chdir(home), 0);
}

/* ---- what is no TLS ---- */

static bool by_variable;	/* $KPROFD_TLS_OPTFILE asks for TLS */

/* What answers with these bytes, and then closes or stays. */
static const char *
answered(const void *bytes, size_t n, bool stays)
{
	struct tls_opts o = good();
	struct node_place at = { .node = "app@vm" };
	struct channel *c;
	int fd[2];
	enum kp_err e;

	o.optfile_env = by_variable;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	assert_int_equal(write(fd[1], bytes, n), n);
	if (!stays)
		shutdown(fd[1], SHUT_WR);
	why[0] = '\0';
	e = tls_connect(&c, fd[0], &o, &at, kp_mono_now() +
	    (stays ? KP_NS_PER_S / 20 : LIMIT), why, sizeof(why));
	assert_int_equal(e == KP_ETIMEOUT, stays);
	assert_int_not_equal(e, KP_OK);
	close(fd[1]);
	return why;
}

#define SILENT "no answer to the TLS handshake in time (a node that hangs, or " \
	"one without -proto_dist inet_tls? then "

TEST(test_no_tls)
{
	static const char http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	static const char node[] = "\0\3sok\0\x16n\0\5\7\xdf\x7f\xbd\1\2\3\4t@h";

	assert_string_equal(answered("", 0, false), "the node closed the "
	    "connection during the TLS handshake (a node without -proto_dist "
	    "inet_tls? then leave out -tls-optfile and the like)");
	assert_string_equal(answered("", 0, true), SILENT "leave out "
	    "-tls-optfile and the like)");
	/* as much of a record as never comes */
	assert_string_equal(answered("\x16\3\3\x40", 4, true), SILENT "leave "
	    "out -tls-optfile and the like)");
	by_variable = true;
	assert_string_equal(answered("", 0, true), SILENT "unset "
	    "KPROFD_TLS_OPTFILE, which asks for TLS)");
	by_variable = false;
	assert_string_equal(answered(http, sizeof(http) - 1, false), "what "
	    "answers there does not speak TLS (is it a node with -proto_dist "
	    "inet_tls?)");
	assert_string_equal(answered(node, sizeof(node) - 1, false), "what "
	    "answers there does not speak TLS (is it a node with -proto_dist "
	    "inet_tls?)");
	assert_string_equal(answered("\x15\3\3\0\2\2\x46", 7, false), "the node "
	    "and we have no version of TLS in common: kprofd speaks 1.2 and 1.3 "
	    "(versions in the options file)");
}

TESTS_ONCE(setup, teardown)
