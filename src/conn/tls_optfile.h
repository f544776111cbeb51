/*
 * tls_optfile.h - reads the options of a node's TLS distribution, the file that
 * "-ssl_dist_optfile" names: [{server, Options}, {client, Options}].  Pure.
 *
 * We connect, so the client's are ours.  An option that narrows down whom a node
 * trusts, or with what it encrypts, and that we cannot follow, is an error: ignored,
 * it would make our connection weaker than the node's own.
 */
#ifndef KPROFD_CONN_TLS_OPTFILE_H
#define KPROFD_CONN_TLS_OPTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/buf.h"
#include "kprofd/err.h"

#define TLS_OPTFILE_MAX (64u << 10)	/* bytes of the file */
#define TLS_TEXT_MAX 4095u		/* of one path, password, name */
#define TLS_HOST_MAX 255u		/* of server_name_indication */
#define TLS_PAIRS_MAX 4u		/* certificates: one a kind of key */

/* All strings are owned. */
struct tls_pair {
	char *cert, *key;	/* PEM files; key NULL: that of cert */
	char *password;		/* of the key; or NULL */
};

struct tls_settings {
	struct tls_pair pairs[TLS_PAIRS_MAX];
	size_t npairs;
	bool secret;		/* the file has a password */
	char *ca;		/* PEM file; or NULL */
	char *sni;		/* the host to ask for; NULL: the node's */
	bool no_sni;		/* and the host of the certificate is not checked */
	bool no_verify;
	int depth;		/* intermediate certificates; -1: the default */
	bool versions;		/* were given, of which we can speak: */
	bool v12, v13;
	/* Names with colons between; NULL: the default. */
	char *ciphers;
	char *groups12;		/* curves, and groups for TLS 1.2: eccs */
	char *groups13;		/* supported_groups */
	char *sigalgs;		/* in OpenSSL's words, such as RSA+SHA256 */
	char *cert_sigalgs;	/* of certificates, likewise */
};

void tls_settings_init(struct tls_settings *s);
void tls_settings_free(struct tls_settings *s);
void tls_settings_drop_pairs(struct tls_settings *s);

/*
 * Takes n bytes of text; path names the file in messages.  s was initialised, and
 * is the caller's to free in any case.  KP_EFORMAT: why has the line and the reason;
 * KP_ENOMEM.
 */
enum kp_err tls_optfile_parse(struct tls_settings *s, const char *text,
    size_t n, const char *path, char *why, size_t whylen);

#endif
