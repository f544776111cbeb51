/*
 * path.c - finds the call that a process was in when it was sampled, and writes
 * the tiers from the entry down to it.
 *
 * Times of calls are by the clock of the entry's node, and calls of other nodes
 * were moved to their places among those of the first (clock_align.c).  A sample
 * is moved like the call that it is compared with.
 *
 * It looks at all calls of a request for each sample: a sampler takes some
 * hundred samples a second, so that even with 10 000 calls that is 1 % of a
 * processor at most.
 */
#include <string.h>

#include "base/sat.h"
#include "kprofd/fn_name.h"
#include "stacks/path.h"

static bool
covers(const struct kp_call *c, kp_target_ns at)
{
	return c->start <= at && (c->outcome == KP_UNFINISHED || c->end >= at);
}

/* Is the function of a call on the stack?  Names in quotes are not found. */
static bool
is_on_stack(const struct stack_scope *s, const struct kp_stack_table *t,
    uint32_t stack, uint32_t fn)
{
	char text[FN_NAME_MAX];
	const char *name = fn_shown(text, sizeof(text),
	    kp_requests_fn(s->rs, fn)->text);
	const struct kp_stack_frame *f;
	uint32_t n;

	f = kp_stack_frames(t, stack, &n);
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(kp_stack_fn(t, f[i].fn), name) == 0)
			return true;
	return false;
}

/* Returns the innermost call of the process at that time; calls begin in order. */
static uint32_t
own_call(const struct kp_requests *rs, const struct kp_request *rq,
    uint64_t proc, kp_target_ns at)
{
	for (uint32_t i = rq->ncalls; i-- > 0;)
		if (rq->calls[i].proc == proc && covers(&rq->calls[i],
		    sat_add(at, kp_requests_moved(rs, rq, i))))
			return i;
	return KP_NONE;
}

/* The time by the request's clock of a process that has no call open. */
static kp_target_ns
request_time(const struct stack_scope *s, const struct kp_request *rq,
    kp_target_ns at)
{
	kp_target_ns there = at;

	if (kp_requests_convert(s->rs, s->node, rq->node, &there))
		return there;
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (rq->calls[i].node == s->node)
			return sat_add(at, kp_requests_moved(s->rs, rq, i));
	return rq->start;
}

/*
 * Returns the innermost call that was open anywhere, as for calls whose caller is
 * not known (request/close.c).
 */
static uint32_t
any_call(const struct kp_request *rq, kp_target_ns at)
{
	for (uint32_t i = rq->ncalls; i-- > 0;)
		if (rq->calls[i].outcome != KP_UNFINISHED &&
		    covers(&rq->calls[i], at))
			return i;
	return rq->ncalls > 0 && covers(&rq->calls[0], at) ? 0 : KP_NONE;
}

bool
stack_works(uint8_t state, bool after)
{
	return state != KP_STACK_WAIT && !(after && (state == KP_STACK_PORT ||
	    state == KP_STACK_CALL));
}

enum stack_belongs
stack_find_call(const struct stack_scope *s, const struct kp_request *rq,
    const struct kp_stack_sample *sample, uint32_t *call, bool *own)
{
	kp_target_ns at;
	bool after;

	*call = own_call(s->rs, rq, kp_proc_on(s->node, sample->proc),
	    sample->at);
	*own = *call != KP_NONE;
	at = *own ? sat_add(sample->at, kp_requests_moved(s->rs, rq, *call)) :
	    request_time(s, rq, sample->at);
	after = rq->outcome != KP_UNFINISHED && at > rq->end;
	if (*call == KP_NONE) {
		if (at < rq->start || !stack_works(sample->state, after))
			return STACK_IDLE;
		if (!after)
			*call = any_call(rq, at);
	}
	return after ? STACK_AFTER : STACK_INSIDE;
}

bool
stack_is_late(const struct stack_scope *s, const struct kp_request *rq,
    const struct kp_stack_table *t, const struct kp_stack_sample *sample,
    uint32_t call)
{
	const struct kp_call *c;
	kp_target_ns read;

	if (sample->took == 0 || call == KP_NONE)
		return false;
	c = &rq->calls[call];
	read = sat_add(sat_add(sample->at, sample->took),
	    kp_requests_moved(s->rs, rq, call));
	return !covers(c, read) && !is_on_stack(s, t, sample->stack, c->fn);
}

/* Returns the first tier of a function, or KP_NONE. */
static uint32_t
tier_of(const struct stack_scope *s, uint32_t fn)
{
	uint64_t tiers = kp_requests_fn(s->rs, fn)->tiers &
	    ((UINT64_C(1) << s->conf->ntiers) - 1);

	return tiers != 0 ? (uint32_t)__builtin_ctzll(tiers) : KP_NONE;
}

static void
put_tier(struct kp_buf *b, const char *name)
{
	if (b->len > 0)
		kp_buf_u8(b, ';');
	for (; *name != '\0'; name++)
		kp_buf_u8(b, *name == ';' ? ',' : (uint8_t)*name);
}

void
stack_put_path(struct kp_buf *b, const struct stack_scope *s,
    const struct kp_request *rq, uint32_t call, bool after)
{
	uint32_t tiers[STACK_PATH_DEPTH], n = 0, t;

	/* up from the innermost: past the cap, the outermost replaces the last */
	for (; call != KP_NONE; call = rq->calls[call].parent) {
		t = tier_of(s, rq->calls[call].fn);
		if (t == KP_NONE || (n > 0 && tiers[n - 1] == t))
			continue;
		n -= n == STACK_PATH_DEPTH;
		tiers[n++] = t;
	}
	if (after)
		put_tier(b, "_after");
	while (n-- > 0)
		put_tier(b, s->conf->tiers[tiers[n]].name);
}
