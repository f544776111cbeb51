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

/* What is merged can be taken back, once; too many are refused. */
static void
merged(struct kp_hist *to, const struct kp_hist *h)
{
	double mean, deviation = kp_hist_deviation(h, &mean);

	must(h->count == 0 || mean > 0);
	must(deviation >= 0 && deviation <= 1e10 * mean);
	must(kp_hist_merge(to, h) ==
	    (h->count > UINT64_MAX / 2 ? KP_ELIMIT : KP_OK));
	must(to->count == (h->count > UINT64_MAX / 2 ? h->count :
	    2 * h->count));
	must(kp_hist_take(to, h) == KP_OK);
	must(to->count == (h->count > UINT64_MAX / 2 ? 0 : h->count));
	must(to->count == 0 || kp_hist_quantile(to, 0.9) ==
	    kp_hist_quantile(h, 0.9));
	must(to->count == 0 || kp_hist_take(to, h) == KP_OK);
	must(kp_hist_take(to, h) ==
	    (h->count > 0 ? KP_EFORMAT : KP_OK));
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
	merged(&back, &h);
	kp_hist_free(&h);
	kp_hist_free(&back);
	kp_buf_free(&one);
	kp_buf_free(&two);
	return 0;
}
