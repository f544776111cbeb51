/*
 * test_reconcile.c - servers that answer with another request's token
 * (reconcile.c): processes that do so now and then do not fill the table for
 * good, and a server is reported again when its node comes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"
#include "request/life.h"

enum { SERVER = 9, FN = 3 };

/* Processes that answer later, so many times each, and are never seen again. */
static void
come_and_go(struct crossed *d, unsigned times)
{
	for (uint64_t proc = 1000; proc < 2000; proc++)
		for (unsigned i = 0; i < times; i++)
			crossed_answer(d, proc);
}

static unsigned
answers_and_calls(struct crossed *d, unsigned n)
{
	unsigned reported = 0;

	for (unsigned i = 0; i < n; i++) {
		crossed_answer(d, SERVER);
		reported += crossed_call(d, SERVER, FN);
	}
	return reported;
}

static void
after_others(void **state)
{
	static struct crossed d;

	(void)state;
	come_and_go(&d, 1);
	come_and_go(&d, 50);
	assert_int_equal(answers_and_calls(&d, 1000), 1);
}

static void
among_others(void **state)
{
	static struct crossed d;
	unsigned reported = 0;

	(void)state;
	for (uint64_t proc = 1000; proc < 2000; proc++) {
		for (unsigned i = 0; i < CROSSED_MAX - 1; i++)
			crossed_answer(&d, proc * CROSSED_MAX + i);
		reported += answers_and_calls(&d, 2);
	}
	assert_int_equal(reported, 1);
}

static unsigned reported;

static void
on_crossed(void *ctx, uint32_t node, uint64_t proc, const struct kp_fn *fn)
{
	(void)ctx;
	reported++;
	assert_int_equal(node, 0);
	assert_int_equal(kp_proc_pid(proc), SERVER);
	assert_string_equal(fn->text, "b:b/1");
}

static int
setup(void **state)
{
	struct kp_requests_opts o = { .on_crossed = on_crossed };

	(void)state;
	reported = 0;
	feed_init(&f, conf_two, &o);
	return 0;
}

/* Two requests ask it, and it answers with each other's tokens. */
static void
answer(double ms)
{
	entry(&f, 1, "e", "x", 1, ms);
	entry(&f, 2, "e", "x", 2, ms + 1);
	for (unsigned i = 0; i < 20; i++) {
		ms += 2;
		call(&f, SERVER, "b", "y", 2, ms);
		back_to(&f, SERVER, "y", ms + 0.1);
		call_from(&f, 1, SERVER, "a", "e", 2, ms + 0.2);
		back_to(&f, 1, "e", ms + 0.3);
	}
}

static void
reported_again(void **state)
{
	(void)state;
	answer(0);
	assert_int_equal(reported, 1);
	answer(100);
	assert_int_equal(reported, 1);
	kp_requests_abandon(f.rs, 0, KP_LOSS_DISCONNECTED);
	answer(200);
	assert_int_equal(reported, 2);
	kp_buf_reset(&f.text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_others),
		cmocka_unit_test(among_others),
		cmocka_unit_test_setup_teardown(reported_again, setup, teardown),
	};

	return cmocka_run_group_tests_name("reconcile", tests, NULL, NULL);
}
