/*
 * counters.c - the messages to kprof_counters.erl, and the decoding of its
 * answers.
 *
 * Commands are go, lease, peek, read, {continue, Ms} and stop.  The node sends
 * {kprof_ended, Why, Text}, {kprof_rows, ..} and {kprof_reply, ..} (counts.h).
 */
#include <stdio.h>

#include "counters_beam.h"
#include "kprofd/etf.h"
#include "profile/node/counters.h"

#define READ_LIMIT (120 * KP_NS_PER_S)	/* without a message from the node */

enum kp_err
counters_start(struct injected **out, const struct counters_opts *o,
    struct injected_hello *h, char *why, size_t n)
{
	static const struct injected_code code = { "kprof_counters",
		"another kprof counts there already", kp_counters_beam,
		kp_counters_load, sizeof(kp_counters_beam),
		sizeof(kp_counters_load) };
	struct kp_buf own;
	enum kp_err e;

	kp_buf_init(&own, 4096);
	kp_etf_atom(&own, "type");
	kp_etf_atom(&own, o->list ? "list" : kp_counts_types[o->type]);
	kp_etf_atom(&own, "by");
	kp_etf_atom(&own, o->by_process ? "process" : "total");
	injected_put_number(&own, "max_rows", o->max_rows);
	e = injected_start(out, &code, &o->g, &own, 3, h, why, n);
	kp_buf_free(&own);
	return e;
}

enum kp_err
counters_continue(struct injected *c, kp_dur_ns span)
{
	int64_t ms = span / KP_NS_PER_MS;
	struct kp_buf b;

	injected_begin(c, &b);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "continue");
	/* A span that has run out ends at once; 0 would be endless. */
	kp_etf_int(&b, span != 0 && ms <= 0 ? 1 : ms);
	return injected_send(c, &b);
}

/* ---- answers ---- */

/* After the end.  KP_OK: there is something to read; else `why` says why not. */
static enum kp_err
is_readable(const struct injected *c, char *why, size_t n)
{
	if (c->end != KP_CALLS_GONE)
		return KP_OK;
	snprintf(why, n, "'%s' counts no more: %s", c->target, c->text);
	return KP_ESTATE;
}

enum kp_err
counters_wait(struct injected *c, kp_mono_ns deadline, char *why, size_t n)
{
	struct injected_message m;
	enum kp_err e;

	while (!c->ended) {
		e = injected_next(c, deadline, &m);
		if (e == KP_ETIMEOUT || e == KP_END)
			return e;
		if (e != KP_OK)
			return injected_broken(c->target, e, why, n);
	}
	return is_readable(c, why, n);
}

/* KP_END: this was the last part of the answer. */
static enum kp_err
read_part(const struct injected *c, uint64_t ref, struct kp_counts *p,
    struct injected_message *m, char *why, size_t n)
{
	enum kp_err e = KP_EFORMAT;
	uint64_t of;

	if (kp_span_is(m->tag, "kprof_ended"))
		return is_readable(c, why, n);
	of = (uint64_t)kp_term_int(&m->r);
	if (m->r.err == KP_OK && of < ref)
		return KP_OK;	/* of a reading that was interrupted */
	if (m->r.err == KP_OK && of == ref) {
		if (kp_span_is(m->tag, "kprof_rows"))
			e = kp_counts_rows(p, &m->r);
		else if (kp_span_is(m->tag, "kprof_reply") &&
		    (e = kp_counts_end(p, &m->r)) == KP_OK)
			return KP_END;
	}
	return e == KP_OK ? e : injected_broken(c->target, e, why, n);
}

enum kp_err
counters_read(struct injected *c, bool pause, struct kp_counts *p, char *why,
    size_t n)
{
	enum kp_err e = injected_command(c, pause ? "read" : "peek");
	uint64_t ref = c->ref;
	struct injected_message m;

	if (e != KP_OK)
		return injected_broken(c->target, e, why, n);
	do {
		e = injected_next(c, kp_mono_now() + READ_LIMIT, &m);
		if (e == KP_END)
			return e;
		e = e == KP_OK ? read_part(c, ref, p, &m, why, n) :
		    injected_broken(c->target, e, why, n);
	} while (e == KP_OK);
	return e == KP_END ? KP_OK : e;
}
