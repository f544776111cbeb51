/*
 * test_feed.c - what exporters follow: each window of the run once, as it was
 * written, whatever becomes of it later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"
#include "store/feed.h"

struct seen {
	size_t windows;
	kp_wall_ns last;
	uint64_t calls, hist, lost;	/* of _total, _total */
	char node[32];
};

static void
on_window(void *ctx, const struct kp_window *w)
{
	struct seen *s = ctx;

	s->windows++;
	s->last = w->start;
	strncpy(s->node, w->node, sizeof(s->node) - 1);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		s->lost += w->losses.n[i];
	for (size_t i = 0; i < w->ncells; i++)
		if (strcmp(w->cells[i].tier, "_total") == 0 &&
		    strcmp(w->cells[i].identity, "_total") == 0) {
			s->calls += w->cells[i].w_calls;
			s->hist += w->cells[i].hist.count;
		}
}

static struct seen
look(struct kp_feed *f)
{
	struct kp_query *q = open_query();
	struct seen s = { .windows = 0 };

	assert_int_equal(kp_feed_windows(q, f, on_window, &s), KP_OK);
	kp_query_close(q);
	return s;
}

static uint64_t
one(const char *sql)
{
	return strtoull(sql_text(sql), NULL, 10);
}

/* More than are read at once, in order, none twice. */
static void
each_window_once(void **state)
{
	struct kp_store *s = open_store();
	struct kp_feed f = { .run = 0 };
	struct seen seen;

	(void)state;
	for (int i = 0; i < 150; i++)
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
	assert_true(sync_store(s));
	seen = look(&f);
	assert_int_equal(seen.windows, 150);
	assert_true(seen.last == T0 + 149 * 10 * S);
	assert_string_equal(seen.node, "a@h");
	assert_int_equal(seen.calls, one("select sum(w_calls) from stat s"
	    " join tier t on t.id = s.tier_id join identity i"
	    " on i.id = s.identity_id where t.name = '_total'"
	    " and i.name = '_total'"));
	assert_int_equal(seen.lost, one("select sum(n) from loss"));
	assert_true(seen.hist > 0);
	assert_int_equal(look(&f).windows, 0);
	kp_store_window(s, known_window("b@h", T0));
	assert_true(sync_store(s));
	seen = look(&f);
	assert_int_equal(seen.windows, 1);
	assert_string_equal(seen.node, "b@h");
	kp_store_close(s);
}

/* What was rolled up is not seen again as what it became. */
static void
rolled_up_is_not_new(void **state)
{
	struct kp_store *s = open_store();
	struct kp_feed f = { .run = 0 };

	(void)state;
	for (int i = 0; i < 6; i++)
		kp_store_window(s, known_window("a@h", T0 + i * 10 * S));
	assert_true(sync_store(s));
	assert_int_equal(look(&f).windows, 6);
	sql_exec("update time_window set level = 60");
	assert_int_equal(look(&f).windows, 0);
	/* the ids of those that were deleted come again */
	sql_exec("pragma foreign_keys = on; delete from time_window");
	assert_int_equal(look(&f).windows, 0);
	kp_store_window(s, known_window("a@h", T0 + MIN));
	assert_true(sync_store(s));
	assert_int_equal(look(&f).windows, 1);
	kp_store_close(s);
}

/* A run before this one is none of it; the next one begins at its first. */
static void
of_the_latest_run(void **state)
{
	struct kp_store *s = open_store();
	struct kp_feed f = { .run = 0 };

	(void)state;
	kp_store_window(s, known_window("a@h", T0));
	assert_true(sync_store(s));
	assert_int_equal(look(&f).windows, 1);
	kp_store_close(s);
	s = open_store();
	assert_int_equal(look(&f).windows, 0);
	kp_store_window(s, known_window("a@h", T0 + MIN));
	assert_true(sync_store(s));
	assert_int_equal(look(&f).windows, 1);
	kp_store_close(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_FILE(each_window_once),
		ON_A_FILE(rolled_up_is_not_new),
		ON_A_FILE(of_the_latest_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
