/*
 * fuzz_running.c - the windows that kprof gets of a daemon, after the version,
 * which says that it may read on: whatever is read adds up, and writes to bytes
 * that read back as the same.
 */
#include <string.h>

#include "fuzz.h"
#include "store/live_window.h"

static void
head(struct kp_buf *b)
{
	kp_buf_u8(b, (uint8_t)strlen(KP_VERSION));
	kp_buf_put(b, KP_VERSION, strlen(KP_VERSION) + 1);
}

static void
write_again(const struct live_windows *r, struct kp_buf *b)
{
	live_windows_put_head(b, r->closed, r->left);
	for (size_t i = 0; i < r->n; i++)
		live_windows_put(b, &r->v[i]);
	REQUIRE(b->err == KP_OK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const struct kp_query_tiers none = { 0 };
	struct live_windows r = { 0 }, back = { 0 };
	struct kp_buf form, one, two;
	struct kp_query_sum sum;

	kp_buf_init(&form, 4 << 20);
	kp_buf_init(&one, 64 << 20);
	kp_buf_init(&two, 64 << 20);
	head(&form);
	kp_buf_put(&form, p, n);
	if (form.err == KP_OK && live_windows_read(&r, form.p, form.len) == KP_OK) {
		REQUIRE(live_windows_sum(&r, &none, &sum) == KP_OK);
		REQUIRE(sum.windows == r.n);
		kp_query_sum_free(&sum);
		write_again(&r, &one);
		REQUIRE(live_windows_read(&back, one.p, one.len) == KP_OK);
		write_again(&back, &two);
		REQUIRE(one.len == two.len &&
		    memcmp(one.p, two.p, one.len) == 0);
	}
	live_windows_free(&r);
	live_windows_free(&back);
	kp_buf_free(&form);
	kp_buf_free(&one);
	kp_buf_free(&two);
	return 0;
}
