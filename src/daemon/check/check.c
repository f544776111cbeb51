/* check.c - the report of kprofd -check about one target. */
#include <stdio.h>

#include "daemon/check/check.h"
#include "daemon/check/price.h"
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
