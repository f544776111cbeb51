/*
 * A web server that cannot start leaves nothing open: each step of starting
 * fails once.  The port that it listens at was leaked when libevent could not
 * be started.
 */
#include <dirent.h>

#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>

#include "cases.h"
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
			assert_has(web_addr(w), cases[i].at);
			web_stop(w);
		} else {
			assert_int_equal(web_start(&w, &o, why, sizeof(why)),
			    KP_EFORMAT);
			assert_has(why, cases[i].why);
		}
	}
}

TESTS(NULL, NULL)
