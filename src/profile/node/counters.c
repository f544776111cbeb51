/*
 * counters.c - the messages to kprof_counters.erl, and the decoding of its
 * answers.
 *
 * Commands are go, lease, peek, read, {continue, Ms} and stop.  The node sends
 * {kprof_ended, Why, Text}, {kprof_rows, ..} and {kprof_reply, ..} (counts.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "counters_beam.h"
#include "kprofd/etf.h"
#include "profile/node/counters.h"

#define READ_LIMIT (120 * KP_NS_PER_S)	/* without a message from the node */

struct counters {
	struct injected in;
	bool ended;		/* seen during a reading: how, and text */
	enum kp_calls_end end;
	char text[INJECTED_TEXT_MAX];
};

static void
put_own(struct kp_buf *b, const void *ctx)
{
	const struct counters_opts *o = ctx;

	kp_etf_atom(b, "type");
	kp_etf_atom(b, o->list ? "list" : kp_counts_types[o->type]);
	kp_etf_atom(b, "by");
	kp_etf_atom(b, o->by_process ? "process" : "total");
	injected_put_number(b, "max_rows", o->max_rows);
}

enum kp_err
counters_start(struct counters **out, const struct counters_opts *o,
    struct injected_hello *h, char *why, size_t n)
{
	static const struct injected_code code = { "kprof_counters",
		"another kprof counts there already", kp_counters_beam,
		kp_counters_load, sizeof(kp_counters_beam),
		sizeof(kp_counters_load) };
	struct injected_own own = { 3, put_own, o };
	struct counters *c = calloc(1, sizeof(*c));
	enum kp_err e;

	if (c == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	e = injected_start(&c->in, &code, &o->g, &own, h, why, n);
	if (e != KP_OK) {
		free(c);
		return e;
	}
	*out = c;
	return KP_OK;
}

enum kp_err
counters_go(struct counters *c)
{
	return injected_command(&c->in, "go");
}

static void
put_continue(struct kp_buf *b, const void *ms)
{
	kp_etf_tuple(b, 2);
	kp_etf_atom(b, "continue");
	kp_etf_int(b, *(const int64_t *)ms);
}

enum kp_err
counters_continue(struct counters *c, kp_dur_ns span)
{
	int64_t ms = span / KP_NS_PER_MS;

	/* A span that has run out ends at once; 0 would be endless. */
	ms = span != 0 && ms <= 0 ? 1 : ms;
	return injected_send(&c->in, put_continue, &ms);
}

/* ---- answers ---- */

/* KP_OK: there is something to read; else `why` says why there is not. */
static enum kp_err
after_end(const struct counters *c, enum kp_calls_end end, const char *text,
    char *why, size_t n)
{
	if (end != KP_CALLS_GONE)
		return KP_OK;
	snprintf(why, n, "'%s' counts no more: %s", c->in.target, text);
	return KP_ESTATE;
}

enum kp_err
counters_wait(struct counters *c, kp_mono_ns deadline, enum kp_calls_end *end,
    char *text, size_t n)
{
	struct kp_term r;
	enum kp_err e;

	while (!c->ended) {
		e = injected_next(&c->in, deadline, &r);
		if (e == KP_ETIMEOUT || e == KP_END)
			return e;
		if (e != KP_OK)
			return injected_broken(&c->in, e, text, n);
		kp_term_tuple_n(&r, 3);
		if (!kp_span_is(kp_term_atom(&r), "kprof_ended"))
			continue;
		c->end = injected_read_end(&c->in, &r, c->text,
		    sizeof(c->text));
		c->ended = true;
	}
	*end = c->end;
	snprintf(text, n, "%s", c->text);
	return after_end(c, c->end, c->text, text, n);
}

/* KP_END: this was the last part of the answer. */
static enum kp_err
read_part(struct counters *c, uint64_t ref, struct kp_counts *p,
    struct kp_term *r, char *why, size_t n)
{
	struct kp_span tag;
	enum kp_err e;
	uint64_t of;

	kp_term_tuple(r);
	tag = kp_term_atom(r);
	if (kp_span_is(tag, "kprof_ended")) {
		c->end = injected_read_end(&c->in, r, c->text,
		    sizeof(c->text));
		c->ended = true;
		return after_end(c, c->end, c->text, why, n);
	}
	of = (uint64_t)kp_term_int(r);
	if (r->err != KP_OK || of > ref)
		return injected_broken(&c->in, KP_EFORMAT, why, n);
	if (of < ref)
		return KP_OK;	/* of a reading that was interrupted */
	if (kp_span_is(tag, "kprof_reply")) {
		e = kp_counts_end(p, r);
		return e == KP_OK ? KP_END : injected_broken(&c->in, e, why, n);
	}
	e = kp_span_is(tag, "kprof_rows") ? kp_counts_rows(p, r) : KP_EFORMAT;
	return e == KP_OK ? e : injected_broken(&c->in, e, why, n);
}

enum kp_err
counters_read(struct counters *c, bool pause, struct kp_counts *p, char *why,
    size_t n)
{
	struct kp_term r;
	enum kp_err e = injected_command(&c->in, pause ? "read" : "peek");
	uint64_t ref = c->in.ref;

	if (e != KP_OK)
		return injected_broken(&c->in, e, why, n);
	do {
		e = injected_next(&c->in, kp_mono_now() + READ_LIMIT, &r);
		if (e == KP_END)
			return e;
		if (e != KP_OK)
			return injected_broken(&c->in, e, why, n);
		e = read_part(c, ref, p, &r, why, n);
	} while (e == KP_OK);
	return e == KP_END ? KP_OK : e;
}

bool
counters_stop(struct counters *c, kp_dur_ns wait)
{
	bool done;

	if (c == NULL)
		return true;
	done = injected_stop(&c->in, wait);
	free(c);
	return done;
}
