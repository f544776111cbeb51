/*
 * test_channel.c - bytes both ways through plain and encrypted channels: in pieces,
 * held back, while the peer renews its keys, and from peers that break off.
 */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cases.h"
#include "conn/tls_channel.h"
#include "conn/tls.h"
#include "tls_peer.h"

#define LIMIT (30 * KP_NS_PER_S)	/* that only a failure reaches */
#define FLOW (3u << 20)			/* bytes each way */

static struct tls_dir dir;
static struct tls_opts opts;
static const struct node_place place = { .node = "app@vm" };

FIXTURE(setup)
{
	tls_dir_make(&dir);
	tls_cert_make(&dir, "ca", &(struct tls_cert){ .ca = true });
	tls_cert_make(&dir, "node", &(struct tls_cert){ .by = "ca",
	    .hosts = "DNS:vm" });
	tls_cert_make(&dir, "ours", &(struct tls_cert){ .by = "ca" });
	opts = (struct tls_opts){ .cert = tls_file(&dir, "ours.pem"),
		.key = tls_file(&dir, "ours.key"),
		.ca = tls_file(&dir, "ca.pem") };
	return 0;
}

FIXTURE(teardown)
{
	tls_dir_free(&dir);
	return 0;
}

static struct channel *
open_tls(struct tls_peer *p)
{
	struct channel *c;
	char why[1024] = "";

	p->dir = &dir;
	p->cert = "node.pem";
	p->ca = "ca.pem";
	tls_peer_start(p);
	if (tls_connect(&c, p->fd, &opts, &place, kp_mono_now() + LIMIT, why,
	    sizeof(why)) != KP_OK)
		fail_msg("%s", why);
	return c;
}

/* The byte of a stream at this place: pieces that are lost or repeated show. */
static uint8_t
byte_at(size_t i)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static void
fill(uint8_t *to, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = byte_at(from + i);
}

static bool
is_right(const uint8_t *p, size_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte_at(from + i))
			return false;
	return true;
}

static void
wait_for(struct channel *c, short events)
{
	struct pollfd p = { .fd = c->fd, .events = events };

	assert_int_equal(poll(&p, 1, (int)(LIMIT / KP_NS_PER_MS)), 1);
}

/* ---- plain ---- */

TEST(test_plain)
{
	static uint8_t big[1 << 20];
	struct channel *c;
	size_t sent = 0;
	char text[8];
	ssize_t n;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	c = channel_plain(fd[0]);
	assert_fields(*c, IS(fd, fd[0]) IS(how, "not encrypted"));
	assert_null(c->doubt);
	assert_int_equal(channel_read(c, text, 8), CHANNEL_WAIT);
	assert_int_equal(c->wants, POLLIN);
	assert_int_equal(write(fd[1], "abc", 3), 3);
	assert_int_equal(channel_read(c, text, 2), 2);
	assert_false(c->more);	/* the descriptor tells */
	assert_int_equal(channel_read(c, text, 8), 1);
	while ((n = channel_write(c, big, sizeof(big))) > 0)
		sent += (size_t)n;
	assert_true(sent > 0);
	assert_int_equal(n, CHANNEL_WAIT);
	assert_int_equal(c->wants, POLLOUT);
	shutdown(fd[1], SHUT_WR);
	assert_int_equal(channel_read(c, text, 8), CHANNEL_END);
	close(fd[1]);
	/* a signal would end the test */
	assert_int_equal(channel_write(c, "x", 1), CHANNEL_FAILED);
	assert_fields(*c, IS(why, strerror(EPIPE)) IS(err, EPIPE));
	channel_free(c);
	channel_free(NULL);
}

/* ---- both ways at once, while the node does something else as well ---- */

/* What an echoing node does after each `every` bytes. */
struct echo {
	size_t every, next, renewed;
	void (*renew)(SSL *ssl);
	size_t piece;		/* bytes of its records */
};

static void
echo(struct tls_peer *p, SSL *ssl)
{
	struct echo *e = p->ctx;
	size_t total = 0, got, put;
	uint8_t buf[16384];

	while (total < FLOW && SSL_read_ex(ssl, buf, e->piece, &got) == 1) {
		if (SSL_write_ex(ssl, buf, got, &put) != 1 || put != got)
			return;
		total += got;
		if (e->renew == NULL || total < e->next)
			continue;
		e->next = total + e->every;
		e->renew(ssl);
		e->renewed++;
	}
	/* it reads the client's goodbye, not to reset the connection */
	SSL_read_ex(ssl, buf, 1, &got);
}

/* Writes until it has to wait; what for, or 0: all is written. */
static short
write_more(struct channel *c, uint8_t *out, size_t piece, size_t *sent,
    size_t *at, size_t *len)
{
	ssize_t n;

	for (;;) {
		if (*at == *len) {
			*len = FLOW - *sent < piece ? FLOW - *sent : piece;
			*at = 0;
			fill(out, *sent, *len);
		}
		if (*len == 0)
			return 0;
		n = channel_write(c, out + *at, *len - *at);
		if (n == CHANNEL_WAIT)
			return c->wants;
		if (n < 0)
			fail_msg("%zd after %zu: %s", n, *sent, c->why);
		*at += (size_t)n;
		*sent += (size_t)n;
	}
}

/* As conn.c does it: a write that waits for a read is tried again after one. */
static void
flow(struct channel *c, size_t piece)
{
	static uint8_t out[65536], in[65536];
	size_t sent = 0, got = 0, len = 0, at = 0;
	short events = 0;
	ssize_t n;

	while (got < FLOW) {
		if ((events & POLLIN) == 0)
			events = write_more(c, out, piece, &sent, &at, &len);
		while (got < FLOW && (n = channel_read(c, in, piece)) > 0) {
			assert_true(is_right(in, got, (size_t)n));
			got += (size_t)n;
		}
		if (got == FLOW)
			break;
		if (n != CHANNEL_WAIT)
			fail_msg("%zd after %zu: %s", n, got, c->why);
		if ((events & POLLIN) != 0)
			events = write_more(c, out, piece, &sent, &at, &len);
		if ((events & POLLIN) == 0 || !c->more)
			wait_for(c, (short)(events | c->wants | POLLIN));
	}
	/* The echo may be back before a write, whose rest waited, is told to be done. */
	if (sent < FLOW)
		assert_int_equal(write_more(c, out, piece, &sent, &at, &len), 0);
	assert_int_equal(sent, FLOW);
}

static size_t
flow_with(int version, size_t piece, size_t every, void (*renew)(SSL *))
{
	struct echo e = { .every = every, .next = every, .renew = renew,
		.piece = piece };
	struct tls_peer p = { .version = version, .talk = echo, .ctx = &e };
	struct channel *c = open_tls(&p);

	flow(c, piece);
	channel_free(c);
	tls_peer_join(&p);
	return e.renewed;
}

TEST(test_flow)
{
	static const size_t pieces[] = { 700, 5000, 16384 };

	for (size_t i = 0; i < 3; i++) {
		flow_with(TLS1_2_VERSION, pieces[i], 0, NULL);
		flow_with(TLS1_3_VERSION, pieces[i], 0, NULL);
	}
}

/* It sends the request, and goes on echoing until the answer comes. */
static void
renegotiate(SSL *ssl)
{
	if (SSL_renegotiate(ssl) == 1)
		SSL_do_handshake(ssl);
}

TEST(test_renegotiation)
{
	assert_true(flow_with(TLS1_2_VERSION, 5000, 200000, renegotiate) > 10);
	assert_true(flow_with(TLS1_2_VERSION, 16384, 70000, renegotiate) > 20);
	assert_true(flow_with(TLS1_2_VERSION, 300, 500000, renegotiate) > 4);
}

/* The node's keys, and with its request ours. */
static void
update_keys(SSL *ssl)
{
	SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
	SSL_do_handshake(ssl);
}

TEST(test_key_update)
{
	assert_true(flow_with(TLS1_3_VERSION, 5000, 50000, update_keys) > 50);
	assert_true(flow_with(TLS1_3_VERSION, 16384, 20000, update_keys) > 50);
}

/* ---- what OpenSSL holds back ---- */

static sem_t all_written;

static void
many_records(struct tls_peer *p, SSL *ssl)
{
	uint8_t buf[10];
	size_t put;

	(void)p;
	for (size_t i = 0; i < 1000; i += sizeof(buf)) {
		fill(buf, i, sizeof(buf));
		SSL_write_ex(ssl, buf, sizeof(buf), &put);
	}
	sem_post(&all_written);
	SSL_read_ex(ssl, buf, 1, &put);
}

/*
 * A hundred records come in one read of the socket.  Poll says nothing of the rest of
 * them, so `more` has to.
 */
static void
held_back(int version, size_t piece)
{
	struct tls_peer p = { .version = version, .talk = many_records };
	struct channel *c;
	size_t got = 0;
	uint8_t in[64];
	bool held = false;
	struct pollfd q = { .events = POLLIN };
	ssize_t n;

	sem_init(&all_written, 0, 0);
	c = open_tls(&p);
	q.fd = c->fd;
	while (sem_wait(&all_written) < 0)
		;
	while (got < 1000) {
		if (!c->more)
			wait_for(c, POLLIN);
		else
			held |= poll(&q, 1, 0) == 0;
		n = channel_read(c, in, piece);
		if (n == CHANNEL_WAIT) {
			assert_false(c->more);
			continue;
		}
		assert_true(n > 0 && is_right(in, got, (size_t)n));
		got += (size_t)n;
	}
	assert_true(held);
	channel_free(c);
	tls_peer_join(&p);
}

TEST(test_held_back)
{
	held_back(TLS1_2_VERSION, 7);
	held_back(TLS1_3_VERSION, 7);
	held_back(TLS1_3_VERSION, 64);
}

/* ---- peers that break off ---- */

static ssize_t
read_all(struct channel *c, size_t *total)
{
	uint8_t in[4096];
	ssize_t n;

	for (*total = 0;; *total += (size_t)n) {
		n = channel_read(c, in, sizeof(in));
		if (n == CHANNEL_WAIT) {
			wait_for(c, c->wants);
			n = 0;
		} else if (n <= 0) {
			return n;
		}
	}
}

static void
say_and_end(struct tls_peer *p, SSL *ssl)
{
	size_t put;

	SSL_write_ex(ssl, "hello", 5, &put);
	if (p->ctx != NULL)
		SSL_shutdown(ssl);
}

/* A record's head and some of it, after a good one. */
static void
half_record(struct tls_peer *p, SSL *ssl)
{
	size_t put;

	SSL_write_ex(ssl, "hello", 5, &put);
	if (send(p->server, "\x17\3\3\1\0\1\2\3", 8, MSG_NOSIGNAL) != 8)
		abort();
}

static void
garbage(struct tls_peer *p, SSL *ssl)
{
	static const char text[] = "\0\0\0\0this is no record at all, and long "
	    "enough to be read as one";
	size_t put;

	SSL_write_ex(ssl, "hello", 5, &put);
	if (send(p->server, text, sizeof(text), MSG_NOSIGNAL) < 0)
		abort();
	SSL_read_ex(ssl, &(char){ 0 }, 1, &put);
}

/* A record that was changed on the way. */
static void
forged(struct tls_peer *p, SSL *ssl)
{
	char text[5 + 64] = "\x17\3\3\0\x40";
	size_t put;

	SSL_write_ex(ssl, "hello", 5, &put);
	if (send(p->server, text, sizeof(text), MSG_NOSIGNAL) < 0)
		abort();
	SSL_read_ex(ssl, &(char){ 0 }, 1, &put);
}

static ssize_t
breaks(void (*talk)(struct tls_peer *, SSL *), void *ctx, int version,
    char why[256])
{
	struct tls_peer p = { .version = version, .talk = talk, .ctx = ctx };
	struct channel *c = open_tls(&p);
	size_t total;
	ssize_t n = read_all(c, &total);

	assert_int_equal(total, 5);
	snprintf(why, 256, "%.255s", n == CHANNEL_FAILED ? c->why : "");
	/* it stays so, and nothing is sent on what failed */
	assert_true(channel_read(c, why + 255, 1) <= 0);
	if (n == CHANNEL_FAILED)
		assert_int_equal(channel_write(c, "x", 1), CHANNEL_FAILED);
	channel_free(c);
	tls_peer_join(&p);
	return n;
}

TEST(test_breaks)
{
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	char why[256] = "";

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(breaks(say_and_end, &dir, versions[i], why),
		    CHANNEL_END);
		/* a VM that is killed says no goodbye */
		assert_int_equal(breaks(say_and_end, NULL, versions[i], why),
		    CHANNEL_END);
		assert_int_equal(breaks(half_record, NULL, versions[i], why),
		    CHANNEL_END);
		assert_int_equal(breaks(garbage, NULL, versions[i], why),
		    CHANNEL_FAILED);
		assert_string_equal(why, "what answers there does not speak TLS "
		    "(is it a node with -proto_dist inet_tls?)");
		assert_int_equal(breaks(forged, NULL, versions[i], why),
		    CHANNEL_FAILED);
		assert_memory_equal(why, "TLS failed: ", 12);
	}
}

/* A write between the bytes before a failure and it took its reason away. */
TEST(test_write_before_failure)
{
	struct tls_peer p = { .talk = garbage };
	struct channel *c = open_tls(&p);
	char in[64];
	ssize_t n;

	usleep(20000);	/* most often both come with one read */
	while ((n = channel_read(c, in, sizeof(in))) == CHANNEL_WAIT)
		wait_for(c, c->wants);
	assert_int_equal(n, 5);
	channel_write(c, "x", 1);
	while ((n = channel_read(c, in, sizeof(in))) == CHANNEL_WAIT)
		wait_for(c, c->wants);
	assert_int_equal(n, CHANNEL_FAILED);
	assert_memory_equal(c->why, "what answers there does not", 27);
	channel_free(c);
	tls_peer_join(&p);
}

/* It was taken for a refusal, after which kprofd does not try again. */
TEST(test_reset)
{
	char why[256] = "";
	struct channel *c;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	close(fd[1]);
	assert_int_equal(tls_connect(&c, fd[0], &opts, &place, kp_mono_now() +
	    LIMIT, why, sizeof(why)), KP_EIO);
	assert_string_equal(why, "Broken pipe");
}

/*
 * A node without a certificate passed for one that was verified: with a cipher that
 * needs none OpenSSL has nothing to verify.
 */
TEST(test_no_certificate)
{
	static const char anonymous[] = "AECDH-AES128-SHA:@SECLEVEL=0";
	struct tls_peer p = { .dir = &dir, .cert = "node.pem",
		.version = TLS1_2_VERSION, .ciphers = anonymous };
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	struct tls_errors w = { .depth = -1 };
	struct channel *c;
	ssize_t n;

	assert_int_equal(SSL_CTX_set_cipher_list(ctx, anonymous), 1);
	tls_peer_start(&p);
	c = tls_channel_new(p.fd, SSL_new(ctx), &w, true);
	assert_non_null(c);
	while ((n = tls_channel_handshake(c)) == CHANNEL_WAIT)
		usleep(1000);
	assert_int_equal(n, CHANNEL_FAILED);
	assert_fields(*c, IS(err, 0)
	    IS(why, "the node showed no certificate that is verified"));
	channel_free(c);
	tls_peer_join(&p);
	assert_true(p.accepted);
	SSL_CTX_free(ctx);
}

/* Writing to a node that has gone; a signal would end the test. */
TEST(test_write_after_end)
{
	struct tls_peer p = { .talk = say_and_end };
	struct channel *c = open_tls(&p);
	static uint8_t big[1 << 20];
	ssize_t n;

	tls_peer_join(&p);
	while ((n = channel_write(c, big, sizeof(big))) > 0)
		;
	assert_int_equal(n, CHANNEL_FAILED);
	/* OpenSSL 3.5 looks for the goodbye before it writes */
	assert_true(c->err == EPIPE ||
	    strcmp(c->why, "it closed the connection") == 0);
	assert_int_equal(channel_write(c, "x", 1), CHANNEL_FAILED);
	channel_free(c);
}

/* A node that never reads: what is written waits, bounded by its caller. */
static void
never_reads(struct tls_peer *p, SSL *ssl)
{
	char byte;

	(void)ssl;
	while (recv(p->server, &byte, 1, MSG_PEEK) > 0 && *(bool *)p->ctx)
		usleep(1000);
}

TEST(test_full)
{
	bool stay = true;
	struct tls_peer p = { .talk = never_reads, .ctx = &stay };
	struct channel *c = open_tls(&p);
	static uint8_t big[1 << 20];
	size_t sent = 0;
	ssize_t n;

	while ((n = channel_write(c, big, sizeof(big))) > 0)
		sent += (size_t)n;
	assert_true(sent > 0 && sent % 16384 == 0);
	assert_int_equal(n, CHANNEL_WAIT);
	assert_int_equal(c->wants, POLLOUT);
	/* the same bytes again, at another address, and more after them */
	assert_int_equal(channel_write(c, big + 1000, sizeof(big) - 1000),
	    CHANNEL_WAIT);
	stay = false;
	channel_free(c);
	tls_peer_join(&p);
}

TESTS_ONCE(setup, teardown)
