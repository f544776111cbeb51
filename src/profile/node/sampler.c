/*
 * sampler.c - the messages to kprof_sampler.erl, and what comes from there.
 *
 * Commands are lease, pools, peek, read and stop.  The node sends {kprof_groups, ..}
 * and {kprof_stacks, ..} (stacks.h), {kprof_reply, Ref, #{elapsed, time, young}} after
 * the samples that a command asked for, {kprof_pools, Ref, Seen, Applications, Pools,
 * Waits}, and {kprof_ended, gone, Text}.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kprofd/etf.h"
#include "kprofd/trace.h"
#include "profile/node/sampler.h"
#include "sampler_beam.h"

#define READ_LIMIT (20 * KP_NS_PER_S)	/* without a message from the node */

struct sampler {
	struct injected in;
};

static void
put_own(struct kp_buf *b, const void *ctx)
{
	const struct sampler_opts *o = ctx;

	injected_put_number(b, "per_second", o->per_second);
	injected_put_number(b, "share_ppm", o->ppm);
}

enum kp_err
sampler_start(struct sampler **out, const struct sampler_opts *o,
    struct injected_hello *h, char *why, size_t n)
{
	static const struct injected_code code = { "kprof_sampler",
		"another kprof samples stacks there already",
		kp_sampler_beam, kp_sampler_load, sizeof(kp_sampler_beam),
		sizeof(kp_sampler_load) };
	struct injected_own own = { 2, put_own, o };
	struct sampler *s = calloc(1, sizeof(*s));
	enum kp_err e;

	if (s == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	e = injected_start(&s->in, &code, &o->g, &own, h, why, n);
	if (e != KP_OK) {
		free(s);
		return e;
	}
	*out = s;
	return KP_OK;
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
	sampler_read_pools *read;	/* or this */
	void *ctx;
};

/* {kprof_reply, ..} or {kprof_pools, ..}; r is behind the tag.  As take_message(). */
static enum kp_err
take_answer(struct sampler *s, struct kp_term *r, bool pools,
    const struct awaited *a, char *why, size_t n)
{
	enum kp_err e;

	if ((uint64_t)kp_term_int(r) != a->ref || a->ref == 0)
		return KP_OK;	/* of a reading that was interrupted */
	e = pools != (a->read != NULL) ? KP_EFORMAT : pools ?
	    a->read(a->ctx, r) : read_totals(r, a->sums);
	return e == KP_OK ? KP_END :
	    injected_broken(&s->in, e == KP_ENOMEM ? e : KP_EFORMAT, why, n);
}

/*
 * Takes one message, which begins with the version byte before r.  KP_END: it
 * is the answer that is awaited.
 */
static enum kp_err
take_message(struct sampler *s, struct kp_term *r, const struct awaited *a,
    struct sampler_sink *sink, char *why, size_t n)
{
	const uint8_t *whole = r->p - 1;
	size_t len = (size_t)(r->end - whole);
	struct kp_stack_message m = { .counts = sink->counts };
	struct kp_span tag;
	uint32_t arity;
	enum kp_err e = kp_stacks_decode(whole, len, sink->table, &m,
	    &sink->ops, sink->ctx);

	sink->counts = m.counts;
	if (e == KP_OK)
		return e;
	if (e != KP_ENOENT)
		return injected_broken(&s->in, KP_EFORMAT, why, n);
	arity = kp_term_tuple(r);
	tag = kp_term_atom(r);
	if (kp_span_is(tag, "kprof_ended") && arity == 3) {
		char text[INJECTED_TEXT_MAX];

		injected_read_end(&s->in, r, text, sizeof(text));
		snprintf(why, n, "'%s' samples no more: %s", s->in.target,
		    text);
		return KP_ESTATE;
	}
	if (r->err == KP_OK && ((kp_span_is(tag, "kprof_reply") && arity == 3) ||
	    (kp_span_is(tag, "kprof_pools") && arity == 6)))
		return take_answer(s, r, arity == 6, a, why, n);
	return injected_broken(&s->in, KP_EFORMAT, why, n);
}

enum kp_err
sampler_take(struct sampler *s, kp_mono_ns deadline, struct sampler_sink *sink,
    char *why, size_t n)
{
	const struct awaited nothing = { .ref = 0 };
	struct kp_term r;
	enum kp_err e;

	do {
		e = injected_next(&s->in, deadline, &r);
		if (e == KP_ETIMEOUT || e == KP_END)
			return e;
		e = e == KP_OK ? take_message(s, &r, &nothing, sink, why, n) :
		    injected_broken(&s->in, e, why, n);
	} while (e == KP_OK);
	return e;
}

enum kp_err
sampler_pools(struct sampler *s, kp_mono_ns deadline, struct sampler_sink *sink,
    sampler_read_pools *read, void *ctx, char *why, size_t n)
{
	enum kp_err e = injected_command(&s->in, "pools");
	const struct awaited a = { .ref = s->in.ref, .read = read, .ctx = ctx };
	struct kp_term r;
	bool answered = false;

	if (e != KP_OK)
		return injected_broken(&s->in, e, why, n);
	do {
		e = injected_next(&s->in, deadline, &r);
		if (e == KP_ETIMEOUT || e == KP_END)
			return e;
		e = e == KP_OK ? take_message(s, &r, &a, sink, why, n) :
		    injected_broken(&s->in, e, why, n);
		answered = e == KP_END;
	} while (e == KP_OK);
	return answered ? KP_OK : e;
}

enum kp_err
sampler_read(struct sampler *s, bool last, struct sampler_sink *sink,
    struct sampler_totals *sums, char *why, size_t n)
{
	enum kp_err e = injected_command(&s->in, last ? "read" : "peek");
	const struct awaited a = { .ref = s->in.ref, .sums = sums };
	struct kp_term r;

	if (e != KP_OK)
		return injected_broken(&s->in, e, why, n);
	do {
		e = injected_next(&s->in, kp_mono_now() + READ_LIMIT, &r);
		if (e == KP_END)
			return e;
		if (e != KP_OK)
			return injected_broken(&s->in, e, why, n);
		e = take_message(s, &r, &a, sink, why, n);
	} while (e == KP_OK);
	return e == KP_END ? KP_OK : e;
}

void
sampler_stop(struct sampler *s)
{
	if (s == NULL)
		return;
	injected_stop(&s->in, 0);
	free(s);
}
