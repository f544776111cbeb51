/*
 * cert_text.h - what is in a certificate, as text for a message.  A certificate is
 * the peer's: what it says is bounded, and safe for a terminal.
 */
#ifndef KPROFD_CONN_TLS_CERT_TEXT_H
#define KPROFD_CONN_TLS_CERT_TEXT_H

#include <openssl/x509.h>

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

#endif
