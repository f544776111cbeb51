/*
 * tls_channel.c - moves bytes between OpenSSL and a socket.
 *
 * OpenSSL's own socket BIO calls write(), which raises SIGPIPE: ours does not.  It
 * also keeps what does not fit into the socket.  OpenSSL would keep it otherwise, and
 * fails when the peer asks for other keys twice before that is sent.
 *
 * A node that speaks TLS 1.2 may ask for another handshake (renegotiation) while
 * data flow both ways.  In a write OpenSSL would take data that come meanwhile for an
 * error, so only reads drive it: a write waits until it is over.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>

#include "conn/channel.h"
#include "conn/tls_channel.h"
#include "kprofd/buf.h"

#define NOTHING_HELD 1
#define CLOSED "it closed the connection"
#define OUT_MAX (1u << 20)	/* bytes: a record, and what handshakes say */

struct tls_channel {
	struct channel base;
	SSL *ssl;
	struct tls_errors why;
	int err;		/* of the socket; 0: none */
	bool eof;
	bool verify;
	bool over;		/* failed: no more than freeing is allowed */
	bool writing;		/* err is hidden from OpenSSL: see tls_write() */
	ssize_t held;		/* what the next read returns */
	struct kp_buf out;	/* encrypted, not yet in the socket */
	size_t sent;		/* of out */
	size_t accepted;	/* bytes of a write that are in out */
};

/* ---- the socket as OpenSSL sees it ---- */

static int
bio_read(BIO *b, char *to, int n)
{
	struct tls_channel *t = BIO_get_data(b);
	ssize_t got;

	BIO_clear_retry_flags(b);
	do
		got = recv(t->base.fd, to, (size_t)n, 0);
	while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		BIO_set_retry_read(b);
	else if (got < 0)
		t->err = errno;
	t->eof |= got == 0;
	return (int)got;
}

/* As many bytes as the socket takes; less than 0, with t->err: it is broken. */
static ssize_t
put(struct tls_channel *t, const void *from, size_t n)
{
	ssize_t sent;

	do
		sent = send(t->base.fd, from, n, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return sent;
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return 0;
	t->err = errno;
	return -1;
}

/* Sends what was kept.  False: there is more of it, or t->err. */
static bool
flush(struct tls_channel *t)
{
	ssize_t n = 1;

	while (n > 0 && t->sent < t->out.len) {
		n = put(t, t->out.p + t->sent, t->out.len - t->sent);
		t->sent += n > 0 ? (size_t)n : 0;
	}
	if (t->sent < t->out.len)
		return false;
	kp_buf_reset(&t->out);
	t->sent = 0;
	return true;
}

static int
bio_write(BIO *b, const char *from, int n)
{
	struct tls_channel *t = BIO_get_data(b);
	ssize_t sent = 0;

	BIO_clear_retry_flags(b);
	if (flush(t))
		sent = put(t, from, (size_t)n);
	if (t->err == 0) {
		kp_buf_put(&t->out, from + sent, (size_t)(n - sent));
		t->err = t->out.err == KP_OK ? 0 : ENOBUFS;
	}
	return t->err == 0 || t->writing ? n : -1;
}

static long
bio_ctrl(BIO *b, int cmd, long n, void *p)
{
	const struct tls_channel *t = BIO_get_data(b);

	(void)n, (void)p;
	return cmd == BIO_CTRL_FLUSH || (cmd == BIO_CTRL_EOF && t->eof);
}

static BIO_METHOD *socket_method;

static void
make_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() |
	    BIO_TYPE_SOURCE_SINK, "kprofd's socket");

	if (m != NULL && BIO_meth_set_read(m, bio_read) == 1 &&
	    BIO_meth_set_write(m, bio_write) == 1 &&
	    BIO_meth_set_ctrl(m, bio_ctrl) == 1)
		socket_method = m;
	else
		BIO_meth_free(m);
}

static BIO *
bio_of(struct tls_channel *t)
{
	static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;
	BIO *b;

	if (CRYPTO_THREAD_run_once(&once, make_method) != 1 ||
	    socket_method == NULL || (b = BIO_new(socket_method)) == NULL)
		return NULL;
	BIO_set_data(b, t);
	BIO_set_init(b, 1);
	return b;
}

/* ---- what a call of OpenSSL came to ---- */

/*
 * Why it broke.  After an error of TLS the socket's does not count: it comes of the
 * alert that OpenSSL sends then.
 */
static ssize_t
broken(struct tls_channel *t)
{
	unsigned long e = ERR_peek_error();
	bool ended = e == 0 || ERR_GET_REASON(e) ==
	    SSL_R_UNEXPECTED_EOF_WHILE_READING;

	t->over = true;
	if (ended && t->eof)
		return CHANNEL_END;
	if (ended && t->err != 0)
		return channel_failed(&t->base, t->err);
	tls_errors_text(&t->why, t->base.why, sizeof(t->base.why));
	t->base.err = 0;
	return CHANNEL_FAILED;
}

static ssize_t
verdict(struct tls_channel *t)
{
	ssize_t v;

	switch (SSL_get_error(t->ssl, -1)) {
	case SSL_ERROR_WANT_READ:
		t->base.wants = t->out.len > 0 ? POLLIN | POLLOUT : POLLIN;
		return CHANNEL_WAIT;
	case SSL_ERROR_ZERO_RETURN:
		return CHANNEL_END;
	default:
		v = broken(t);
		ERR_clear_error();
		return v;
	}
}

/* ---- reading ---- */

/*
 * Reads record after record, as long as OpenSSL has more: a node sends a record a
 * message.  What ended it is returned by the next read.
 */
static ssize_t
tls_read(struct channel *c, void *to, size_t n)
{
	struct tls_channel *t = (struct tls_channel *)c;
	ssize_t v = t->held;
	size_t total = 0, got;

	t->held = NOTHING_HELD;
	c->more = false;
	if (v != NOTHING_HELD)
		return v;
	ERR_clear_error();
	flush(t);
	do {
		if (SSL_read_ex(t->ssl, (char *)to + total, n - total,
		    &got) != 1) {
			v = verdict(t);
			break;
		}
		total += got;
		c->more = SSL_has_pending(t->ssl) == 1;
	} while (c->more && total < n);
	if (v == NOTHING_HELD)
		return (ssize_t)total;
	c->more = false;
	if (total == 0)
		return v;
	/* The descriptor does not announce it again. */
	if (v != CHANNEL_WAIT) {
		t->held = v;
		c->more = true;
	}
	return (ssize_t)total;
}

/* ---- writing ---- */

static bool
renegotiates(const struct tls_channel *t)
{
	return SSL_version(t->ssl) < TLS1_3_VERSION &&
	    (SSL_in_init(t->ssl) || SSL_renegotiate_pending(t->ssl));
}

/*
 * Goes on with the handshake by a read that takes nothing.  NOTHING_HELD: it is over.
 * Data before it have to be read first.
 */
static ssize_t
renegotiate(struct tls_channel *t)
{
	size_t got;
	char byte;

	if (SSL_peek_ex(t->ssl, &byte, 1, &got) == 1) {
		t->base.more = true;
		t->base.wants = POLLIN;
		return renegotiates(t) ? CHANNEL_WAIT : NOTHING_HELD;
	}
	return renegotiates(t) || SSL_want(t->ssl) == SSL_NOTHING ?
	    verdict(t) : NOTHING_HELD;
}

/*
 * The socket broke.  A node that refuses us closes at once: its alert came before
 * that.
 */
static ssize_t
write_broken(struct tls_channel *t)
{
	int err = t->err;
	size_t got;
	char byte;

	ERR_clear_error();
	if (SSL_peek_ex(t->ssl, &byte, 1, &got) != 1 &&
	    SSL_get_error(t->ssl, -1) == SSL_ERROR_SSL &&
	    ERR_GET_REASON(ERR_peek_error()) !=
	    SSL_R_UNEXPECTED_EOF_WHILE_READING) {
		tls_errors_text(&t->why, t->base.why, sizeof(t->base.why));
		t->base.err = 0;
	} else {
		channel_failed(&t->base, err);
	}
	ERR_clear_error();
	t->over = true;
	return CHANNEL_FAILED;
}

/*
 * That the socket broke is not OpenSSL's to know: it has to read once more after
 * that.
 */
static bool
encrypt(struct tls_channel *t, const void *from, size_t n)
{
	bool well;

	t->writing = true;
	well = SSL_write_ex(t->ssl, from, n, &t->accepted) == 1;
	t->writing = false;
	return well;
}

static ssize_t
tls_write(struct channel *c, const void *from, size_t n)
{
	struct tls_channel *t = (struct tls_channel *)c;
	ssize_t v = NOTHING_HELD;

	/* The next read may have to tell what it was: why stays. */
	if (t->over) {
		if (c->why[0] == '\0')
			snprintf(c->why, sizeof(c->why), CLOSED);
		return CHANNEL_FAILED;
	}
	ERR_clear_error();
	flush(t);
	if (t->err == 0 && t->out.len == 0 && t->accepted == 0) {
		if (renegotiates(t))
			v = renegotiate(t);
		if (v == NOTHING_HELD && !encrypt(t, from, n))
			v = verdict(t);
	}
	if ((v == NOTHING_HELD || v == CHANNEL_WAIT) && t->err != 0)
		v = write_broken(t);
	if (v == NOTHING_HELD && t->out.len > 0) {
		c->wants = POLLOUT;
		return CHANNEL_WAIT;
	}
	if (v == NOTHING_HELD) {
		n = t->accepted;
		t->accepted = 0;
		return (ssize_t)n;
	}
	if (v != CHANNEL_END)
		return v;
	snprintf(c->why, sizeof(c->why), CLOSED);
	return CHANNEL_FAILED;
}

/* ---- beginning and end ---- */

/* Says goodbye, without waiting for an answer. */
static void
tls_free(struct channel *c)
{
	struct tls_channel *t = (struct tls_channel *)c;

	ERR_clear_error();
	if (!t->over && SSL_is_init_finished(t->ssl))
		SSL_shutdown(t->ssl);
	ERR_clear_error();
	SSL_free(t->ssl);
	tls_errors_free(&t->why);
	kp_buf_free(&t->out);
	free(t);
}

static const struct channel_kind tls = { tls_read, tls_write, tls_free };

struct channel *
tls_channel_new(int fd, SSL *ssl, const struct tls_errors *w, bool verify)
{
	struct tls_channel *t = calloc(1, sizeof(*t));
	BIO *b;

	if (t == NULL || (b = bio_of(t)) == NULL) {
		free(t);
		SSL_free(ssl);
		close(fd);
		return NULL;
	}
	t->base.kind = &tls;
	t->base.fd = fd;
	t->ssl = ssl;
	t->why = *w;
	t->held = NOTHING_HELD;
	t->verify = verify;
	kp_buf_init(&t->out, OUT_MAX);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	SSL_set_bio(ssl, b, b);
	SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL_set_read_ahead(ssl, 1);
	SSL_set_connect_state(ssl);
	tls_errors_watch(&t->why, ssl, verify);
	return &t->base;
}

/* OpenSSL verifies no certificate where the cipher needs none. */
static bool
is_verified(struct tls_channel *t)
{
	bool any = SSL_get0_peer_certificate(t->ssl) != NULL &&
	    SSL_get_verify_result(t->ssl) == X509_V_OK;

	if (!any)
		snprintf(t->base.why, sizeof(t->base.why), "the node showed no "
		    "certificate that is verified");
	t->over = !any || !tls_errors_signed(&t->why, t->ssl, t->base.why,
	    sizeof(t->base.why));
	return !t->over;
}

ssize_t
tls_channel_handshake(struct channel *c)
{
	struct tls_channel *t = (struct tls_channel *)c;

	ERR_clear_error();
	if (SSL_do_handshake(t->ssl) != 1)
		return verdict(t);
	if (t->verify && !is_verified(t))
		return CHANNEL_FAILED;
	if (!t->verify)
		c->doubt = "its certificate is not verified (-tls-verify none, "
		    "or verify_none in the options file): anything may answer "
		    "in its place";
	else if (t->why.host[0] == '\0')
		c->doubt = "its certificate is not checked for its host "
		    "({server_name_indication, disable} in the options file): "
		    "any owner of a certificate of its CA may answer in its "
		    "place";
	/* The node's first bytes may have come with the last of the handshake. */
	c->more = SSL_has_pending(t->ssl) == 1;
	snprintf(c->how, sizeof(c->how), "%s, %s", SSL_get_version(t->ssl),
	    !t->verify ? "not verified" : t->why.host[0] == '\0' ?
	    "the node verified, not its host" : "the node verified");
	return 1;
}
