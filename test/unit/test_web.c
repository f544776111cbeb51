/*
 * A web server that cannot start leaves nothing open: each step of starting
 * fails once.  The port that it listens at was leaked when libevent could not
 * be started.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>

#include "cases.h"
#include "tls_peer.h"
#include "web/server.h"
#include "web/web.h"

struct event_base *__real_event_base_new(void);
struct event_base *__wrap_event_base_new(void);
struct evhttp *__real_evhttp_new(struct event_base *base);
struct evhttp *__wrap_evhttp_new(struct event_base *base);
struct evconnlistener *__real_evconnlistener_new(struct event_base *base,
    evconnlistener_cb cb, void *ctx, unsigned flags, int backlog,
    evutil_socket_t fd);
struct evconnlistener *__wrap_evconnlistener_new(struct event_base *base,
    evconnlistener_cb cb, void *ctx, unsigned flags, int backlog,
    evutil_socket_t fd);
struct evhttp_bound_socket *__real_evhttp_bind_listener(struct evhttp *http,
    struct evconnlistener *listener);
struct evhttp_bound_socket *__wrap_evhttp_bind_listener(struct evhttp *http,
    struct evconnlistener *listener);

enum step { NONE, BASE, HTTP, LISTENER, BIND };

static enum step failing;

struct event_base *
__wrap_event_base_new(void)
{
	return failing == BASE ? NULL : __real_event_base_new();
}

struct evhttp *
__wrap_evhttp_new(struct event_base *base)
{
	return failing == HTTP ? NULL : __real_evhttp_new(base);
}

struct evconnlistener *
__wrap_evconnlistener_new(struct event_base *base, evconnlistener_cb cb,
    void *ctx, unsigned flags, int backlog, evutil_socket_t fd)
{
	return failing == LISTENER ? NULL : __real_evconnlistener_new(base, cb,
	    ctx, flags, backlog, fd);
}

struct evhttp_bound_socket *
__wrap_evhttp_bind_listener(struct evhttp *http,
    struct evconnlistener *listener)
{
	return failing == BIND ? NULL : __real_evhttp_bind_listener(http,
	    listener);
}

static unsigned
open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static enum kp_err
start_and_stop(enum step step)
{
	static const char *const db = "/nonexistent/k.db";
	const struct web_opts o = { .addr = "127.0.0.1:0",
		.dbs = { &db, 1 }, .control = "" };
	struct web *w = NULL;
	char why[256];
	enum kp_err err;

	failing = step;
	err = web_start(&w, &o, why, sizeof(why));
	if (err == KP_OK)
		web_stop(w);
	return err;
}

TEST(starting_leaves_nothing)
{
	unsigned before;

	assert_int_equal(start_and_stop(NONE), KP_OK);
	before = open_files();
	assert_int_equal(start_and_stop(NONE), KP_OK);
	assert_int_equal(open_files(), before);
	for (enum step step = BASE; step <= BIND; step++) {
		assert_int_equal(start_and_stop(step), KP_ENOMEM);
		assert_int_equal(open_files(), before);
	}
}

/* A newcomer types the port, or the host's name: both mean this machine. */
TEST(addresses)
{
	static const char *const db = "/nonexistent/k.db";
	static const struct {
		const char *addr, *at;	/* at: NULL: refused, ... */
		const char *why;	/* ... for this reason */
	} cases[] = {
		{ "0", "127.0.0.1:", NULL }, { ":0", "127.0.0.1:", NULL },
		{ "localhost:0", "127.0.0.1:", NULL },
		{ "127.0.0.2:0", "127.0.0.2:", NULL },
		{ "0.0.0.0:0", NULL, "is not a loopback address" },
		{ "[::]:0", NULL, "is not a loopback address" },
		{ "localhost", NULL, "bad address 'localhost'" },
		{ "4711x", NULL, "bad address" }, { "", NULL, "bad address" },
		{ "::1:0", NULL, "bad address" },
		{ "65536", NULL, "bad address" },
		{ "myhost:4711", NULL, "bad address" },
	};
	struct web_opts o = { .dbs = { &db, 1 }, .control = "" };
	struct web *w;
	char why[256];

	failing = NONE;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		o.addr = cases[i].addr;
		if (cases[i].at != NULL) {
			assert_int_equal(web_start(&w, &o, why, sizeof(why)),
			    KP_OK);
			assert_has(web_url(w), cases[i].at);
			web_stop(w);
		} else {
			assert_int_equal(web_start(&w, &o, why, sizeof(why)),
			    KP_EFORMAT);
			assert_has(why, cases[i].why);
		}
	}
}

/* The serial number of the certificate that a server shows; 0: none. */
static long
shown(const struct web *w)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(
	    (uint16_t)atoi(strrchr(web_url(w), ':') + 1)),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	long serial = 0;

	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	SSL_set_fd(ssl, fd);
	if (SSL_connect(ssl) == 1)
		serial = ASN1_INTEGER_get(X509_get0_serialNumber(
		    SSL_get0_peer_certificate(ssl)));
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
	return serial;
}

/* One that was renewed is shown after a reload; one that is not good never is. */
TEST(certificates_are_renewed)
{
	static const char *const db = "/nonexistent/k.db";
	struct web_opts o = { .addr = "127.0.0.1:0", .dbs = { &db, 1 },
		.control = "" };
	struct tls_dir dir;
	struct web *w;
	char why[256];
	long first, second;

	signal(SIGPIPE, SIG_IGN);
	failing = NONE;
	tls_dir_make(&dir);
	tls_cert_make(&dir, "old", &(struct tls_cert){ .from = -7200,
	    .until = -3600 });
	o.tls_cert = tls_file(&dir, "old.pem");
	o.tls_key = tls_file(&dir, "old.key");
	assert_int_equal(web_start(&w, &o, why, sizeof(why)), KP_ESTATE);
	assert_has(why, "old.pem' expired on ");
	tls_cert_make(&dir, "ours", &(struct tls_cert){ 0 });
	o.tls_cert = tls_file(&dir, "ours.pem");
	o.tls_key = tls_file(&dir, "ours.key");
	assert_int_equal(web_start(&w, &o, why, sizeof(why)), KP_OK);
	assert_has(web_url(w), "https://127.0.0.1:");
	first = shown(w);
	assert_true(first > 0);
	tls_cert_make(&dir, "ours", &(struct tls_cert){ 0 });
	assert_int_equal(shown(w), first);
	assert_int_equal(web_reload(w, why, sizeof(why)), KP_OK);
	second = shown(w);
	assert_true(second > first);
	tls_write(&dir, "ours.pem", "nothing", 0644);
	assert_int_equal(web_reload(w, why, sizeof(why)), KP_ESTATE);
	assert_has(why, "(see -http-tls-cert)");
	assert_int_equal(shown(w), second);
	/* two reloads between connections: the one before is not shown */
	tls_cert_make(&dir, "ours", &(struct tls_cert){ 0 });
	assert_int_equal(web_reload(w, why, sizeof(why)), KP_OK);
	tls_cert_make(&dir, "ours", &(struct tls_cert){ 0 });
	assert_int_equal(web_reload(w, why, sizeof(why)), KP_OK);
	assert_true(shown(w) > second + 1);
	web_stop(w);
	tls_dir_free(&dir);
}

/* Options that need each other. */
TEST(options_together)
{
	static const struct {
		struct web_opts o;
		const char *why;	/* NULL: they are good */
	} cases[] = {
		{ { 0 }, NULL },
		{ { .addr = "1" }, NULL },
		{ { .addr = "1", .tls_cert = "c", .tls_key = "k" }, NULL },
		{ { .token_file = "t" }, "go with -http ADDR:PORT" },
		{ { .read_token_file = "t" }, "go with -http ADDR:PORT" },
		{ { .tls_cert = "c", .tls_key = "k" },
		    "go with -http ADDR:PORT" },
		{ { .addr = "1", .tls_cert = "c" }, "go together" },
		{ { .addr = "1", .tls_key = "k" }, "go together" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *why = web_opts_wrong(&cases[i].o);

		if (cases[i].why == NULL)
			assert_null(why);
		else
			assert_has(why, cases[i].why);
	}
}

TEST(gzip_is_asked_for)
{
	static const struct {
		const char *accept;
		bool takes;
	} cases[] = {
		{ "gzip", true }, { "gzip, deflate, br, zstd", true },
		{ "br;q=1.0, GZip;q=0.8, *;q=0.1", true },
		{ "deflate,gzip", true }, { "gzip ; q=0.001", true },
		{ "identity;q=0.5, gzip;q=1.0", true },
		{ NULL, false }, { "", false }, { "identity", false },
		{ "br", false }, { "*", false }, { "x-gzipped", false },
		{ "gzip;q=0", false }, { "gzip; q=0", false },
		{ "gzip ; Q=0.000, br", false }, { "gzip;q=0, *", false },
		{ "gzip;q=nan", false },
		{ ",;,q=1,", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (web_takes_gzip(cases[i].accept) != cases[i].takes)
			fail_msg("'%s'", cases[i].accept);
}

TESTS(NULL, NULL)
