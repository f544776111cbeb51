/*
 * tls_peer.c - certificates by OpenSSL's API, and a server that blocks.
 */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "tls_peer.h"

/* Also where NDEBUG is set. */
#define MUST(x)                                                             \
	do {                                                                \
		if (!(x)) {                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			abort();                                            \
		}                                                           \
	} while (0)

void
tls_dir_make(struct tls_dir *d)
{
	snprintf(d->path, sizeof(d->path), "/tmp/kprofd-tls-XXXXXX");
	MUST(mkdtemp(d->path) != NULL);
}

void
tls_dir_free(struct tls_dir *d)
{
	DIR *dir = opendir(d->path);
	struct dirent *e;

	MUST(dir != NULL);
	while ((e = readdir(dir)) != NULL)
		if (e->d_name[0] != '.')
			unlinkat(dirfd(dir), e->d_name, 0);
	closedir(dir);
	MUST(rmdir(d->path) == 0);
}

const char *
tls_file(const struct tls_dir *d, const char *name)
{
	static _Thread_local char texts[64][TLS_PATH_MAX];
	static _Thread_local unsigned at;
	char *s = texts[at++ % 64];

	snprintf(s, TLS_PATH_MAX, "%s/%s", d->path, name);
	return s;
}

const char *
tls_write(const struct tls_dir *d, const char *name, const char *text,
    unsigned mode)
{
	const char *path = tls_file(d, name);
	FILE *f = fopen(path, "w");

	MUST(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
	MUST(chmod(path, mode) == 0);
	return path;
}

/* ---- certificates ---- */

static FILE *
open_for(const struct tls_dir *d, const char *name, const char *suffix,
    const char *mode)
{
	char file[100];
	FILE *f;

	snprintf(file, sizeof(file), "%s%s", name, suffix);
	f = fopen(tls_file(d, file), mode);
	MUST(f != NULL);
	return f;
}

static void
extend(X509 *x, X509 *issuer, int kind, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;

	if (value == NULL)
		return;
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, kind, value);
	MUST(ext != NULL && X509_add_ext(x, ext, -1) == 1);
	X509_EXTENSION_free(ext);
}

static void
name_it(X509 *x, const char *name)
{
	X509_NAME *n = X509_get_subject_name(x);

	MUST(X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_UTF8,
	    (const unsigned char *)name, -1, -1, 0) == 1);
}

void
tls_cert_make(const struct tls_dir *d, const char *name,
    const struct tls_cert *c)
{
	static long serial;
	EVP_PKEY *key = EVP_EC_gen("P-256"), *by = key;
	X509 *x = X509_new(), *issuer = x;
	FILE *f;

	MUST(key != NULL && x != NULL);
	if (c->by != NULL) {
		f = open_for(d, c->by, ".pem", "r");
		issuer = PEM_read_X509(f, NULL, NULL, NULL);
		fclose(f);
		f = open_for(d, c->by, ".key", "r");
		by = PEM_read_PrivateKey(f, NULL, NULL, NULL);
		fclose(f);
		MUST(issuer != NULL && by != NULL);
	}
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(x), c->from);
	X509_gmtime_adj(X509_getm_notAfter(x),
	    c->from == 0 && c->until == 0 ? 3600 : c->until);
	X509_set_pubkey(x, key);
	name_it(x, name);
	X509_set_issuer_name(x, X509_get_subject_name(issuer));
	extend(x, issuer, NID_basic_constraints,
	    c->ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
	extend(x, issuer, NID_subject_alt_name, c->hosts);
	extend(x, issuer, NID_ext_key_usage, c->usage);
	MUST(X509_sign(x, by, c->sha384 ? EVP_sha384() : EVP_sha256()) > 0);
	f = open_for(d, name, ".pem", "w");
	MUST(PEM_write_X509(f, x) == 1 && fclose(f) == 0);
	f = open_for(d, name, ".key", "w");
	MUST(fchmod(fileno(f), 0600) == 0);
	MUST(PEM_write_PrivateKey(f, key, c->password != NULL ?
	    EVP_aes_256_cbc() : NULL, NULL, 0, NULL,
	    (void *)(uintptr_t)c->password) == 1 && fclose(f) == 0);
	if (c->by != NULL) {
		X509_free(issuer);
		EVP_PKEY_free(by);
	}
	X509_free(x);
	EVP_PKEY_free(key);
}

/* ---- the server ---- */

static SSL_CTX *
server_context(const struct tls_peer *p)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	char key[100];

	MUST(ctx != NULL);
	snprintf(key, sizeof(key), "%.*s.key", (int)strcspn(p->cert, "."),
	    p->cert);
	MUST(SSL_CTX_use_certificate_chain_file(ctx, tls_file(p->dir,
	    p->cert)) == 1);
	MUST(SSL_CTX_use_PrivateKey_file(ctx, tls_file(p->dir, key),
	    SSL_FILETYPE_PEM) == 1);
	if (p->version != 0) {
		SSL_CTX_set_min_proto_version(ctx, p->version);
		SSL_CTX_set_max_proto_version(ctx, p->version);
	}
	if (p->version != 0 && p->version < TLS1_2_VERSION)
		SSL_CTX_set_security_level(ctx, 0);
	if (p->ciphers != NULL)
		MUST(SSL_CTX_set_cipher_list(ctx, p->ciphers) == 1);
	if (p->ca != NULL) {
		MUST(SSL_CTX_load_verify_file(ctx, tls_file(p->dir, p->ca)) ==
		    1);
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER |
		    SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"t", 1);
	return ctx;
}

static void *
serve(void *arg)
{
	struct tls_peer *p = arg;
	SSL_CTX *ctx = server_context(p);
	SSL *ssl = SSL_new(ctx);
	const char *host;
	sigset_t pipe;

	/* OpenSSL raises it here; in the client it would end the test. */
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);
	MUST(ssl != NULL && SSL_set_fd(ssl, p->server) == 1);
	p->accepted = SSL_accept(ssl) == 1;
	host = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	snprintf(p->host, sizeof(p->host), "%s", host != NULL ? host : "");
	if (p->accepted && p->talk != NULL)
		p->talk(p, ssl);
	else if (p->accepted)
		SSL_shutdown(ssl);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(p->server);
	return NULL;
}

void
tls_peer_start(struct tls_peer *p)
{
	int fd[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
	p->fd = fd[0];
	p->server = fd[1];
	MUST(pthread_create(&p->thread, NULL, serve, p) == 0);
}

void
tls_peer_join(struct tls_peer *p)
{
	MUST(pthread_join(p->thread, NULL) == 0);
}
