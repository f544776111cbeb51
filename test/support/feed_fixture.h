/*
 * feed_fixture.h - what the tests of request assembly share: one feed, made
 * anew for each test, and a look at what came out of it.
 */
#ifndef TEST_FEED_FIXTURE_H
#define TEST_FEED_FIXTURE_H

#include "feed.h"

static struct feed f;

static int
teardown(void **state)
{
	(void)state;
	feed_free(&f);
	return 0;
}

/* All that has closed since the last time. */
#define CLOSED(want)                                                 \
	do {                                                         \
		assert_string_equal(kp_buf_cstr(&f.text), (want));   \
		kp_buf_reset(&f.text);                               \
	} while (0)

/* Two entries, and three functions of a tier. */
static const char conf_two[] =
    "{tiers, [{web, [{e,e,1}, {e2,e2,1}]},\n"
    "         {db, [{a,a,1}, {b,b,1}, {c,c,1}]}]}.\n"
    "{entry, [{e,e,1}, {e2,e2,1}]}.\n"
    "{sampling, all}.\n";

static inline int
setup_27(void **state)
{
	(void)state;
	feed_init(&f, conf_two, NULL);
	return 0;
}

#endif
