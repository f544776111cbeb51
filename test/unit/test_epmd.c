/* test_epmd.c - what is made of an epmd's answer, and of others that listen there. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cases.h"
#include "conn/epmd.h"

#define PORT "\x00\x00\x11\x11"	/* before the names: its own port */

/* An epmd that answers once. */
struct server {
	int fd;
	pthread_t thread;
	const char *answer;
	size_t n;
	unsigned times;		/* 0: for ever */
	bool silent;		/* until the other side gives up */
	char asked[3];
	size_t more;		/* bytes of the question after these */
};

static void *
serve(void *arg)
{
	struct server *s = arg;
	int fd = accept(s->fd, NULL, NULL);
	unsigned sent = 0;
	char byte, rest[64];

	if (recv(fd, s->asked, sizeof(s->asked), MSG_WAITALL) ==
	    sizeof(s->asked) && (s->more == 0 ||
	    recv(fd, rest, s->more, MSG_WAITALL) == (ssize_t)s->more)) {
		while (!s->silent && (s->times == 0 || sent++ < s->times) &&
		    send(fd, s->answer, s->n, MSG_NOSIGNAL) > 0)
			;
		if (s->silent)
			(void)!recv(fd, &byte, 1, 0);
	}
	close(fd);
	return NULL;
}

static void
server_start(struct server *s)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(sin);
	char port[8];

	s->fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&sin, n), 0);
	assert_int_equal(listen(s->fd, 1), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&sin, &n), 0);
	snprintf(port, sizeof(port), "%u", ntohs(sin.sin_port));
	setenv("ERL_EPMD_PORT", port, 1);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

/* What is said to somebody who named `given`. */
static const char *
hint(const char *given, kp_dur_ns limit)
{
	static char text[EPMD_HINT_MAX];
	struct addresses a;

	assert_int_equal(addresses_find(&a, "127.0.0.1"), 0);
	epmd_hint(text, sizeof(text), given, "vm", &a, epmd_default_port(),
	    kp_mono_now() + limit);
	return text;
}

static const char *
hint_of(struct server *s, const char *given, kp_dur_ns limit)
{
	const char *text;

	server_start(s);
	text = hint(given, limit);
	pthread_join(s->thread, NULL);
	close(s->fd);
	assert_memory_equal(s->asked, "\0\1n", 3);
	return text;
}

TEST(test_names)
{
#define SHOP "name shop at port 33445\n"
#define DB "name db-1 at port 1\n"
	static const struct {
		const char *names, *given, *said;
	} v[] = {
		{ "", "shop@vm", "epmd lists no node" },
		{ SHOP DB, "x@vm", "epmd lists shop@vm, db-1@vm" },
		{ SHOP DB, "shp@vm", "did you mean 'shop@vm'? epmd lists "
		    "shop@vm, db-1@vm" },
		{ SHOP, "shop", "did you mean 'shop@vm'?" },
		/* what is no name, or not all there, is passed over */
		{ "name a b\nname \x1b[1m at port 2\nmane c at port 3\n\n"
		    "name  at port 4\n" SHOP "name cut at po", "x@vm",
		    "epmd lists shop@vm" },
	};
	struct server s;
	char answer[512];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		memcpy(answer, PORT, 4);
		strcpy(answer + 4, v[i].names);
		s = (struct server){ .answer = answer, .times = 1,
			.n = 4 + strlen(v[i].names) };
		assert_string_equal(hint_of(&s, v[i].given, 30 * KP_NS_PER_S),
		    v[i].said);
	}
}

TEST(test_many)
{
	static char answer[4096] = PORT;
	struct server s = { .answer = answer, .n = 4, .times = 1 };

	for (int i = 0; i < 100; i++)
		s.n += (size_t)sprintf(answer + s.n,
		    "name n%02d at port 7\n", i);
	assert_string_equal(hint_of(&s, "app@vm", 30 * KP_NS_PER_S),
	    "epmd lists n00@vm, n01@vm, n02@vm, n03@vm, n04@vm, n05@vm, "
	    "n06@vm, n07@vm and 92 more");
}

/* Anything may listen at that port. */
TEST(test_others)
{
	static char flood[65536];
	struct server silent = { .silent = true };
	struct server none = { .answer = "no", .n = 2, .times = 1 };
	struct server endless = { .answer = flood, .n = sizeof(flood) };

	memset(flood, 'n', sizeof(flood));
	assert_string_equal(hint_of(&silent, "a@vm", KP_NS_PER_S / 5), "");
	assert_string_equal(hint_of(&none, "a@vm", 30 * KP_NS_PER_S), "");
	assert_string_equal(hint_of(&endless, "a@vm", 30 * KP_NS_PER_S),
	    "epmd lists no node");
	/* nobody listens at the last one's port */
	assert_string_equal(hint("a@vm", 30 * KP_NS_PER_S), "");
}

/* The port of "shop": 0 or the errno. */
static int
port_of(struct server *s, kp_dur_ns limit, unsigned *port, bool *reached)
{
	struct addresses a;
	int err;

	*port = 0;
	assert_int_equal(addresses_find(&a, "127.0.0.1"), 0);
	s->more = strlen("shop");
	server_start(s);
	err = epmd_node_port(&a, epmd_default_port(), "shop",
	    kp_mono_now() + limit, port, reached);
	pthread_join(s->thread, NULL);
	close(s->fd);
	assert_memory_equal(s->asked, "\0\5z", 3);
	return err;
}

TEST(test_port)
{
	static const struct {
		const char *answer;
		size_t n;
		int err;
		unsigned port;
	} v[] = {
		{ "w\0\x11\x12M\0\0\6\0\5\0\4shop\0\0", 18, 0, 0x1112 },
		{ "w\0\xff\xff", 4, 0, 65535 },
		{ "w\1", 2, ENOENT, 0 },
		{ "w\0\0\0", 4, ENOENT, 0 },
		{ "w\0\x11", 3, EBADMSG, 0 },
		{ "w", 1, EBADMSG, 0 },
		{ "HTTP/1.1 400 Bad Request", 24, EBADMSG, 0 },
	};
	struct server silent = { .silent = true };
	struct addresses a;
	struct server s;
	unsigned port;
	bool reached;

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		s = (struct server){ .answer = v[i].answer, .n = v[i].n,
			.times = 1 };
		assert_int_equal(port_of(&s, 30 * KP_NS_PER_S, &port,
		    &reached), v[i].err);
		assert_true(reached);
		if (v[i].err == 0)
			assert_int_equal(port, v[i].port);
	}
	assert_int_equal(port_of(&silent, KP_NS_PER_S / 5, &port, &reached),
	    ETIMEDOUT);
	assert_true(reached);
	assert_int_equal(addresses_find(&a, "127.0.0.1"), 0);
	assert_int_equal(epmd_node_port(&a, epmd_default_port(), "shop",
	    kp_mono_now() + 30 * KP_NS_PER_S, &port, &reached), ECONNREFUSED);
	assert_false(reached);
}

TESTS(NULL, NULL)
