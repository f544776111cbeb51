/*
 * tls_certs.h - certificates and keys in PEM files, what is in a certificate, and the
 * signatures that certificates may have.
 *
 * Paths are relative to the working directory; messages have all of them.  A certificate
 * is the peer's: what it says is bounded, and safe for a terminal.
 */
#ifndef KPROFD_CONN_TLS_CERTS_H
#define KPROFD_CONN_TLS_CERTS_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "kprofd/err.h"

#define PEM_PATH_MAX 8192u	/* bytes of a working directory and a path */

/* The whole path of a file; returns buf. */
const char *pem_path(char buf[PEM_PATH_MAX], const char *path);

/*
 * The bytes of a file of at most max bytes, malloced, with a NUL after them.  kind:
 * "the key file", and option: "-tls-key", for `why`.  mode: the file's.  NULL: why is
 * one line.
 */
char *pem_read(const char *path, const char *kind, const char *option,
    unsigned *mode, size_t max, size_t *n, char *why, size_t whylen);
/*
 * False, and why is one line: everybody may read a file of this mode, which has a
 * secret.  Nodes often share theirs with a group.
 */
bool pem_is_private(const char *path, const char *kind, unsigned mode, char *why,
    size_t n);

/* The files of a certificate and its key, and what messages call their options. */
struct pem_pair {
	const char *cert, *key;		/* key: NULL: it is in the other file */
	const char *password;		/* of the key; NULL: none is known */
	const char *cert_option, *key_option;	/* "-tls-cert" */
	const char *locked;		/* the way out for a key that needs one */
};

/*
 * Makes the context present this certificate, with those of its file that follow
 * it, and its key.  Refuses a certificate that is not valid now.
 */
enum kp_err pem_use_pair(SSL_CTX *ctx, const struct pem_pair *p, char *why,
    size_t n);
/* Makes it trust all certificates of this file. */
enum kp_err pem_trust(SSL_CTX *ctx, const char *ca, char *why, size_t n);

/* ---- as text, for messages ---- */

#define CERT_TIME_MAX 32u
#define CERT_NAME_MAX 160u

/* "2026-11-26 04:00:00 UTC"; returns buf. */
const char *cert_time(char buf[CERT_TIME_MAX], const ASN1_TIME *t);
/* The common name, or what else there is of the whole; returns buf. */
const char *cert_name(char buf[CERT_NAME_MAX], const X509_NAME *name);
/*
 * The hosts and addresses that it is for: "'a.b', '10.0.0.1'"; of a certificate
 * without any its common name, or "no host"; returns buf.
 */
const char *cert_hosts(char buf[CERT_NAME_MAX], const X509 *x);
/* The first error in OpenSSL's queue, in its words. */
const char *cert_openssl_reason(void);

/*
 * ---- signatures ----
 *
 * OpenSSL has no option for the extension signature_algorithms_cert and never sends
 * it.  So it is added here, and the certificates of the node are checked here, too.
 */

/*
 * Announces the signatures in `names`, which are OpenSSL's with colons between, and
 * passes over those that it does not know.  False: it knows none, or there is no
 * memory.
 */
bool cert_sigalgs_use(SSL_CTX *ctx, const char *names);
/*
 * Returns the first certificate, from the node's (depth 0) to its CA, that has another
 * signature; borrowed.  NULL: there is none, or nothing was announced.
 */
X509 *cert_sigalgs_other(SSL *ssl, int *depth);

#endif
