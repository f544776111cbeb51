/* check.c - the report of kprofd -check about one target. */
#include <stdio.h>

#include "daemon/check/check.h"
#include "daemon/print.h"
#include "daemon/target/target.h"
#include "kprofd/check.h"
#include "text/text.h"

static void
report(struct target *t, const struct kp_check *c)
{
	struct kp_diags diags = { 0 };

	kp_check_judge(c, &diags);
	if (diags.n > 0)
		daemon_on_diags(t, &diags);
	kp_diags_free(&diags);
}

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

static void
print_price(const struct kp_check *c)
{
	struct kp_buf b;

	kp_buf_init(&b, 256);
	check_put_price(&b, c);
	fputs(kp_buf_cstr(&b), stdout);
	fflush(stdout);
	kp_buf_free(&b);
}

void
check_counted(struct target *t, const struct kp_plan *plan)
{
	const struct kp_check c = { .conf = t->part.in->conf, .plan = plan,
		.counted = t->opts.check_time };

	daemon_print_plan(t, plan);
	print_price(&c);
	report(t, &c);
}

void
check_passed(uint64_t warnings)
{
	char text[TEXT_MAX];

	printf("ok, %s\n", text_counted(text, warnings, "warning"));
}
