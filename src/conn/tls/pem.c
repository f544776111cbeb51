/*
 * pem.c - reads the files itself: OpenSSL's functions for files would wait for a
 * FIFO's writer, ask for a password at the terminal, and not say which file it was.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "conn/tls/cert_text.h"
#include "conn/tls/pem.h"
#include "kprofd/secret.h"

#define FILE_MAX (1u << 20)	/* bytes: a bundle of public CAs has 220 KiB */
#define CHAIN_MAX 16u		/* certificates between ours and its CA */

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

/* A file in memory.  NULL, after saying why: it cannot be read. */
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
read_key(const char *path, const char *password, char *why, size_t n)
{
	struct password pw = { password, false };
	char whole[PEM_PATH_MAX];
	EVP_PKEY *key;
	BIO *b = open_pem(path, "the key file", "-tls-key", true, why, n);

	if (b == NULL)
		return NULL;
	key = PEM_read_bio_PrivateKey(b, NULL, give_password, &pw);
	BIO_free(b);
	if (key == NULL)
		snprintf(why, n, pw.asked && password != NULL ?
		    "the password of the key file '%s' is wrong" : pw.asked ?
		    "the key file '%s' is encrypted: give {password, Text} in "
		    "the options file (see -tls-optfile)" :
		    "there is no private key in PEM format in '%s' (see "
		    "-tls-key)", pem_path(whole, path));
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
read_chain(const char *path, X509 **cert, STACK_OF(X509) **chain, char *why,
    size_t n)
{
	struct certs c = { .path = path, .option = "-tls-cert" };
	char whole[PEM_PATH_MAX];
	X509 *next;

	*chain = sk_X509_new_null();
	if (*chain == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	c.b = open_pem(path, "the certificate file", "-tls-cert", false, why, n);
	if (c.b == NULL)
		return KP_ESTATE;
	*cert = next = certs_next(&c);
	while (next != NULL && (next = certs_next(&c)) != NULL) {
		if (c.n <= 1 + CHAIN_MAX && sk_X509_push(*chain, next) > 0)
			continue;
		X509_free(next);
		BIO_free(c.b);
		snprintf(why, n, "more than %u certificates follow the first "
		    "in '%s' (see -tls-cert)", CHAIN_MAX,
		    pem_path(whole, path));
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
    const char *path, const char *keypath, char *why, size_t n)
{
	char whole[PEM_PATH_MAX], wholekey[PEM_PATH_MAX];
	enum kp_err e = check_dates(cert, path, why, n);

	pem_path(whole, path);
	if (e != KP_OK)
		return e;
	if (X509_check_private_key(cert, key) != 1) {
		snprintf(why, n, "the key '%s' does not belong to the "
		    "certificate '%s' (see -tls-key)",
		    pem_path(wholekey, keypath), whole);
		return KP_ESTATE;
	}
	if (SSL_CTX_use_cert_and_key(ctx, cert, key, chain, 1) == 1)
		return KP_OK;
	snprintf(why, n, "OpenSSL does not take the certificate '%s': %s", whole,
	    cert_openssl_reason());
	return KP_ESTATE;
}

enum kp_err
pem_use_pair(SSL_CTX *ctx, const char *cert, const char *key,
    const char *password, char *why, size_t n)
{
	STACK_OF(X509) *chain = NULL;
	EVP_PKEY *pkey = NULL;
	X509 *x = NULL;
	enum kp_err e;

	if (key == NULL)
		key = cert;
	ERR_clear_error();
	e = read_chain(cert, &x, &chain, why, n);
	if (e == KP_OK) {
		pkey = read_key(key, password, why, n);
		e = pkey == NULL ? KP_ESTATE :
		    use(ctx, x, chain, pkey, cert, key, why, n);
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
