/*
 * tls_peer.h - certificates made by the tests that need them, and a TLS server on a
 * thread at the other end of a pair of sockets.
 */
#ifndef TEST_TLS_PEER_H
#define TEST_TLS_PEER_H

#include <pthread.h>
#include <stdbool.h>

#include <openssl/ssl.h>

#define TLS_PATH_MAX 300

/* A temporary directory; tls_dir_free() removes it with its files. */
struct tls_dir {
	char path[TLS_PATH_MAX - 100];
};

void tls_dir_make(struct tls_dir *d);
void tls_dir_free(struct tls_dir *d);
/* DIR/NAME; good until the 64th call after it. */
const char *tls_file(const struct tls_dir *d, const char *name);
/* Writes that file with this mode. */
const char *tls_write(const struct tls_dir *d, const char *name,
    const char *text, unsigned mode);

struct tls_cert {
	const char *by;		/* whose key signs it; NULL: its own */
	const char *hosts;	/* "DNS:vm,IP:127.0.0.1"; NULL: none */
	const char *usage;	/* extended key usage, such as "clientAuth" */
	const char *password;	/* of its key; NULL: none */
	bool ca;
	bool sha384;		/* in its signature; else SHA-256 */
	int from, until;	/* seconds from now; both 0: an hour */
};

/* Writes NAME.pem and NAME.key. */
void tls_cert_make(const struct tls_dir *d, const char *name,
    const struct tls_cert *c);

struct tls_peer {
	int fd;			/* of the client, after tls_peer_start() */
	const struct tls_dir *dir;
	const char *cert, *ca;	/* names of files; ca: clients need one of it */
	int version;		/* TLS1_2_VERSION, TLS1_3_VERSION; 0: any */
	const char *ciphers;	/* of TLS 1.2; NULL: all */
	/* Runs after the handshake; NULL: the connection just ends. */
	void (*talk)(struct tls_peer *p, SSL *ssl);
	void *ctx;		/* of talk() */
	bool accepted;		/* the handshake went well */
	int server;		/* its descriptor */
	char host[64];		/* that the client asked for */
	pthread_t thread;
};

void tls_peer_start(struct tls_peer *p);
/* Waits for its end; p->fd is the caller's to close. */
void tls_peer_join(struct tls_peer *p);

#endif
