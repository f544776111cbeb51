/*
 * A web server that cannot start leaves nothing open: each step of starting
 * fails once.  The port that it listens at was leaked when libevent could not
 * be started.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <string.h>

#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>

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

static void
starting_leaves_nothing(void **state)
{
	unsigned before;

	(void)state;
	assert_int_equal(start_and_stop(NONE), KP_OK);
	before = open_files();
	assert_int_equal(start_and_stop(NONE), KP_OK);
	assert_int_equal(open_files(), before);
	for (enum step step = BASE; step <= BIND; step++) {
		assert_int_equal(start_and_stop(step), KP_ENOMEM);
		assert_int_equal(open_files(), before);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starting_leaves_nothing),
	};

	return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
