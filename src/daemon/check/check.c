/*
 * check.c - the course of kprofd -check on one target, and its report.
 *
 * The agent calls back in the middle of its steps: so it is ended by an event of
 * our own.
 */
#include <stdio.h>
#include <stdlib.h>

#include <event2/event.h>

#include "daemon/check/check.h"
#include "daemon/check/price.h"
#include "daemon/check/seen.h"
#include "daemon/log.h"
#include "daemon/print.h"
#include "daemon/nodes/target.h"
#include "daemon/nodes/targets.h"
#include "kprofd/check.h"
#include "text/text.h"

#define EXPLAINED_BYTES (1u << 20)
#define WAITS_EVERY (50 * KP_NS_PER_MS)	/* between looks at what requests wait for */

const struct kp_sampling check_sampling = { .kind = KP_SAMPLE_PER_SECOND,
	.n = KP_CHECK_CALLS_MAX };

struct check {
	struct target *t;
	struct event *end;		/* tracing is over */
	struct check_seen *seen;	/* NULL: nothing is traced */
	bool timed;			/* tracing has begun */
	const char *broken;		/* why it failed; NULL: it did not */
};

static void
on_end(evutil_socket_t fd, short what, void *ctx)
{
	struct check *c = ctx;

	(void)fd, (void)what;
	agent_stop(c->t->agent);
}

struct check *
check_new(struct event_base *base, struct target *t)
{
	struct check *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->t = t;
	c->end = event_new(base, -1, 0, on_end, c);
	if (c->end == NULL) {
		free(c);
		return NULL;
	}
	return c;
}

void
check_free(struct check *c)
{
	if (c == NULL)
		return;
	event_free(c->end);
	check_seen_free(c->seen);
	free(c);
}

/* ---- the report ---- */

static void
judge(struct check *c, const struct kp_check *k, struct kp_diags *diags)
{
	kp_check_judge(k, diags);
	if (diags->n > 0)
		daemon_on_diags(c->t, diags);
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

static void
print_examples(struct check *c)
{
	const char *node = daemon_node_name(c->t);
	struct kp_buf b;

	kp_buf_init(&b, EXPLAINED_BYTES);
	check_seen_explain(c->seen, &b);
	if (node != NULL)
		printf("%s:\n", node);
	fputs(kp_buf_cstr(&b), stdout);
	fflush(stdout);
	kp_buf_free(&b);
}

/* ---- its course ---- */

/* Is an entry called?  It may be where somebody else counts it, and its rate is -1. */
static bool
is_called(const struct kp_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		if (plan->v[i].entry && plan->v[i].rate != 0 &&
		    !plan->v[i].disarmed)
			return true;
	return false;
}

static void
trace(struct check *c, const struct kp_plan *plan)
{
	struct target *t = c->t;
	char most[TEXT_MAX];

	c->seen = check_seen_new(t->part.in->conf, plan);
	if (c->seen == NULL) {
		c->broken = "out of memory";
		agent_stop(t->agent);
		return;
	}
	log_info("check", t->node, "tracing %s calls of entries at most, for "
	    "%.3g s at most", text_count(most, KP_CHECK_CALLS_MAX),
	    (double)t->opts.check_time / KP_NS_PER_S);
	/* If tiers.conf has {one_in, N}, arming would use that. */
	agent_sample(t->agent, t->sampler.one_in);
}

/*
 * Errors are reported at once; what is only unusual may be explained by the
 * requests.
 */
void
check_counted(struct check *c, const struct kp_plan *plan)
{
	struct target *t = c->t;
	const struct kp_check k = { .conf = t->part.in->conf, .plan = plan,
		.counted = t->opts.check_time };
	struct kp_diags diags = { 0 };

	daemon_print_plan(t, plan);
	print_price(&k);
	kp_check_judge(&k, &diags);
	if (!t->unfit && diags.errors == 0 && is_called(plan)) {
		trace(c, plan);
	} else {
		if (diags.n > 0)
			daemon_on_diags(t, &diags);
		agent_stop(t->agent);
	}
	kp_diags_free(&diags);
}

void
check_state(struct check *c, enum agent_state s)
{
	kp_dur_ns time = c->t->opts.check_time;
	struct timeval tv = { time / KP_NS_PER_S,
		time % KP_NS_PER_S / KP_NS_PER_US };

	if (c->seen == NULL)
		return;
	if (s == AGENT_ARMED && !c->timed) {
		c->timed = true;
		event_add(c->end, &tv);
	} else if (s == AGENT_TRIPPED) {
		log_warn("check", c->t->node, "the check traced no longer than "
		    "to this overload: profiling may not do better");
		daemon_on_warning(c->t);
		event_active(c->end, EV_TIMEOUT, 0);
	} else if (s == AGENT_LOST) {
		c->broken = "the connection was lost while requests were "
		    "traced: check again";
		event_active(c->end, EV_TIMEOUT, 0);
	}
}

void
check_events(struct check *c, struct kp_event *ev, size_t n)
{
	if (c->seen == NULL)
		return;
	for (size_t i = 0; i < n; i++)
		check_seen_event(c->seen, &ev[i]);
	waits_ask(c->t, WAITS_EVERY);
	if (check_seen_entered(c->seen) >= KP_CHECK_CALLS_MAX)
		event_active(c->end, EV_TIMEOUT, 0);
}

void
check_request(struct check *c, const struct kp_request *rq)
{
	if (c->seen != NULL)
		check_seen_request(c->seen, c->t->part.in->rs, rq);
}

const char *
check_ended(struct check *c)
{
	struct target *t = c->t;
	struct kp_check k = { .conf = t->part.in->conf,
		.counted = t->opts.check_time,
		.explained = t->p->o->explain, .waits = t->waits.v,
		.nwaits = t->waits.n };
	struct kp_diags diags = { 0 };

	event_del(c->end);
	if (c->seen == NULL || !c->timed || c->broken != NULL ||
	    targets_stopping(t->p->targets))
		return c->broken;
	/* Closes requests whose end was seen just now. */
	kp_requests_abandon(t->part.in->rs, t->part.index,
	    KP_LOSS_DISCONNECTED);
	check_seen_get(c->seen, &k);
	judge(c, &k, &diags);
	kp_diags_free(&diags);
	if (k.explained)
		print_examples(c);
	return NULL;
}

void
check_passed(uint64_t warnings)
{
	char text[TEXT_MAX];

	printf("ok, %s\n", text_counted(text, warnings, "warning"));
}
