/* price.c - the price of a plan as a line for people. */
#include "daemon/check/price.h"
#include "text/text.h"

/* Two digits are as many as an estimate has. */
void
check_put_price(struct kp_buf *b, const struct kp_check *c)
{
	struct kp_check_price price = kp_check_price(c);
	double unit = 1;
	char text[TEXT_MAX];

	while (price.events / unit >= 100)
		unit *= 10;
	kp_buf_printf(b, "about %s events/s, ", text_count(text,
	    (uint64_t)(price.events / unit + 0.5) * (uint64_t)unit));
	if (price.percent < 0.01)
		kp_buf_str(b, "less than 0.01 % of a scheduler\n");
	else
		kp_buf_printf(b, "%.2g %% of a scheduler\n", price.percent);
}
