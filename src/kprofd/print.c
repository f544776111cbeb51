/* print.c - see the header. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kprofd/print.h"

static void
print_time(kp_wall_ns t)
{
	time_t s = (time_t)(t / KP_NS_PER_S);
	char text[32];
	struct tm tm;

	localtime_r(&s, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	printf("%s.%06d", text, (int)(t % KP_NS_PER_S / 1000));
}

static void
print_call(const struct kp_requests *rs, const struct kp_request *rq,
    const struct kp_call *c, kp_dur_ns offset)
{
	char pid[48];

	print_time(c->start + offset);
	printf("  %-16s %-32s ",
	    kp_requests_identity(rs, rq->identity),
	    kp_requests_fn(rs, c->fn)->text);
	if (c->outcome == KP_RETURNED || c->outcome == KP_RAISED)
		printf("%11.3f ms", (double)(c->end - c->start) / 1e6);
	else
		printf("%14s", "-");
	printf("  %-12s %s%s\n", kp_proc_text(c->proc, pid, sizeof(pid)),
	    kp_outcome_name(c->outcome), c->async ? " async" : "");
}

void
print_request(struct print_limit *l, const struct kp_requests *rs,
    const struct kp_request *rq, kp_dur_ns offset, kp_mono_ns now)
{
	if (now - l->second >= KP_NS_PER_S) {
		if (l->left_out > 0)
			printf("... %llu calls not printed\n",
			    (unsigned long long)l->left_out);
		*l = (struct print_limit){ .second = now };
		fflush(stdout);
	}
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		if (l->printed == PRINT_CALLS_A_SECOND) {
			l->left_out += rq->ncalls - i;
			return;
		}
		l->printed++;
		print_call(rs, rq, &rq->calls[i], offset);
	}
}

static void
print_tiers(const struct kp_conf *c, uint64_t tiers)
{
	const char *sep = "";

	for (size_t i = 0; i < c->ntiers; i++)
		if ((tiers >> i & 1) != 0) {
			printf("%s%s", sep, c->tiers[i].name);
			sep = ", ";
		}
	printf("%s", tiers == 0 ? "-" : "");
}

void
print_plan(const struct kp_conf *c, const struct kp_plan *plan)
{
	char text[600];

	printf("%-44s %12s  %-7s %s\n", "FUNCTION", "CALLS/S", "AS", "TIERS");
	for (size_t i = 0; i < plan->n; i++) {
		const struct kp_plan_item *p = &plan->v[i];

		snprintf(text, sizeof(text), "%s:%s/%u", p->mod, p->fun,
		    p->arity);
		printf("%-44s ", text);
		if (p->rate >= 0)
			printf("%12lld", (long long)p->rate);
		else
			printf("%12s", "?");
		printf("  %-7s ", p->entry ? "entry" :
		    p->exact ? "exact" : "call");
		print_tiers(c, p->tiers);
		printf("\n");
	}
	fflush(stdout);
}
