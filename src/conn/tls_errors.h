/*
 * tls_errors.h - explains to people why a TLS connection could not be made, or broke.
 */
#ifndef KPROFD_CONN_TLS_ERRORS_H
#define KPROFD_CONN_TLS_ERRORS_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/ssl.h>

#include "conn/tls_certs.h"
#include "kprofd/nodes.h"

/* The facts about one connection that the sentences need. */
struct tls_errors {
	char host[KP_NODE_NAME_MAX + 1];	/* that the node is checked for */
	char cert[PEM_PATH_MAX];	/* our files; "": none */
	char ca[PEM_PATH_MAX];
	int depth;		/* intermediate certificates; -1: the default */
	/* The first certificate that was not accepted. */
	X509 *bad;
	int bad_depth;		/* 0: the node's own */
	int code;		/* X509_V_ERR_*; 0: none was */
};

/* Makes verification tell w; w is good as long as ssl. */
void tls_errors_watch(struct tls_errors *w, SSL *ssl, bool verify);
void tls_errors_free(struct tls_errors *w);
/*
 * After the handshake: false, with why, if a certificate of the node has a signature
 * that the options file leaves out.
 */
bool tls_errors_signed(struct tls_errors *w, SSL *ssl, char *why, size_t n);
/*
 * One sentence without the node's name, of the first error in OpenSSL's queue and
 * of the certificate that was not accepted.
 */
void tls_errors_text(const struct tls_errors *w, char *why, size_t n);

#endif
