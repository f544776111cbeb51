/*
 * fuzz_tls.c - an encrypted channel whose peer does anything.
 *
 * The first byte says what: bytes in place of a server's handshake; or a real
 * handshake, then raw bytes; or a real one, then any order of writes, reads, other
 * keys and renegotiations on both sides, after which each side has to have, in order,
 * what the other sent.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "conn/tls_channel.h"
#include "fuzz.h"

#define OPS_MAX 200

/* One connection, and what its two sides have sent and got of a stream. */
struct pair {
	struct channel *c;
	SSL *server;
	int fd;			/* of the server */
	size_t ours, theirs;	/* bytes sent */
	size_t got_ours, got_theirs;
	size_t pending;		/* of a write that has to be repeated */
	size_t server_pending;
};

static SSL_CTX *client_ctx, *server_ctx[2];
static unsigned shaken, renewed, refused;

static uint8_t
byte_at(size_t i)
{
	return (uint8_t)(i * 31 + (i >> 8));
}

static SSL_CTX *
server_new(int version, X509 *x, EVP_PKEY *key)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	REQUIRE(ctx != NULL && SSL_CTX_use_certificate(ctx, x) == 1);
	REQUIRE(SSL_CTX_use_PrivateKey(ctx, key) == 1);
	SSL_CTX_set_min_proto_version(ctx, version);
	SSL_CTX_set_max_proto_version(ctx, version);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
	    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

static void
contexts(void)
{
	EVP_PKEY *key;
	X509 *x;

	if (client_ctx != NULL)
		return;
	key = EVP_EC_gen("P-256");
	x = X509_new();
	REQUIRE(key != NULL && x != NULL);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, key);
	REQUIRE(X509_sign(x, key, EVP_sha256()) > 0);
	server_ctx[0] = server_new(TLS1_2_VERSION, x, key);
	server_ctx[1] = server_new(TLS1_3_VERSION, x, key);
	X509_free(x);
	EVP_PKEY_free(key);
	client_ctx = SSL_CTX_new(TLS_client_method());
	REQUIRE(client_ctx != NULL);
}

/* verify: it has no CA, so a certificate is refused. */
static struct channel *
channel_to(int fd, bool verify)
{
	static const struct tls_errors why = { .host = "vm", .ca = "ca.pem" };
	SSL *ssl = SSL_new(client_ctx);
	struct channel *c;

	REQUIRE(ssl != NULL);
	c = tls_channel_new(fd, ssl, &why, verify);
	REQUIRE(c != NULL);
	return c;
}

static void
sockets(int fd[2])
{
	int n = 4096;	/* small, so that writes have to wait */

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
	setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &n, sizeof(n));
	setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &n, sizeof(n));
}

static void
has_reason(const struct channel *c, ssize_t n)
{
	REQUIRE(n != CHANNEL_FAILED || c->why[0] != '\0');
	REQUIRE(n != CHANNEL_WAIT || c->wants != 0);
	refused += n == CHANNEL_FAILED;
}

/* Reads to the end of what there is. */
static void
drain(struct channel *c)
{
	uint8_t in[300];
	ssize_t n;

	while ((n = channel_read(c, in, sizeof(in))) > 0)
		;
	has_reason(c, n);
	has_reason(c, channel_write(c, "abc", 3));
}

static void
no_server(const uint8_t *p, size_t n, bool verify)
{
	struct channel *c;
	ssize_t r;
	int fd[2];

	sockets(fd);
	c = channel_to(fd[0], verify);
	r = tls_channel_handshake(c);
	REQUIRE(r == CHANNEL_WAIT);
	(void)!write(fd[1], p, n);
	shutdown(fd[1], SHUT_WR);
	r = tls_channel_handshake(c);
	has_reason(c, r);
	REQUIRE(r != 1);
	drain(c);
	channel_free(c);
	close(fd[1]);
}

static void
pair_open(struct pair *p, bool newer)
{
	ssize_t r = CHANNEL_WAIT;
	int fd[2], done = 0;

	sockets(fd);
	*p = (struct pair){ .c = channel_to(fd[0], false), .fd = fd[1] };
	p->server = SSL_new(server_ctx[newer]);
	REQUIRE(p->server != NULL && SSL_set_fd(p->server, fd[1]) == 1);
	for (int i = 0; i < 20 && (r != 1 || done != 1); i++) {
		if (r != 1)
			r = tls_channel_handshake(p->c);
		if (done != 1)
			done = SSL_accept(p->server);
		ERR_clear_error();
	}
	REQUIRE(r == 1 && done == 1);
	shaken++;
}

static void
pair_close(struct pair *p)
{
	channel_free(p->c);
	SSL_free(p->server);
	close(p->fd);
	ERR_clear_error();
}

/* ---- any order of what both sides may do ---- */

static void
we_write(struct pair *p, size_t n)
{
	uint8_t out[20000];
	ssize_t sent;

	n = p->pending > n ? p->pending : n;
	for (size_t i = 0; i < n; i++)
		out[i] = byte_at(p->ours + i);
	sent = channel_write(p->c, out, n);
	REQUIRE(sent > 0 || sent == CHANNEL_WAIT);
	REQUIRE(sent <= (ssize_t)n);
	p->pending = sent > 0 ? 0 : n;
	p->ours += sent > 0 ? (size_t)sent : 0;
}

static void
we_read(struct pair *p, size_t n)
{
	uint8_t in[20000];
	ssize_t got = channel_read(p->c, in, n);

	REQUIRE(got > 0 || got == CHANNEL_WAIT);
	for (ssize_t i = 0; i < got; i++)
		REQUIRE(in[i] == byte_at(p->got_theirs++));
	REQUIRE(p->got_theirs <= p->theirs + p->server_pending);
}

static void
server_writes(struct pair *p, size_t n)
{
	uint8_t out[20000];
	size_t sent;

	/* As in our channel, only a read drives a renegotiation. */
	if (SSL_version(p->server) == TLS1_2_VERSION &&
	    (SSL_in_init(p->server) || SSL_renegotiate_pending(p->server))) {
		SSL_peek_ex(p->server, out, 1, &sent);
		ERR_clear_error();
		return;
	}
	n = p->server_pending > n ? p->server_pending : n;
	for (size_t i = 0; i < n; i++)
		out[i] = byte_at(p->theirs + i);
	p->server_pending = n;
	if (SSL_write_ex(p->server, out, n, &sent) == 1) {
		p->theirs += sent;
		p->server_pending = 0;
	}
	ERR_clear_error();
}

static void
server_reads(struct pair *p, size_t n)
{
	uint8_t in[20000];
	size_t got;

	if (SSL_read_ex(p->server, in, n, &got) == 1)
		for (size_t i = 0; i < got; i++)
			REQUIRE(in[i] == byte_at(p->got_ours++));
	ERR_clear_error();
}

/* Not while something of it is half sent, which OpenSSL does not bear. */
static void
server_renews(struct pair *p)
{
	if (p->server_pending > 0 || SSL_in_init(p->server))
		return;
	if (SSL_version(p->server) == TLS1_3_VERSION)
		SSL_key_update(p->server, SSL_KEY_UPDATE_REQUESTED);
	else if (!SSL_renegotiate_pending(p->server))
		SSL_renegotiate(p->server);
	SSL_do_handshake(p->server);
	ERR_clear_error();
	renewed++;
}

static void
settle(struct pair *p)
{
	for (int i = 0; i < 2000 && (p->pending > 0 || p->server_pending > 0 ||
	    p->got_ours < p->ours || p->got_theirs < p->theirs); i++) {
		if (p->server_pending > 0)
			server_writes(p, 0);
		we_read(p, 20000);
		if (p->pending > 0)
			we_write(p, 0);
		server_reads(p, 20000);
	}
	REQUIRE(p->pending == 0 && p->got_ours == p->ours);
	REQUIRE(p->server_pending == 0 && p->got_theirs == p->theirs);
}

static void
any_order(struct pair *p, const uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n && i < OPS_MAX; i++) {
		size_t size = (size_t)1 << (at[i] >> 3 & 15);

		size = size > 20000 ? 20000 : size;
		switch (at[i] & 7) {
		case 0: case 1: we_write(p, size); break;
		case 2: case 3: we_read(p, size); break;
		case 4: server_writes(p, size); break;
		case 5: case 6: server_reads(p, size); break;
		default: server_renews(p); break;
		}
	}
	settle(p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pair p;

	contexts();
	if (size == 0)
		return 0;
	if (data[0] % 4 == 0) {
		no_server(data + 1, size - 1, (data[0] & 4) != 0);
		return 0;
	}
	pair_open(&p, (data[0] & 4) != 0);
	if (data[0] % 4 == 1) {
		(void)!write(p.fd, data + 1, size - 1);
		shutdown(p.fd, SHUT_WR);
		drain(p.c);
	} else {
		any_order(&p, data + 1, size - 1);
	}
	pair_close(&p);
	return 0;
}

void
fuzz_replayed(void)
{
	REQUIRE(shaken > 3 && renewed > 3 && refused > 3);
}
