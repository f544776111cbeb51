/* test_dial.c - where a node is, and which of its host's addresses is taken. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cases.h"
#include "conn/address.h"
#include "conn/dial.h"

static const struct reach nothing = { .name = NULL };

static struct node_place
place(const char *target, const struct reach *r)
{
	struct node_place p;
	char why[300] = "";

	assert_int_equal(node_place_find(&p, target, r, why, sizeof(why)), KP_OK);
	assert_string_equal(why, "");
	return p;
}

TEST(test_places)
{
	static const struct {
		const char *target, *node, *host;
		unsigned port;
	} v[] = {
		{ "app@vm", "app@vm", "vm", 0 },
		{ "app@vm:4370", "app@vm", "vm", 4370 },
		{ "app@10.0.0.7:65535", "app@10.0.0.7", "10.0.0.7", 65535 },
		{ "app@::1", "app@::1", "::1", 0 },
		{ "app@fd00::7:9", "app@fd00::7:9", "fd00::7:9", 0 },
		{ "app@[::1]:4370", "app@::1", "::1", 4370 },
	};
	struct node_place p;

	unsetenv("ERL_EPMD_PORT");
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		p = place(v[i].target, i % 2 == 0 ? &nothing : NULL);
		assert_fields(p, IS(node, v[i].node) IS(host, v[i].host)
		    IS(port, v[i].port) IS(epmd_host, v[i].host)
		    IS(epmd_port, 4369));
		assert_false(p.epmd_given);
	}
}

TEST(test_bad_targets)
{
	static const char *const v[] = { "", "app", "@vm", "app@", "a b@vm",
		"app@vm:0", "app@vm:65536", "app@[::1]:", "app@[::1", "app@[]" };
	struct node_place p;
	char why[300];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		assert_int_equal(node_place_find(&p, v[i], &nothing, why,
		    sizeof(why)), KP_EFORMAT);
		assert_has(why, "bad node name '");
	}
}

/* What names the node goes before what names its host, and what was typed before all. */
TEST(test_options)
{
	struct reach r = { .dist_port = 9100, .resolve = { .n = 4, .v = {
		"pod=10.0.0.1", "app@pod=10.0.0.7:4370", "app@v6=[fd00::7]:5",
		"wide=fd00::8" } } };
	struct node_place p;

	p = place("app@pod", &r);
	assert_fields(p, IS(host, "10.0.0.7") IS(port, 4370));
	assert_int_equal(place("app@pod:7", &r).port, 7);
	p = place("db@pod", &r);
	assert_fields(p, IS(host, "10.0.0.1") IS(node, "db@pod")
	    IS(port, 9100));
	p = place("app@v6", &r);
	assert_fields(p, IS(host, "fd00::7") IS(port, 5));
	assert_string_equal(place("app@wide", &r).host, "fd00::8");
	assert_string_equal(place("app@po", &r).host, "po");

	r.epmd = "4400";
	p = place("db@pod", &r);
	assert_fields(p, IS(epmd_host, "10.0.0.1") IS(epmd_port, 4400));
	r.epmd = "gate:4401";
	p = place("db@pod", &r);
	assert_fields(p, IS(epmd_host, "gate") IS(epmd_port, 4401));
	assert_true(p.epmd_given);
	setenv("ERL_EPMD_PORT", "4402", 1);
	r.epmd = "::1";
	p = place("db@pod", &r);
	assert_fields(p, IS(epmd_host, "::1") IS(epmd_port, 4402));
	unsetenv("ERL_EPMD_PORT");
}

/* ---- connections ---- */

/* Listens at 127.0.0.n. */
static int
listen_at(uint8_t n, unsigned *port, int backlog)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + n),
		.sin_port = htons((uint16_t)*port) };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(listen(fd, backlog), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	*port = ntohs(sin.sin_port);
	return fd;
}

static void
add(struct addresses *a, uint8_t n)
{
	a->v[a->n++].v4 = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + n) };
}

/* Fills the queue of a listener, which then answers nobody. */
static void
fill(uint8_t n, unsigned port, int *fd, size_t fds)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + n),
		.sin_port = htons((uint16_t)port) };

	for (size_t i = 0; i < fds; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)connect(fd[i], (struct sockaddr *)&sin, sizeof(sin));
	}
	usleep(100000);
}

static uint32_t
peer(int fd)
{
	struct sockaddr_in sin = { .sin_port = 0 };
	socklen_t len = sizeof(sin);

	assert_int_equal(getpeername(fd, (struct sockaddr *)&sin, &len), 0);
	return ntohl(sin.sin_addr.s_addr) - INADDR_LOOPBACK + 1;
}

TEST(test_addresses)
{
	struct addresses a = { .n = 0 };
	unsigned port = 0;
	int queue[4], fd, mute, open;

	open = listen_at(3, &port, 5);
	mute = listen_at(2, &port, 0);
	fill(2, port, queue, 4);
	add(&a, 4);	/* refuses */
	add(&a, 2);	/* is silent */
	add(&a, 3);
	assert_int_equal(addresses_connect(&a, port,
	    kp_mono_now() + 60 * KP_NS_PER_S, &fd), 0);
	assert_int_equal(peer(fd), 3);
	assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
	assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	close(fd);

	/* one refuses, and one is silent: that there is none is known */
	a.n = 2;
	assert_int_equal(addresses_connect(&a, port,
	    kp_mono_now() + KP_NS_PER_S / 2, &fd), ECONNREFUSED);
	assert_int_equal(fd, -1);
	a.v[0] = a.v[1];
	assert_int_equal(addresses_connect(&a, port,
	    kp_mono_now() + KP_NS_PER_S / 2, &fd), ETIMEDOUT);
	assert_int_equal(fd, -1);
	a.n = 0;
	add(&a, 4);
	a.n = 1;
	assert_int_equal(addresses_connect(&a, port,
	    kp_mono_now() + 60 * KP_NS_PER_S, &fd), ECONNREFUSED);
	for (size_t i = 0; i < 4; i++)
		close(queue[i]);
	close(mute);
	close(open);
}

TEST(test_dial)
{
	struct reach r = { .name = NULL };
	unsigned port = 0;
	int l = listen_at(1, &port, 5), fd;
	char why[400], resolve[64];
	struct node_place p;

	snprintf(resolve, sizeof(resolve), "pod=127.0.0.1:%u", port);
	r.resolve.v[r.resolve.n++] = resolve;
	p = place("app@pod", &r);
	assert_int_equal(dial(&p, kp_mono_now() + 60 * KP_NS_PER_S,
	    60 * KP_NS_PER_S, &fd, why, sizeof(why)), KP_OK);
	close(fd);
	close(l);
	assert_int_equal(dial(&p, kp_mono_now() + 60 * KP_NS_PER_S,
	    60 * KP_NS_PER_S, &fd, why, sizeof(why)), KP_EIO);
	assert_has(why, "cannot connect to 'app@pod': 127.0.0.1 port");
	assert_has(why, "(is that the node's port?)");
	r.resolve.n = 0;
	r.dist_port = port;
	r.port_env = true;
	p = place("app@127.0.0.1", &r);
	assert_int_equal(dial(&p, kp_mono_now() + 60 * KP_NS_PER_S,
	    60 * KP_NS_PER_S, &fd, why, sizeof(why)), KP_EIO);
	assert_has(why, "(ERL_DIST_PORT says so: is that the node's port?)");
}

TESTS(NULL, NULL)
