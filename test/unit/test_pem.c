/* test_pem.c - files of several certificates: all of them are taken, or none. */
#include "cases.h"
#include "conn/tls_certs.h"
#include "tls_peer.h"

static struct tls_dir dir;
static char ca[4096], ours[4096], why[1024];

static void
read_text(const char *name, char text[4096])
{
	FILE *f = fopen(tls_file(&dir, name), "r");

	assert_non_null(f);
	text[fread(text, 1, 4095, f)] = '\0';
	fclose(f);
}

FIXTURE(setup)
{
	tls_dir_make(&dir);
	tls_cert_make(&dir, "ca", &(struct tls_cert){ .ca = true });
	tls_cert_make(&dir, "ours", &(struct tls_cert){ .by = "ca" });
	read_text("ca.pem", ca);
	read_text("ours.pem", ours);
	return 0;
}

FIXTURE(teardown)
{
	tls_dir_free(&dir);
	return 0;
}

/* A file of these texts. */
static const char *
file(const char *one, const char *two, const char *three)
{
	static char text[3 * 4096];

	snprintf(text, sizeof(text), "%s%s%s", one, two, three);
	return tls_write(&dir, "several.pem", text, 0644);
}

static size_t
taken(SSL_CTX *ctx)
{
	return (size_t)sk_X509_OBJECT_num(X509_STORE_get0_objects(
	    SSL_CTX_get_cert_store(ctx)));
}

/* How many authorities a file has; -1, and why, if it is not taken. */
static int
trusted(const char *path)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	enum kp_err e;
	int n;

	assert_non_null(ctx);
	why[0] = '\0';
	e = pem_trust(ctx, path, why, sizeof(why));
	assert_int_equal(e == KP_OK, why[0] == '\0');
	n = e == KP_OK ? (int)taken(ctx) : -1;
	SSL_CTX_free(ctx);
	return n;
}

static enum kp_err
used(const char *path)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	enum kp_err e;

	assert_non_null(ctx);
	why[0] = '\0';
	e = pem_use_pair(ctx, &(struct pem_pair){ .cert = path,
	    .key = tls_file(&dir, "ours.key"), .cert_option = "-tls-cert",
	    .key_option = "-tls-key" }, why, sizeof(why));
	SSL_CTX_free(ctx);
	return e;
}

/* The certificate with one character of its text changed, or cut short. */
static const char *
broken(const char *from, bool cut)
{
	static char text[4096];

	snprintf(text, sizeof(text), "%s", from);
	if (cut)
		text[strlen(text) / 2] = '\0';
	else
		text[strlen(text) / 2] = '*';
	return text;
}

TEST(test_authorities)
{
	assert_int_equal(trusted(file(ca, ours, "")), 2);
	assert_int_equal(trusted(file(ca, ours, "and a note\n")), 2);
	assert_int_equal(trusted(file("# a note\n", ca, ca)), 1);
	/* those after one that cannot be read were left out without a word */
	assert_int_equal(trusted(file(ca, broken(ca, false), ours)), -1);
	assert_has(why, "certificate 2 in '");
	assert_has(why, "several.pem' cannot be read: ");
	assert_int_equal(trusted(file(ca, ours, broken(ca, true))), -1);
	assert_has(why, "certificate 3 in '");
	assert_int_equal(trusted(file(broken(ca, false), ca, "")), -1);
	assert_has(why, "certificate 1 in '");
	assert_int_equal(trusted(file("no", "ne", "\n")), -1);
	assert_has(why, "there is no certificate");
}

TEST(test_chain)
{
	static char many[18 * 4096];
	size_t n = 0;

	assert_int_equal(used(file(ours, ca, "")), KP_OK);
	assert_int_equal(used(file(ours, broken(ca, false), ca)), KP_ESTATE);
	assert_has(why, "certificate 2 in '");
	assert_int_equal(used(file(broken(ours, true), "", "")), KP_ESTATE);
	assert_has(why, "certificate 1 in '");
	for (unsigned i = 0; i < 17; i++)
		n += (size_t)snprintf(many + n, sizeof(many) - n, "%s",
		    i == 0 ? ours : ca);
	assert_int_equal(used(tls_write(&dir, "many.pem", many, 0644)), KP_OK);
	snprintf(many + n, sizeof(many) - n, "%s", ca);
	assert_int_equal(used(tls_write(&dir, "many.pem", many, 0644)),
	    KP_ESTATE);
	assert_has(why, "more than 16 certificates follow the first in '");
}

TESTS_ONCE(setup, teardown)
