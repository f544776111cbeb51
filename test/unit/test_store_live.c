/*
 * Running windows: what kprof reads of them is what the database would have
 * given, and bytes that are something else are refused.
 */
#include "cases.h"
#include "report/report.h"
#include "store/live_window.h"
#include "store_fixture.h"

static struct kp_buf form;

/* The form of the known window of each of these nodes. */
static void
put(const char *const *nodes, size_t n)
{
	struct kp_window *w;

	kp_buf_reset(&form);
	live_windows_put_head(&form, 3, 6 * S);
	for (size_t i = 0; i < n; i++) {
		w = labelled_window(nodes[i], T0);
		w->cost.traced_call = 700;
		w->entry_calls = 120;
		live_windows_put(&form, w);
		kp_window_free(w);
	}
	assert_int_equal(form.err, KP_OK);
}

/* Compares all but the histogram's address. */
static void
assert_cell(const struct kp_cell *a, const struct kp_cell *b)
{
	struct kp_cell x = *a, y = *b;

	assert_fields(*a, IS(tier, b->tier) IS(identity, b->identity)
	    IS(hist.count, b->hist.count));
	assert_int_equal(kp_hist_quantile(&a->hist, 0.9),
	    kp_hist_quantile(&b->hist, 0.9));
	x.tier = y.tier = x.identity = y.identity = NULL;
	memset(&x.hist, 0, sizeof(x.hist));
	memset(&y.hist, 0, sizeof(y.hist));
	assert_memory_equal(&x, &y, sizeof(x));
}

/* The same windows are stored, and read from the form. */
static void
assert_as_stored(const char *const *nodes, size_t n)
{
	struct kp_store *s = open_store();
	struct kp_query_sum stored, running;
	struct kp_query_tiers tiers = { 0 };
	struct live_windows r = { 0 };
	struct kp_query *q;

	for (size_t i = 0; i < n; i++)
		kp_store_window(s, labelled_window(nodes[i], T0));
	assert_true(sync_store(s));
	q = open_query();
	assert_int_equal(kp_query_tiers(q, &tiers), KP_OK);
	assert_int_equal(kp_query_sum(q, &all, &stored), KP_OK);
	put(nodes, n);
	assert_int_equal(live_windows_read(&r, form.p, form.len), KP_OK);
	assert_fields(r, IS(n, n) IS(closed, 3) IS(left, 6 * S));
	assert_int_equal(live_windows_sum(&r, &tiers, &running), KP_OK);
	assert_fields(running, IS(windows, stored.windows)
	    IS(start, stored.start) IS(end, stored.end)
	    IS(covered, stored.covered) IS(sampled, stored.sampled)
	    IS(entry_calls, 120 * n) IS(traced_call, 700));
	assert_memory_equal(&running.losses, &stored.losses,
	    sizeof(stored.losses));
	assert_int_equal(running.ncells, stored.ncells);
	for (size_t i = 0; i < stored.ncells; i++)
		assert_cell(&running.cells[i], &stored.cells[i]);
	kp_query_sum_free(&running);
	kp_query_sum_free(&stored);
	kp_query_tiers_free(&tiers);
	live_windows_free(&r);
	kp_query_close(q);
	kp_store_close(s);
}

TEST_WITH(test_one, setup, teardown)
{
	static const char *const nodes[] = { "a@h" };

	assert_as_stored(nodes, 1);
}

/* Of several nodes a request counts once, by its shares. */
TEST_WITH(test_several, setup, teardown)
{
	static const char *const nodes[] = { "a@h", "b@h", "c@h" };

	assert_as_stored(nodes, 3);
}

TEST_WITH(test_report, setup, teardown)
{
	static const char *const nodes[] = { "a@h" };
	struct kp_store *s = open_store();
	struct kp_query *q = open_query();
	struct kp_query_tiers tiers;
	struct live_windows r = { 0 };
	struct report *report;

	put(nodes, 1);
	assert_int_equal(live_windows_read(&r, form.p, form.len), KP_OK);
	assert_int_equal(kp_query_tiers(q, &tiers), KP_OK);
	assert_int_equal(report_from_running(&tiers, NULL, &r, &report), KP_OK);
	kp_query_tiers_free(&tiers);
	live_windows_free(&r);
	assert_true(report->running);
	assert_fields(*report, IS(left, 6 * S) IS(ntiers, 2) IS(nodes[0], "a@h")
	    IS(rows[1].identity, "create") IS(rows[1].cells[0].requests, 20));
	/* of parts that the database has not heard of yet */
	assert_fields(report->rows[1], IS(nlabels, 2) IS(labels[0].name, "orders")
	    IS(labels[1].name, "users") IS(labels[1].cell.calls, 30));
	report_free(report);
	kp_query_close(q);
	kp_store_close(s);
}

/* Cut anywhere, or with a bit changed, it is refused or read, never worse. */
TEST(test_damaged)
{
	static const char *const nodes[] = { "a@h", "b@h" };
	struct live_windows r = { 0 };
	size_t one, read = 0;

	put(nodes, 1);
	one = form.len;
	put(nodes, 2);
	for (size_t n = 0; n < form.len; n++) {
		/* two prefixes are forms: of no window, and of one */
		read += live_windows_read(&r, form.p, n) == KP_OK;
		assert_int_equal(r.n, read > 1 ? 1 : 0);
	}
	assert_int_equal(read, 2);
	assert_int_equal(live_windows_read(&r, form.p, one), KP_OK);
	assert_int_equal(r.n, 2);
	for (size_t i = 0; i < 8 * form.len; i++) {
		form.p[i / 8] ^= (uint8_t)(1 << i % 8);
		(void)live_windows_read(&r, form.p, form.len);
		form.p[i / 8] ^= (uint8_t)(1 << i % 8);
		live_windows_cut(&r, 2);
	}
	live_windows_free(&r);
	/* another version counts other things */
	form.p[1]++;
	assert_int_equal(live_windows_read(&r, form.p, form.len), KP_EFORMAT);
	assert_int_equal(r.n, 0);
}

FIXTURE(form_make)
{
	kp_buf_init(&form, 1 << 20);
	return 0;
}

FIXTURE(form_free)
{
	kp_buf_free(&form);
	return 0;
}

TESTS_ONCE(form_make, form_free)
