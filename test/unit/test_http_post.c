/*
 * test_http_post.c - what a collector may do on the wire: answers that are whole,
 * cut, endless or no HTTP at all, and what is made of each.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <zlib.h>

#include "cases.h"
#include "kprofd/clock.h"
#include "export/http_post.h"

#define JSON "application/json"

#define TEXT_MAX 4096

static struct event_base *base;
static struct evconnlistener *listener;
static struct bufferevent *peer;
static char url[64];

/* What the collector says to whatever comes, and whether it hangs up then. */
static const char *say;
static size_t say_n;
static bool hang_up, said;
static unsigned accepted;

/* What it got, and what was made of its answer. */
static char got[TEXT_MAX], text[TEXT_MAX];
static size_t got_n;
static struct http_post_answer last;

static struct kp_buf body;

static void
on_gone(struct bufferevent *bev, short what, void *ctx)
{
	(void)ctx;
	if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) == 0)
		return;
	bufferevent_free(bev);
	if (peer == bev)
		peer = NULL;
}

static void
on_written(struct bufferevent *bev, void *ctx)
{
	if (said && hang_up)
		on_gone(bev, BEV_EVENT_EOF, ctx);
}

/* The whole of it, or what is there of its head. */
static void
on_read(struct bufferevent *bev, void *ctx)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	ev_ssize_t n = evbuffer_copyout(in, got, sizeof(got) - 1);

	(void)ctx;
	got[n > 0 ? n : 0] = '\0';
	got_n = n > 0 ? (size_t)n : 0;
	if (strstr(got, "\r\n\r\n\x1f\x8b") == NULL || say == NULL)
		return;
	evbuffer_drain(in, evbuffer_get_length(in));
	said = true;
	if (say_n > 0)
		bufferevent_write(bev, say, say_n);
	else
		on_written(bev, NULL);
}

static void
on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa,
    int len, void *ctx)
{
	(void)l, (void)sa, (void)len, (void)ctx;
	said = false;
	accepted++;
	peer = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	bufferevent_setcb(peer, on_read, on_written, on_gone, NULL);
	bufferevent_enable(peer, EV_READ | EV_WRITE);
}

FIXTURE(setup)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sin);

	signal(SIGPIPE, SIG_IGN);
	kp_buf_init(&body, 1024);
	kp_buf_str(&body, "{\"a\":1}");
	base = event_base_new();
	listener = evconnlistener_new_bind(base, on_accept, NULL,
	    LEV_OPT_CLOSE_ON_FREE, 8, (struct sockaddr *)&sin, sizeof(sin));
	if (listener == NULL || getsockname(evconnlistener_get_fd(listener),
	    (struct sockaddr *)&sin, &len) != 0)
		return -1;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/base/",
	    ntohs(sin.sin_port));
	return 0;
}

FIXTURE(teardown)
{
	if (peer != NULL)
		bufferevent_free(peer);
	peer = NULL;
	if (listener != NULL)
		evconnlistener_free(listener);
	listener = NULL;
	event_base_free(base);
	kp_buf_free(&body);
	return 0;
}

static struct post *
make(const char *to, const char *file)
{
	struct post *p = NULL;
	char why[256];

	assert_int_equal(http_post_new(&p, to, JSON, file, "-header", why, sizeof(why)), KP_OK);
	return p;
}

/* False: there was no answer for so long. */
static bool
send_for(struct post *p, kp_dur_ns limit)
{
	kp_mono_ns until = kp_mono_now() + limit;
	const atomic_bool stop = false;

	last.status = -1;
	http_post_send(p, "/v1/traces", &body);
	while (!http_post_wait(p, KP_NS_PER_MS, &stop, &last)) {
		if (kp_mono_now() > until)
			return false;
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
	snprintf(text, sizeof(text), "%.*s", (int)(last.n < TEXT_MAX - 1 ?
	    last.n : TEXT_MAX - 1), last.n > 0 ? last.text : "");
	return true;
}

static void
send_one(struct post *p)
{
	assert_true(send_for(p, 2 * HTTP_POST_SECONDS * KP_NS_PER_S));
}

static void
exchange(const char *answer, size_t n, bool then_hang_up)
{
	struct post *p = make(url, NULL);

	say = answer;
	say_n = n;
	hang_up = then_hang_up;
	send_one(p);
	http_post_free(p);
}

#define OK_HEAD "HTTP/1.1 200 OK\r\n"

TEST(request_as_sent)
{
	char plain[64] = "";
	z_stream z = { .next_out = (uint8_t *)plain, .avail_out = sizeof(plain) - 1 };
	char *packed;

	exchange(OK_HEAD "Content-Length: 2\r\n\r\n{}", 41, false);
	assert_int_equal(last.status, 200);
	assert_string_equal(text, "{}");
	assert_has(got, "POST /base/v1/traces HTTP/1.1\r\n");
	assert_has(got, "\r\nContent-Type: application/json\r\n");
	assert_has(got, "\r\nContent-Encoding: gzip\r\n");
	packed = strstr(got, "\r\n\r\n") + 4;
	z.next_in = (uint8_t *)packed;
	z.avail_in = (uInt)(got_n - (size_t)(packed - got));
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	inflateEnd(&z);
	assert_string_equal(plain, "{\"a\":1}");
}

/* One connection for several bodies, and another when the collector hung up. */
TEST(kept_connection)
{
	struct post *p = make(url, NULL);

	say = OK_HEAD "Content-Length: 2\r\n\r\n{}";
	say_n = strlen(say);
	hang_up = false;
	accepted = 0;
	for (int i = 0; i < 3; i++) {
		send_one(p);
		assert_int_equal(last.status, 200);
	}
	assert_int_equal(accepted, 1);
	bufferevent_free(peer);
	peer = NULL;
	send_one(p);
	assert_int_equal(last.status, 200);
	assert_int_equal(accepted, 2);
	http_post_free(p);
}

/* A head that is whole is the answer, whatever comes behind it. */
TEST(odd_answers)
{
	static const struct {
		const char *say;
		bool hang_up;
		int status;
		unsigned retry_after;
		const char *text;
	} cases[] = {
		{ "HTTP/1.1 503 No\r\nRetry-After: 7\r\n"
		  "Content-Length: 0\r\n\r\n", false, 503, 7, "" },
		{ "HTTP/1.1 429 No\r\nRetry-After: 999999999999999999999\r\n"
		  "Content-Length: 0\r\n\r\n", false, 429, HTTP_POST_RETRY_MAX, "" },
		{ "HTTP/1.1 429 No\r\nRetry-After: -5\r\n"
		  "Content-Length: 0\r\n\r\n", false, 429, 0, "" },
		{ "HTTP/1.1 429 No\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 "
		  "GMT\r\nContent-Length: 0\r\n\r\n", false, 429, 0, "" },
		/* the collector's clock says how long */
		{ "HTTP/1.1 503 No\r\nDate: Fri, 31 Dec 1999 23:59:50 GMT\r\n"
		  "Retry-After: Sat, 01 Jan 2000 00:00:02 GMT\r\n"
		  "Content-Length: 0\r\n\r\n", false, 503, 12, "" },
		{ "HTTP/1.1 503 No\r\nRetry-After: Fri, 31 Dec 2999 23:59:59 "
		  "GMT\r\nContent-Length: 0\r\n\r\n", false, 503,
		  HTTP_POST_RETRY_MAX, "" },
		{ "HTTP/1.1 503 No\r\nRetry-After: next Friday, at 23:59\r\n"
		  "Content-Length: 0\r\n\r\n", false, 503, 0, "" },
		{ "HTTP/1.1 100 Continue\r\n\r\n" OK_HEAD
		  "Content-Length: 2\r\n\r\n{}", false, 200, 0, "{}" },
		/* taken, and the rest of the answer lost */
		{ OK_HEAD "Content-Length: 100\r\n\r\n{\"pa", true, 200, 0,
		  NULL },
		{ OK_HEAD "Content-Length: 99999999\r\n\r\n{", false, 200, 0,
		  NULL },
		{ OK_HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n", true, 200,
		  0, NULL },
		{ OK_HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
		  "\r\n", false, 200, 0, "{}" },
		/* no length: until the end */
		{ OK_HEAD "\r\n{\"x\":1}", true, 200, 0, "{\"x\":1}" },
		{ "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\n"
		  "Content-Length: 0\r\n\r\n", false, 301, 0, "" },
		/* no answer */
		{ "", true, 0, 0, NULL },
		{ "HTTP/1.1 2", true, 0, 0, NULL },
		{ "HTTP/1.1 200 OK\r\nContent-Le", true, 0, 0, NULL },
		{ "SSH-2.0-OpenSSH_9.2\r\n\r\n", true, 0, 0, NULL },
		{ "HTTP/1.1 abc OK\r\n\r\n", true, 0, 0, NULL },
		{ "\x16\x03\x01", true, 0, 0, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		exchange(cases[i].say, strlen(cases[i].say), cases[i].hang_up);
		if (last.status != cases[i].status)
			fail_msg("case %zu: %d", i, last.status);
		assert_int_equal(last.retry_after, cases[i].retry_after);
		if (cases[i].text != NULL)
			assert_string_equal(text, cases[i].text);
		if (last.status == 0)
			assert_int_not_equal(text[0], '\0');
	}
}

/* A body or a head without end takes no memory without end. */
TEST(endless)
{
	static const char head[] = OK_HEAD "X: ";
	static const char whole[] = OK_HEAD "\r\n";
	size_t n = 4u << 20;
	char *p = malloc(n);

	assert_non_null(p);
	memset(p, 'x', n);
	memcpy(p, head, sizeof(head) - 1);
	exchange(p, n, false);
	assert_int_equal(last.status, 0);
	memcpy(p, whole, sizeof(whole) - 1);
	exchange(p, n, false);
	assert_int_equal(last.status, 200);
	assert_true(last.n <= HTTP_POST_ANSWER_MAX);
	free(p);
}

/* Nobody there, and again nobody: once for each. */
TEST(away)
{
	struct post *p = make("http://127.0.0.1:1", NULL);

	for (unsigned i = 1; i <= 3; i++) {
		send_one(p);
		assert_int_equal(last.status, 0);
		assert_string_equal(text,
		    "cannot connect to 127.0.0.1 port 1");
	}
	http_post_free(p);
}

/* Freed while all of it is under way. */
TEST(freed_meanwhile)
{
	struct post *p = make(url, NULL);

	say = NULL;
	assert_false(send_for(p, 50 * KP_NS_PER_MS));
	http_post_free(p);
}

static atomic_bool stop_waiting;

static void *
wake_soon(void *p)
{
	usleep(50000);
	atomic_store(&stop_waiting, true);
	http_post_wake(p);
	return NULL;
}

/* Whoever waits can be woken, with a transfer and without. */
TEST(woken)
{
	struct post *p = make(url, NULL);
	kp_mono_ns began = kp_mono_now();
	pthread_t thread;

	say = NULL;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&thread, NULL, wake_soon, p), 0);
		atomic_store(&stop_waiting, false);
		/* as an exporter waits that has nothing else to do */
		assert_false(http_post_wait(p, INT64_MAX, &stop_waiting, &last));
		pthread_join(thread, NULL);
		if (i == 0)
			http_post_send(p, "", &body);
	}
	assert_true(kp_mono_now() - began < 10 * KP_NS_PER_S);
	http_post_free(p);
}

/* What the environment says of proxies is not meant for it. */
TEST(no_proxy)
{
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("all_proxy", "http://127.0.0.1:1", 1);
	exchange(OK_HEAD "Content-Length: 2\r\n\r\n{}", 41, false);
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	assert_int_equal(last.status, 200);
}

/*
 * Name servers that do not answer: neither the loop nor the end waits for them.
 * Linked in front of libc's.
 */
int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
    struct addrinfo **res)
{
	(void)service, (void)hints, (void)res;
	if (strcmp(node, "hangs.invalid") == 0)
		sleep(2 * HTTP_POST_SECONDS);
	return EAI_NONAME;
}

TEST(names)
{
	struct post *p = make("http://unknown.invalid", NULL);
	kp_mono_ns began;

	send_one(p);
	assert_int_equal(last.status, 0);
	assert_has(text, "unknown.invalid");
	http_post_free(p);
	p = make("http://hangs.invalid", NULL);
	began = kp_mono_now();
	assert_false(send_for(p, 50 * KP_NS_PER_MS));
	http_post_free(p);
	assert_true(kp_mono_now() - began < KP_NS_PER_S);
}

TEST(urls)
{
	static const char *const bad[] = { "", "http://", "ftp://h",
		"http://u:p@h", "http://h?x=1", "http://h:99999", "//h", "h",
		"http://h\r\nX: y", "https://" };
	struct post *p;
	char why[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		p = NULL;
		if (http_post_new(&p, bad[i], JSON, NULL, NULL, why, sizeof(why)) == KP_OK)
			fail_msg("'%s' was taken", bad[i]);
	}
	http_post_free(make("http://h", NULL));
	http_post_free(make("https://[::1]:4318/a/b//", NULL));
}

/* A file name that libcurl refuses for its length: it is read for https only. */
TEST(refused_option)
{
	size_t n = 9u << 20;
	char *name = malloc(n), why[256];
	struct post *p = NULL;

	assert_non_null(name);
	memset(name, 'x', n);
	name[n - 1] = '\0';
	setenv("SSL_CERT_FILE", name, 1);
	assert_int_equal(http_post_new(&p, "https://h", JSON, NULL, NULL, why,
	    sizeof(why)), KP_EFORMAT);
	assert_has(why, "libcurl refuses CURLOPT_CAINFO: ");
	http_post_free(make("http://h", NULL));
	unsetenv("SSL_CERT_FILE");
	free(name);
}

static void
put_file(const char *path, const char *s, size_t n, mode_t mode)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(s, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, mode), 0);
}

TEST(headers)
{
	static const char *const bad[] = { "", "\n", "no colon\n", ": x\n",
		"A b: x\n", "A: \n", "Host: x\n", "content-length: 5\n",
		"Transfer-Encoding: chunked\n", "A: x\x01y\n", "A\x7f: x\n" };
	char path[] = "/tmp/test_http_post.XXXXXX", why[256];
	char long_line[HTTP_POST_HEADER_MAX + 100];
	int fd = mkstemp(path);
	struct post *p = NULL;

	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put_file(path, bad[i], strlen(bad[i]), 0600);
		if (http_post_new(&p, url, JSON, path, "-header", why, sizeof(why)) == KP_OK)
			fail_msg("'%s' was taken", bad[i]);
	}
	/* cut short it would be another one */
	memset(long_line, 'x', sizeof(long_line));
	memcpy(long_line, "A: ", 3);
	put_file(path, long_line, sizeof(long_line), 0600);
	assert_int_equal(http_post_new(&p, url, JSON, path, "-header", why, sizeof(why)),
	    KP_EFORMAT);
	put_file(path, "A: b\n", 5, 0640);
	/* a group that is not ours, which only root can give it */
	if (chown(path, (uid_t)-1, 12345) == 0)
		assert_int_equal(http_post_new(&p, url, JSON, path, "-header", why,
		    sizeof(why)), KP_EFORMAT);
	/* its directory is who may read it */
	setenv("CREDENTIALS_DIRECTORY", "/tmp", 1);
	p = make(url, path);
	unsetenv("CREDENTIALS_DIRECTORY");
	http_post_free(p);
	put_file(path, "Authorization:  Bearer x y \r\nB: c\n", 34, 0600);
	p = make(url, path);
	say = OK_HEAD "Content-Length: 0\r\n\r\n";
	say_n = strlen(say);
	send_one(p);
	assert_has(got, "\r\nAuthorization: Bearer x y\r\n");
	assert_lacks(got, "\r\nB:");
	http_post_free(p);
	unlink(path);
	assert_int_equal(http_post_new(&p, url, JSON, path, "-header", why, sizeof(why)),
	    KP_EIO);
}

TESTS(setup, teardown)
