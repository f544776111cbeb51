/*
 * cert_sigalgs.h - the signatures that certificates may have.
 *
 * OpenSSL has no option for the extension signature_algorithms_cert and never sends
 * it.  So it is added here, and the certificates of the node are checked here, too.
 */
#ifndef KPROFD_CONN_TLS_CERT_SIGALGS_H
#define KPROFD_CONN_TLS_CERT_SIGALGS_H

#include <stdbool.h>

#include <openssl/ssl.h>

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
