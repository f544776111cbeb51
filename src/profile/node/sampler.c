/*
 * sampler.c - the messages to kprof_sampler.erl, and what comes from there.
 *
 * Commands are lease, pools, peek, read and stop.  The node sends {kprof_groups, ..}
 * and {kprof_stacks, ..} (stacks.h), {kprof_reply, Ref, #{elapsed, time, young}} after
 * the samples that a command asked for, {kprof_pools, Ref, Seen, Applications, Pools,
 * Waits}, and {kprof_ended, gone, Text}.
 */
#include <stdio.h>

#include "kprofd/etf.h"
#include "kprofd/trace.h"
#include "profile/node/sampler.h"
#include "sampler_beam.h"

#define READ_LIMIT (20 * KP_NS_PER_S)	/* without a message from the node */

enum kp_err
sampler_start(struct injected **out, const struct sampler_opts *o,
    struct injected_hello *h, char *why, size_t n)
{
	static const struct injected_code code = { "kprof_sampler",
		"another kprof samples stacks there already",
		kp_sampler_beam, kp_sampler_load, sizeof(kp_sampler_beam),
		sizeof(kp_sampler_load) };
	struct kp_buf own;
	enum kp_err e;

	kp_buf_init(&own, 4096);
	injected_put_number(&own, "per_second", o->per_second);
	injected_put_number(&own, "share_ppm", o->ppm);
	kp_etf_atom(&own, "usage");
	kp_etf_bool(&own, o->usage);
	e = injected_start(out, &code, &o->g, &own, 3, h, why, n);
	kp_buf_free(&own);
	return e;
}

/* Can a wall clock's time be added to it? */
static bool
is_time(int64_t v)
{
	return v >= 0 && v < KP_TARGET_TIME_MAX;
}

/* Reads the map of {kprof_reply, Ref, Map}. */
static enum kp_err
read_totals(struct kp_term *r, struct sampler_totals *sums)
{
	uint32_t pairs = kp_term_map(r);
	struct kp_span key;
	int64_t *to;

	*sums = (struct sampler_totals){ 0 };
	for (uint32_t i = 0; i < pairs && r->err == KP_OK; i++) {
		key = kp_term_atom(r);
		to = kp_span_is(key, "elapsed") ? &sums->elapsed :
		    kp_span_is(key, "time") ? &sums->time :
		    kp_span_is(key, "young") ? &sums->young : NULL;
		if (to == NULL)
			kp_term_skip(r);
		else
			*to = kp_term_int(r);
	}
	if (r->err == KP_OK && (!is_time(sums->elapsed) ||
	    !is_time(sums->time) || !is_time(sums->young)))
		return KP_EFORMAT;
	return kp_term_finish(r);
}

/* What a command waits for. */
struct awaited {
	uint64_t ref;			/* 0: nothing */
	struct sampler_totals *sums;
	struct suggest_pools *pools;	/* or this */
};

/* Takes one message.  KP_END: it is the answer that is awaited. */
static enum kp_err
take_message(struct injected *s, struct injected_message *m,
    const struct awaited *a, struct sampler_sink *sink, char *why, size_t n)
{
	struct kp_stack_message stacks = { .counts = sink->counts };
	bool pools = kp_span_is(m->tag, "kprof_pools") && m->arity == 6;
	enum kp_err e = kp_stacks_decode(m->whole.p, m->whole.n, sink->table,
	    &stacks, &sink->ops, sink->ctx);

	sink->counts = stacks.counts;
	if (e == KP_OK)
		return e;
	if (e != KP_ENOENT)
		return injected_broken(s->target, KP_EFORMAT, why, n);
	if (s->ended) {
		snprintf(why, n, "'%s' samples no more: %s", s->target, s->text);
		return KP_ESTATE;
	}
	if (m->r.err != KP_OK || (!pools &&
	    !(kp_span_is(m->tag, "kprof_reply") && m->arity == 3)))
		return injected_broken(s->target, KP_EFORMAT, why, n);
	if ((uint64_t)kp_term_int(&m->r) != a->ref || a->ref == 0)
		return KP_OK;	/* of a reading that was interrupted */
	e = pools != (a->pools != NULL) ? KP_EFORMAT : pools ?
	    suggest_pools_read(a->pools, &m->r) : read_totals(&m->r, a->sums);
	return e == KP_OK ? KP_END :
	    injected_broken(s->target, e == KP_ENOMEM ? e : KP_EFORMAT, why, n);
}

/*
 * Takes messages until the answer has come (KP_OK); until the deadline, or, if that
 * is 0, as long as they come.
 */
static enum kp_err
take(struct injected *s, kp_mono_ns deadline, const struct awaited *a,
    struct sampler_sink *sink, char *why, size_t n)
{
	struct injected_message m;
	enum kp_err e;

	do {
		e = injected_next(s, deadline != 0 ? deadline :
		    kp_mono_now() + READ_LIMIT, &m);
		if (e == KP_END || (e == KP_ETIMEOUT && deadline != 0))
			return e;
		e = e == KP_OK ? take_message(s, &m, a, sink, why, n) :
		    injected_broken(s->target, e, why, n);
	} while (e == KP_OK);
	return e == KP_END ? KP_OK : e;
}

enum kp_err
sampler_take(struct injected *s, kp_mono_ns deadline, struct sampler_sink *sink,
    char *why, size_t n)
{
	return take(s, deadline, &(struct awaited){ .ref = 0 }, sink, why, n);
}

enum kp_err
sampler_pools(struct injected *s, kp_mono_ns deadline, struct sampler_sink *sink,
    struct suggest_pools *pools, char *why, size_t n)
{
	enum kp_err e = injected_command(s, "pools");
	const struct awaited a = { .ref = s->ref, .pools = pools };

	return e == KP_OK ? take(s, deadline, &a, sink, why, n) :
	    injected_broken(s->target, e, why, n);
}

enum kp_err
sampler_read(struct injected *s, bool last, struct sampler_sink *sink,
    struct sampler_totals *sums, char *why, size_t n)
{
	enum kp_err e = injected_command(s, last ? "read" : "peek");
	const struct awaited a = { .ref = s->ref, .sums = sums };

	return e == KP_OK ? take(s, 0, &a, sink, why, n) :
	    injected_broken(s->target, e, why, n);
}
