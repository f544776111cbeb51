/*
 * tls_certs.c - certificates and keys: their files, what is in them as text, and their
 * signatures.
 *
 * Reads the files itself: OpenSSL's functions for files would wait for a FIFO's writer,
 * ask for a password at the terminal, and not say which file it was.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/utf8.h"
#include "conn/tls_certs.h"
#include "kprofd/buf.h"
#include "kprofd/secret.h"

#define FILE_MAX (1u << 20)	/* bytes: a bundle of public CAs has 220 KiB */
#define CHAIN_MAX 16u		/* certificates between ours and its CA */
#define SIGALGS_CERT 50		/* the number of the extension */

/* ---- what is in a certificate, as text ---- */

const char *
cert_time(char buf[CERT_TIME_MAX], const ASN1_TIME *t)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(t, &tm) != 1 ||
	    strftime(buf, CERT_TIME_MAX, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
		snprintf(buf, CERT_TIME_MAX, "an unreadable date");
	return buf;
}

/* The text of the first entry of this kind; false: there is none. */
static bool
put_entry(struct kp_buf *b, const X509_NAME *name, int kind)
{
	int at = X509_NAME_get_index_by_NID(name, kind, -1);
	unsigned char *text;
	int n;

	if (at < 0)
		return false;
	n = ASN1_STRING_to_UTF8(&text,
	    X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
	if (n < 0)
		return false;
	utf8_put_name(b, text, (size_t)n, CERT_NAME_MAX / 2);
	OPENSSL_free(text);
	return n > 0;
}

const char *
cert_name(char buf[CERT_NAME_MAX], const X509_NAME *name)
{
	static const int kinds[] = { NID_commonName, NID_organizationalUnitName,
		NID_organizationName };
	struct kp_buf b;
	bool found = false;

	kp_buf_init(&b, 2 * CERT_NAME_MAX);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !found; i++)
		found = put_entry(&b, name, kinds[i]);
	snprintf(buf, CERT_NAME_MAX, "%s", found ? kp_buf_cstr(&b) :
	    "a nameless one");
	kp_buf_free(&b);
	return buf;
}

/* An address has 4 or 16 bytes. */
static void
put_address(struct kp_buf *b, const ASN1_OCTET_STRING *ip)
{
	int n = ASN1_STRING_length(ip);
	char text[INET6_ADDRSTRLEN] = "?";

	if (n == 4 || n == 16)
		inet_ntop(n == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(ip),
		    text, sizeof(text));
	kp_buf_str(b, text);
}

const char *
cert_hosts(char buf[CERT_NAME_MAX], const X509 *x)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL,
	    NULL);
	char name[CERT_NAME_MAX];
	const GENERAL_NAME *g;
	struct kp_buf b;
	int n = names != NULL ? sk_GENERAL_NAME_num(names) : 0;

	kp_buf_init(&b, 4 * CERT_NAME_MAX);
	for (int i = 0; i < n && b.len < CERT_NAME_MAX / 2; i++) {
		g = sk_GENERAL_NAME_value(names, i);
		if (g->type != GEN_DNS && g->type != GEN_IPADD)
			continue;
		kp_buf_str(&b, b.len > 0 ? ", '" : "'");
		if (g->type == GEN_DNS)
			utf8_put_name(&b, ASN1_STRING_get0_data(g->d.dNSName),
			    (size_t)ASN1_STRING_length(g->d.dNSName),
			    b.len + CERT_NAME_MAX / 4);
		else
			put_address(&b, g->d.iPAddress);
		kp_buf_u8(&b, '\'');
	}
	if (b.len == 0 && X509_NAME_get_index_by_NID(
	    X509_get_subject_name(x), NID_commonName, -1) >= 0)
		kp_buf_printf(&b, "'%s'", cert_name(name,
		    X509_get_subject_name(x)));
	snprintf(buf, CERT_NAME_MAX, "%s", b.len > 0 ? kp_buf_cstr(&b) :
	    "no host");
	GENERAL_NAMES_free(names);
	kp_buf_free(&b);
	return buf;
}

const char *
cert_openssl_reason(void)
{
	const char *s = ERR_reason_error_string(ERR_peek_error());

	return s != NULL ? s : "no reason is known";
}

/* ---- files ---- */

const char *
pem_path(char buf[PEM_PATH_MAX], const char *path)
{
	size_t n;

	if (path[0] == '/' || getcwd(buf, PEM_PATH_MAX) == NULL) {
		snprintf(buf, PEM_PATH_MAX, "%s", path);
	} else {
		n = strlen(buf);
		snprintf(buf + n, PEM_PATH_MAX - n, "/%s", path);
	}
	return buf;
}

char *
pem_read(const char *path, const char *kind, const char *option,
    unsigned *mode, size_t max, size_t *n, char *why, size_t whylen)
{
	char whole[PEM_PATH_MAX], *p = NULL;
	const char *reason;
	struct stat st;
	FILE *f = kp_secret_open(path, &st, &reason);

	pem_path(whole, path);
	if (f == NULL) {
		snprintf(why, whylen, "cannot read %s '%s': %s (see %s)", kind,
		    whole, reason, option);
		return NULL;
	}
	*mode = st.st_mode;
	/* A buffer of the C library would be freed with what is in it. */
	setvbuf(f, NULL, _IONBF, 0);
	p = malloc(max + 2);
	*n = p != NULL ? fread(p, 1, max + 1, f) : 0;
	if (p == NULL)
		snprintf(why, whylen, "out of memory");
	else if (ferror(f))
		snprintf(why, whylen, "cannot read %s '%s': %s (see %s)", kind,
		    whole, strerror(errno), option);
	else if (*n > max)
		snprintf(why, whylen, "%s '%s' has more than %zu bytes (see "
		    "%s)", kind, whole, max, option);
	else {
		p[*n] = '\0';
		fclose(f);
		return p;
	}
	fclose(f);
	if (p != NULL)
		explicit_bzero(p, *n);
	free(p);
	return NULL;
}

bool
pem_is_private(const char *path, const char *kind, unsigned mode, char *why,
    size_t n)
{
	char whole[PEM_PATH_MAX];

	if ((mode & 07) == 0)
		return true;
	snprintf(why, n, "%s '%s' can be read by everybody (chmod o= it)", kind,
	    pem_path(whole, path));
	return false;
}

/* A file in memory.  NULL, after writing the reason, if it cannot be read. */
static BIO *
open_pem(const char *path, const char *kind, const char *option, bool secret,
    char *why, size_t whylen)
{
	BIO *b = NULL;
	unsigned mode;
	size_t n;
	char *p = pem_read(path, kind, option, &mode, FILE_MAX, &n, why,
	    whylen);

	if (p == NULL)
		return NULL;
	if (secret && !pem_is_private(path, kind, mode, why, whylen))
		goto out;
	/* Unlike one of BIO_new_mem_buf() it has a copy, which it wipes. */
	b = BIO_new(BIO_s_mem());
	if (b == NULL || BIO_write(b, p, (int)n) != (int)n) {
		BIO_free(b);
		b = NULL;
		snprintf(why, whylen, n == 0 ? "%s '%s' is empty" :
		    "out of memory", kind, path);
	}
out:
	explicit_bzero(p, n);
	free(p);
	return b;
}

struct password {
	const char *text;	/* NULL: none was given */
	bool asked;
};

static int
give_password(char *to, int room, int writing, void *ctx)
{
	struct password *p = ctx;
	size_t n = p->text != NULL ? strlen(p->text) : 0;

	(void)writing;
	p->asked = true;
	if (p->text == NULL || n > (size_t)room)
		return -1;
	memcpy(to, p->text, n);
	return (int)n;
}

static EVP_PKEY *
read_key(const struct pem_pair *p, char *why, size_t n)
{
	const char *path = p->key != NULL ? p->key : p->cert;
	struct password pw = { p->password, false };
	char whole[PEM_PATH_MAX];
	EVP_PKEY *key;
	BIO *b = open_pem(path, "the key file", p->key_option, true, why, n);

	if (b == NULL)
		return NULL;
	key = PEM_read_bio_PrivateKey(b, NULL, give_password, &pw);
	BIO_free(b);
	pem_path(whole, path);
	if (key == NULL && pw.asked && p->password != NULL)
		snprintf(why, n, "the password of the key file '%s' is wrong",
		    whole);
	else if (key == NULL && pw.asked)
		snprintf(why, n, "the key file '%s' is encrypted: %s", whole,
		    p->locked);
	else if (key == NULL)
		snprintf(why, n, "there is no private key in PEM format in "
		    "'%s' (see %s)", whole, p->key_option);
	return key;
}

/* Certificates of one file. */
struct certs {
	BIO *b;
	const char *path, *option;	/* of the file, for messages */
	unsigned n;		/* read so far */
};

/* The next one; NULL: certs_end() says whether there was no more. */
static X509 *
certs_next(struct certs *c)
{
	X509 *x;

	ERR_clear_error();
	x = PEM_read_bio_X509_AUX(c->b, NULL, NULL, NULL);
	c->n += x != NULL;
	return x;
}

/*
 * A certificate that cannot be read must not end the file without a word: those
 * after it would be missing.
 */
static enum kp_err
certs_end(struct certs *c, char *why, size_t n)
{
	unsigned long e = ERR_peek_last_error();
	bool ended = ERR_GET_LIB(e) == ERR_LIB_PEM &&
	    ERR_GET_REASON(e) == PEM_R_NO_START_LINE;
	char whole[PEM_PATH_MAX];

	BIO_free(c->b);
	pem_path(whole, c->path);
	if (!ended)
		snprintf(why, n, "certificate %u in '%s' cannot be read: %s "
		    "(see %s)", c->n + 1, whole, cert_openssl_reason(),
		    c->option);
	else if (c->n == 0)
		snprintf(why, n, "there is no certificate in PEM format in "
		    "'%s' (see %s)", whole, c->option);
	ERR_clear_error();
	return ended && c->n > 0 ? KP_OK : KP_ESTATE;
}

/* A certificate and those that follow it. */
static enum kp_err
read_chain(const struct pem_pair *p, X509 **cert, STACK_OF(X509) **chain,
    char *why, size_t n)
{
	struct certs c = { .path = p->cert, .option = p->cert_option };
	char whole[PEM_PATH_MAX];
	X509 *next;

	*chain = sk_X509_new_null();
	if (*chain == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	c.b = open_pem(c.path, "the certificate file", c.option, false, why, n);
	if (c.b == NULL)
		return KP_ESTATE;
	*cert = next = certs_next(&c);
	while (next != NULL && (next = certs_next(&c)) != NULL) {
		if (c.n <= 1 + CHAIN_MAX && sk_X509_push(*chain, next) > 0)
			continue;
		X509_free(next);
		BIO_free(c.b);
		snprintf(why, n, "more than %u certificates follow the first "
		    "in '%s' (see %s)", CHAIN_MAX, pem_path(whole, c.path),
		    c.option);
		return KP_ESTATE;
	}
	return certs_end(&c, why, n);
}

/* The node would say less about it, and not to us. */
static enum kp_err
check_dates(const X509 *cert, const char *path, char *why, size_t n)
{
	char whole[PEM_PATH_MAX], when[CERT_TIME_MAX];
	const ASN1_TIME *from = X509_get0_notBefore(cert);
	const ASN1_TIME *until = X509_get0_notAfter(cert);

	pem_path(whole, path);
	if (X509_cmp_current_time(until) < 0) {
		snprintf(why, n, "our certificate '%s' expired on %s: renew it",
		    whole, cert_time(when, until));
		return KP_ESTATE;
	}
	if (X509_cmp_current_time(from) > 0) {
		snprintf(why, n, "our certificate '%s' is not valid before %s "
		    "(is the clock of this machine right?)", whole,
		    cert_time(when, from));
		return KP_ESTATE;
	}
	return KP_OK;
}

static enum kp_err
use(SSL_CTX *ctx, X509 *cert, STACK_OF(X509) *chain, EVP_PKEY *key,
    const struct pem_pair *p, char *why, size_t n)
{
	char whole[PEM_PATH_MAX], wholekey[PEM_PATH_MAX];
	enum kp_err e = check_dates(cert, p->cert, why, n);

	pem_path(whole, p->cert);
	if (e != KP_OK)
		return e;
	if (X509_check_private_key(cert, key) != 1) {
		snprintf(why, n, "the key '%s' does not belong to the "
		    "certificate '%s' (see %s)", pem_path(wholekey,
		    p->key != NULL ? p->key : p->cert), whole,
		    p->key_option);
		return KP_ESTATE;
	}
	if (SSL_CTX_use_cert_and_key(ctx, cert, key, chain, 1) == 1)
		return KP_OK;
	snprintf(why, n, "OpenSSL does not take the certificate '%s': %s", whole,
	    cert_openssl_reason());
	return KP_ESTATE;
}

enum kp_err
pem_use_pair(SSL_CTX *ctx, const struct pem_pair *p, char *why, size_t n)
{
	STACK_OF(X509) *chain = NULL;
	EVP_PKEY *pkey = NULL;
	X509 *x = NULL;
	enum kp_err e;

	ERR_clear_error();
	e = read_chain(p, &x, &chain, why, n);
	if (e == KP_OK) {
		pkey = read_key(p, why, n);
		e = pkey == NULL ? KP_ESTATE :
		    use(ctx, x, chain, pkey, p, why, n);
	}
	EVP_PKEY_free(pkey);
	sk_X509_pop_free(chain, X509_free);
	X509_free(x);
	ERR_clear_error();
	return e;
}

enum kp_err
pem_trust(SSL_CTX *ctx, const char *ca, char *why, size_t n)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	struct certs c = { .path = ca, .option = "-tls-ca" };
	bool well = true;
	X509 *x;

	c.b = open_pem(ca, "the CA file", "-tls-ca", false, why, n);
	if (c.b == NULL)
		return KP_ESTATE;
	while (well && (x = certs_next(&c)) != NULL) {
		well = X509_STORE_add_cert(store, x) == 1;
		X509_free(x);
	}
	if (well)
		return certs_end(&c, why, n);
	BIO_free(c.b);
	ERR_clear_error();
	snprintf(why, n, "out of memory");
	return KP_ENOMEM;
}

/*
 * ---- signatures that certificates may have ----
 *
 * Source: RFC 8446, 4.2.3.  A chain is checked with TLS 1.3 only, as OTP's ssl does; the
 * signature of the CA that is trusted does not matter.
 */

/* A scheme, and the same as a pair of TLS 1.2. */
static const struct scheme {
	const char *name, *pair;
	uint16_t code;
	int hash, key;		/* as X509_get_signature_info() returns them */
} schemes[] = {
	{ "rsa_pkcs1_sha1", "RSA+SHA1", 0x0201, NID_sha1, NID_rsaEncryption },
	{ "ecdsa_sha1", "ECDSA+SHA1", 0x0203, NID_sha1,
	    NID_X9_62_id_ecPublicKey },
	{ "", "RSA+SHA224", 0x0301, NID_sha224, NID_rsaEncryption },
	{ "", "ECDSA+SHA224", 0x0303, NID_sha224, NID_X9_62_id_ecPublicKey },
	{ "rsa_pkcs1_sha256", "RSA+SHA256", 0x0401, NID_sha256,
	    NID_rsaEncryption },
	{ "ecdsa_secp256r1_sha256", "ECDSA+SHA256", 0x0403, NID_sha256,
	    NID_X9_62_id_ecPublicKey },
	{ "rsa_pkcs1_sha384", "RSA+SHA384", 0x0501, NID_sha384,
	    NID_rsaEncryption },
	{ "ecdsa_secp384r1_sha384", "ECDSA+SHA384", 0x0503, NID_sha384,
	    NID_X9_62_id_ecPublicKey },
	{ "rsa_pkcs1_sha512", "RSA+SHA512", 0x0601, NID_sha512,
	    NID_rsaEncryption },
	{ "ecdsa_secp521r1_sha512", "ECDSA+SHA512", 0x0603, NID_sha512,
	    NID_X9_62_id_ecPublicKey },
	{ "rsa_pss_rsae_sha256", "RSA-PSS+SHA256", 0x0804, NID_sha256,
	    NID_rsassaPss },
	{ "rsa_pss_rsae_sha384", "RSA-PSS+SHA384", 0x0805, NID_sha384,
	    NID_rsassaPss },
	{ "rsa_pss_rsae_sha512", "RSA-PSS+SHA512", 0x0806, NID_sha512,
	    NID_rsassaPss },
	{ "ed25519", "", 0x0807, NID_undef, NID_ED25519 },
	{ "ed448", "", 0x0808, NID_undef, NID_ED448 },
	{ "rsa_pss_pss_sha256", "", 0x0809, NID_sha256, NID_rsassaPss },
	{ "rsa_pss_pss_sha384", "", 0x080a, NID_sha384, NID_rsassaPss },
	{ "rsa_pss_pss_sha512", "", 0x080b, NID_sha512, NID_rsassaPss },
};

#define NSCHEMES (sizeof(schemes) / sizeof(schemes[0]))

_Static_assert(NSCHEMES <= 32, "a bit for each");

static uint32_t
bit_of(const char *name)
{
	for (size_t i = 0; i < NSCHEMES; i++)
		if (strcmp(name, schemes[i].name) == 0 ||
		    strcmp(name, schemes[i].pair) == 0)
			return UINT32_C(1) << i;
	return 0;
}

static uint32_t
announced(const SSL_CTX *ctx)
{
	return (uint32_t)(uintptr_t)SSL_CTX_get_app_data(ctx);
}

/* ---- the extension: a length, and the codes; two bytes each ---- */

static int
on_add(SSL *ssl, unsigned ext, unsigned context, const unsigned char **out,
    size_t *len, X509 *x, size_t at, int *alert, void *arg)
{
	uint32_t set = announced(SSL_get_SSL_CTX(ssl));
	unsigned char *to = malloc(2 + 2 * NSCHEMES);
	size_t n = 2;

	(void)ext, (void)context, (void)x, (void)at, (void)arg;
	if (to == NULL) {
		*alert = SSL_AD_INTERNAL_ERROR;
		return -1;
	}
	for (size_t i = 0; i < NSCHEMES; i++)
		if ((set >> i & 1) != 0) {
			to[n++] = (unsigned char)(schemes[i].code >> 8);
			to[n++] = (unsigned char)schemes[i].code;
		}
	to[0] = 0;
	to[1] = (unsigned char)(n - 2);
	*out = to;
	*len = n;
	return 1;
}

static void
on_added(SSL *ssl, unsigned ext, unsigned context, const unsigned char *out,
    void *arg)
{
	(void)ssl, (void)ext, (void)context, (void)arg;
	free((void *)(uintptr_t)out);
}

bool
cert_sigalgs_use(SSL_CTX *ctx, const char *names)
{
	char *list = strdup(names), *one, *rest = NULL;
	uint32_t set = 0;

	for (one = list != NULL ? strtok_r(list, ":", &rest) : NULL; one != NULL;
	    one = strtok_r(NULL, ":", &rest))
		set |= bit_of(one);
	free(list);
	return set != 0 &&
	    SSL_CTX_set_app_data(ctx, (void *)(uintptr_t)set) == 1 &&
	    SSL_CTX_add_custom_ext(ctx, SIGALGS_CERT, SSL_EXT_CLIENT_HELLO,
		on_add, on_added, NULL, NULL, NULL) == 1;
}

/* ---- the node's certificates ---- */

static bool
is_one_of(X509 *x, uint32_t set)
{
	int hash, key;

	if (X509_get_signature_info(x, &hash, &key, NULL, NULL) != 1)
		return false;
	for (size_t i = 0; i < NSCHEMES; i++)
		if ((set >> i & 1) != 0 && schemes[i].hash == hash &&
		    schemes[i].key == key)
			return true;
	return false;
}

X509 *
cert_sigalgs_other(SSL *ssl, int *depth)
{
	uint32_t set = announced(SSL_get_SSL_CTX(ssl));
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);

	if (set == 0 || SSL_version(ssl) < TLS1_3_VERSION)
		return NULL;
	for (*depth = 0; *depth + 1 < sk_X509_num(chain); ++*depth)
		if (!is_one_of(sk_X509_value(chain, *depth), set))
			return sk_X509_value(chain, *depth);
	return NULL;
}
