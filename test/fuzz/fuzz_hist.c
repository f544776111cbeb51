/*
 * fuzz_hist.c - a stored histogram is bytes from a file: whatever is read
 * must write to bytes that read back as the same histogram, and the shortest
 * form must write to itself.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/hist.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void
must(bool ok)
{
	if (!ok)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct kp_hist h, back;
	struct kp_buf one, two;

	kp_hist_init(&h);
	kp_hist_init(&back);
	if (kp_hist_read(&h, p, n) != KP_OK) {
		must(h.n == NULL && h.count == 0);
		return 0;
	}
	kp_buf_init(&one, 1 << 20);
	kp_buf_init(&two, 1 << 20);
	kp_hist_write(&h, &one);
	must(one.err == KP_OK && one.len <= n);
	must(kp_hist_read(&back, one.p, one.len) == KP_OK);
	kp_hist_write(&back, &two);
	must(one.len == two.len && memcmp(one.p, two.p, one.len) == 0);
	must(h.count == back.count);
	must(kp_hist_quantile(&h, 0.5) == kp_hist_quantile(&back, 0.5));
	must(kp_hist_merge(&back, &h) == KP_OK);
	must(back.count == 2 * h.count);
	kp_hist_free(&h);
	kp_hist_free(&back);
	kp_buf_free(&one);
	kp_buf_free(&two);
	return 0;
}
