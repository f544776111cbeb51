/*
 * test_prefetch.c - events that are handed over many at a time mean what they do
 * one by one: what is looked at ahead changes nothing, and is never what has
 * gone meanwhile (which the address sanitizer would see).
 */
#include "cases.h"
#include "native_feed.h"
#include "request/state.h"

#define FNS 6
#define PROCS 1500
#define LABELS 600	/* calls are of the last 600 requests */
#define BATCH 128
#define BATCHES 1500
#define STEP (100 * KP_NS_PER_US)

static const char conf_text[] = "{tiers, [{all, [{m,f0,1}, {m,f1,1}, {m,f2,1},"
    " {m,f3,1}, {m,f4,1}, {m,f5,1}]}]}.\n{entry, {m,f0,1}}.\n"
    "{finish, {m,f5,1}}.\n";

/* What one of the two made of it. */
struct seen {
	struct kp_requests *rs;
	uint64_t requests, late, hash;
};

/* Where events come from. */
struct source {
	uint64_t random, label;
	kp_target_ns now;
	struct kp_buf fn[FNS];
};

static uint64_t
next(struct source *s, uint64_t n)
{
	s->random = s->random * UINT64_C(6364136223846793005) + 1;
	return (s->random >> 33) % n;
}

static void
take(struct seen *s, uint64_t v)
{
	s->hash = (s->hash ^ v) * UINT64_C(0x9E3779B97F4A7C15);
	s->hash ^= s->hash >> 29;
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	struct seen *s = ctx;
	const struct kp_call *c;

	s->requests++;
	take(s, rq->label);
	take(s, (uint64_t)(rq->end - rq->start));
	take(s, rq->outcome);
	take(s, rq->parent_label);
	for (c = rq->calls; c < rq->calls + rq->ncalls; c++) {
		take(s, c->proc);
		take(s, (uint64_t)c->start);
		take(s, c->outcome);
		take(s, c->parent);
		take(s, c->fn);
		if (c->outcome != KP_UNFINISHED)
			take(s, (uint64_t)c->end);
	}
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	struct seen *s = ctx;

	s->late++;
	take(s, c->fn);
	take(s, (uint64_t)c->start);
	take(s, c->crossed ? KP_OUTCOMES : c->outcome);
}

static void
on_runaway(void *ctx, uint32_t node, const struct kp_fn *fn)
{
	(void)node, (void)fn;
	take(ctx, 1);
}

static void
begin(struct seen *s, const struct kp_conf *conf)
{
	struct kp_requests_opts o = { .conf = conf, .on_request = on_request,
		.on_late = on_late, .on_runaway = on_runaway,
		.max_calls = 50, .max_stack = 20, .ctx = s };

	*s = (struct seen){ .rs = kp_requests_new(&o) };
	assert_non_null(s->rs);
	assert_int_equal(kp_requests_node(s->rs, "app@host"), 0);
}

static struct kp_span
fn(struct source *s, uint64_t i)
{
	return (struct kp_span){ s->fn[i].p, (uint32_t)s->fn[i].len };
}

/* Also what no VM would send: returns of nothing, labels of others. */
static struct kp_event
make(struct source *s)
{
	static const struct kp_span node = { (const uint8_t *)"app@host", 8 };
	static const enum kp_event_kind kinds[] = { KP_EV_ENTRY, KP_EV_CALL,
		KP_EV_CALL, KP_EV_CALL, KP_EV_CLEAR, KP_EV_RETURN_TO,
		KP_EV_RETURN_FROM, KP_EV_RETURN_FROM, KP_EV_EXCEPTION_FROM };
	struct kp_event ev = { .kind = kinds[next(s, 9)],
		.pid = { node, (uint32_t)next(s, PROCS) + 1, 0, 0 },
		.ts = s->now += STEP / 2 + (kp_target_ns)next(s, STEP) };

	ev.mfa = fn(s, ev.kind == KP_EV_ENTRY ? 0 : 1 + next(s, FNS - 1));
	if (ev.kind > KP_EV_CALL && ev.kind != KP_EV_CLEAR)
		return ev;
	ev.caller = fn(s, next(s, FNS));
	if (ev.kind == KP_EV_ENTRY) {
		ev.weight = 1;
		/* Now and then one that is somebody's already. */
		s->label += s->label == 0 || next(s, 50) > 0;
		ev.label = s->label;
	} else {
		ev.label = 1 + s->label - next(s, s->label < LABELS ?
		    s->label + 1 : LABELS);
	}
	return ev;
}

static void
assert_same(struct seen *one, struct seen *many)
{
	struct kp_losses a = { 0 }, b = { 0 };

	kp_requests_losses_take(one->rs, 0, &a);
	kp_requests_losses_take(many->rs, 0, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_fields(*one, IS(requests, many->requests) IS(late, many->late)
	    IS(hash, many->hash));
}

TEST(many_at_a_time_are_as_one_by_one)
{
	struct source s = { .random = 1 };
	struct kp_event ev[BATCH];
	struct seen one, many;
	struct kp_conf *conf;
	struct kp_diags d;
	char name[3] = "f0";
	size_t n, procs = 0;

	assert_int_equal(kp_conf_parse(&conf, conf_text,
	    sizeof(conf_text) - 1, &d), KP_OK);
	kp_diags_free(&d);
	for (int i = 0; i < FNS; i++) {
		name[1] = (char)('0' + i);
		kp_buf_init(&s.fn[i], 100);
		feed_mfa(&s.fn[i], "m", name, 1);
	}
	begin(&one, conf);
	begin(&many, conf);
	for (int b = 0; b < BATCHES; b++) {
		n = 1 + next(&s, BATCH);
		for (size_t i = 0; i < n; i++) {
			ev[i] = make(&s);
			kp_requests_events(one.rs, 0, &ev[i], 1);
		}
		kp_requests_events(many.rs, 0, ev, n);
		kp_requests_close_due(one.rs, 0, s.now);
		kp_requests_close_due(many.rs, 0, s.now);
		procs = many.rs->procs.len > procs ? many.rs->procs.len :
		    procs;
	}
	/* So many that it looks ahead, and all that may happen did. */
	assert_true(procs > 1000);
	assert_true(one.requests > 1000 && one.late > 1000);
	assert_same(&one, &many);
	kp_requests_free(one.rs);
	kp_requests_free(many.rs);
	for (int i = 0; i < FNS; i++)
		kp_buf_free(&s.fn[i]);
	kp_conf_free(conf);
}

TESTS(NULL, NULL)
