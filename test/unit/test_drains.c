/*
 * test_drains.c - servers that carry another's token (request/drains.h): who
 * answers so and is none fills no table for good, and one is told of again when
 * its node comes back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "feed_fixture.h"
#include "request/drains.h"

enum { SERVER = 9, FN = 3 };

/* Processes that answer later, so many times each, and are never seen again. */
static void
come_and_go(struct drains *d, unsigned times)
{
	for (uint64_t proc = 1000; proc < 2000; proc++)
		for (unsigned i = 0; i < times; i++)
			drains_answer(d, proc);
}

static unsigned
answers_and_calls(struct drains *d, unsigned n)
{
	unsigned told = 0;

	for (unsigned i = 0; i < n; i++) {
		drains_answer(d, SERVER);
		told += drains_call(d, SERVER, FN);
	}
	return told;
}

static void
after_others(void **state)
{
	static struct drains d;

	(void)state;
	come_and_go(&d, 1);
	come_and_go(&d, 50);
	assert_int_equal(answers_and_calls(&d, 1000), 1);
}

static void
among_others(void **state)
{
	static struct drains d;
	unsigned told = 0;

	(void)state;
	for (uint64_t proc = 1000; proc < 2000; proc++) {
		for (unsigned i = 0; i < DRAINS_MAX - 1; i++)
			drains_answer(&d, proc * DRAINS_MAX + i);
		told += answers_and_calls(&d, 2);
	}
	assert_int_equal(told, 1);
}

static unsigned told;

static void
on_drains(void *ctx, uint32_t node, uint64_t proc, const struct kp_fn *fn)
{
	(void)ctx;
	told++;
	assert_int_equal(node, 0);
	assert_int_equal(kp_proc_pid(proc), SERVER);
	assert_string_equal(fn->text, "b:b/1");
}

static int
setup(void **state)
{
	struct kp_requests_opts o = { .on_drains = on_drains };

	(void)state;
	told = 0;
	feed_init(&f, conf_two, &o);
	return 0;
}

/* Two requests ask it, and it answers with each other's tokens. */
static void
drains(double ms)
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
told_again(void **state)
{
	(void)state;
	drains(0);
	assert_int_equal(told, 1);
	drains(100);
	assert_int_equal(told, 1);
	kp_requests_abandon(f.rs, 0, KP_LOSS_DISCONNECTED);
	drains(200);
	assert_int_equal(told, 2);
	kp_buf_reset(&f.text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_others),
		cmocka_unit_test(among_others),
		cmocka_unit_test_setup_teardown(told_again, setup, teardown),
	};

	return cmocka_run_group_tests_name("drains", tests, NULL, NULL);
}
